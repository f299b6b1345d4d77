//! What is done with reports: the pictures, two reports side by side, a published table beside one.

use std::process::Output;

use zinc_sweeps::documents::Document;

use crate::bench::Bench;

const MAIN_JOB: [&str; 2] = ["--policy", "alias-only"];

fn on_reports(bench: &Bench, args: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_sweep"))
        .current_dir(bench.path("."))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn pictures_and_a_page_are_drawn_from_the_report_and_hold_its_arms() {
    let bench = Bench::new();
    bench.sweep(&[]).expect(0);
    let svg = std::fs::read_to_string(bench.path("out/report.svg")).unwrap();
    for word in ["Rate against barriers", "Ladder", "Timeline", "alias-only", "every", "wrong"] {
        assert!(svg.contains(word), "{word}");
    }
    let page = std::fs::read_to_string(bench.path("out/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("incorrect by design") && !page.contains("http-equiv"));
    let json = page.split("id=\"report\">").nth(1).unwrap().split("</script>").next().unwrap();
    let inside: zinc_sweeps::report::Report = serde_json::from_str(json).unwrap();
    let file = zinc_sweeps::reading::report(&bench.path("out")).unwrap();
    assert_eq!(inside, file);
    assert!(file.timeline.len() > 10 && file.timeline.windows(2).all(|w| w[0].start_s <= w[1].start_s));
}

#[test]
fn two_reports_of_one_thing_do_not_differ_and_another_digest_does() {
    let bench = Bench::new();
    for (out, how) in [("a", "right"), ("b", "right"), ("c", "wrong")] {
        let bench = if how == "wrong" { Bench::new().with("alias-only", "wrong") } else { Bench::new() };
        bench.sweep(&[&MAIN_JOB[..], &["--out", bench.path("out").to_str().unwrap()]].concat());
        std::fs::rename(bench.path("out"), std::env::temp_dir().join(bench_name(out))).unwrap();
    }
    let place = |n: &str| std::env::temp_dir().join(bench_name(n));
    let compare = |a: &str, b: &str| {
        let output = on_reports(&bench, &["compare", place(a).to_str().unwrap(), place(b).to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let same = compare("a", "b");
    assert!(same.contains("no difference") && !same.contains("digest"), "{same}");
    let other = compare("a", "c");
    assert!(other.contains("digest right in A, wrong in B") && other.contains("REFUTED in B"), "{other}");
    for n in ["a", "b", "c"] {
        std::fs::remove_dir_all(place(n)).unwrap();
    }
}

fn bench_name(n: &str) -> String {
    format!("zinc-sweep-compare-{}-{n}", std::process::id())
}

#[test]
fn a_published_fluke_is_no_difference_and_a_report_that_is_not_there_is_named() {
    let bench = Bench::new();
    let output = on_reports(&bench, &["against", "graph_reuse_pr"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let fluke = text.lines().find(|l| l.contains("one prompt generation")).unwrap();
    assert!(fluke.contains("no difference"), "{fluke}");
    let output = on_reports(&bench, &["against", "graph_reuse_pr", "nowhere"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere"));
}

#[test]
fn rounds_go_on_until_the_precision_is_reached_and_not_longer() {
    let bench = Bench::new();
    let swept = bench.sweep(&[&MAIN_JOB[..], &["--precision", "1%"]].concat()).expect(0);
    let arm = swept.report().arms.iter().find(|a| a.policy.as_deref() == Some("alias-only")).unwrap();
    assert_eq!(arm.runs, 6, "the stand-in's rates are all equal, so six rounds do");
    assert_eq!(swept.report().settings.precision, Some(0.01));
}

#[test]
fn a_report_obeys_its_schema_and_one_without_a_field_does_not() {
    let schema: serde_json::Value = serde_json::from_str(&Document::Report.schema_json()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    // With arms of all sorts: verified, incorrect by design, refuted, failed.
    let bench = Bench::new().with("every", "wrong").with("alias-only,shuffle=reverse", "exit");
    bench.sweep(&[]);
    let text = std::fs::read_to_string(bench.path("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let errors: Vec<String> = validator.iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    type Change = fn(&mut serde_json::Value);
    let broken: [Change; 4] = [
        |r| r["schema"] = 2.into(),
        |r| r["arms"][0]["verdict"] = "splendid".into(),
        |r| drop(r.as_object_mut().unwrap().remove("complete")),
        |r| r["arms"][1]["tok_s"]["median"] = "fast".into(),
    ];
    for change in broken {
        let mut other = report.clone();
        change(&mut other);
        assert!(other != report && !validator.is_valid(&other));
    }
}

#[test]
fn every_recorded_document_obeys_its_schema() {
    let recorded = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runs");
    let mut seen = [(Document::Report, 0), (Document::Cost, 0), (Document::Prediction, 0)];
    let mut folders = vec![recorded];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let which = match path.file_name().unwrap().to_str().unwrap() {
                "report.json" => 0,
                "cost.json" => 1,
                "prediction.json" => 2,
                _ => continue,
            };
            let schema = serde_json::from_str(&seen[which].0.schema_json()).unwrap();
            let document = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let errors = jsonschema::validator_for(&schema).unwrap().iter_errors(&document).count();
            assert_eq!(errors, 0, "{}", path.display());
            seen[which].1 += 1;
        }
    }
    assert!(seen.iter().all(|(_, n)| *n > 0), "{seen:?}");
}

#[test]
fn the_schema_of_each_document_is_printed_and_a_document_that_is_none_is_a_usage_error() {
    let bench = Bench::new();
    for (argument, document) in [
        ("--print-schema", Document::Report),
        ("--print-schema=report", Document::Report),
        ("--print-schema=cost", Document::Cost),
        ("--print-schema=prediction", Document::Prediction),
        ("--print-schema=plan", Document::Plan),
    ] {
        let output = on_reports(&bench, &[argument]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), document.schema_json(), "{argument}");
    }
    let output = on_reports(&bench, &["--print-schema=novel"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("prediction"));
}

#[test]
fn pictures_are_drawn_anew_from_the_report_alone() {
    let bench = Bench::new();
    bench.sweep(&MAIN_JOB).expect(0);
    for name in ["report.svg", "report.md", "report.html"] {
        let path = bench.path("out").join(name);
        let before = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let output = on_reports(&bench, &["plot", "out/report.json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(before == std::fs::read(&path).unwrap(), "{name} differs");
    }
    let output = on_reports(&bench, &["plot", "out", "--out", "elsewhere"]);
    assert!(output.status.success() && bench.path("elsewhere/report.svg").is_file());
    assert_eq!(on_reports(&bench, &["plot", "nowhere"]).status.code(), Some(3));
}

#[test]
fn the_commit_is_that_of_the_program_and_not_of_the_folder_that_it_is_run_in() {
    // A checkout of another state, with the program in it, as after a pull without a build.
    let bench = Bench::new();
    let git = |folder: &std::path::Path, args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=e@example.org",
            "-c",
            "commit.gpgsign=false",
            "-C",
        ]);
        let output = command.arg(folder).args(args).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_string())
    };
    let top = bench.path(".");
    std::fs::create_dir(top.join("sweeps")).unwrap();
    std::fs::write(top.join("sweeps/Cargo.toml"), "name = \"zinc-sweeps\"\n").unwrap();
    for args in [&["init", "-q"][..], &["add", "sweeps"], &["commit", "-q", "-m", "other"]] {
        git(&top, args).unwrap_or_else(|| panic!("git {args:?}"));
    }
    let program = bench.path("sweep");
    std::fs::copy(env!("CARGO_BIN_EXE_sweep"), &program).unwrap();

    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let built_from = zinc_commit::source(own, &["sweeps"], "git").map(|source| source.commit);
    let output = std::process::Command::new(&program).current_dir(&top).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    match &built_from {
        Some(commit) => assert!(version.contains(&format!("({}", &commit[..12])), "{version} of {commit}"),
        None => assert_eq!(version, concat!("sweep ", env!("CARGO_PKG_VERSION"), "\n")),
    }
    let mut command = std::process::Command::new(&program);
    command.current_dir(&top).args([
        "--engine",
        "engine.sh",
        "--layer",
        "libzinc_barrier.so",
        "--out",
        "out",
    ]);
    let output = command.args(["--policy", "alias-only", "--reps", "1", "--drops", "1"]).output().unwrap();
    let swept = bench.swept(output);
    assert_eq!(swept.report().git.as_ref().map(|git| git.commit.clone()), built_from);
}
