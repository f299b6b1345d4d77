//! What one event costs: the difference in time between two arms, by the difference in what they did.
//!
//! A policy is compared with `stock` under the same setting, and a setting with the same policy where nothing is set. So
//! barriers of the layer and of the driver are told apart: a knob changes no barrier that the layer emits, and where a
//! driver puts one behind each dispatch whatever is asked, a policy changes none of the driver's. Where several counts
//! differ at once each gets its line, and none of the lines is the cause by itself. Times are paired within rounds.

use zinc_hazard::Policy;

use crate::outcome::{Measured, Observation};
use crate::plan::{Role, RunSpec};
use crate::report::{DriverPackets, EventCost};
use crate::stats::Spread;
use crate::target::Target;

/// A difference of fewer events than this a token is of rounding, or of the ends of runs.
const FEWEST: f64 = 0.5;

/// The largest of the rounds' costs to the smallest, beyond which they are of noise.
const WIDEST: f64 = 4.0;

/// Whether the rounds carry a figure: there are two at least, each has a cost, and they agree on its size. What takes time where there are fewer events
/// is something else, such as the layer's own planning, and no cost of an event.
fn carry(us: &[f64]) -> bool {
    let (least, most) = us.iter().fold((f64::INFINITY, 0.0f64), |(l, m), v| (l.min(*v), m.max(*v)));
    us.len() > 1 && us.iter().all(|v| *v > 0.0) && most <= WIDEST * least
}

/// What the events cost in which `spec`'s arm differs from the one that it is compared with.
pub fn of(target: &Target, spec: &RunSpec) -> Vec<EventCost> {
    let Some(other) = compared_with(spec) else { return Vec::new() };
    let (time, fewer_us) = match (target.executes, &target.measure) {
        // Of a metric nobody knows what it is of.
        (true, Some(_)) => return Vec::new(),
        (true, None) => ("token", differences(target, spec, &other, |m| 1e6 / m.tok_s)),
        (false, _) => ("CPU", target.cpu_differences(spec, &other)),
    };
    let cost = |event: &str, fewer: f64| {
        let us: Vec<f64> = fewer_us.iter().map(|us| us / fewer).collect();
        let us = Spread::of(&us).filter(|_| fewer.abs() >= FEWEST && carry(&us))?.into();
        Some(EventCost { event: event.into(), time: time.into(), fewer, us })
    };
    let emitted = |spec: &RunSpec| {
        let measured = first(target, spec)?;
        target.per_token(spec, measured, |counts| counts.barriers_emitted)
    };
    let barriers = emitted(&other).zip(emitted(spec)).and_then(|(a, b)| cost("barrier emitted", a - b));
    let of_driver = |event: &str, count: fn(&DriverPackets) -> Option<f64>| {
        let count = |spec: &RunSpec| target.driver_packets(spec).as_ref().and_then(count);
        count(&other).zip(count(spec)).and_then(|(a, b)| cost(event, a - b))
    };
    let driver = [of_driver("driver flush", |p| p.flushes), of_driver("driver link", |p| p.links)];
    barriers.into_iter().chain(driver.into_iter().flatten()).collect()
}

/// The arm that another is compared with: a setting with nothing set, a policy with `stock`.
fn compared_with(spec: &RunSpec) -> Option<RunSpec> {
    match (spec.role, spec.policy, spec.knob) {
        (Role::Timed, Some(Policy::Stock), 0) => None,
        (Role::Timed, Some(Policy::Stock), _) => Some(RunSpec { knob: 0, ..*spec }),
        (Role::Timed, Some(_), _) => Some(RunSpec { policy: Some(Policy::Stock), ..*spec }),
        _ => None,
    }
}

fn first<'a>(target: &'a Target, spec: &RunSpec) -> Option<&'a Measured> {
    target.observations.iter().filter(|o| o.spec.same_arm(spec)).find_map(|o| o.outcome.as_ref().ok())
}

/// By how much less one arm took than the other, round by round.
fn differences(target: &Target, spec: &RunSpec, other: &RunSpec, time: fn(&Measured) -> f64) -> Vec<f64> {
    let of = |o: &Observation| o.outcome.as_ref().ok().map(time);
    target.paired(spec, other, of)
}

/// One sort of packet: its name, and how many a token has.
type Sort = (&'static str, fn(&DriverPackets) -> Option<f64>);

/// What a setting does to the driver's own stream: which sorts of packets it leaves as they are and which not, per token.
/// The name of a variable says what somebody hoped for; the packets say what happens. `None` where nothing is set or
/// nobody counted.
pub fn effect(target: &Target, spec: &RunSpec) -> Option<String> {
    if spec.knob == 0 {
        return None;
    }
    let (without, with) =
        (target.driver_packets(&RunSpec { knob: 0, ..*spec })?, target.driver_packets(spec)?);
    let sorts: [Sort; 6] = [
        ("flushes", |p| p.flushes),
        ("acquires", |p| p.acquires),
        ("releases", |p| p.releases),
        ("links", |p| p.links),
        ("streams", |p| p.streams),
        ("dispatches", |p| p.dispatches),
    ];
    let counted = sorts.iter().filter_map(|(name, of)| Some((*name, of(&without)?, of(&with)?)));
    let (changed, kept): (Vec<_>, Vec<_>) =
        counted.filter(|(_, a, b)| *a != 0.0 || *b != 0.0).partition(|(_, a, b)| (a - b).abs() > 0.005);
    let changed: Vec<String> = changed.iter().map(|(n, a, b)| format!("{n} from {a:.2} to {b:.2}")).collect();
    let barriers = kept.iter().find(|(name, _, _)| *name == "flushes");
    let none =
        barriers.map(|(_, n, _)| format!("no effect on the driver's barriers, {n:.2} a token either way"));
    let changed = match changed.len() {
        0 => "what changes is in the masks only".into(),
        _ => format!("it changes {}", changed.join(", ")),
    };
    Some(none.into_iter().chain([changed]).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_carry_a_cost_where_each_has_one_and_they_agree() {
        assert!(carry(&[2.0, 2.5, 3.0]) && carry(&[2.0, 2.5]));
        for noise in
            [&[7.0][..], &[-945.0, -900.0], &[0.0, 238_408.0], &[3.0, -1.0, 4.0], &[1.0, 9.0], &[f64::NAN]]
        {
            assert!(!carry(noise), "{noise:?}");
        }
    }
}
