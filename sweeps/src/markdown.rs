//! `report.md`: the same report for people who were not there.
//!
//! It opens with the answer, says what was run on what, and ends with what the numbers cannot show. Whoever pastes
//! only the table pastes the verdicts with it.

use crate::plan::SETUP_TOKENS;
use crate::report::{Arm, ArmRole, Report};
use crate::stats::LEVEL;
use crate::stats::comparison::{Answer, clause};
use crate::table::{self, arm_table, gate_table, gates_with_evidence, groups};
use crate::verdict::Verdict;

const LIMITS: &str = "\
- *Verified* means: on this device, with this model and text, no gate saw a difference, and the same gates noticed \
the control and single dropped barriers. It is evidence and no proof; a barrier whose loss nothing here notices \
would go unseen.
- Shuffling finds a missing *order*. It cannot find missing *visibility* or a mask that is too narrow.
- A single drop that is missed need not be an error: a barrier that orders the token against earlier, already \
finished submissions, or that stands at the very end of a command buffer for whatever comes after, is required by the \
rules, and no permutation within the token can show its loss.
- The gate *settings* holds `stock` under each setting against `stock` under the first one. Where it fails, everything under \
that setting is refuted: its policies agree with a reference that is itself wrong.
- *Incorrect by design* is a ceiling: what could be won if no barrier were needed. It is never a result.
- Rates hold for this machine at this time. The reference's rate is of the same run and under the same layer.
";

const RECORDED_LIMITS: &str = "\
- *Counted only*: the driver is real, its device is not. It was played by a shim that accepts what is submitted and \
executes nothing. The counts are what the driver is handed for this device; that is all that such an arm shows.
- So no gate was run there, and the counts of a wrong policy look just as good. Whether a policy is correct has to be \
shown on a driver that executes.
- What the driver itself put into its command stream stands behind *emitted*, if somebody counted it. A flush is on AMD the \
wait for all earlier compute work (CS\\_PARTIAL\\_FLUSH), on Honeykrisp the barrier of the compute data master; a link is \
where Honeykrisp joined streams that an asked barrier had split. Below the table stands what it asked of caches.
- *CPU us* is the time of this machine's processor for handing a token to the layer and the driver, as a median over the \
runs with its interval. Unless `record each` stands in the heading, the engine records a token once and then submits it \
again and again, so this is the time to submit. Of an application it is the time of its whole process, as the difference \
of two lengths. It says nothing about the speed of a GPU.
- *Wall us* is how long a token took where nothing executes: the processor's ceiling. A GPU that needs less than that for \
a token waits for the processor. Under `busy N` each logical processor has N neighbours that never rest.
";

const PER_TOKEN_RECORDED: &str = "**The device is played by a shim: nothing was executed and no gate was run.** Dispatches, \
                                  barriers and CPU time are per token.";

