//! `ZINC_BARRIER_TRACE`: what was recorded, what was decided, and why, one JSON object a line.
//!
//! A line is one stretch of a recording, from one point at which nothing is known to the next. It has all that is needed
//! to decide again: whoever doubts a decision can compute it with a program of his own. The reasons are those of the
//! planner that sees the whole stretch: in recorded order, or as moved under `reorder`.

use crate::journal::{Journal, What};
use serde_json::{Value, json};
use std::collections::HashMap;
use zinc_hazard::{Access, Barrier, Cause, Fate, Freedom, Issue, Kind, Plan, Policy, Range, Stretch};
use zinc_report::{HazardKind, TRACE_VERSION, Witness, WitnessRange};

/// How often pairs forced barriers.
pub type Witnesses = HashMap<Key, u64>;

/// A pair that forces barriers: what its two sides are, the kind, the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    first: Option<What>,
    second: Option<What>,
    kind: HazardKind,
    range: Option<(u64, u64, u64)>,
}

/// The names of pipelines, where they may be told.
pub type Names = HashMap<u64, String>;

/// What an operation is called.
pub fn label(what: What, names: &Names) -> String {
    match what {
        What::Dispatch(Some(number)) => {
            names.get(&number).cloned().unwrap_or_else(|| format!("pipeline {number}"))
        }
        What::Dispatch(None) => "an unknown pipeline".into(),
        What::Query => "timestamp or query reset".into(),
        What::Copy => "copy".into(),
        What::Clear => "fill or update".into(),
        What::Unknown => "unknown command".into(),
    }
}

fn kind(cause: Cause) -> HazardKind {
    match cause {
        Cause::Raw => HazardKind::Raw,
        Cause::War => HazardKind::War,
        Cause::Waw => HazardKind::Waw,
        Cause::Prefix => HazardKind::Prefix,
        Cause::Flush => HazardKind::Flush,
    }
}

/// The part of two ranges that both have.
fn common(a: Option<Range>, b: Option<Range>) -> Option<(u64, u64, u64)> {
    match (a, b) {
        (
            Some(Range::Bytes { memory, start: s, end: e }),
            Some(Range::Bytes { memory: other, start: t, end: f }),
        ) if memory == other => Some((memory.0, s.max(t), e.min(f))),
        (Some(Range::Bytes { memory, start, end }), Some(Range::Anywhere))
        | (Some(Range::Anywhere), Some(Range::Bytes { memory, start, end })) => Some((memory.0, start, end)),
        _ => None,
    }
}

/// What is to be told of one recording.
pub struct Told {
    /// Lines for the trace, each with a newline.
    pub lines: String,
    /// What forced barriers.
    pub witnesses: Witnesses,
}

/// Explains a recording under `policy`.
pub fn explain(journal: &Journal, policy: Policy, names: &Names) -> Told {
    let freedom = policy.freedom().unwrap_or(Freedom::InOrder);
    let mut told = Told { lines: String::new(), witnesses: Witnesses::new() };
    let mut before = 0;
    for (stretch, whats) in journal.stretches() {
        let plan = stretch.plan(freedom);
        for emission in &plan.emissions {
            let w = emission.witness;
            let key = Key {
                first: w.earlier.map(|i| whats[i]),
                second: w.later.map(|j| whats[j]),
                kind: kind(w.cause),
                range: common(w.touched, w.touches),
            };
            *told.witnesses.entry(key).or_default() += 1;
        }
        let mut line = line(&stretch, &whats, &plan, policy, names);
        // Whoever withholds barriers counts them through a whole recording.
        line["emissions_before"] = json!(before);
        before += plan.emissions.len();
        told.lines += &line.to_string();
        told.lines.push('\n');
    }
    told
}

/// The most frequent witnesses, for the report.
pub fn most_frequent(witnesses: &Witnesses, names: &Names, count: usize) -> Vec<Witness> {
    // One place in an application's code works on many ranges: those of equal sides and kind are one entry, with the
    // range that is most frequent.
    type Sides = (Option<What>, Option<What>, HazardKind);
    type Times = (u64, Option<(u64, u64, u64)>);
    let mut places: HashMap<Sides, (u64, Times)> = HashMap::new();
    for (key, times) in witnesses {
        let place = places.entry((key.first, key.second, key.kind)).or_insert((0, (0, None)));
        place.0 += times;
        if (*times, key.range) > place.1 {
            place.1 = (*times, key.range);
        }
    }
    let mut all: Vec<_> = places.into_iter().collect();
    all.sort_by_key(|(sides, (times, _))| (std::cmp::Reverse(*times), *sides));
    let name = |what: Option<What>, nobody: &str| what.map_or(nobody.into(), |what| label(what, names));
    all.into_iter()
        .take(count)
        .map(|((first, second, kind), (count, (_, range)))| Witness {
            first: name(first, "anything before"),
            second: name(second, "anything behind"),
            range: range.map(|(memory, start, end)| WitnessRange {
                memory,
                offset: start,
                size: end - start,
            }),
            kind,
            count,
        })
        .collect()
}

fn scopes(barrier: &Barrier) -> Value {
    json!([
        barrier.src.stages.bits(),
        barrier.src.flags.bits(),
        barrier.dst.stages.bits(),
        barrier.dst.flags.bits()
    ])
}

fn range(range: &Range) -> Value {
    match range {
        Range::Anywhere => Value::Null,
        Range::Bytes { memory, start, end } => json!([memory.0, start, end]),
    }
}

fn access(access: &Access) -> Value {
    let kind = if access.kind == Kind::Read { "read" } else { "write" };
    json!([kind, range(&access.range), access.stages.bits(), access.flags.bits()])
}

fn line(stretch: &Stretch, whats: &[What], plan: &Plan, policy: Policy, names: &Names) -> Value {
    let operations: Vec<Value> = whats
        .iter()
        .enumerate()
        .map(|(number, what)| {
            let accesses: Vec<Value> = stretch.accesses(number).iter().map(access).collect();
            json!({"what": label(*what, names), "stays": stretch.stays(number), "accesses": accesses})
        })
        .collect();
    let asked: Vec<Value> = stretch
        .asked_barriers()
        .iter()
        .zip(&plan.fates)
        .map(|((gap, barrier), fate)| {
            let (fate, emission) = match fate {
                Fate::Emitted(number) => ("emitted", Some(number)),
                Fate::Merged(number) => ("merged", Some(number)),
                Fate::Idle => ("idle", None),
            };
            json!({"before": gap, "scopes": scopes(barrier), "fate": fate, "emission": emission})
        })
        .collect();
    let emissions: Vec<Value> = plan
        .emissions
        .iter()
        .map(|emission| {
            let w = emission.witness;
            json!({
                "scopes": scopes(&emission.barrier),
                "cut": emission.kept == Barrier::default(),
                "kind": kind(w.cause),
                "earlier": w.earlier,
                "later": w.later,
                "range": common(w.touched, w.touches).map(|(memory, start, end)| json!([memory, start, end])),
            })
        })
        .collect();
    let issue: Vec<Value> = plan
        .issue
        .iter()
        .map(|issue| match issue {
            Issue::Operation(number) => json!(number),
            Issue::Barrier(number) => json!({"barrier": number}),
        })
        .collect();
    json!({
        "trace": TRACE_VERSION,
        "policy": policy.name(),
        "operations": operations,
        "asked": asked,
        "flushes": stretch.flush_points(),
        "timestamps": stretch.timestamps(),
        "issue": issue,
        "emissions": emissions,
    })
}
