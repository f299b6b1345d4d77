//! Arms on a driver that records without executing, with stand-ins for the engine and for the shim's dynamic loader.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use zinc_packets_core::report::{CacheOp, Device, Packets, Pm4, Report, SCHEMA};
use zinc_sweeps::shims::folders::{ALL, Cache};
use zinc_sweeps::verdict::{Status, Verdict};

use crate::bench::{Bench, Swept};

const DEVICE: &str = "AMD Radeon Graphics (RADV NAVI31)";

/// A dynamic loader that notes how it was called and starts the program as if it had been called directly. Where it is
/// to preload a packet counter, it leaves the counter's report: three flushes a token and nine for loading the model.
const LOADER: &str = r#"#!/usr/bin/env bash
echo "$AMDGPU_GPU_ID $VK_DRIVER_FILES $*" >>"$(dirname "$0")/log"
if [[ "$*" == *counter.so:* ]]; then
  tokens=32
  [[ "$*" == *"--tokens 5"* ]] && tokens=5
  cat >"$ZINC_BARRIER_PACKETS" <<JSON
PACKETS
JSON
fi
while [[ $1 == --* ]]; do shift 2; done
exec "$@"
"#;

/// The stand-in for the loader, with the counter's report in it.
fn loader() -> String {
    let flushes = 424_242;
    let acquire = CacheOp {
        packet: "ACQUIRE_MEM".into(),
        register: "GCR_CNTL".into(),
        value: "0xc180".into(),
        bits: vec!["GL2_WB".into()],
        count: flushes,
        ..CacheOp::default()
    };
    let pm4 = Pm4 { cs_partial_flushes: flushes, cache_ops: vec![acquire], ..Pm4::default() };
    let total = Packets { pm4: Some(pm4), ..Packets::default() };
    let device = Device { driver: "amdgpu".into(), total, ..Device::default() };
    let report = Report { schema: SCHEMA, interposed_first: true, devices: vec![device] };
    let json = serde_json::to_string(&report).unwrap();
    LOADER
        .replace("PACKETS\n", &json.replace(&flushes.to_string(), "$((3 * tokens + 9))"))
        .replace("}JSON", "}\nJSON")
}

/// An engine on a machine where the shims seem to be set up. Its numbers are those of a driver that executes, all the
/// better to see whether they are kept out.
struct Shims {
    bench: Bench,
    cache: Cache,
}

impl Shims {
    fn new(devices: &[(&str, &str, &str)]) -> Shims {
        let bench = Bench::new().with_devices(devices);
        fs::write(bench.path("device"), devices.first().map_or("", |d| d.0)).unwrap();
        let place = bench.path("cache");
        let cache = Cache::of(|name| (name == "XDG_CACHE_HOME").then(|| place.clone().into())).unwrap();
        Shims { bench, cache }
    }

    fn set_up(self) -> Shims {
        for spec in ALL {
            let folder = self.cache.folder(spec);
            let libraries = ["libvulkan_radeon.so", "libamdgpu_noop_drm_shim.so"]
                .map(|l| format!("usr/lib/x86_64-linux-gnu/{l}"));
            for name in ["start/ld.so", "vulkan/radeon.json"].map(String::from).into_iter().chain(libraries) {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, loader()).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::write(folder.join("recipe"), self.cache.recipe(spec)).unwrap();
        }
        self
    }

    fn sweep(&self, args: &[&str]) -> Swept {
        let mut command = self.bench.command();
        // Cargo sets it for tests, and it would be passed on.
        command.env("XDG_CACHE_HOME", self.bench.path("cache")).env_remove("LD_LIBRARY_PATH");
        command.arg("--out").arg(self.bench.path("out")).args(["--reps", "2"]).args(args);
        if !args.contains(&"--packets") {
            command.args(["--packets", "off"]);
        }
        self.bench.swept(command.output().unwrap())
    }

