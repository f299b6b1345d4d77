//! The sweep on programs that are not the engine, through the real loader and layer: one whose barriers are right, one
//! with a barrier missing, llama.cpp; and gates with programs of their own.

use std::fs;
use std::path::Path;

use serde_json::Value;
use zinc_tests::artefacts::repository;
use zinc_tests::oracle::oracles;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended, artefacts, vulkan};

/// A chain of three, and a dispatch that nothing depends on behind a barrier of its own.
const RIGHT: &str = "
buffer a 1024
buffer b 1024
buffer c 1024
buffer d 1024
buffer e 1024
data a iota
begin x
    dispatch step a b
    barrier compute_shader/shader_write -> compute_shader/shader_read+shader_write
    dispatch step b c
    barrier compute_shader/shader_write -> compute_shader/shader_read+shader_write
    dispatch step a e
    barrier compute_shader/shader_write -> compute_shader/shader_read+shader_write
    dispatch step c d
end
submit x
wait
";

fn sweep(folder: &Path, args: &[&str]) -> Ended {
    Child::new(artefacts::sweep())
        .envs(&vulkan::environment(folder))
        .in_folder(folder)
        .args(["--policy", "alias-only", "--reps", "1", "--drops", "2", "--out", "out"])
        .args(args)
        .limit(600)
        .run()
}

fn report(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("out/report.json")).expect("report.json is written");
    serde_json::from_str(&text).expect("report.json is JSON")
}

/// The arm of a policy as it is timed.
fn arm<'a>(report: &'a Value, policy: &str) -> &'a Value {
    let mut arms = report["arms"].as_array().expect("a report has arms").iter();
    arms.find(|a| a["policy"] == policy && a["shuffle"] == "off").expect("the policy's arm")
}

fn gate<'a>(report: &'a Value, gate: &str, policy: &str) -> &'a Value {
    let mut gates = report["gates"].as_array().expect("a report has gates").iter();
    gates.find(|g| g["gate"] == gate && g["policy"] == policy).expect("the gate's answer")
}

#[test]
fn a_program_whose_barriers_are_right_is_verified_by_its_own_output() {
    let folder = scratch();
    fs::write(folder.path().join("right"), RIGHT).expect("the folder can be written");
    let app = format!("{} right", artefacts::stream().display());
    sweep(folder.path(), &["--app", &app, "--same-output"]).succeeded();
    let report = report(folder.path());
    let own = arm(&report, "alias-only");
    assert_eq!(own["verdict"], "verified", "{own}");
    assert_eq!(own["measured"]["per"], "run");
    let counted = |what: &str| own[what].as_f64().expect("counted");
    assert!(counted("barriers_emitted_per_token") < counted("barriers_asked_per_token"), "{own}");
    let output = gate(&report, "output", "alias-only");
    assert_eq!(output["control_caught"], true, "{output}");
    assert_eq!(output["mutation"]["caught"], 2, "{output}");
}

#[test]
fn a_program_with_a_missing_barrier_is_refuted_under_stock_already() {
    let folder = scratch();
    // In order it computes the same: only another order shows it.
    let racing = RIGHT.replacen(
        "    barrier compute_shader/shader_write -> compute_shader/shader_read+shader_write\n",
        "",
        1,
    );
    fs::write(folder.path().join("racing"), racing).expect("the folder can be written");
    let app = format!("{} racing", artefacts::stream().display());
    let swept = sweep(folder.path(), &["--app", &app, "--same-output"]);
    assert_eq!(swept.code(), Some(1), "{}", swept.transcript());
    let report = report(folder.path());
    assert_eq!(gate(&report, "output", "stock")["status"], "fail");
    let arms = report["arms"].as_array().expect("a report has arms");
    let shuffled = arms.iter().find(|a| a["policy"] == "alias-only" && a["shuffle"] == "reverse");
    let reason = shuffled.expect("the arm")["reason"].as_str().expect("a reason");
    assert!(reason.contains("the application itself lacks a barrier"), "{reason}");
}

