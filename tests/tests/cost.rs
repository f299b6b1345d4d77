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

/// A document that obeys the schema which the program prints for it; a reader's, and not the writer's, notion of it.
fn obeys(folder: &Path, path: &str, document: &str) -> Value {
    let schema = sweep(folder, &[&format!("--print-schema={document}")]).succeeded().json();
    let validator = jsonschema::validator_for(&schema).expect("a JSON Schema");
    let value = read(&folder.join(path));
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{path}: {errors:?}");
    let mut other = value.clone();
    other["schema"] = 999.into();
    assert!(!validator.is_valid(&other), "{document}: any version is valid");
    let mut other = value.clone();
    other.as_object_mut().expect("an object").remove("device");
    assert!(!validator.is_valid(&other), "{document}: a field may be missing");
    value
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

    let measured =
        ["cost", "--driver", "lavapipe", "--require", "cpu", "--reps", "2", "--predict", "--out", "cost"];
    sweep(folder, &[&measured[..], &run].concat()).succeeded();
    let cost = obeys(folder, "cost/cost.json", "cost");
    obeys(folder, "cost/prediction.json", "prediction");
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

#[test]
fn the_driver_of_a_measurement_is_named_as_that_of_a_sweep() {
    let folder = scratch();
    let folder = folder.path();
    let cost = |driver: &str, code: i32| {
        let ended = sweep(folder, &["cost", "--driver", driver, "--reps", "1", "--out", "cost"]);
        assert_eq!(ended.status.code(), Some(code), "{driver}: {}", ended.transcript());
        ended.stderr
    };
    let said = cost("nvidia", 3);
    assert!(said.contains("'nvidia' is not here") && said.contains("llvmpipe"), "{said}");
    let said = cost("radv-shim:gfx1201", 3);
    assert!(said.contains("records without executing"), "{said}");
    let said = cost("icd:nowhere.json", 3);
    assert!(said.contains("no manifest 'nowhere.json'"), "{said}");
    assert!(cost("voodoo", 2).contains("unknown driver"));
    assert!(!folder.join("cost").exists(), "nothing was measured, so nothing is written");

    // A manifest that the loader does not find by itself: this machine's lavapipe under another name and no other driver.
    let manifest = vulkan::lavapipe();
    let ended = Child::new(artefacts::sweep())
        .in_folder(folder)
        .env("HOME", folder)
        .env("VK_DRIVER_FILES", folder.join("none.json"))
        .env("VK_ICD_FILENAMES", folder.join("none.json"))
        .args(["cost", "--reps", "1", "--out", "cost", "--driver"])
        .arg(format!("icd:{}", manifest.display()))
        .limit(600)
        .run()
        .succeeded();
    let cost = obeys(folder, "cost/cost.json", "cost");
    assert!(cost["device"]["name"].as_str().expect("a name").contains("llvmpipe"), "{}", ended.transcript());
}
