//! Cooperative matrices on a driver that has them: the oracles' lavapipe, which is newer than those of most distributions.
//!
//! On a GPU the same is checked by `engine ops` and by the engine's own tests, which take the device that is there.

use serde_json::Value;
use zinc_tests::artefacts::engine;
use zinc_tests::layer::Layer;
use zinc_tests::oracle::{Oracles, VALIDATION, complaints, oracles};

/// What stands between the engine and the driver.
enum Between {
    Nothing,
    /// Khronos validation, which must stay silent.
    Validation,
    /// The layer under a policy, with everything issued in the reversed order where no emitted barrier forbids it.
    Policy(&'static str),
}

/// What the engine prints on the oracles' driver.
fn run(oracles: &Oracles, arguments: &[&str], between: &Between) -> Value {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = oracles.child(engine().to_str().unwrap(), scratch.path()).args(arguments).arg("--json");
    let mut layer = None;
    match between {
        Between::Nothing => {}
        Between::Validation => child = child.env("VK_INSTANCE_LAYERS", VALIDATION),
        Between::Policy(policy) => {
            let inserted = Layer::new(scratch.path()).policy(policy).set("SHUFFLE", "reverse");
            child = child.envs(&inserted.environment());
            layer = Some(inserted);
        }
    }
    let ended = child.limit(600).run();
    assert_eq!(ended.code(), Some(0), "{arguments:?}: {}", ended.stderr);
    let said = [ended.stdout.as_str(), ended.stderr.as_str()].concat();
    assert!(complaints(&said).is_empty(), "{arguments:?}: {said}");
    if let Some(layer) = layer {
        assert!(layer.report().totals.dispatches > 0, "the layer saw nothing: {said}");
    }
    let json = ended.stdout.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {said}"))
}

/// What is computed on cooperative matrices: the products of a prompt's batches, or attention of one token.
const PROMPT: [&str; 3] = ["--prompt-batch", "64", "--matrix"];
const TOKEN: [&str; 3] = ["--fusion", "all", "--attention"];

/// Scores a stretch of the held-out text; `how` says with what.
fn perplexity(oracles: &Oracles, lever: [&str; 3], how: &str, between: &Between) -> Value {
    let text = ["perplexity", "--ctx", "96", "--tokens", "192"];
    run(oracles, &[&text[..], &lever[..], &[how]].concat(), between)
}

#[test]
fn every_kernel_on_cooperative_matrices_agrees_with_the_reference() {
    let Some(oracles) = oracles("every_kernel_on_cooperative_matrices_agrees_with_the_reference") else {
        return;
    };
    let kernels = ["matmul_coop", "batch_halves", "attention_coop", "angles", "blocks"];
    let only: Vec<&str> = kernels.iter().flat_map(|kernel| ["--only", kernel]).collect();
    let ops = run(&oracles, &[&["ops"], &only[..]].concat(), &Between::Nothing);
    let cases = ops["cases"].as_array().unwrap();
    let kernels = zinc_shaders::KERNELS.iter().filter(|kernel| {
        kernel.capabilities.contains(&zinc_shaders::Capability::CooperativeMatrixKHR)
            // It says how the device deals a matrix out, which all cases of attention build upon.
            && kernel.name != "coop_places"
    });
    for kernel in kernels {
        assert!(cases.iter().any(|case| case["kernel"] == kernel.name), "{} was not run", kernel.name);
    }
    let failed: Vec<_> = cases.iter().filter(|case| case["passed"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(
        ops["controls"], 15,
        "nine formats, halves, two of attention, its angles, two of a prompt's cache"
    );
    assert_eq!(ops["controls_caught"], ops["controls"]);
}

#[test]
fn a_text_has_the_same_perplexity_on_cooperative_matrices_and_validation_has_no_complaint() {
    let test = "a_text_has_the_same_perplexity_on_cooperative_matrices_and_validation_has_no_complaint";
    let Some(oracles) = oracles(test) else { return };
    for lever in [PROMPT, TOKEN] {
        let plain = perplexity(&oracles, lever, "plain", &Between::Nothing);
        let cooperative = perplexity(&oracles, lever, "coop", &Between::Validation);
        let nats = |result: &Value| result["nll"].as_f64().unwrap();
        let off = (nats(&plain) - nats(&cooperative)).abs();
        // Activations are rounded to eight bits after attention, so the least difference there may become a step: other sizes of
        // the plain kernel's tiles are as far apart. What the kernel itself computes is held to float roundings above.
        assert!(off < if lever == TOKEN { 1e-2 } else { 1e-3 }, "{lever:?}: {off} nats a token apart");
        // What is compared was not computed the same way.
        assert_ne!(plain["logits_digest"], cooperative["logits_digest"], "{lever:?}");
    }
}

#[test]
fn a_prompt_in_batches_adds_up_alike_from_both_caches() {
    let Some(oracles) = oracles("a_prompt_in_batches_adds_up_alike_from_both_caches") else { return };
    let lever = ["--prompt-batch=40", "--fusion=all", "--attention"];
    let digest = |how, between| perplexity(&oracles, lever, how, &between)["logits_digest"].clone();
    let plain = digest("plain", Between::Nothing);
    assert_eq!(digest("coop", Between::Validation), plain);
    assert_eq!(digest("coop", Between::Policy("alias-only")), plain);
    assert_ne!(digest("coop", Between::Policy("none")), plain, "a lost barrier would not be noticed");
}

#[test]
fn the_layer_reads_the_kernels_and_leaves_their_bits_as_they_are() {
    let Some(oracles) = oracles("the_layer_reads_the_kernels_and_leaves_their_bits_as_they_are") else {
        return;
    };
    for lever in [PROMPT, TOKEN] {
        let digest = |between| perplexity(&oracles, lever, "coop", &between)["logits_digest"].clone();
        let bare = digest(Between::Nothing);
        assert_eq!(digest(Between::Policy("alias-only")), bare, "{lever:?}");
        assert_ne!(digest(Between::Policy("none")), bare, "{lever:?}: a lost barrier would not be noticed");
    }
}
