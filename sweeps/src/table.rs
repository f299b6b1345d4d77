//! The report as tables, for the terminal and for `report.md` alike.
//!
//! They are Markdown in both places, so that what someone copies from a terminal into a merge request is a table there
//! too. A number that was not measured is a dash, a rate that may not be compared (a
//! shuffled or deliberately wrong run) is left out, and the verdict stands at the end of every line, where the eye
//! stops. A driver that only records has a table of its own, without the columns for rates and results.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::figures::perplexity;
use crate::report::{Arm, ArmRole, CacheReport, EventCost, GateReport, Rate, Ratio, Report, SoakReport};
use crate::stats::LEVEL;
use crate::stats::comparison::{Answer, clause};
use crate::verdict::{Status, Verdict};

/// The arms of one device and model, in groups that share both, in the order of the report.
pub fn groups(report: &Report) -> Vec<(String, Vec<&Arm>)> {
    let mut groups: Vec<(String, Vec<&Arm>)> = Vec::new();
    for arm in &report.arms {
        let records = match (arm.executes, arm.verdict) {
            (_, Verdict::NotRun) => " (NOT RUN)",
            (false, _) => " (recorded only, NOTHING EXECUTED)",
            (true, _) => "",
        };
        let knobs: String = arm.knobs.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        let part = arm.part.map_or(String::new(), |n| format!(", arm {n} of the plan"));
        let what = if arm.measured.is_some() { "application" } else { "model" };
        let title =
            format!("{} on {}, {what} {}{knobs}{part}{records}", arm.driver, arm.device.name, arm.model);
        match groups.iter_mut().find(|(t, _)| *t == title) {
            Some((_, arms)) => arms.push(arm),
            None => groups.push((title, vec![arm])),
        }
    }
    groups
}

/// The whole report for the terminal.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for (title, arms) in groups(report) {
        text.push_str(&format!(
            "{title}; dispatches and barriers per {}\n{}\n",
            per(&arms),
            arm_table(&arms)
        ));
        let lines = answers(&arms).into_iter().chain(reasons(&arms)).chain(costs(&arms)).chain(caches(&arms));
        for line in lines {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
    }
    let gates = gates_with_evidence(report);
    if !gates.is_empty() {
        text.push_str(&format!("Gates\n{}\n", gate_table(&gates)));
        for gate in gates {
            if let Some(reason) = gate.reason.as_ref().filter(|_| gate.status != Status::Pass) {
                text.push_str(&format!("  {} for {}: {reason}\n", gate.gate, gate.policy));
            }
        }
    }
    for line in soaks(report) {
        text.push_str(&format!("{line}\n"));
    }
    for note in &report.notes {
        text.push_str(&format!("Note: {note}\n"));
    }
    text
}

/// What the repetitions gave, in lines.
pub fn soaks(report: &Report) -> Vec<String> {
    let line = |s: &SoakReport| {
        let failed = if s.failed > 0 { format!("; {} runs gave nothing", s.failed) } else { String::new() };
        if s.control {
            let worth = if s.is_blind() {
                "NOT NOTICED: this soak could not have shown anything"
            } else {
                "noticed, as it must be"
            };
            return format!(
                "Control of the soak on {}, {}: {}, shuffle {}: {} bad records of {}: {worth}{failed}",
                s.device, s.model, s.policy, s.shuffle, s.bad, s.records
            );
        }
        format!(
            "Soak of {} on {}, {}: {} bad records of {}, over {} tokens; the true rate is below {:.1e} with 95% confidence{failed}",
            s.policy, s.device, s.model, s.bad, s.records, s.tokens, s.bound
        )
    };
    report.soaks.iter().map(line).collect()
}