    /// How the stand-in for the dynamic loader was called, a line each.
    fn starts(&self) -> Vec<String> {
        let log = self.cache.folder(ALL[1]).join("start/log");
        fs::read_to_string(log).unwrap_or_default().lines().map(String::from).collect()
    }
}

fn navi31() -> Shims {
    Shims::new(&[(DEVICE, "radv Mesa 25.0.7", "discrete-gpu")])
}

#[test]
fn an_arm_on_a_shim_is_counted_only_and_nothing_else_is_said_of_it() {
    let shims = navi31().set_up();
    let swept = shims.sweep(&["--driver", "radv-shim:navi31", "--policy", "alias-only"]).expect(0);
    let report = swept.report();
    assert!(report.complete && report.arms.len() == 3, "{:?}", report.arms);
    for arm in &report.arms {
        assert_eq!(
            (arm.driver.as_str(), arm.executes, arm.verdict),
            ("radv-shim:navi31", false, Verdict::CountedOnly)
        );
        assert_eq!((arm.tok_s, arm.vs_stock, arm.perplexity), (None, None, None));
        assert_eq!((&arm.logits_digest, arm.gpu_us_per_token), (&None, None));
        assert_eq!((arm.cpu_us_per_token, arm.driver_flushes_per_token), (Some(7.5), None));
        assert!(arm.gates.values().all(|g| g.status == Status::NotRun));
    }
    let arm = report.arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    let counts = (arm.dispatches_per_token, arm.barriers_asked_per_token, arm.barriers_emitted_per_token);
    assert_eq!(
        counts,
        (Some(100.0), Some(100.0), Some(60.0)),
        "whole counts: what loading took is taken off"
    );
    assert!(report.gates.iter().all(|g| g.status == Status::NotRun && g.mutation.is_none()));
    assert!(report.notes.iter().any(|n| n.contains("Nothing was executed")));
    let markdown = fs::read_to_string(shims.bench.path("out/report.md")).unwrap();
    for text in [&swept.stdout, &markdown] {
        assert!(text.contains("NOTHING EXECUTED") && text.contains("counted only, not executed"), "{text}");
        assert!(!text.contains("tok/s") && !text.contains("verified"), "{text}");
    }
}

#[test]
fn every_run_starts_through_the_shims_loader_and_none_is_made_to_prove_anything() {
    let shims = navi31().set_up();
    shims.sweep(&["--driver", "radv-shim:navi31", "--policy", "alias-only"]).expect(0);
    let expected = [
        "without",
        "stock,setup",
        "alias-only,setup",
        "stock",
        "alias-only",
        "alias-only",
        "stock",
        "without",
    ];
    assert_eq!(shims.bench.runs(), expected);
    let starts = shims.starts();
    assert_eq!(starts.len(), expected.len() + 1, "and once to ask for devices: {starts:?}");
    let folder = shims.cache.folder(ALL[1]);
    let (folder, engine) = (folder.display(), shims.bench.path("engine.sh"));
    let begin = format!(
        "navi31 {folder}/vulkan/radeon.json --library-path {folder}/usr/lib/x86_64-linux-gnu --preload "
    );
    for start in starts {
        assert!(start.starts_with(&begin), "{start}");
        assert!(start.contains(&format!("libamdgpu_noop_drm_shim.so {} ", engine.display())), "{start}");
    }
}

#[test]
fn with_a_packet_counter_the_drivers_own_flushes_stand_beside_the_layers_counts() {
    let shims = navi31().set_up();
    let counter = shims.bench.path("counter.so");
    fs::write(&counter, "").unwrap();
    let args =
        ["--driver", "radv-shim:navi31", "--policy", "alias-only", "--packets", counter.to_str().unwrap()];
    let swept = shims.sweep(&args).expect(0);
    for arm in &swept.report().arms {
        assert_eq!(arm.driver_flushes_per_token, Some(3.0), "{arm:?}");
        assert_eq!(arm.runs, 2, "runs with the counter are no timed ones");
    }
    let sorts = &swept.report().arms[0].driver_packets.as_ref().unwrap().caches;
    assert_eq!((sorts.len(), sorts[0].value.as_str(), sorts[0].per_token), (1, "0xc180", 3.0));
    assert!(swept.stdout.contains("3 ACQUIRE_MEM GCR_CNTL 0xc180 (GL2_WB)"), "{}", swept.stdout);
    assert!(swept.report().blake3.contains_key("packets"));
    assert!(swept.stdout.contains("driver flushes"), "{}", swept.stdout);
    let (with, without): (Vec<_>, Vec<_>) =
        shims.starts().into_iter().partition(|start| start.contains("counter.so:"));
    assert_eq!(
        (with.len(), without.len()),
        (6, 1 + 6),
        "set-up and packets; devices, engine alone and timed"
    );
}

