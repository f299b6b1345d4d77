//! The patches for Mesa: they apply and come off again, and a driver built with them does what they say.
//!
//! Applying is tried on the files that the series touches, out of Debian's source package. What a patched driver emits
//! is compared with a stock one where `mesa-patches/build` has built both; `tests/run` sees to that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zinc_tests::artefacts::{mesa_proof, repository};
use zinc_tests::oracle::not_run;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended};

const VERSION: &str = "25.0.7";
/// The series for current Mesa, whose source is not to be had here.
const PORT: &str = "26";

/// A program that knows where the scripts keep what they have built.
fn with_cache(program: impl AsRef<std::ffi::OsStr>) -> Child {
    ["HOME", "XDG_CACHE_HOME"].into_iter().fold(Child::new(program), |child, name| {
        match std::env::var(name) {
            Ok(folder) => child.env(name, folder),
            Err(_) => child,
        }
    })
}

fn script(name: &str) -> Child {
    with_cache(repository().join("mesa-patches").join(name))
}

fn apply(tree: &Path, more: &[&str]) -> Ended {
    let mut child = script("apply").arg(VERSION).arg(tree);
    for word in more {
        child = child.arg(word);
    }
    child.run()
}

/// The patches, in the order in which they are applied.
fn patches() -> Vec<PathBuf> {
    patches_of(VERSION)
}