/// The arms of a driver that records without executing as a table: counts and the CPU's time, and no column that could
/// be taken for a rate or a result.
fn recorded_table(arms: &[&Arm]) -> String {
    type Column = (&'static str, fn(&Arm) -> Option<f64>);
    let driver: [Column; 5] = [
        ("driver dispatches", |a| a.driver_packets.as_ref()?.dispatches),
        ("driver flushes", |a| a.driver_flushes_per_token),
        ("acquires", |a| a.driver_packets.as_ref()?.acquires),
        ("links", |a| a.driver_packets.as_ref()?.links),
        ("submits", |a| a.driver_packets.as_ref()?.submits),
    ];
    // Only what somebody counted, and what the hardware has.
    let driver: Vec<Column> =
        driver.into_iter().filter(|(_, value)| arms.iter().any(|a| value(a).is_some())).collect();
    let mut header = vec!["arm", "dispatches", "asked", "emitted"];
    header.extend(driver.iter().map(|(name, _)| *name));
    header.extend(["CPU us", "wall us", "verdict"]);
    let rows = arms.iter().map(|arm| {
        let number = |value: Option<f64>| value.map_or_else(dash, count);
        let cpu = arm.cpu_us_interval.map(micros).or(arm.cpu_us_per_token.map(|us| format!("{us:.1}")));
        let mut row = vec![
            arm_name(arm),
            number(arm.dispatches_per_token),
            number(arm.barriers_asked_per_token),
            number(arm.barriers_emitted_per_token),
        ];
        row.extend(driver.iter().map(|(_, value)| number(value(arm))));
        row.extend([cpu.unwrap_or_else(dash), arm.wall_us_per_token.map_or_else(dash, micros), verdict(arm)]);
        row
    });
    let numbers: Vec<usize> = (1..header.len() - 1).collect();
    table(&header, rows, &numbers)
}

fn micros(rate: Rate) -> String {
    match rate.n {
        1 => format!("{:.1}", rate.median),
        _ => format!("{:.1} [{:.1}, {:.1}]", rate.median, rate.lo, rate.hi),
    }
}

/// What the ratios say where it is not a difference, in lines.
pub fn answers(arms: &[&Arm]) -> Vec<String> {
    shared(arms.iter().filter(|arm| arm.role == ArmRole::Policy && is_result(arm)).filter_map(|arm| {
        let ratio = arm.vs_stock?;
        let answer = ratio.answer.filter(|a| matches!(a, Answer::NoDifference | Answer::TooFewRuns))?;
        Some((format!("rate of {}", arm_name(arm)), clause(answer, ratio.smallest_difference)))
    }))
}

/// What events cost, in lines.
pub fn costs(arms: &[&Arm]) -> Vec<String> {
    let of = |arm: &Arm, cost: &EventCost| {
        let (more, fewer) = if cost.fewer < 0.0 { ("more", -cost.fewer) } else { ("fewer", cost.fewer) };
        let what = if cost.time == "CPU" { "of CPU time" } else { "of a token" };
        format!(
            "{}: {:.3} us [{:.3}, {:.3}] {what} per {}, of which it has {} {more} a token{}",
            arm_name(arm),
            cost.us.median,
            cost.us.lo,
            cost.us.hi,
            cost.event,
            count(fewer),
            match () {
                _ if cost.us.coverage < LEVEL => "; too few rounds to tell (six or more)",
                _ if cost.us.lo <= 0.0 && cost.us.hi >= 0.0 => "; not told from none",
                _ if !is_result(arm) => "; a ceiling, incorrect by design",
                _ => "",
            }
        )
    };
    arms.iter().flat_map(|arm| arm.costs.iter().map(move |cost| of(arm, cost))).collect()
}

/// Why arms are called what they are, in lines; arms with one reason share a line.
pub fn reasons(arms: &[&Arm]) -> Vec<String> {
    shared(arms.iter().filter_map(|arm| Some((arm_name(arm), arm.reason.clone()?))))
}

/// What the driver asked of caches for one token, in lines; arms for which that was the same share a line.
pub fn caches(arms: &[&Arm]) -> Vec<String> {
    shared(arms.iter().filter_map(|arm| {
        let sorts: Vec<String> = arm.driver_packets.as_ref()?.caches.iter().map(sort).collect();
        let sorts = if sorts.is_empty() { "nothing asked of caches".into() } else { sorts.join("; ") };
        Some((format!("driver under {}", arm_name(arm)), sorts))
    }))
}

fn sort(cache: &CacheReport) -> String {
    // Twenty bits without a name say no more than the mask.
    let named = !cache.bits.is_empty() && cache.bits.iter().any(|bit| !bit.starts_with("BIT_"));
    let bits = if named { format!(" ({})", cache.bits.join(" ")) } else { String::new() };
    format!("{} {} {} {}{bits}", count(cache.per_token), cache.packet, cache.field, cache.value)
}

/// Lines `name; name: text` out of names and texts, in the order of first appearance.
fn shared(pairs: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for (name, text) in pairs {
        match lines.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], text)),
        }
    }
    lines.into_iter().map(|(names, text)| format!("{}: {text}", names.join("; "))).collect()
}