#[test]
fn a_packet_counter_that_was_named_and_is_not_there_is_missing() {
    let args = ["--driver", "radv-shim:navi31", "--packets", "no/such.so"];
    let swept = navi31().set_up().sweep(&args).expect(3);
    assert!(swept.stderr.contains("no/such.so") && swept.stderr.contains("zinc-packets"), "{}", swept.stderr);
}

#[test]
fn numbers_that_are_not_finite_do_not_end_a_sweep_where_nothing_executes() {
    let mut shims = navi31().set_up();
    for run in ["stock", "without", "alias-only"] {
        shims.bench = shims.bench.with(run, "nan");
    }
    let swept = shims.sweep(&["--driver", "radv-shim:navi31", "--policy", "alias-only"]).expect(0);
    assert!(swept.report().arms.iter().all(|a| a.verdict == Verdict::CountedOnly));
}

#[test]
fn a_run_that_crashes_on_a_shim_fails_its_arm() {
    let mut shims = navi31().set_up();
    shims.bench = shims.bench.with("alias-only", "segv");
    let swept = shims.sweep(&["--driver", "radv-shim:navi31", "--policy", "alias-only"]).expect(1);
    assert_eq!(swept.verdict("alias-only", "off").0, "failed");
    assert_eq!(swept.verdict("stock", "off").0, "counted-only");
}

#[test]
fn shims_that_are_not_set_up_are_not_run_and_the_command_is_named() {
    let shims = navi31();
    for driver in ["radv-shim:navi31", "radv-shim:gfx1201", "honeykrisp-shim"] {
        let swept = shims.sweep(&["--driver", driver, "--policy", "alias-only", "--force"]).expect(3);
        assert!(
            swept.stderr.contains("`sweep setup-shims`") && swept.stderr.contains(driver),
            "{}",
            swept.stderr
        );
        for policy in ["stock", "alias-only"] {
            let (word, reason) = swept.verdict(policy, "off");
            assert!(word == "not-run" && reason.contains("`sweep setup-shims`"), "{word}: {reason}");
        }
        assert!(swept.stdout.contains("NOT RUN"), "{}", swept.stdout);
    }
    assert!(shims.bench.runs().is_empty());
}

#[test]
fn what_is_here_is_swept_though_a_shim_is_not() {
    let shims = Shims::new(&[("Fake CPU", "llvmpipe Mesa 22.3.6", "cpu")]);
    let args =
        ["--driver", "lavapipe", "--driver", "honeykrisp-shim", "--policy", "alias-only", "--drops", "3"];
    let swept = shims.sweep(&args).expect(3);
    let arms = &swept.report().arms;
    let of = |driver: &str| arms.iter().filter(|a| a.driver == driver).collect::<Vec<_>>();
    assert!(of("lavapipe").iter().any(|a| a.verdict == Verdict::Verified), "{arms:?}");
    let absent = of("honeykrisp-shim");
    assert!(absent.len() == 2 && absent.iter().all(|a| a.verdict == Verdict::NotRun), "{absent:?}");
    assert!(swept.report().complete);
    // A failure here weighs more than what is not here.
    let mut shims = Shims::new(&[("Fake CPU", "llvmpipe Mesa 22.3.6", "cpu")]);
    shims.bench = shims.bench.with("alias-only", "wrong");
    shims.sweep(&args).expect(1);
}

