use super::*;
use crate::cost::predict::OfModel;
use crate::report::Report;
use serde_json::json;

fn interval(median: f64, half: f64) -> Interval {
    Interval { median, lo: median - half, hi: median + half, n: 9 }
}

fn prediction() -> Prediction {
    let policy = |policy: &str, ratio: f64| OfPolicy {
        policy: policy.into(),
        emitted_per_token: 80.0,
        added_per_token: 0.0,
        us_per_token: interval(100.0, 1.0),
        ratio: interval(ratio, 0.02),
        at_the_floor: false,
    };
    Prediction {
        schema: 1,
        sweep_version: "0".into(),
        made_unix_s: 1000,
        device: arm("alias-only", 1.0).device,
        proves_speed: true,
        blake3: [("engine", "e"), ("layer", "l"), ("m", "x")].map(|(a, b)| (a.into(), b.into())).into(),
        models: vec![OfModel {
            model: "m".into(),
            tokens: 128,
            ctx: 128,
            stock_us_per_token: interval(100.0, 1.0),
            dispatches_per_token: 100.0,
            read_bytes_per_dispatch: 1.0,
            asked_per_token: Default::default(),
            us_per_asked_barrier: interval(1.0, 0.0),
            us_per_added_barrier: interval(1.0, 0.0),
            policies: vec![policy("alias-only", 1.10), policy("every", 0.50), policy("none", 3.0)],
        }],
    }
}

fn arm(policy: &str, ratio: f64) -> Arm {
    let verdict = if policy == "none" { "incorrect-by-design" } else { "verified" };
    serde_json::from_value(json!({
        "driver": "nvidia",
        "device": {"name": "d", "driver": "d", "driver_version": "1", "api_version": "1.3", "kind": "discrete-gpu"},
        "executes": true, "model": "m", "policy": policy, "shuffle": "off", "knobs": {}, "role": "policy", "runs": 9,
        "tok_s": {"median": 1.0, "lo": 1.0, "hi": 1.0, "n": 9, "coverage": 0.95},
        "vs_stock": {"ratio": ratio, "lo": ratio - 0.01, "hi": ratio + 0.01}, "gates": {}, "verdict": verdict,
    }))
    .unwrap()
}

fn report() -> Report {
    let mut report: Report = serde_json::from_value(json!({
        "schema": 1, "sweep_version": "0", "complete": true, "began_unix_s": 1060,
        "host": {"cpu": "c", "cores": 1, "os": "o"}, "blake3": prediction().blake3,
        "settings": {"policies": [], "reps": 9, "tokens": 128, "ctx": 128, "drops": 0, "seed": 1},
        "arms": [], "gates": [], "notes": [],
    }))
    .unwrap();
    report.arms = vec![arm("alias-only", 1.11), arm("every", 0.60), arm("none", 9.0)];
    report
}

#[test]
fn a_near_prediction_is_a_hit_a_far_one_is_missed_and_an_incorrect_arm_does_not_count() {
    let score = score(&prediction(), &report()).unwrap();
    assert_eq!(score.seconds_before, 60);
    let of = |name: &str| score.policies.iter().find(|s| s.policy == name).unwrap();
    assert!(of("alias-only").intervals_meet && !of("every").intervals_meet);
    assert!((of("every").error - (0.5 / 0.6 - 1.0)).abs() < 1e-12);
    assert!(!of("none").correct);
    let (own, lazy) = score.mean_errors().unwrap();
    assert!(own < lazy, "{own} {lazy}");
    let text = score.render();
    for word in ["hit", "missed", "not counted", "It beats"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_prediction_without_skill_is_said_to_have_none() {
    let mut prediction = prediction();
    prediction.models[0].policies[1].ratio = interval(2.0, 0.1);
    let text = score(&prediction, &report()).unwrap().render();
    assert!(text.contains("does not beat"), "{text}");
}

#[test]
fn what_was_said_afterwards_or_of_something_else_is_no_prediction() {
    let refused = |change: fn(&mut Prediction, &mut Report), needle: &str| {
        let (mut p, mut r) = (prediction(), report());
        change(&mut p, &mut r);
        let why = score(&p, &r).unwrap_err();
        assert!(why.contains(needle), "{why}");
    };
    refused(|p, _| p.made_unix_s = 1061, "after the run had begun");
    refused(|_, r| r.began_unix_s = None, "does not say when");
    refused(|p, _| drop(p.blake3.insert("layer".into(), "other".into())), "another layer");
    refused(|p, _| drop(p.blake3.insert("m".into(), "other".into())), "no timed policy");
    refused(|p, _| p.device.name = "another".into(), "no timed policy");
    refused(|_, r| r.arms.clear(), "no timed policy");
}