fn patches_of(version: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for series in ["common", "radv", "hk", "lavapipe"] {
        let folder = repository().join("mesa-patches").join(version).join(series);
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<PathBuf> = files.filter(|f| f.extension().is_some_and(|e| e == "patch")).collect();
        files.sort();
        found.extend(files);
    }
    found
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().into(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The files that the series touches, as Mesa has them, or the reason why they can't be had.
fn source(folder: &Path) -> Result<(), String> {
    if std::env::var_os("ZINC_BARRIER_ORACLES").is_some_and(|value| value == "skip") {
        return Err("ZINC_BARRIER_ORACLES=skip".into());
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let cache = std::env::var("XDG_CACHE_HOME").unwrap_or(format!("{home}/.cache")) + "/zinc-barrier/mesa";
    let fetched = script("fetch").arg(VERSION).arg(&cache).arg("--source-only").limit(600).run();
    if fetched.code() != Some(0) {
        return Err(fetched.stderr.trim().into());
    }
    let mut touched: Vec<String> = vec!["VERSION".into()];
    for patch in patches() {
        let text = fs::read_to_string(patch).unwrap();
        touched.extend(text.lines().filter_map(|line| line.strip_prefix("--- a/")).map(String::from));
    }
    touched.sort();
    touched.dedup();
    // A file that an earlier patch of the series adds is not in the archive.
    let archive = format!("{cache}/mesa_{VERSION}.orig.tar.xz");
    let names: Vec<String> = touched.iter().map(|name| format!("mesa-{VERSION}/{name}")).collect();
    let output = Command::new("tar")
        .args(["-xJf", &archive, "--strip-components=1", "-C"])
        .arg(folder)
        .args(names)
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    match folder.join("src/amd/vulkan/radv_cmd_buffer.c").is_file() {
        true => Ok(()),
        false => Err(format!("{archive} does not unpack: {said}")),
    }
}

#[test]
fn the_series_applies_to_its_version_and_comes_off_again() {
    let folder = scratch();
    let tree = folder.path();
    if let Err(why) = source(tree) {
        return not_run("the_series_applies_to_its_version_and_comes_off_again", &why);
    }
    let stock = files(tree);
    let ended = apply(tree, &[]).succeeded();
    assert!(ended.stderr.contains(&format!("applied {} patches", patches().len())), "{}", ended.transcript());
    let patched = files(tree);
    assert_ne!(stock, patched);
    for needle in ["RADV_DEFER_L2_FLUSH", "HK_LAZY_BARRIER", "LP_LATE_COMPUTE"] {
        let there = |(path, text): (&PathBuf, &Vec<u8>)| {
            !path.starts_with(".zinc-barrier-patches") && String::from_utf8_lossy(text).contains(needle)
        };
        assert!(patched.iter().any(there), "{needle} is nowhere in the patched files");
    }
    // A second time is refused and changes nothing.
    apply(tree, &[]).refused(1, &["already", "--undo"]);
    assert_eq!(patched, files(tree));
    apply(tree, &["--undo"]).succeeded();
    assert_eq!(stock, files(tree), "what --undo leaves is not what was there before");
    apply(tree, &["--undo"]).refused(1, &["nothing of this series"]);

    // Each series goes on without the others.
    for series in ["radv", "hk", "lavapipe"] {
        apply(tree, &["--only", series]).succeeded();
        apply(tree, &["--undo"]).succeeded();
        assert_eq!(stock, files(tree), "{series}");
    }

    // The control: a hunk that does not fit is named, and then not even the patches before it are applied.
    let spoiled = tree.join("src/amd/vulkan/radv_cmd_buffer.c");
    let text = fs::read_to_string(&spoiled).unwrap();
    assert!(text.contains("can_skip_buffer_l2_flushes"));
    fs::write(&spoiled, text.replace("can_skip_buffer_l2_flushes", "may_skip_buffer_l2_flushes")).unwrap();
    let before = files(tree);
    apply(tree, &[]).refused(1, &["0004-radv", "does not fit", "FAILED", "nothing was changed"]);
    assert_eq!(before, files(tree));
}

#[test]
fn apply_names_what_is_wrong_with_its_arguments() {
    let folder = scratch();
    let tree = folder.path();
    apply(tree, &[]).refused(1, &["not a Mesa source tree"]);
    fs::write(tree.join("VERSION"), "24.3.0\n").unwrap();
    apply(tree, &[]).refused(1, &["24.3.0", VERSION]);
    fs::write(tree.join("VERSION"), "25.0.7\n").unwrap();
    apply(tree, &["--only", "anv"]).refused(2, &["anv"]);
    apply(tree, &["--twice"]).refused(2, &["--twice", "--undo"]);
    script("apply").arg("24.0.0").arg(tree).run().refused(2, &["24.0.0", VERSION]);
    script("apply").arg(VERSION).arg("/nonexistent").run().refused(2, &["/nonexistent"]);
    script("build").args(["--drivers", "anv", "--where"]).run().refused(2, &["anv", "radv"]);
    let nowhere = folder.path().join("cache");
    let ended = script("build").arg("--where").env("XDG_CACHE_HOME", &nowhere).run();
    ended.refused(3, &["not built", "mesa-patches/build"]);
}

/// For each hunk of a patch: the file, the line at which it begins, and its lines, each with its mark.
fn hunks(text: &str) -> Vec<(String, usize, Vec<&str>)> {
    let mut found: Vec<(String, usize, Vec<&str>)> = Vec::new();
    let (mut file, mut left) = (String::new(), (0, 0));
    for line in text.lines() {
        if left != (0, 0) {
            let (old, new) = match line.chars().next() {
                Some('-') => (1, 0),
                Some('+') => (0, 1),
                Some(' ') => (1, 1),
                _ => panic!("{file}: a hunk ends early, at '{line}'"),
            };
            left = (left.0 - old, left.1 - new);
            found.last_mut().unwrap().2.push(line);
        } else if let Some(name) = line.strip_prefix("--- a/") {
            file = name.into();
        } else if line.starts_with("--- /dev/null") {
            file = String::new();
        } else if let Some(header) = line.strip_prefix("@@ -") {
            let numbers: Vec<usize> = header
                .split(|c: char| !c.is_ascii_digit())
                .filter(|word| !word.is_empty())
                .take(4)
                .map(|word| word.parse().unwrap())
                .collect();
            let [start, old, _, new] = numbers[..] else { panic!("{file}: the header {line}") };
            left = (old, new);
            found.push((file.clone(), start, Vec::new()));
        }
    }
    assert_eq!(left, (0, 0), "{file}: the last hunk is too short");
    found
}

#[test]
fn the_hunks_of_all_series_are_as_long_as_they_say_and_stand_anywhere_in_their_file() {
    let all: Vec<PathBuf> = patches().into_iter().chain(patches_of(PORT)).collect();
    // Files of the series' own, which nobody else changes: there a hunk may stand at the end.
    let mut own = Vec::new();
    for patch in &all {
        let text = fs::read_to_string(patch).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let added = lines.windows(2).filter(|pair| pair[0] == "--- /dev/null");
        own.extend(added.filter_map(|pair| pair[1].strip_prefix("+++ b/")).map(String::from));
    }
    for patch in all {
        let name = patch.display();
        let text = fs::read_to_string(&patch).unwrap();
        let found = hunks(&text);
        assert!(!found.is_empty(), "{name}");
        let mut last = (String::new(), 0);
        for (file, start, lines) in found {
            let changes = |line: &&str| !line.starts_with(' ');
            assert!(lines.iter().any(changes), "{name}: {file}:{start} changes nothing");
            // With fewer lines behind a change than before it, patch takes the hunk to stand at the file's end.
            let before = lines.iter().take_while(|line| !changes(line)).count();
            let behind = lines.iter().rev().take_while(|line| !changes(line)).count();
            let anywhere = file.is_empty() || own.contains(&file) || behind >= before;
            assert!(anywhere, "{name}: {file}:{start} has little behind it");
            assert!(
                last.0 != file || file.is_empty() || last.1 < start,
                "{name}: {file}:{start} is out of order"
            );
            last = (file, start);
        }
    }
}

#[test]
fn a_series_that_does_not_fit_says_so_and_changes_nothing() {
    let folder = scratch();
    let tree = folder.path();
    fs::write(tree.join("VERSION"), "26.2.6\n").unwrap();
    fs::create_dir_all(tree.join("src/vulkan/util")).unwrap();
    fs::write(tree.join("src/vulkan/util/meson.build"), "files_vulkan_util = files(\n  'other.c',\n)\n")
        .unwrap();
    let before = files(tree);
    let ended = script("apply").arg(PORT).arg(tree).args(["--only", "radv"]).run();
    ended.refused(1, &["0001-vulkan-util", "does not fit", "nothing was changed"]);
    assert_eq!(before, files(tree));
}

#[test]
fn honeykrisp_s_refusal_to_open_devices_is_not_touched() {
    // Its authors ask that nobody ship a way around it. The file that holds it is in no patch.
    for patch in patches().into_iter().chain(patches_of(PORT)) {
        let text = fs::read_to_string(&patch).unwrap();
        let touched = text.lines().filter(|line| line.starts_with("--- ") || line.starts_with("+++ "));
        for line in touched {
            for file in ["hk_physical_device.c", "agx_device.c", "drm-shim/asahi"] {
                assert!(!line.contains(file), "{}: {line}", patch.display());
            }
        }
    }
}

/// The prefix of a built driver.
fn built(test: &str, stock: bool) -> Option<PathBuf> {
    let mut child = script("build").args(["--where", "--drivers", "radv"]);
    if stock {
        child = child.arg("--stock");
    }
    let ended = child.run();
    if ended.code() != Some(0) {
        not_run(test, ended.stderr.trim());
        return None;
    }
    Some(ended.stdout.trim().into())
}

#[test]
fn patched_radv_emits_what_its_patches_say_and_stock_s_words_with_switches_off() {
    let test = "patched_radv_emits_what_its_patches_say_and_stock_s_words_with_switches_off";
    if built(test, true).is_none() || built(test, false).is_none() {
        return;
    }
    let program = mesa_proof();
    // It is told where the programs are: its environment is bare, and in it nothing should be built.
    let ended = with_cache(&program)
        .env("ZINC_BARRIER_BUILT", program.parent().unwrap())
        .args(["--chips", "vega10,gfx1201"])
        .limit(300)
        .run()
        .succeeded();
    assert!(ended.stdout.contains(" passed, 0 failed"), "{}", ended.transcript());
}

#[test]
fn a_sweep_over_a_knob_of_patched_radv_on_its_shim_shows_what_the_knob_changes() {
    let test = "a_sweep_over_a_knob_of_patched_radv_on_its_shim_shows_what_the_knob_changes";
    if built(test, false).is_none() {
        return;
    }
    let folder = scratch();
    let sweep = |knob: &str, out: &str| {
        with_cache(zinc_tests::artefacts::sweep())
            .args([
                "--driver",
                "radv-shim:gfx1201@patched",
                "--policy",
                "alias-only",
                "--tokens",
                "8",
                "--reps",
                "1",
            ])
            .args(["--knob", knob, "--out"])
            .arg(folder.path().join(out))
            .limit(300)
            .run()
    };
    sweep("RADV_DEFER_L2_FLUSH=0,1", "swept").succeeded();
    let text = fs::read_to_string(folder.path().join("swept/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = |value: &str, policy: &str| {
        let arms = report["arms"].as_array().unwrap();
        let arm = arms.iter().find(|a| a["knobs"]["RADV_DEFER_L2_FLUSH"] == value && a["policy"] == policy);
        arm.unwrap_or_else(|| panic!("no arm of {policy} under {value}: {text}")).clone()
    };
    // How often a token writes back or invalidates the L2, and how often it waits.
    let l2 = |arm: &serde_json::Value| {
        let caches = arm["driver_packets"]["caches"].as_array().unwrap();
        let touches = |c: &&serde_json::Value| c["bits"].to_string().contains("GL2_INV");
        caches.iter().filter(touches).map(|c| c["per_token"].as_f64().unwrap()).sum::<f64>()
    };
    let waits = |arm: &serde_json::Value| arm["driver_packets"]["flushes"].as_f64().unwrap();
    for policy in ["stock", "alias-only"] {
        let (stock, deferred) = (of("0", policy), of("1", policy));
        // The value that holds anyway changes nothing.
        assert_eq!((&stock["verdict"], &deferred["verdict"]), (&"no-effect".into(), &"counted-only".into()));
        assert!(l2(&stock) > 100.0 && l2(&deferred) < 5.0, "{policy}: {} and {}", l2(&stock), l2(&deferred));
        assert_eq!(waits(&stock), waits(&deferred), "{policy}");
    }
    // The control: the layer's own elision is seen by the same counter.
    assert!(waits(&of("0", "alias-only")) < waits(&of("0", "stock")));
    // What changes is what the switch is called after, and the report says so.
    assert!(of("1", "stock")["reason"].as_str().unwrap().contains("no effect on the driver's barriers"));
    sweep("RADV_DEFER_L2_FLUS=0,1", "misspelled").refused(2, &["RADV_DEFER_L2_FLUS", "RADV_DEFER_L2_FLUSH"]);
}

#[test]
fn patched_lavapipe_shows_a_missing_barrier_and_gives_the_same_numbers_where_none_is_missing() {
    let test = "patched_lavapipe_shows_a_missing_barrier_and_gives_the_same_numbers_where_none_is_missing";
    let ended = script("build").args(["--where", "--drivers", "lavapipe"]).run();
    if ended.code() != Some(0) {
        return not_run(test, ended.stderr.trim());
    }
    let folder = scratch();
    let out = folder.path().join("swept");
    with_cache(zinc_tests::artefacts::sweep())
        .args([
            "--driver",
            "patched:lavapipe",
            "--policy",
            "alias-only",
            "--policy",
            "none",
            "--tokens",
            "16",
        ])
        .args(["--knob", "LP_LATE_COMPUTE=0,7", "--reps", "1", "--drops", "1", "--out"])
        .arg(&out)
        .limit(300)
        .run();
    let text = fs::read_to_string(out.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let gates = report["gates"].as_array().unwrap();
    let late = |gate: &&serde_json::Value| gate["knobs"]["LP_LATE_COMPUTE"] == "7" && gate["gate"] == "bits";
    let gate =
        gates.iter().filter(late).find(|gate| gate["policy"] == "stock").expect("no answer on the setting");
    assert_eq!((&gate["status"], &gate["control_caught"]), (&"pass".into(), &true.into()), "{gate}");
    let digest = |policy: &str, late: &str| {
        let arms = report["arms"].as_array().unwrap();
        let arm = arms.iter().find(|a| {
            (&a["policy"], &a["shuffle"]) == (&policy.into(), &"off".into())
                && a["knobs"]["LP_LATE_COMPUTE"] == late
        });
        arm.unwrap()["logits_digest"].as_str().unwrap().to_string()
    };
    assert_eq!(digest("stock", "0"), digest("stock", "7"));
    assert_eq!(digest("alias-only", "0"), digest("alias-only", "7"));
    // In order nobody notices that all barriers are gone; late, without any shuffle of the layer's, it shows.
    assert_eq!(digest("none", "0"), digest("stock", "0"));
    assert_ne!(digest("none", "7"), digest("stock", "7"));
}

#[test]
fn a_patched_driver_announces_its_knobs_and_refuses_illegal_values() {
    let test = "a_patched_driver_announces_its_knobs_and_refuses_illegal_values";
    let (Some(stock), Some(patched)) = (built(test, true), built(test, false)) else { return };
    let folder = scratch();
    let help = folder.path().join("help.json");
    let ask = |prefix: &Path, name: &str, value: &str| {
        let _ = fs::remove_file(&help);
        let manifest = prefix.join("vulkan/radv.json");
        Child::new(zinc_tests::artefacts::engine())
            .arg("info")
            .env("VK_DRIVER_FILES", &manifest)
            .env("VK_ICD_FILENAMES", &manifest)
            .env("RADV_BARRIER_HELP", &help)
            .env(name, value)
            .run()
    };
    // No device is needed: an instance is enough.
    ask(&patched, "RADV_DEFER_L2_FLUSH", "1");
    let text = fs::read_to_string(&help).expect("the driver announced nothing");
    let said: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(said["driver"], "radv");
    let names: Vec<&str> =
        said["knobs"].as_array().unwrap().iter().map(|k| k["name"].as_str().unwrap()).collect();
    for name in [
        "RADV_BARRIER_COUNTERS",
        "RADV_COMPUTE_BARRIER_MASK",
        "RADV_SKIP_COMPUTE_BARRIERS",
        "RADV_DEFER_L2_FLUSH",
        "RADV_DROP_REPEATED_FLUSHES",
    ] {
        assert!(names.contains(&name), "{name} is not announced: {names:?}");
    }
    for (name, value) in [
        ("RADV_SKIP_COMPUTE_BARRIERS", "2"),
        ("RADV_SKIP_COMPUTE_BARRIERS", "yes"),
        ("RADV_COMPUTE_BARRIER_MASK", "0x20000"),
        ("RADV_COMPUTE_BARRIER_MASK", "-1"),
        ("RADV_DEFER_L2_FLUSH", "1x"),
    ] {
        let ended = ask(&patched, name, value);
        assert!(ended.stderr.contains(name) && ended.stderr.contains(value), "{}", ended.transcript());
    }
    // The control: stock says nothing, whatever it is asked.
    ask(&stock, "RADV_SKIP_COMPUTE_BARRIERS", "2");
    assert!(!help.exists(), "stock announced something");
}
