//! Steps that wait for the values they read (`--handoff values`) before judges that we did not write, and under the layer.
//!
//! A CPU driver ends a dispatch before it begins the next, so nothing here shows that a wait is needed: on a GPU the control
//! without waits does (docs/runs/h200/handoff.md). What can be shown is that the commands are valid, that the layer leaves such
//! a stream alone, and that validation, which does not see into shaders, takes it for what it would be without its waits.

use serde_json::Value;
use zinc_tests::artefacts::engine;
use zinc_tests::layer::Layer;
use zinc_tests::oracle::{Oracles, VALIDATION, complaints, hazards, oracles, synchronization_validation};

const TEXT: [&str; 9] =
    ["perplexity", "--ctx", "24", "--tokens", "24", "--barriers", "tracked", "--fusion", "all"];

/// What the engine prints on the oracles' driver, and its result.
fn run(oracles: &Oracles, handoff: &str, environment: &[(String, std::ffi::OsString)]) -> (String, Value) {
    let scratch = tempfile::tempdir().unwrap();
    let ended = oracles
        .child(engine().to_str().unwrap(), scratch.path())
        .args(TEXT)
        .args(["--handoff", handoff, "--json"])
        .envs(environment)
        .limit(300)
        .run()
        .succeeded();
    let json = ended.stdout.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
    let result = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {}", ended.transcript()));
    (format!("{}{}", ended.stdout, ended.stderr), result)
}

#[test]
fn validation_has_no_complaint_of_waits_in_shaders_and_takes_them_for_missing_barriers() {
    let test = "validation_has_no_complaint_of_waits_in_shaders_and_takes_them_for_missing_barriers";
    let Some(oracles) = oracles(test) else { return };
    let plain = [("VK_INSTANCE_LAYERS".to_owned(), VALIDATION.into())];
    let (said, values) = run(&oracles, "values", &plain);
    assert!(complaints(&said).is_empty(), "{said}");
    let synchronization = [&plain[..], &synchronization_validation()].concat();
    let (said, barriers) = run(&oracles, "barriers", &synchronization);
    assert!(hazards(&said).is_empty(), "{said}");
    assert_eq!(values["logits_digest"], barriers["logits_digest"]);
    // It knows of barriers only. So its silence says nothing of a stream without, and this is not silence.
    let (said, _) = run(&oracles, "values", &synchronization);
    assert!(!hazards(&said).is_empty(), "validation sees into shaders now: say so in docs/levers.md: {said}");
}

#[test]
fn the_layer_adds_nothing_to_steps_that_wait_for_values_and_moves_none_of_them() {
    let test = "the_layer_adds_nothing_to_steps_that_wait_for_values_and_moves_none_of_them";
    let Some(oracles) = oracles(test) else { return };
    let (_, bare) = run(&oracles, "values", &[]);
    for policy in ["alias-only", "narrow", "reorder"] {
        let scratch = tempfile::tempdir().unwrap();
        let layer = Layer::new(scratch.path()).policy(policy).set("SHUFFLE", "reverse");
        let (said, under) = run(&oracles, "values", &layer.environment());
        assert_eq!(under["logits_digest"], bare["logits_digest"], "{policy}: {said}");
        let totals = layer.report().totals;
        assert!(
            totals.dispatches > 24 * 30 && totals.barriers_emitted <= totals.barriers_asked,
            "{totals:?}"
        );
        assert_eq!(totals.barriers_added, 0, "{policy}");
    }
}
