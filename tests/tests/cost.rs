//! What a barrier costs, what that predicts, and what becomes of the prediction: the real commands on lavapipe, where the
//! figures prove nothing and everything else is as on a GPU.

use std::fs;
use std::path::Path;

use serde_json::Value;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended, artefacts, vulkan};

fn sweep(folder: &Path, args: &[&str]) -> Ended {
    Child::new(artefacts::sweep())
        .envs(&vulkan::environment(folder))
        .in_folder(folder)
        .args(args)
        .limit(600)
        .run()
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_prediction_is_made_from_costs_before_the_run_and_scored_by_it() {
    let folder = scratch();
    let folder = folder.path();
    let run = ["--tokens", "16", "--ctx", "16"];
    let policies =
        ["--policy", "alias-only", "--policy", "every", "--policy", "none", "--reps", "2", "--drops", "3"];
    let earlier = sweep(
        folder,
        &[&run[..], &["--policy", "alias-only", "--reps", "1", "--drops", "0", "--out", "earlier"]].concat(),
    );
    assert!(folder.join("earlier/report.json").is_file(), "{}", earlier.transcript());

    let measured = ["cost", "--require", "cpu", "--reps", "2", "--predict", "--out", "cost"];
    sweep(folder, &[&measured[..], &run].concat()).succeeded();
    let cost = read(&folder.join("cost/cost.json"));
    assert_eq!(cost["proves_speed"], false, "a CPU device proves nothing");
    let points = cost["points"].as_array().expect("points");
    for scope in ["none", "execution", "shader", "buffer", "host", "all", "event", "in-kernel"] {
        let of_scope = points.iter().filter(|p| p["scope"] == scope);
        let timed = |p: &&Value| p["us_per_dispatch"]["median"].as_f64().is_some_and(|us| us > 0.0);
        assert!(of_scope.clone().count() >= 3 && of_scope.clone().all(|p| timed(&p)), "{scope}");
    }
    let page = fs::read_to_string(folder.join("cost/cost.md")).expect("cost.md");
    assert!(page.contains("no measure of any GPU") && page.contains("Control"), "{page}");
    assert!(fs::read_to_string(folder.join("cost/cost.svg")).expect("cost.svg").contains("<svg"));

    // What was known before the prediction can't score it.
    let late = sweep(folder, &["cost", "--score", "earlier", "--out", "cost"]);
    assert_eq!(late.status.code(), Some(3), "{}", late.transcript());
    assert!(late.stderr.contains("after the run had begun"), "{}", late.stderr);

    let prediction = ["--prediction", "cost/prediction.json", "--out", "report"];
    sweep(folder, &[&run[..], &policies, &prediction].concat()).succeeded();
    let report = read(&folder.join("report/report.json"));
    let scored = report["prediction"]["policies"].as_array().expect("a score");
    assert_eq!(scored.len(), 3, "{scored:?}");
    for one in scored {
        // The layer said under stock what each policy would emit, and that is what each then emitted.
        let (said, counted) = (one["emitted"][0].as_f64(), one["emitted"][1].as_f64());
        assert!((said.expect("predicted") - counted.expect("counted")).abs() < 0.51, "{one}");
        assert!(one["predicted"]["median"].as_f64().is_some_and(|r| r > 0.0), "{one}");
    }
    assert!(scored.iter().any(|s| s["policy"] == "none" && s["correct"] == false));
    sweep(folder, &["cost", "--score", "report", "--out", "cost"]).succeeded();
    assert!(fs::read_to_string(folder.join("cost/score.md")).expect("score.md").contains("no change"));
}
