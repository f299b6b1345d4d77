use super::*;
use crate::report::Part;
use serde_json::json;

fn report(arm: u32, complete: bool, engine: &str) -> (PathBuf, Report) {
    let stock = json!({
        "driver": "lavapipe",
        "device": {"name": "d", "driver": "d", "driver_version": "1", "api_version": "1.3", "kind": "cpu"},
        "executes": true, "model": "m", "policy": "stock", "shuffle": "off", "knobs": {}, "role": "reference", "runs": 3,
        "gates": {}, "verdict": "reference", "logits_digest": "right",
    });
    let report = json!({
        "schema": 1, "sweep_version": "0", "complete": complete, "plan": {"plan": "h", "arm": arm, "arms": 3},
        "host": {"cpu": "c", "cores": 1, "os": "o"}, "blake3": {"engine": engine},
        "settings": {"policies": [format!("p{arm}")], "reps": 3, "tokens": 32, "ctx": 32, "drops": 0, "seed": 1},
        "arms": [stock], "gates": [], "notes": ["noisy"],
    });
    (PathBuf::from(format!("parts/{arm}")), serde_json::from_value(report).unwrap())
}

#[test]
fn all_arms_of_a_plan_make_a_complete_report_in_which_each_stands_with_its_own_reference() {
    let joined = join((0..3).map(|a| report(a, true, "e")).collect(), None).unwrap();
    assert!(joined.complete && joined.exit_code() == 0);
    assert_eq!(joined.arms.iter().map(|a| a.part).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert_eq!(joined.settings.policies, ["p0", "p1", "p2"]);
    assert_eq!(joined.parts.len(), 3);
    assert!(joined.notes.iter().any(|n| n == "Arm 1: noisy"));
}

#[test]
fn holes_and_halves_are_named_and_the_exit_status_says_so() {
    let joined = join(vec![report(0, true, "e"), report(2, false, "e")], None).unwrap();
    assert!(!joined.complete);
    assert_eq!(joined.exit_code(), 1);
    let missing: Vec<&String> = joined.notes.iter().filter(|n| n.starts_with("Missing")).collect();
    assert!(
        missing.len() == 2 && missing[0].contains("arm 1") && missing[1].contains("arm 2"),
        "{missing:?}"
    );
}

#[test]
fn of_an_arm_that_was_made_twice_the_complete_one_is_taken() {
    let again = (PathBuf::from("again/2"), report(2, true, "e").1);
    for order in [[report(2, false, "e"), again.clone()], [again, report(2, false, "e")]] {
        let mut reports = vec![report(0, true, "e"), report(1, true, "e")];
        reports.extend(order);
        assert!(join(reports, None).unwrap().complete);
    }
}

#[test]
fn what_does_not_belong_together_is_refused_with_its_name() {
    let refused = |change: fn(&mut Report), needle: &str| {
        let mut other = report(1, true, "e");
        change(&mut other.1);
        let error = join(vec![report(0, true, "e"), other], None).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("parts/1") && error.to_string().contains(needle), "{error}");
    };
    refused(|r| r.plan = None, "no plan");
    refused(|r| r.plan = Some(Part { plan: "other".into(), arm: 1, arms: 3 }), "another plan");
    refused(|r| drop(r.blake3.insert("engine".into(), "f".into())), "another engine");
    assert_eq!(join(vec![], None).unwrap_err().exit_code(), 3);
}

#[test]
fn references_with_other_bits_are_said() {
    let mut other = report(1, true, "e");
    other.1.arms[0].logits_digest = Some("wrong".into());
    let joined = join(vec![report(0, true, "e"), other, report(2, true, "e")], None).unwrap();
    assert!(joined.notes.iter().any(|n| n.contains("arms 0 and 1")), "{:?}", joined.notes);
}
