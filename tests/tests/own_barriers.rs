//! The engine's own barriers against the layer's: `--barriers tracked` places exactly as many as the layer leaves under
//! `alias-only` of a barrier after every dispatch, and the layer finds none of them needless.

use serde_json::Value;
use zinc_report::Report;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Layer, artefacts, vulkan};

/// `engine bench` of the embedded model: what it says, and what the layer counted where there is one.
fn bench(levers: &[&str], tokens: u64, policy: Option<&str>) -> (Value, Option<Report>) {
    let folder = scratch();
    let layer = policy.map(|policy| Layer::new(folder.path()).policy(policy));
    let mut child = Child::new(artefacts::engine())
        .envs(&vulkan::environment(folder.path()))
        .in_folder(folder.path())
        .args(["bench", "--json", "--reps", "1", "-n"])
        .arg(tokens.to_string())
        .args(levers);
    if let Some(layer) = &layer {
        child = child.envs(&layer.environment());
    }
    let result = child.run().succeeded().json();
    (result, layer.map(|layer| layer.report()))
}

/// Barriers that the layer saw asked and emitted for each token: what two more tokens add.
fn per_token(levers: &[&str], policy: &str) -> (u64, u64) {
    let totals = |tokens| bench(levers, tokens, Some(policy)).1.expect("run under the layer").totals;
    let (few, more) = (totals(1), totals(3));
    let each = |more: u64, few: u64| (more - few) as f64 / 2.0;
    let asked = each(more.barriers_asked, few.barriers_asked);
    let emitted = each(more.barriers_emitted, few.barriers_emitted);
    assert_eq!((asked.fract(), emitted.fract()), (0.0, 0.0), "a token asks for the same each time");
    (asked as u64, emitted as u64)
}

#[test]
fn the_engine_places_as_many_barriers_as_the_layer_leaves_at_every_level_of_fusion() {
    // The embedded model has no resident kernel on lavapipe; the plan of one is compared in the engine's own tests.
    for fusion in ["none", "norm", "rope", "ffn", "all"] {
        let levers = |barriers| ["--fusion", fusion, "--barriers", barriers];
        let own =
            bench(&levers("tracked"), 1, None).0["decode"]["barriers_per_token"].as_u64().expect("counted");
        let (asked, left) = per_token(&levers("every"), "alias-only");
        assert_eq!(own, left, "--fusion {fusion}: of {asked} asked");
        assert_eq!(
            per_token(&levers("tracked"), "alias-only"),
            (own, own),
            "--fusion {fusion}: none is needless"
        );
        if fusion == "none" {
            assert!(own < asked, "nothing could be saved: the comparison shows nothing");
        }
    }
}