/// The arms of one device and model as a table; dispatches and barriers are per token.
pub fn arm_table(arms: &[&Arm]) -> String {
    if arms.iter().any(|a| !a.executes) {
        return recorded_table(arms);
    }
    let measured = arms.iter().find_map(|arm| arm.measured.as_ref());
    let (rate, number, bits) = match measured {
        None => ("tok/s", "perplexity", "bits"),
        Some(measured) => (measured.metric.as_str(), "value", "output"),
    };
    let header = ["arm", "dispatches", "asked", "emitted", rate, "vs stock", number, bits, "verdict"];
    let reference =
        arms.iter().find(|a| a.role == ArmRole::Reference).and_then(|a| a.logits_digest.as_deref());
    let rows = arms.iter().map(|arm| {
        vec![
            arm_name(arm),
            arm.dispatches_per_token.map_or_else(dash, count),
            arm.barriers_asked_per_token.map_or_else(dash, count),
            arm.barriers_emitted_per_token.map_or_else(dash, count),
            arm.tok_s.filter(|_| is_comparable(arm)).map_or_else(dash, |r| {
                let text =
                    |value: f64| if measured.is_some() { figures(value) } else { format!("{value:.1}") };
                if r.n > 1 {
                    format!("{} [{}, {}]", text(r.median), text(r.lo), text(r.hi))
                } else {
                    text(r.median)
                }
            }),
            arm.vs_stock
                .filter(|_| arm.role == ArmRole::Policy)
                .map_or_else(dash, |r| format!("{:.3} [{:.3}, {:.3}]", r.ratio, r.lo, r.hi)),
            match arm.perplexity {
                Some(p) => perplexity(p.value),
                None if arm.runs > 0 && arm.executes && measured.is_none() => "not finite".into(),
                None => dash(),
            },
            arm.logits_digest.as_deref().map_or_else(dash, |digest| {
                let short: String = digest.chars().take(8).collect();
                match reference {
                    Some(r) if r == digest && arm.role != ArmRole::Reference => format!("{short} ="),
                    Some(r) if r != digest => format!("{short} DIFFER"),
                    _ => short,
                }
            }),
            verdict(arm),
        ]
    });
    table(&header, rows, &[1, 2, 3, 4, 5])
}

/// A metric of which nothing is known, with four figures that count.
pub fn figures(value: f64) -> String {
    let whole = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.0$}", (3 - whole).clamp(0, 9) as usize)
}

/// What counts are of: a token, or the whole run of an application.
pub fn per(arms: &[&Arm]) -> &'static str {
    match arms.iter().find_map(|arm| arm.measured.as_ref()) {
        Some(measured) if measured.per == "run" => "run",
        _ => "token",
    }
}

/// The gates of drivers that execute. For the others the answer is the same for every gate and policy, `not-run`, and
/// is said once, with the arms.
pub fn gates_with_evidence(report: &Report) -> Vec<&GateReport> {
    let records = |gate: &GateReport| {
        let same =
            |a: &&Arm| a.driver == gate.driver && a.device.name == gate.device && a.model == gate.model;
        report.arms.iter().filter(same).any(|a| !a.executes)
    };
    report.gates.iter().filter(|gate| !records(gate)).collect()
}

