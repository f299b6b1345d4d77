//! A sweep in arms: planned, run one by one, joined.

use std::process::Output;

use crate::bench::Bench;

const OPTIONS: [&str; 8] = ["--policy", "alias-only", "--policy", "every", "--reps", "2", "--drops", "2"];

fn sweep(bench: &Bench, args: &[&str], code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = std::process::Command::new(env!("CARGO_BIN_EXE_sweep"))
        .current_dir(bench.path("."))
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert_eq!(status.code(), Some(code), "{args:?}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

fn planned() -> Bench {
    let bench = Bench::new();
    let programs = ["--engine", "engine.sh", "--layer", "libzinc_barrier.so"];
    let (said, _) = sweep(&bench, &[&["plan", "plan.json"][..], &OPTIONS, &programs].concat(), 0);
    assert!(said.contains("2 arms") && said.contains("sbatch --array=0-1"), "{said}");
    bench
}

#[test]
fn a_plan_obeys_its_schema_and_one_without_its_hash_does_not() {
    let bench = planned();
    let schema = serde_json::from_str(&zinc_sweeps::documents::Document::Plan.schema_json()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let text = std::fs::read_to_string(bench.path("plan.json")).unwrap();
    let mut plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(validator.is_valid(&plan), "{text}");
    plan.as_object_mut().unwrap().remove("hash");
    assert!(!validator.is_valid(&plan));
}

#[test]
fn the_arms_of_a_plan_join_to_one_report_and_a_hole_is_named() {
    let bench = planned();
    sweep(&bench, &["run", "plan.json", "--arm", "1", "--out", "parts/1"], 0);
    let (_, said) = sweep(&bench, &["merge", "--plan", "plan.json", "parts/1", "parts/0", "--out", "all"], 1);
    assert!(said.contains("Missing: arm 0 (auto, embedded, every)"), "{said}");
    sweep(&bench, &["run", "plan.json", "--arm", "0", "--out", "parts/0"], 0);
    sweep(&bench, &["merge", "--plan", "plan.json", "parts/1", "parts/0", "--out", "all"], 0);
    let report = zinc_sweeps::reading::report(&bench.path("all")).unwrap();
    assert!(report.complete);
    let of = |part| {
        let of_part = report.arms.iter().filter(move |a| a.part == Some(part));
        of_part.filter_map(|a| a.policy.as_deref()).collect::<Vec<_>>()
    };
    assert!(of(0).contains(&"stock") && of(0).contains(&"every") && !of(0).contains(&"alias-only"));
    assert!(of(1).contains(&"stock") && of(1).contains(&"alias-only"));
    for file in ["report.md", "report.svg", "report.html"] {
        assert!(bench.path("all").join(file).is_file(), "{file}");
    }
    // Each arm compares with its own reference only, so two rows of the plan are two groups.
    let page = std::fs::read_to_string(bench.path("all/report.md")).unwrap();
    assert!(page.contains("arm 0 of the plan") && page.contains("arm 1 of the plan"));
}

#[test]
fn what_a_plan_does_not_name_is_a_usage_error() {
    let bench = planned();
    let (_, said) = sweep(&bench, &["run", "plan.json", "--arm", "2"], 2);
    assert!(said.contains("it has 0 to 1"), "{said}");
    std::fs::write(bench.path("libzinc_barrier.so"), "another layer").unwrap();
    let (_, said) = sweep(&bench, &["run", "plan.json", "--arm", "0"], 2);
    assert!(said.contains("is not the layer that the plan was made with"), "{said}");
    let plan = std::fs::read_to_string(bench.path("plan.json")).unwrap();
    std::fs::write(bench.path("plan.json"), plan.replace("every", "none")).unwrap();
    let (_, said) = sweep(&bench, &["run", "plan.json", "--arm", "0"], 2);
    assert!(said.contains("was changed"), "{said}");
    sweep(&bench, &["plan", "p.json", "--out", "x"], 2);
    sweep(&bench, &["plan", "p.json", "--policy", "nonesuch"], 2);
    sweep(&bench, &["run", "nowhere.json", "--arm", "0"], 3);
    assert!(!bench.path("arm-0").exists() && !bench.path("p.json").exists());
}

#[test]
fn reports_of_no_plan_are_not_joined() {
    let bench = planned();
    bench.sweep(&OPTIONS).expect(0);
    let (_, said) = sweep(&bench, &["merge", "out", "--out", "all"], 2);
    assert!(said.contains("no plan's arm"), "{said}");
}

#[test]
fn a_plan_holds_several_sweeps_names_no_programs_where_asked_and_runs_as_a_whole() {
    let bench = Bench::new();
    let programs = ["--engine", "engine.sh", "--layer", "{plan}/libzinc_barrier.so"];
    let first = [&["plan", "--unpinned", "plan.json"][..], &OPTIONS, &programs].concat();
    sweep(&bench, &first, 0);
    let second = [
        &["plan", "--unpinned", "--add", "plan.json", "--policy", "narrow", "--reps", "2", "--drops", "0"][..],
        &programs,
    ];
    let (said, _) = sweep(&bench, &second.concat(), 0);
    assert!(said.contains("3 arms"), "{said}");
    // Programs by name and by nobody's do not mix, and a plan is added to only where there is one.
    let (_, said) = sweep(&bench, &[&["plan", "--add", "plan.json"][..], &OPTIONS, &programs].concat(), 2);
    assert!(said.contains("--unpinned"), "{said}");
    sweep(&bench, &[&["plan", "--add", "other.json"][..], &OPTIONS, &programs].concat(), 3);
    // Other programs than those that were there when it was planned.
    std::fs::write(bench.path("libzinc_barrier.so"), "another layer").unwrap();
    let (_, said) = sweep(&bench, &["run", "plan.json", "--out", "all"], 0);
    assert!(said.contains("arm 2 of 3") && said.contains("narrow"), "{said}");
    let report = zinc_sweeps::reading::report(&bench.path("all")).unwrap();
    assert!(report.complete && report.parts.len() == 3);
    let policies: Vec<_> = report.arms.iter().filter(|a| a.part == Some(2)).collect();
    assert!(policies.iter().any(|a| a.policy.as_deref() == Some("narrow")));
    // An arm that cannot be made is a hole, and the others are made all the same.
    std::fs::remove_dir_all(bench.path("all/1")).unwrap();
    std::fs::write(bench.path("all/1"), "no folder").unwrap();
    let (_, said) = sweep(&bench, &["run", "plan.json", "--out", "all", "--force"], 1);
    assert!(said.contains("arm 1 was not made") && said.contains("Missing: arm 1"), "{said}");
}

#[test]
fn arms_are_joined_again_but_not_over_a_sweep_of_its_own() {
    let bench = planned();
    sweep(&bench, &["run", "plan.json", "--arm", "0", "--out", "parts/0"], 0);
    let merge = ["merge", "--plan", "plan.json", "parts/0", "--out"];
    sweep(&bench, &[&merge[..], &["all"]].concat(), 1);
    sweep(&bench, &[&merge[..], &["all"]].concat(), 1);
    let before = std::fs::read(bench.path("parts/0/report.json")).unwrap();
    let (_, said) = sweep(&bench, &[&merge[..], &["parts/0"]].concat(), 2);
    assert!(said.contains("parts/0/report.json") && said.contains("--force"), "{said}");
    let (_, said) = sweep(&bench, &["run", "plan.json", "--arm", "0", "--out", "parts/0"], 2);
    assert!(said.contains("finished") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(bench.path("parts/0/report.json")).unwrap(), before);
    sweep(&bench, &["run", "plan.json", "--arm", "0", "--out", "parts/0", "--force"], 0);
}