/// The whole document.
pub fn render(report: &Report) -> String {
    let mut text = String::from("# Barrier sweep\n\n");
    text.push_str(&format!("{}\n\n", conclusion(report)));
    text.push_str(&what_was_run(report));
    for (title, arms) in groups(report) {
        text.push_str(&format!("\n## {}\n\n", escape(&title)));
        if let Some(arm) = arms.first() {
            let d = &arm.device;
            text.push_str(&format!(
                "Device {}, driver {} {}, Vulkan {}, {}. {}\n\n",
                escape(&d.name),
                escape(&d.driver),
                escape(&d.driver_version),
                escape(&d.api_version),
                d.kind,
                match (arm.executes, arm.verdict) {
                    (_, Verdict::NotRun) => "**Nothing was run.**".to_string(),
                    (true, _) => format!("Dispatches and barriers are per {}.", table::per(&arms)),
                    (false, _) => PER_TOKEN_RECORDED.to_string(),
                }
            ));
        }
        text.push_str(&format!("{}\n", arm_table(&arms)));
        let lines = table::answers(&arms)
            .into_iter()
            .chain(table::reasons(&arms))
            .chain(table::costs(&arms))
            .chain(table::caches(&arms));
        let lines: String = lines.map(|line| format!("- {}\n", escape(&line))).collect();
        if !lines.is_empty() {
            text.push_str(&format!("\n{lines}"));
        }
    }
    let gates = gates_with_evidence(report);
    if !gates.is_empty() {
        text.push_str(&format!("\n## Gates\n\n{}\n", gate_table(&gates)));
        let reasons: Vec<String> = gates
            .iter()
            .filter_map(|g| {
                Some(format!(
                    "- {} for {} on {}: {}\n",
                    g.gate,
                    g.policy,
                    escape(&g.device),
                    escape(g.reason.as_ref()?)
                ))
            })
            .collect();
        if !reasons.is_empty() {
            text.push_str(&format!("\n{}", reasons.concat()));
        }
    }
    let soaks = table::soaks(report);
    if !soaks.is_empty() {
        text.push_str("\n## Soak\n\n");
        for line in soaks {
            text.push_str(&format!("- {}\n", escape(&line)));
        }
    }
    if let Some(score) = &report.prediction {
        text.push_str(&format!("\n## What was predicted\n\n{}", score.body()));
    }
    if !report.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
        for note in &report.notes {
            text.push_str(&format!("- {}\n", escape(note)));
        }
    }
    text.push_str("\n## How to read this\n\n");
    let executed = report.arms.iter().any(|a| a.executes) || report.arms.is_empty();
    if executed {
        text.push_str(&format!("{}{LIMITS}", intervals(report)));
    }
    if report.arms.iter().any(|a| !a.executes) {
        text.push_str(RECORDED_LIMITS);
    }
    text
}

/// The answer, in a sentence or two.
pub fn conclusion(report: &Report) -> String {
    if !report.complete {
        return "**The sweep did not come to its end; what follows is what was known by then.**".into();
    }
    let policies: Vec<&Arm> = report.arms.iter().filter(|a| a.role == ArmRole::Policy).collect();
    let mut parts = Vec::new();
    for arm in &policies {
        let set: Vec<String> = arm.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let under = if set.is_empty() { String::new() } else { format!(" under {}", set.join(" ")) };
        let name = format!("`{}`{under} on {}", arm.policy.as_deref().unwrap_or("?"), arm.device.name);
        parts.push(match arm.verdict {
            Verdict::Verified => {
                format!("{name} is verified: {}", counted(arm))
            }
            Verdict::IncorrectByDesign => format!("{name} is incorrect by design (a ceiling, not a result)"),
            Verdict::NoEffect => match table::own_cost(arm) {
                Some(r) => format!(
                    "{name} changes nothing in what is executed, and costs the layer's own time: {:.2} [{:.2}, {:.2}] of \
                     stock's rate",
                    r.ratio, r.lo, r.hi
                ),
                None => format!("{name} changes nothing"),
            },
            Verdict::CountedOnly | Verdict::NotRun => continue,
            _ => format!("{name}: {}", table::verdict(arm)),
        });
    }
    for (_, arms) in groups(report) {
        // Axes such as how busy the processor is don't change what is counted.
        parts.extend(recorded(&arms).filter(|said| !parts.contains(said)));
    }
    let executed = report.arms.iter().any(|a| a.executes);
    let recorded = report.arms.iter().any(|a| a.verdict == Verdict::CountedOnly);
    let end = match report.exit_code() {
        0 if recorded && !executed => {
            "Nothing was executed and no gate was run: this says what the driver is handed, not what is correct or fast."
        }
        0 if recorded => {
            "Every gate that was run passed and is known to notice errors; what was only recorded passed none."
        }
        0 => "Every gate that was run passed and is known to notice errors.",
        3 => "**A driver is missing, so its arms were not run: see below.**",
        _ => "**Something here failed, stayed unproven, or a gate was blind: see below.**",
    };
    if parts.is_empty() { end.into() } else { format!("{}. {end}", parts.join("; ")) }
}

