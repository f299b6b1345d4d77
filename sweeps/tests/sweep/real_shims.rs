//! The real drivers on their shims, where `sweep setup-shims` has fetched them.
//!
//! Where the shims are not there these tests say `not-run`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zinc_sweeps::report::Report;
use zinc_sweeps::verdict::Verdict;
use zinc_tests::oracle::not_run;
use zinc_tests::shims::are_here;

/// The command under test.
const SWEEP: &str = env!("CARGO_BIN_EXE_sweep");

/// The folder with the engine and the layer, built as tests are.
fn built() -> PathBuf {
    if let Some(folder) = std::env::var_os("ZINC_BARRIER_BUILT") {
        return folder.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--quiet", "--profile", "test", "-p", "zinc-barrier", "-p", "zinc-engine"])
        .status()
        .unwrap();
    assert!(status.success(), "cargo could not build the engine and the layer");
    Path::new(SWEEP).parent().unwrap().into()
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn any_program_sees_the_device_that_the_shim_plays() {
    let devices = [
        ("radv-shim:navi31", "RADV NAVI31"),
        ("radv-shim:navi31@trixie-backports", "RADV NAVI31"),
        ("radv-shim:polaris10", "RADV POLARIS10"),
        ("radv-shim:gfx1201", "RADV GFX1201"),
        ("honeykrisp-shim", "Apple M1"),
    ];
    if !are_here(Path::new(SWEEP), "any_program_sees_the_device_that_the_shim_plays", &devices.map(|d| d.0)) {
        return;
    }
    for (driver, device) in devices {
        let output =
            Command::new(SWEEP).args(["on", driver, "--", "vulkaninfo", "--summary"]).output().unwrap();
        let text = said(&output);
        assert!(output.status.success() && text.contains(device), "{driver}:\n{text}");
        assert_eq!(text.matches("deviceName").count(), 1, "the shim's device and no other:\n{text}");
    }
}

#[test]
fn the_engine_under_the_layer_is_counted_on_real_drivers() {
    let drivers = ["radv-shim:gfx1201", "radv-shim:navi31", "honeykrisp-shim"];
    if !are_here(Path::new(SWEEP), "the_engine_under_the_layer_is_counted_on_real_drivers", &drivers) {
        return;
    }
    let (built, out) = (built(), tempfile::tempdir().unwrap());
    let mut sweep = Command::new(SWEEP);
    sweep.arg("--engine").arg(built.join("engine")).arg("--layer").arg(built.join("libzinc_barrier.so"));
    sweep.arg("--out").arg(out.path()).args(["--reps", "1", "--tokens", "16"]);
    let counter = built.join("libzinc_packets.so");
    if counter.is_file() {
        sweep.arg("--packets").arg(&counter);
    }
    for driver in drivers {
        sweep.args(["--driver", driver]);
    }
    let output = sweep.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = std::fs::read_to_string(out.path().join("report.json")).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    for driver in drivers {
        let arm = |policy: &str| {
            let of = |a: &&_| -> bool {
                let a: &zinc_sweeps::report::Arm = a;
                a.driver == driver && a.policy.as_deref() == Some(policy)
            };
            report.arms.iter().find(of).unwrap_or_else(|| panic!("no arm {policy} on {driver}"))
        };
        let (stock, every, alias) = (arm("stock"), arm("every"), arm("alias-only"));
        for arm in [stock, every, alias, arm("none")] {
            assert_eq!((arm.verdict, arm.executes, &arm.logits_digest), (Verdict::CountedOnly, false, &None));
            assert_eq!(arm.dispatches_per_token, stock.dispatches_per_token);
            for count in
                [arm.dispatches_per_token, arm.barriers_asked_per_token, arm.barriers_emitted_per_token]
            {
                assert_eq!(count.unwrap().fract(), 0.0, "whole counts per token on {driver}: {arm:?}");
            }
        }
        if counter.is_file() {
            // RADV makes one flush of each barrier, or of several in a row. Honeykrisp emits its own after every dispatch,
            // asked or not.
            for arm in [stock, alias, arm("none")] {
                let expected = match driver {
                    "honeykrisp-shim" => {
                        arm.dispatches_per_token.map(|dispatches| dispatches..=dispatches + 4.0)
                    }
                    _ => arm.barriers_emitted_per_token.map(|emitted| emitted..=emitted),
                };
                let flushes = arm.driver_flushes_per_token;
                let flushes = flushes.unwrap_or_else(|| panic!("not counted: {:?}", report.notes));
                assert!(expected.unwrap().contains(&flushes), "{flushes} on {driver}: {arm:?}");
                let packets = arm.driver_packets.as_ref().unwrap();
                let on_apple = driver == "honeykrisp-shim";
                let links = packets.links.unwrap_or(0.0);
                assert_eq!(
                    (packets.links.is_some(), packets.acquires.is_none()),
                    (on_apple, on_apple),
                    "{packets:?}"
                );
                assert_eq!(
                    links > 0.0,
                    on_apple && arm.barriers_emitted_per_token > Some(0.0),
                    "{packets:?}"
                );
                let dispatches = packets.dispatches.unwrap();
                assert!((flushes - dispatches).abs() <= 4.0 || !on_apple, "a barrier a launch: {packets:?}");
                let cached: f64 = packets.caches.iter().map(|c| c.per_token).sum();
                assert!(cached >= flushes, "each flush has its cache bits: {packets:?}");
            }
            let (stock, none) =
                (stock.driver_packets.as_ref().unwrap(), arm("none").driver_packets.as_ref().unwrap());
            assert_eq!(stock.dispatches, none.dispatches, "barriers launch nothing");
            if driver == "radv-shim:gfx1201" {
                let l2 = |p: &zinc_sweeps::report::DriverPackets| -> f64 {
                    let invalidates = p.caches.iter().filter(|c| c.bits.iter().any(|b| b == "GL2_INV"));
                    invalidates.map(|c| c.per_token).sum()
                };
                assert!(l2(stock) > 100.0 && l2(none) < 10.0, "{} {}", l2(stock), l2(none));
            }
        }
        let emitted = |policy| arm(policy).barriers_emitted_per_token.unwrap();
        assert!(stock.dispatches_per_token.unwrap() > 0.0 && emitted("none") == 0.0);
        assert_eq!(emitted("every"), emitted("stock") + stock.dispatches_per_token.unwrap());
        assert!(emitted("alias-only") > 0.0 && emitted("alias-only") < emitted("stock"));
    }
}

/// What an arm of the driver under a knob is called, and why.
fn under(knob: &str) -> (Report, String) {
    let (built, out) = (built(), tempfile::tempdir().unwrap());
    let output = Command::new(SWEEP)
        .arg("--engine")
        .arg(built.join("engine"))
        .arg("--layer")
        .arg(built.join("libzinc_barrier.so"))
        .arg("--packets")
        .arg(built.join("libzinc_packets.so"))
        .arg("--out")
        .arg(out.path())
        .args([
            "--driver",
            "honeykrisp-shim",
            "--policy",
            "none",
            "--reps",
            "1",
            "--tokens",
            "16",
            "--knob",
            knob,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = std::fs::read_to_string(out.path().join("report.json")).unwrap();
    (serde_json::from_str(&text).unwrap(), said(&output))
}

#[test]
fn honeykrisp_s_nobarrier_takes_no_barrier_away_and_the_variables_that_sound_alike_do_nothing() {
    let test = "honeykrisp_s_nobarrier_takes_no_barrier_away_and_the_variables_that_sound_alike_do_nothing";
    if !built().join("libzinc_packets.so").is_file() {
        return not_run(test, "libzinc_packets.so is not built");
    }
    if !are_here(Path::new(SWEEP), test, &["honeykrisp-shim"]) {
        return;
    }
    let find = |report: &Report, set: bool| {
        let mut arms = report.arms.iter().filter(|a| a.policy.as_deref() == Some("stock"));
        arms.find(|a| a.knobs.is_empty() != set).unwrap().clone()
    };
    let (report, said) = under("HK_PERFTEST=nobarrier");
    let (plain, knob) = (find(&report, false), find(&report, true));
    assert!(plain.driver_flushes_per_token > Some(100.0), "{plain:?}");
    assert_eq!(plain.driver_flushes_per_token, knob.driver_flushes_per_token, "every barrier stays");
    let links = |arm: &zinc_sweeps::report::Arm| arm.driver_packets.as_ref().and_then(|p| p.links);
    assert!(links(&plain) > Some(100.0) && links(&knob) == Some(0.0), "{plain:?} {knob:?}");
    assert!(said.contains("no effect on the driver's barriers"), "{said}");
    for other in ["AGX_MESA_DEBUG=nobarrier", "ASAHI_MESA_DEBUG=nobarrier"] {
        let (report, said) = under(other);
        assert_eq!(find(&report, true).verdict, Verdict::NoEffect, "{other}: {said}");
        assert!(said.contains("nothing says that it is known there"), "{other}: {said}");
    }
}

/// The program of a sweep, started by a script of this text or as it is, and what its arm under `alias-only` counts.
fn counted(driver: &str, script: Option<&str>, arguments: &[&str]) -> zinc_sweeps::report::Arm {
    let (built, out) = (built(), tempfile::tempdir().unwrap());
    let engine = built.join("engine");
    let program = match script {
        None => engine.clone(),
        Some(text) => {
            let path = out.path().join("wrapper");
            std::fs::write(&path, text.replace("ENGINE", engine.to_str().unwrap())).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
            path
        }
    };
    let output = Command::new(SWEEP)
        .arg("--layer")
        .arg(built.join("libzinc_barrier.so"))
        .arg("--engine")
        .arg(&engine)
        .arg("--packets")
        .arg(built.join("libzinc_packets.so"))
        .arg("--out")
        .arg(out.path().join("out"))
        .args(["--driver", driver, "--policy", "alias-only", "--reps", "1", "--tokens", "16", "--"])
        .arg(program)
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{script:?}: {}", said(&output));
    let text = std::fs::read_to_string(out.path().join("out/report.json")).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    let mut arms = report.arms.into_iter();
    arms.find(|arm| arm.policy.as_deref() == Some("alias-only")).expect("the arm")
}

#[test]
fn a_program_behind_a_script_or_a_loader_of_its_own_counts_as_it_does_alone() {
    let test = "a_program_behind_a_script_or_a_loader_of_its_own_counts_as_it_does_alone";
    let libraries = ["libzinc_packets.so", "libzinc_start.so"];
    if let Some(gone) = libraries.iter().find(|name| !Path::new(SWEEP).with_file_name(name).is_file()) {
        return not_run(test, &format!("{gone} is not built"));
    }
    // The system's C library is older than the one that the chip's driver comes with, or as old as it.
    let scripts = [
        "#!/bin/sh\nexec ENGINE \"$@\"\n",
        "#!/bin/bash\nhere=$(dirname \"$0\")\ncd / && env LD_LIBRARY_PATH=\"$here/lib\" ENGINE \"$@\" | cat\n",
        "#!/bin/sh\nexec /lib64/ld-linux-x86-64.so.2 --library-path /opt/own/lib ENGINE \"$@\"\n",
    ];
    for driver in ["radv-shim:gfx1201", "honeykrisp-shim"] {
        if !are_here(Path::new(SWEEP), test, &[driver]) {
            return;
        }
        let arguments = ["bench", "--reps", "2", "-n", "{tokens}"];
        let alone = counted(driver, None, &arguments);
        // What the engine says itself of a token, twice, since it makes two repetitions: its warm-up counts once and
        // falls out of the difference.
        let result = Command::new(SWEEP)
            .args(["on", driver, "--"])
            .arg(built().join("engine"))
            .args(["bench", "--json", "--reps", "1", "-n", "4"])
            .output()
            .unwrap();
        let result: serde_json::Value = serde_json::from_slice(&result.stdout).unwrap();
        let own = result["decode"]["dispatches_per_token"].as_f64().unwrap();
        assert_eq!(alone.dispatches_per_token, Some(2.0 * own), "{alone:?}");
        for script in scripts {
            let arm = counted(driver, Some(script), &arguments);
            let counts = |arm: &zinc_sweeps::report::Arm| {
                let emitted = arm.barriers_emitted_per_token;
                (arm.dispatches_per_token, emitted, arm.driver_flushes_per_token, arm.verdict)
            };
            assert_eq!(counts(&arm), counts(&alone), "{driver}: {script}");
        }
    }
}

#[test]
fn a_child_that_no_library_follows_sees_no_device_and_never_another() {
    let test = "a_child_that_no_library_follows_sees_no_device_and_never_another";
    if !are_here(Path::new(SWEEP), test, &["radv-shim:navi31"]) {
        return;
    }
    // The control: what puts the program onto the shim is taken away.
    let text = "unset LD_PRELOAD; exec vulkaninfo --summary";
    let output =
        Command::new(SWEEP).args(["on", "radv-shim:navi31", "--", "/bin/sh", "-c", text]).output().unwrap();
    let text = said(&output);
    assert!(!text.contains("deviceName"), "{text}");
    if !Path::new(SWEEP).with_file_name("libzinc_start.so").is_file() {
        return not_run(test, "libzinc_start.so is not built");
    }
    let text = "exec vulkaninfo --summary";
    let output =
        Command::new(SWEEP).args(["on", "radv-shim:navi31", "--", "/bin/sh", "-c", text]).output().unwrap();
    let text = said(&output);
    assert!(text.contains("RADV NAVI31") && text.matches("deviceName").count() == 1, "{text}");
}
