//! `sweep compare A B`: two reports side by side.
//!
//! Two sweeps share no rounds, so nothing cancels: a machine that was slower on the second day looks like a change. So
//! two comparisons are printed. *Rates* lie open to that. *Ratios to each report's own reference* do not, and where the
//! two disagree it is the machine that changed. What differs in the programs is named first, since it is the first
//! question.

use std::collections::BTreeMap;

use crate::report::{Arm, ArmRole, Report};
use crate::stats::comparison::{Answer, Comparison};
use crate::table::{self, arm_name};
use crate::verdict::Verdict;

/// One arm in both reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Driver, device, model and arm.
    pub name: String,
    /// B's rate to A's, or why there is none.
    pub rate: Result<Comparison, String>,
    /// B's ratio to its reference against A's, or why there is none.
    pub relative: Result<Comparison, String>,
    /// What else differs, in words.
    pub differences: Vec<String>,
}

/// All arms that both reports have, and in words what only one of them has.
pub fn pairs(a: &Report, b: &Report) -> (Vec<Pair>, Vec<String>) {
    let (in_a, in_b) = (keyed(a), keyed(b));
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for (key, left) in &in_a {
        match in_b.get(key) {
            Some(right) => pairs.push(pair(key, (a, left), (b, right))),
            None => alone.push(format!("only in A: {key}")),
        }
    }
    alone.extend(in_b.keys().filter(|k| !in_a.contains_key(*k)).map(|k| format!("only in B: {k}")));
    (pairs, alone)
}

fn keyed(report: &Report) -> BTreeMap<String, &Arm> {
    let compared = |a: &&Arm| matches!(a.role, ArmRole::Reference | ArmRole::Policy | ArmRole::WithoutLayer);
    report.arms.iter().filter(compared).map(|arm| (key(arm), arm)).collect()
}

fn key(arm: &Arm) -> String {
    let knobs: String = arm.knobs.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    format!("{} on {}, {}: {}{knobs}", arm.driver, arm.device.name, arm.model, arm_name(arm))
}

fn pair(name: &str, (a, left): (&Report, &Arm), (b, right): (&Report, &Arm)) -> Pair {
    let rates = |arm: &Arm| arm.tok_s_by_round.iter().flatten().copied().collect::<Vec<f64>>();
    let relative = |report: &Report, arm: &Arm| -> Vec<f64> {
        let own = |r: &&Arm| {
            (r.role, &r.driver, &r.device.name, &r.model)
                == (ArmRole::Reference, &arm.driver, &arm.device.name, &arm.model)
        };
        let Some(reference) = report.arms.iter().find(own) else { return Vec::new() };
        let pairs = arm.tok_s_by_round.iter().zip(&reference.tok_s_by_round);
        pairs.filter_map(|(x, r)| Some((*x)? / (*r)?)).collect()
    };
    let mut differences = Vec::new();
    let mut differs = |what: &str, x: String, y: String| {
        if x != y {
            differences.push(format!("{what} {x} in A, {y} in B"));
        }
    };
    let number = |n: Option<f64>| n.map_or("unknown".into(), |n| format!("{n:.2}"));
    differs("verdict", table::verdict(left), table::verdict(right));
    differs("dispatches", number(left.dispatches_per_token), number(right.dispatches_per_token));
    differs("asked", number(left.barriers_asked_per_token), number(right.barriers_asked_per_token));
    differs("emitted", number(left.barriers_emitted_per_token), number(right.barriers_emitted_per_token));
    differs("driver flushes", number(left.driver_flushes_per_token), number(right.driver_flushes_per_token));
    let digest =
        |arm: &Arm| arm.logits_digest.as_deref().map_or("none".into(), |d| d.chars().take(8).collect());
    differs("digest", digest(left), digest(right));
    // Of wrong numbers there is no rate; a ceiling is one, and says so.
    let wrong = |arm: &Arm| matches!(arm.verdict, Verdict::Refuted | Verdict::Failed);
    let compared = |what: &str, values: &dyn Fn(&Report, &Arm) -> Vec<f64>| -> Result<Comparison, String> {
        let sides = [("A", a, left), ("B", b, right)];
        if let Some((side, _, arm)) = sides.iter().find(|(_, _, arm)| wrong(arm)) {
            return Err(format!("none: {side} is {}", table::verdict(arm)));
        }
        if let Some((side, ..)) = sides.iter().find(|(_, _, arm)| !arm.executes) {
            return Err(format!("none: the driver of {side} executes nothing"));
        }
        let [of_a, of_b] = sides.map(|(_, report, arm)| values(report, arm));
        for (side, values) in [("A", &of_a), ("B", &of_b)] {
            if values.is_empty() {
                return Err(none_of(what, side, if side == "A" { left } else { right }));
            }
        }
        Comparison::unpaired(&of_b, &of_a).ok_or_else(|| "none: too few rounds to compare".into())
    };
    let relative = match left.role {
        ArmRole::Policy => compared("ratios to stock", &relative),
        _ => Err("this is what others are compared with".into()),
    };
    let ceiling = [left, right].iter().any(|arm| arm.verdict == Verdict::IncorrectByDesign);
    Pair {
        name: if ceiling { format!("{name} (a ceiling, incorrect by design)") } else { name.into() },
        rate: compared("rates", &|_, arm| rates(arm)),
        relative,
        differences,
    }
}