fn counted(arm: &Arm) -> String {
    match (arm.barriers_asked_per_token, arm.barriers_emitted_per_token) {
        (Some(asked), Some(emitted)) => {
            // On a CPU device a rate is no part of the answer.
            let ratio = arm.vs_stock.filter(|_| arm.device.kind != "cpu").map_or(String::new(), |r| {
                let words = match r.answer {
                    Some(Answer::Higher | Answer::Lower) => String::new(),
                    Some(answer) => format!(", {}", clause(answer, r.smallest_difference)),
                    None => String::new(),
                };
                format!(", rate {:.3} of stock's [{:.3}, {:.3}]{words}", r.ratio, r.lo, r.hi)
            });
            let per = table::per(&[arm]);
            format!("{emitted:.0} barriers a {per} reach the driver where {asked:.0} are asked for{ratio}")
        }
        _ => "no counts".into(),
    }
}

/// What a driver that only records was handed, in one breath for all policies.
fn recorded(arms: &[&Arm]) -> Option<String> {
    let counted: Vec<&&Arm> = arms.iter().filter(|a| a.verdict == Verdict::CountedOnly).collect();
    let first = counted.first()?;
    let asked = counted.iter().find_map(|a| a.barriers_asked_per_token)?;
    let policies: Vec<String> = counted
        .iter()
        .filter(|a| a.role == ArmRole::Policy)
        .filter_map(|a| Some(format!("{:.0} under `{}`", a.barriers_emitted_per_token?, a.policy.as_ref()?)))
        .collect();
    let emitted = if policies.is_empty() { String::new() } else { format!(", {}", policies.join(", ")) };
    Some(format!(
        "{} on {} was counted only, not executed: {asked:.0} barriers a token are asked for{emitted}",
        first.driver, first.device.name
    ))
}

fn what_was_run(report: &Report) -> String {
    let s = &report.settings;
    let source = match &report.git {
        Some(git) if git.dirty => format!("commit {} with changes", git.commit),
        Some(git) => format!("commit {}", git.commit),
        None => format!("version {}", report.sweep_version),
    };
    let host = format!(
        "Host: {}, {} logical processors, {}. Source: {source}.",
        escape(&report.host.cpu),
        report.host.cores,
        escape(&report.host.os)
    );
    match &s.application {
        None => format!(
            "{host} Each run decodes {} tokens in chunks of {} through the decode path; {} timed runs an arm, interleaved; \
             {} single drops asked for; seed {}.\n",
            s.tokens, s.ctx, s.reps, s.drops, s.seed
        ),
        Some(command) if report.arms.iter().any(|a| a.executes) => format!(
            "{host} Each run is `{}`{}; {} timed runs an arm, interleaved; {} single drops asked for; seed {}. Compared: {}.\n",
            command.replace('`', "'"),
            if command.contains("{tokens}") { format!(" with {} tokens", s.tokens) } else { String::new() },
            s.reps,
            s.drops,
            s.seed,
            s.check.as_deref().map_or("nothing".into(), escape),
        ),
        Some(command) => format!(
            "{host} Each run is `{}` with {} tokens; {} timed runs an arm, interleaved, each with a short one of \
             {SETUP_TOKENS} tokens that is taken off.\n",
            command.replace('`', "'"),
            s.tokens,
            s.reps
        ),
    }
}

/// What the intervals in the tables mean for this number of runs.
fn intervals(report: &Report) -> String {
    let coverage = report
        .arms
        .iter()
        .filter(|a| a.role == ArmRole::Reference)
        .filter_map(|a| a.tok_s)
        .map(|r| r.coverage)
        .fold(f64::INFINITY, f64::min);
    if !coverage.is_finite() {
        return String::new();
    }
    let more = if coverage < LEVEL { "; six runs or more (--reps) would give 95%" } else { "" };
    format!(
        "- Rates are medians; the interval in square brackets holds the true median with a probability of {:.0}%{more}. \
         Ratios are formed within each round of runs; their 95% interval is a bootstrap's of the median from six rounds on, \
         and Student's t on logarithms below. Where it holds 1 the answer is *no difference*, with the smallest difference \
         that these runs would have shown four times in five.\n",
        100.0 * coverage
    )
}

/// Text of others (a device's name, an engine's message) must not turn into markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' | '#' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
