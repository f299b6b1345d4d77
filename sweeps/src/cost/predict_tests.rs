use super::*;
use crate::cost::document::{Clock, Point};
use crate::cost::stream::Would;
use crate::report::Host;

fn exact(us: f64) -> Interval {
    Interval { median: us, lo: us, hi: us, n: 9 }
}

fn point(scope: Scope, per_dispatch: f64, per_barrier: f64) -> Point {
    Point {
        axis: Axis::Size,
        scope,
        read_bytes: 2048,
        dirtied_bytes: DIRTIED,
        beside: 1,
        workgroups: 1,
        dispatches: 16,
        barriers: 16,
        resident: false,
        us_per_dispatch: Some(exact(per_dispatch)),
        us_per_barrier: Some(exact(per_barrier)),
        record_us_per_dispatch: None,
        record_us_per_barrier: None,
        wall_us_per_dispatch: None,
    }
}

/// A barrier costs 3 us, one directly behind it 2 us more, a dispatch 0.5 us.
pub(crate) fn cost() -> Cost {
    Cost {
        schema: 1,
        sweep_version: "0".into(),
        made_unix_s: 0,
        host: Host { cpu: "c".into(), cores: 1, os: "o".into() },
        device: DeviceReport {
            name: "d".into(),
            driver: "d".into(),
            driver_version: "1".into(),
            api_version: "1.3".into(),
            kind: "discrete-gpu".into(),
        },
        proves_speed: true,
        clock: Clock::Device,
        rounds: 9,
        points: vec![
            point(Scope::None, 0.5, 0.0),
            point(Scope::Shader, 3.5, 3.0),
            point(Scope::ShaderThenAll, 5.5, 5.0),
        ],
        fits: vec![],
        notes: vec![],
    }
}

fn stream() -> Stream {
    let would = |emitted, added| Would { emitted, added };
    Stream {
        us_per_token: exact(1000.0),
        dispatches: 200.0,
        read_bytes_per_dispatch: 2048.0,
        asked: [(Scope::Shader, 100.0)].into(),
        would: [
            ("alias-only".to_string(), would(80.0, 0.0)),
            ("every".to_string(), would(300.0, 200.0)),
            ("stock".to_string(), would(100.0, 0.0)),
        ]
        .into(),
    }
}

#[test]
fn fewer_barriers_win_what_they_cost_and_added_ones_cost_what_they_cost() {
    let model = of_model(&cost(), "m", 128, 128, &stream()).unwrap();
    let of = |name: &str| model.policies.iter().find(|p| p.policy == name).unwrap();
    assert_eq!(of("alias-only").us_per_token.median, 1000.0 - 20.0 * 3.0);
    assert!((of("alias-only").ratio.median - 1000.0 / 940.0).abs() < 1e-12);
    assert_eq!(of("every").us_per_token.median, 1000.0 + 200.0 * 2.0);
    assert_eq!(of("stock").ratio.median, 1.0);
    assert!(model.policies.iter().all(|p| !p.at_the_floor));
}

#[test]
fn nothing_is_predicted_to_be_faster_than_launching_is() {
    let mut stream = stream();
    stream.us_per_token = exact(250.0);
    stream.would.insert("none".into(), Would { emitted: 0.0, added: 0.0 });
    let model = of_model(&cost(), "m", 128, 128, &stream).unwrap();
    let none = model.policies.iter().find(|p| p.policy == "none").unwrap();
    assert!(none.at_the_floor);
    assert_eq!(none.us_per_token.median, 200.0 * 0.5);
}

#[test]
fn without_a_cost_of_what_is_asked_there_is_no_prediction() {
    let mut stream = stream();
    stream.asked = [(Scope::Host, 1.0)].into();
    assert_eq!(of_model(&cost(), "m", 128, 128, &stream), None);
}