/// The gates as a table.
pub fn gate_table(gates: &[&GateReport]) -> String {
    let several = gates.iter().any(|g| (&g.device, &g.model) != (&gates[0].device, &gates[0].model));
    let mut header = vec!["gate", "policy", "status", "control", "single drops caught"];
    let set = gates.iter().any(|gate| !gate.knobs.is_empty());
    if set {
        header.push("under");
    }
    if several {
        header.extend(["device", "model"]);
    }
    let rows = gates.iter().map(|gate| {
        let mut row = vec![
            gate.gate.clone(),
            gate.policy.clone(),
            status(gate.status).into(),
            match gate.control_caught {
                Some(true) => "caught".into(),
                Some(false) => "MISSED".into(),
                None => dash(),
            },
            score(gate),
        ];
        if set {
            row.push(gate.knobs.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "));
        }
        if several {
            row.extend([gate.device.clone(), gate.model.clone()]);
        }
        row
    });
    table(&header, rows, &[])
}

/// A Markdown table; the columns named by `numbers` are aligned to the right.
pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>, numbers: &[usize]) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec())
        .add_rows(rows);
    for column in numbers {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// What an arm is called in a line of text.
pub fn arm_name(arm: &Arm) -> String {
    let mut name = arm.policy.clone().unwrap_or_else(|| "without the layer".into());
    if arm.shuffle != "off" {
        name.push_str(&format!(", shuffle {}", arm.shuffle));
    }
    match arm.role {
        ArmRole::Control => name.push_str(" (control)"),
        ArmRole::Reference => name.push_str(" (reference)"),
        ArmRole::Policy | ArmRole::WithoutLayer | ArmRole::Shuffled => {}
    }
    name
}

/// The mutation score of a gate, with the barriers that got away.
pub fn score(gate: &GateReport) -> String {
    let Some(m) = &gate.mutation else { return dash() };
    let list = |what: &str, ks: &[u64]| {
        if ks.is_empty() {
            return String::new();
        }
        let shown: Vec<String> = ks.iter().take(8).map(u64::to_string).collect();
        let more = if ks.len() > shown.len() { ", ..." } else { "" };
        format!("; {what} {}{more}", shown.join(", "))
    };
    format!("{} of {}{}{}", m.caught, m.tried, list("missed:", &m.survivors), list("no result:", &m.failed))
}

/// A gate's answer, loud where it ends the sweep with a failure.
pub fn status(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "FAIL",
        Status::Blind => "BLIND",
        Status::NotRun => "not run",
    }
}

/// The arm's ratio to stock where it is the layer's own time: the reference's stream is executed, slower for certain.
pub fn own_cost(arm: &Arm) -> Option<&Ratio> {
    arm.vs_stock.as_ref().filter(|ratio| arm.verdict == Verdict::NoEffect && ratio.hi < 1.0)
}

/// A verdict in words, loud where it ends the sweep with a failure.
pub fn verdict(arm: &Arm) -> String {
    match arm.verdict {
        Verdict::Reference => "reference",
        Verdict::Verified => "verified",
        Verdict::Refuted if arm.role == ArmRole::Control => "refuted, as it must be",
        Verdict::Refuted => "REFUTED",
        Verdict::IncorrectByDesign => "incorrect by design",
        Verdict::CountedOnly => "counted only, not executed",
        Verdict::NoEffect if own_cost(arm).is_some() => "no effect but the layer's own cost",
        Verdict::NoEffect => "no effect",
        Verdict::Unproven => "UNPROVEN",
        Verdict::NotRun => "NOT RUN",
        Verdict::Failed => "FAILED",
    }
    .into()
}

/// The rate of a permuted order is not that of the policy.
/// Whether a rate may be called one: not that of wrong numbers, and not a ceiling.
pub fn is_result(arm: &Arm) -> bool {
    !matches!(arm.verdict, Verdict::IncorrectByDesign | Verdict::Refuted | Verdict::Failed)
}

fn is_comparable(arm: &Arm) -> bool {
    matches!(arm.role, ArmRole::Reference | ArmRole::Policy | ArmRole::WithoutLayer)
}

fn dash() -> String {
    "-".into()
}

/// A count per token: whole where it is whole.
fn count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::perplexity;

    #[test]
    fn a_metric_has_four_figures_that_count() {
        for (value, text) in [(1234.5, "1234"), (12.3456, "12.35"), (0.012345, "0.01235"), (0.0, "0.000")] {
            assert_eq!(super::figures(value), text);
        }
    }

    #[test]
    fn a_perplexity_of_garbage_stays_short() {
        assert_eq!(perplexity(3.14287), "3.1429");
        assert_eq!(perplexity(3.274e246), "3.3e246");
        assert_eq!(perplexity(f64::INFINITY), "inf");
        assert_eq!(perplexity(f64::NAN), "NaN");
    }
}