/// Why a side has no values.
fn none_of(what: &str, side: &str, arm: &Arm) -> String {
    if arm.runs == 0 {
        return format!("none: {side} did not run it");
    }
    // A report that has the median of rates and not the rates is of a version that did not keep them.
    match arm.tok_s.is_some() {
        true => format!(
            "none: {side} has no {what} by round; a report of an earlier version lacks them: sweep again"
        ),
        false => format!("none: {side} has no {what}"),
    }
}

/// The comparison as Markdown.
pub fn render(a: &Report, b: &Report) -> String {
    let mut text = String::from("# Two sweeps\n\n");
    let mut line = |said: String| text.push_str(&format!("- {said}\n"));
    for (what, x, y) in [
        ("host", &a.host.cpu, &b.host.cpu),
        ("system", &a.host.os, &b.host.os),
        ("version", &a.sweep_version, &b.sweep_version),
    ] {
        if x != y {
            line(format!("{what}: {x} in A, {y} in B"));
        }
    }
    let commit = |r: &Report| r.git.as_ref().map_or("unknown".to_string(), |g| g.commit.clone());
    if commit(a) != commit(b) {
        line(format!("commit: {} in A, {} in B", commit(a), commit(b)));
    }
    for name in a.blake3.keys().filter(|n| b.blake3.get(*n).is_some_and(|d| Some(d) != a.blake3.get(*n))) {
        line(format!("{name} is not the same file in both"));
    }
    if (a.settings.tokens, a.settings.ctx) != (b.settings.tokens, b.settings.ctx) {
        line("runs are not of the same length, so that rates and digests differ anyway".into());
    }
    let (pairs, alone) = pairs(a, b);
    alone.into_iter().for_each(&mut line);
    if pairs.is_empty() {
        text.push_str("\nNo arm is in both.\n");
        return text;
    }
    text.push_str(
        "\n| arm | rate, B to A | ratio to stock, B to A | what else differs |\n| --- | --- | --- | --- |\n",
    );
    for p in pairs {
        let differences = if p.differences.is_empty() { "nothing".into() } else { p.differences.join("; ") };
        text.push_str(&format!(
            "| {} | {} | {} | {differences} |\n",
            p.name.replace('|', "\\|"),
            cell(&p.rate),
            cell(&p.relative)
        ));
    }
    text.push_str(
        "\nIntervals are of 95%. The two sweeps share no rounds: a change of the machine shows in the rates, and cancels in \
         the ratios to stock.\n",
    );
    text
}

fn cell(c: &Result<Comparison, String>) -> String {
    match c {
        Err(why) => why.replace('|', "\\|"),
        Ok(c) if c.answer == Answer::TooFewRuns => format!("{:.3} ({})", c.ratio, c.words()),
        Ok(c) => format!("{:.3} [{:.3}, {:.3}] ({})", c.ratio, c.lo, c.hi, c.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn where_there_is_no_rate_the_reason_stands_in_its_place() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runs/h200/smollm2-135m/report.json");
        let report: Report = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let text = render(&report, &report);
        assert!(text.contains("(no difference") || text.contains(" ["), "the control: {text}");
        let mut older = report.clone();
        older.arms.iter_mut().for_each(|arm| arm.tok_s_by_round.clear());
        let text = render(&older, &report);
        assert!(
            text.contains("none: A has no rates by round; a report of an earlier version lacks them"),
            "{text}"
        );
        let mut absent = report.clone();
        for arm in &mut absent.arms {
            (arm.runs, arm.tok_s) = (0, None);
            arm.tok_s_by_round.clear();
        }
        let text = render(&report, &absent);
        assert!(text.contains("none: B did not run it") && !text.contains("earlier version"), "{text}");
        assert!(!text.contains("| - |"), "{text}");
        let mut wrong = report.clone();
        for arm in wrong.arms.iter_mut().filter(|arm| arm.role == ArmRole::Policy) {
            arm.verdict = Verdict::Refuted;
        }
        let text = render(&report, &wrong);
        assert!(text.contains("none: B is REFUTED"), "{text}");
    }
}