#[test]
fn llama_cpp_is_swept_with_its_own_rate_and_a_second_command_that_says_whether_it_is_right() {
    let test = "llama_cpp_is_swept_with_its_own_rate_and_a_second_command_that_says_whether_it_is_right";
    let Some(oracles) = oracles(test) else { return };
    let folder = scratch();
    let model = artefacts::repository().join("engine/model/embedded-q8_0.gguf").display().to_string();
    let run = oracles.folder().join("run").display().to_string();
    let app = format!("{run} llama-bench -m {model} -ngl 99 -p 0 -n 4 -r 1 -t 1");
    let check = format!(
        "{run} llama-completion -m {model} -ngl 99 -t 1 -p 'The king' -n 12 --temp 0 -no-cnv --no-warmup"
    );
    // ggml takes no CPU device by itself, and lavapipe's cooperative matrices are slow.
    let swept = Child::new(artefacts::sweep())
        .in_folder(folder.path())
        .env("HOME", folder.path())
        .env("MESA_SHADER_CACHE_DIR", artefacts::stream().with_file_name("test-shader-cache"))
        .env("GGML_VK_VISIBLE_DEVICES", "0")
        .env("GGML_VK_DISABLE_COOPMAT", "1")
        .env("GGML_VK_DISABLE_COOPMAT2", "1")
        .args(["--policy", "alias-only", "--reps", "1", "--drops", "1", "--out", "out"])
        .args(["--app", &app, "--metric", r"tg4 \|\s+(?<tok_s>[\d.]+) ±", "--check", &check])
        .limit(600)
        .run()
        .succeeded();
    let report = report(folder.path());
    let own = arm(&report, "alias-only");
    assert_eq!(own["verdict"], "verified", "{}", swept.transcript());
    assert!(own["tok_s"]["median"].as_f64().expect("a rate") > 0.0);
    assert_eq!(own["measured"]["metric"], "tok_s");
    assert_eq!(gate(&report, "output", "alias-only")["control_caught"], true);
}

#[test]
fn pictures_and_validation_are_gates_that_notice_their_controls() {
    let test = "pictures_and_validation_are_gates_that_notice_their_controls";
    let Some(oracles) = oracles(test) else { return };
    let folder = scratch();
    let oracles = oracles.folder().display().to_string();
    let gates = ["bits", "validation", "graphics", "backend-ops"];
    let args =
        ["--gates", &gates.join(","), "--oracles", &oracles, "--tokens", "8", "--drops", "1", "--ctx", "8"];
    let swept = Child::new(artefacts::sweep())
        .envs(&vulkan::environment(folder.path()))
        .in_folder(folder.path())
        .args(["--policy", "alias-only", "--reps", "1", "--out", "out"])
        .args(args)
        .env("GGML_VK_DISABLE_COOPMAT", "1")
        .env("GGML_VK_DISABLE_COOPMAT2", "1")
        .limit(600)
        .run();
    let report = report(folder.path());
    for name in gates {
        let answer = gate(&report, name, "alias-only");
        assert_eq!(answer["control_caught"], true, "{answer} {}", swept.transcript());
        assert_ne!(answer["status"], "fail", "{answer}");
        // The barrier that was withheld is one that must be there.
        assert!(answer["mutation"]["tried"].as_u64() > Some(0), "{answer} {}", swept.transcript());
    }
    let operators = gate(&report, "backend-ops", "alias-only");
    assert_eq!(
        (&operators["status"], &operators["mutation"]["caught"]),
        (&"pass".into(), &1.into()),
        "{operators}"
    );
}

#[test]
fn the_plan_for_bit_7_is_what_its_maker_writes_and_one_for_another_knob_runs() {
    let plans = repository().join("mesa-patches/plans");
    let folder = scratch();
    let maker = |options: &[&str], file: &Path| {
        Child::new(plans.join("make-honeykrisp-bit-7"))
            .env("ZINC_BARRIER_SWEEP", artefacts::sweep())
            .args(options)
            .arg(file)
            .run()
            .succeeded();
        fs::read_to_string(file).expect("the plan is written")
    };
    let committed = fs::read_to_string(plans.join("honeykrisp-bit-7.plan.json")).expect("the plan is there");
    assert!(
        committed == maker(&[], &folder.path().join("default.json")),
        "mesa-patches/plans/make-honeykrisp-bit-7 mesa-patches/plans/honeykrisp-bit-7.plan.json renews the plan"
    );

    // A variable that does nothing, on a device that is here: streams with barriers are the same under it, and the one
    // without is refuted, so the plan would notice.
    fs::create_dir(folder.path().join("bit-7")).expect("the folder can be written");
    for stream in ["5-write-after-read.stream", "control-no-barrier.stream"] {
        fs::copy(plans.join("bit-7").join(stream), folder.path().join("bit-7").join(stream))
            .expect("a stream");
    }
    let options =
        ["--driver", "lavapipe", "--require", "cpu", "--knob", "NOTHING_READS_THIS=1", "--reps", "1"];
    maker(&options, &folder.path().join("plan.json"));
    for (arm, code, name) in [("4", 0, "5-write-after-read"), ("9", 1, "control-no-barrier")] {
        let ended = Child::new(artefacts::sweep())
            .envs(&vulkan::environment(folder.path()))
            .in_folder(folder.path())
            .args(["run", "plan.json", "--out", "out", "--arm", arm, "--force"])
            .limit(600)
            .run();
        assert_eq!(ended.code(), Some(code), "{}", ended.transcript());
        let report = report(folder.path());
        let arms = report["arms"].as_array().expect("a report has arms");
        let under: Vec<_> = arms.iter().filter(|a| a["knobs"]["NOTHING_READS_THIS"] == "1").collect();
        assert!(!under.is_empty() && under.iter().all(|a| a["model"] == name), "{report}");
        let refuted = under.iter().any(|a| a["verdict"] == "refuted");
        assert_eq!(refuted, code == 1, "{report}");
    }
}