#[test]
fn when_the_engine_records_and_how_busy_the_processor_is_are_axes_of_their_own() {
    let shims = navi31().set_up();
    let args = ["--driver", "radv-shim:navi31", "--policy", "none", "--record", "each", "--record", "reuse"];
    let swept = shims.sweep(&[&args[..], &["--busy", "0", "--busy", "1"]].concat()).expect(0);
    let mut seen: Vec<String> = swept
        .report()
        .arms
        .iter()
        .filter(|a| a.policy.as_deref() == Some("stock"))
        .map(|a| format!("{} {}", a.knobs["record"], a.knobs["busy"]))
        .collect();
    seen.sort();
    assert_eq!(seen, ["each 0", "each 1", "reuse 0", "reuse 1"]);
    let log = fs::read_to_string(shims.bench.path("log")).unwrap();
    assert_eq!(log.matches("--record each").count(), log.matches("--record reuse").count());
    assert_eq!(log.lines().count(), log.matches("--record").count(), "every run is told:\n{log}");
    assert!(swept.stdout.contains("busy 1, record each"), "{}", swept.stdout);
    let arm = &swept.report().arms[0];
    let cpu = arm.cpu_us_interval.unwrap();
    assert_eq!((cpu.median, cpu.n, arm.wall_us_per_token.unwrap().median), (7.5, 2, 62_500.0));
}

#[test]
fn a_real_card_beside_the_shim_is_never_taken_for_it() {
    let shims = Shims::new(&[
        (DEVICE, "radv Mesa 25.0.7", "discrete-gpu"),
        (DEVICE, "radv Mesa 25.0.7", "discrete-gpu"),
    ]);
    let swept = shims.set_up().sweep(&["--driver", "radv-shim:navi31"]).expect(3);
    assert!(swept.stderr.contains("may be real"), "{}", swept.stderr);
}

#[test]
fn a_shim_is_no_gpu_where_one_is_required() {
    let swept = navi31().set_up().sweep(&["--driver", "radv-shim:navi31", "--require", "gpu"]).expect(3);
    assert!(swept.stderr.contains("executes nothing"), "{}", swept.stderr);
}

#[test]
fn an_unknown_chip_is_a_usage_error_that_lists_the_known_ones() {
    let swept = Bench::new().sweep(&["--driver", "radv-shim:navi99"]).expect(2);
    for chip in ["navi99", "gfx1201", "navi31", "polaris10"] {
        assert!(swept.stderr.contains(chip), "{}", swept.stderr);
    }
}

#[test]
fn a_command_that_cannot_run_on_a_shim_is_named_and_nothing_is_started() {
    let shims = navi31().set_up();
    let on = |command: &[&str]| {
        let mut sweep = shims.bench.command();
        // The stand-in's options stand before a subcommand, so this one is started afresh.
        let program = PathBuf::from(sweep.get_program());
        sweep = std::process::Command::new(program);
        sweep
            .env("XDG_CACHE_HOME", shims.bench.path("cache"))
            .args(["on", "radv-shim:navi31", "--"])
            .args(command);
        shims.bench.swept(sweep.output().unwrap())
    };
    for (command, needle) in [("no-such-program", "no program"), ("./nor-this", "no program")] {
        assert!(on(&[command]).expect(3).stderr.contains(needle));
    }
    let script = shims.bench.path("engine.sh");
    assert!(on(&[script.to_str().unwrap()]).expect(3).stderr.contains("script"));
    assert!(shims.starts().is_empty());
    // Any program will do for one that can: this one's own file, which the stand-in starts.
    let own = env!("CARGO_BIN_EXE_sweep");
    let done = on(&[own, "--version"]).expect(0);
    assert!(done.stdout.starts_with("sweep ") && done.stderr.contains("nothing executes"), "{}", done.stderr);
    assert_eq!(on(&[own, "--driver", "nonsense"]).code, 2, "the exit status is the program's own");
}
