//! Khronos synchronization validation, an opinion of its own on which barriers are needed.
//!
//! It sits *below* the layer and judges what the layer emits. It sees across command buffers and submits, where
//! permuted orders show nothing. Its control is the policy that drops everything.

use zinc_tests::artefacts;
use zinc_tests::oracle::{Oracles, VALIDATION, complaints, hazards, oracles, synchronization_validation};
use zinc_tests::pairs::{self, Case};
use zinc_tests::stream::scratch;
use zinc_tests::{Ended, Layer, Stream};

/// A stream on the oracles' driver, with validation below the layer or, without a policy, alone.
fn validated(oracles: &Oracles, stream: &Stream, policy: Option<&str>) -> Ended {
    let scratch = scratch();
    let player = artefacts::stream().display().to_string();
    let child = oracles.child(&player, scratch.path()).arg("-").input(stream.text());
    let child = child.envs(&synchronization_validation());
    match policy {
        None => child.env("VK_INSTANCE_LAYERS", VALIDATION),
        Some(policy) => {
            child.envs(&Layer::new(scratch.path()).policy(policy).above(VALIDATION).environment())
        }
    }
    .run()
    .succeeded()
}

fn everything_said(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn the_streams_of_the_catalogue_are_valid_by_themselves() {
    let Some(oracles) = oracles("the_streams_of_the_catalogue_are_valid_by_themselves") else { return };
    let mut faults = Vec::new();
    for Case { name, stream, .. } in pairs::all() {
        let said = everything_said(&validated(&oracles, &stream, None));
        if !complaints(&said).is_empty() {
            faults.push(format!("{name}:\n{said}\n{}", stream.text()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_alias_only_emits_for_them_is_valid_and_what_none_emits_is_not() {
    let Some(oracles) = oracles("what_alias_only_emits_for_them_is_valid_and_what_none_emits_is_not") else {
        return;
    };
    let mut faults = Vec::new();
    for Case { name, stream, validation_sees, .. } in pairs::all() {
        let said = everything_said(&validated(&oracles, &stream, Some("alias-only")));
        if !complaints(&said).is_empty() {
            faults.push(format!("{name}:\n{said}\n{}", stream.text()));
        }
        if validation_sees {
            let said = everything_said(&validated(&oracles, &stream, Some("none")));
            if hazards(&said).is_empty() {
                faults.push(format!("{name}: validation sees nothing without barriers: {said}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_control_without_the_layer_is_reported() {
    let Some(oracles) = oracles("a_control_without_the_layer_is_reported") else { return };
    let racing = "
        buffer a 1024
        buffer b 1024
        buffer c 1024
        begin x
            dispatch step a b
            dispatch step b c
        end
        submit x
        wait
    ";
    let said = everything_said(&validated(&oracles, &Stream::new(racing), None));
    assert!(!hazards(&said).is_empty(), "validation is blind: {said}");
}
