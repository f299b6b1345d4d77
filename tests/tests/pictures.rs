//! Graphics applications run untouched: pictures come out the same, off-screen and on a screen.
//!
//! Every scene of `pictures` is drawn without the layer and under every policy that claims to be correct, in several
//! orders. The control: where nothing is ordered and dependent operations are swapped, the scenes that can show it do.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use zinc_hazard::Policy;
use zinc_report::Counts;
use zinc_sweeps::display::Display;
use zinc_tests::child::Child;
use zinc_tests::oracle::{VALIDATION, complaints, not_run, oracles, synchronization_validation};
use zinc_tests::stream::scratch;
use zinc_tests::{Layer, artefacts, vulkan};

const SHUFFLES: [&str; 3] = ["off", "reverse", "20"];

/// Digests by scene: of the picture and, where there is one, of the window.
type Digests = BTreeMap<String, (String, Option<String>)>;

fn child(display: Option<&Display>, folder: &Path) -> Child {
    let child = Child::new(artefacts::pictures()).envs(&vulkan::environment(folder));
    match display {
        Some(display) => child.arg("--window").env("DISPLAY", display.name()),
        None => child,
    }
}

fn digests(printed: &Value) -> Digests {
    let text = |value: &Value| value.as_str().map(str::to_string);
    let scenes = printed["scenes"].as_object().expect("scenes");
    let digests = scenes.iter().map(|(name, scene)| {
        (name.clone(), (text(&scene["digest"]).expect("a digest"), text(&scene["window_digest"])))
    });
    digests.collect()
}

fn bare(display: Option<&Display>) -> (Digests, Vec<String>) {
    let folder = scratch();
    let printed = child(display, folder.path()).run().succeeded().json();
    let scenes = printed["scenes"].as_object().expect("scenes");
    let controls = scenes.iter().filter(|(_, scene)| scene["shows_lost_order"] == true);
    let controls = controls.map(|(name, _)| name.clone()).collect();
    (digests(&printed), controls)
}

fn under(policy: Policy, shuffle: &str, display: Option<&Display>) -> (Digests, Counts) {
    let folder = scratch();
    let layer = Layer::new(folder.path()).policy(policy.name()).set("SHUFFLE", shuffle);
    let ended = child(display, folder.path()).envs(&layer.environment()).run().succeeded();
    (digests(&ended.json()), layer.report().totals)
}

fn correct() -> impl Iterator<Item = Policy> {
    Policy::ALL.into_iter().filter(|policy| policy.is_correct())
}

/// The names of the scenes that differ.
fn different(a: &Digests, b: &Digests) -> Vec<String> {
    a.iter().filter(|(name, digest)| b.get(*name) != Some(*digest)).map(|(name, _)| name.clone()).collect()
}

#[test]
fn pictures_are_the_same_under_every_correct_policy_and_in_every_order() {
    let (truth, _) = bare(None);
    let distinct: std::collections::BTreeSet<_> = truth.values().collect();
    assert_eq!(distinct.len(), truth.len(), "each scene draws a picture of its own");
    for policy in correct() {
        for shuffle in SHUFFLES {
            let (drawn, totals) = under(policy, shuffle, None);
            assert_eq!(different(&truth, &drawn), [""; 0], "policy {policy}, shuffle {shuffle}");
            assert!(totals.dispatches > 20 && totals.barriers_asked > 90, "{totals:?}");
            if policy == Policy::AliasOnly {
                assert!(totals.barriers_elided > 0, "nothing went, so nothing was shown: {totals:?}");
            }
        }
    }
}

#[test]
fn pictures_that_depend_on_order_go_wrong_where_nothing_is_ordered() {
    let (truth, controls) = bare(None);
    let (drawn, _) = under(Policy::None, "reverse", None);
    assert_eq!(different(&truth, &drawn), controls);
    for needed in ["particles", "edges", "life"] {
        assert!(controls.iter().any(|name| name == needed), "{needed} is a control");
    }
}

#[test]
fn windows_show_the_same_pictures_under_every_correct_policy() {
    let display = match Display::start() {
        Ok(display) => display,
        Err(why) => return not_run("pictures in a window", &why),
    };
    let (truth, controls) = bare(Some(&display));
    assert!(truth.values().all(|(_, window)| window.is_some()), "each scene was shown");
    for policy in correct() {
        for shuffle in ["off", "reverse"] {
            let (drawn, totals) = under(policy, shuffle, Some(&display));
            assert_eq!(different(&truth, &drawn), [""; 0], "policy {policy}, shuffle {shuffle}");
            assert!(totals.barriers_passed_through > 60, "layout transitions pass: {totals:?}");
        }
    }
    let (drawn, _) = under(Policy::None, "reverse", Some(&display));
    assert_eq!(different(&truth, &drawn), controls);
}

#[test]
fn vkcube_runs_to_its_end_under_every_correct_policy() {
    const FRAMES: u64 = 20;
    let display = match Display::start() {
        Ok(display) => display,
        Err(why) => return not_run("vkcube", &why),
    };
    for policy in correct() {
        let folder = scratch();
        let layer = Layer::new(folder.path()).policy(policy.name()).set("SHUFFLE", "reverse");
        let child = Child::new("vkcube").args(["--c", &FRAMES.to_string()]).env("DISPLAY", display.name());
        let child = child.envs(&vulkan::environment(folder.path())).envs(&layer.environment());
        child.run().succeeded();
        let totals = layer.report().totals;
        assert!(totals.submits >= FRAMES, "policy {policy}: {totals:?}");
    }
}

#[test]
fn khronos_validation_has_nothing_to_say_about_the_pictures_nor_about_what_the_layer_makes_of_them() {
    let Some(oracles) = oracles("validation of pictures") else { return };
    let program = artefacts::pictures().display().to_string();
    for policy in [None, Some(Policy::AliasOnly), Some(Policy::None)] {
        let folder = scratch();
        let child = oracles.child(&program, folder.path()).envs(&synchronization_validation());
        let child = match policy {
            None => child.env("VK_INSTANCE_LAYERS", VALIDATION),
            Some(policy) => {
                let layer = Layer::new(folder.path()).policy(policy.name()).above(VALIDATION);
                child.envs(&layer.environment())
            }
        };
        let ended = child.run().succeeded();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let silent = complaints(&said).is_empty();
        assert_eq!(silent, policy != Some(Policy::None), "{policy:?}: {}", ended.transcript());
    }
}
