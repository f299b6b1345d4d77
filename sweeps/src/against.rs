//! `sweep against TABLE`: what others published beside what was measured here.
//!
//! A published figure is of one machine, one driver, one model. Laid beside a report of another machine it proves
//! nothing, so each claim says what could speak to it, and is *confirmed*, *contradicted*, or *not testable here* with
//! what is missing. The claims of the tables that ship with this program stand in `published/claims.csv`, as data.
//!
//! A table of the form before/after carries its own evidence: means, deviations and nothing else. It is judged by itself,
//! row by row with Holm's correction, since of twenty rows one differs by chance. Rows without a deviation are single
//! runs: those of one device are taken as the rounds of one comparison.

use std::path::Path;

use serde::Deserialize;

use crate::error::SweepError;
use crate::report::{Arm, ArmRole, Report};
use crate::stats::comparison::{Answer, Comparison, Summary, holm, percent};
use crate::verdict::{Status, Verdict};

/// Repetitions behind each row of a before/after table: what llama-bench makes unless it is told otherwise.
pub const ROW_RUNS: usize = 5;

macro_rules! shipped {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("../published/", $name, ".csv")))),*] };
}

/// The tables that ship with this program: name and text. Each says in its first line where it is from.
pub const SHIPPED: [(&str, &str); 9] = shipped![
    "fak_rx7600_ladder",
    "graph_reuse_pr",
    "honeykrisp_m2ultra_arms",
    "honeykrisp_m2ultra_masks_cumulative",
    "honeykrisp_m2ultra_one_bit_cleared",
    "honeykrisp_m2ultra_perplexity",
    "honeykrisp_m2ultra_shapes",
    "rdna4_claims",
    "rdna4_token_budget_model"
];

const CLAIMS: &str = include_str!("../published/claims.csv");

/// What is said of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A report agrees.
    Confirmed,
    /// A report disagrees.
    Contradicted,
    /// No report speaks to it.
    NotTestable,
    /// Judged by the table's own figures: its two sides differ.
    Differs,
    /// Judged by the table's own figures: nothing that chance would not make.
    NoDifference,
}

impl Mark {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Contradicted => "CONTRADICTED",
            Self::NotTestable => "not testable here",
            Self::Differs => "differs, by its own figures",
            Self::NoDifference => "no difference, by its own figures",
        }
    }
}

/// A claim and what is said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The claim.
    pub claim: String,
    /// What is said of it.
    pub mark: Mark,
    /// Why.
    pub why: String,
}

/// One line of `claims.csv`; its head says what the fields mean.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Claim {
    table: String,
    claim: String,
    driver: String,
    device: String,
    model: String,
    policy: String,
    knobs: String,
    measure: String,
    relation: String,
    value: f64,
    tolerance: Option<f64>,
    needs: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Row {
    device: String,
    model: String,
    test: String,
    before: f64,
    before_err: Option<f64>,
    after: f64,
    after_err: Option<f64>,
}

/// The table of that name or at that path: its name and text.
///
/// # Errors
///
/// [`SweepError::Missing`] naming the file and the tables that ship, when there is neither.
pub fn find(table: &str) -> Result<(String, String), SweepError> {
    let stem = Path::new(table).file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    match std::fs::read_to_string(table) {
        Ok(text) => Ok((stem, text)),
        Err(error) => match SHIPPED.iter().find(|(name, _)| *name == stem && !table.contains('/')) {
            Some((name, text)) => Ok((name.to_string(), text.to_string())),
            None => Err(SweepError::Missing(format!(
                "there is no table '{table}' ({error}); those that ship are {}",
                SHIPPED.map(|(name, _)| name).join(", ")
            ))),
        },
    }
}

/// Judges the claims of a table by `reports`.
///
/// # Errors
///
/// [`SweepError::Missing`] when the text is none of the forms that are understood.
pub fn judge(name: &str, text: &str, reports: &[Report]) -> Result<Vec<Judged>, SweepError> {
    let unfit = |why: String| {
        SweepError::Missing(format!(
            "cannot read the table '{name}': {why}. It needs the columns of published/claims.csv (claim, driver, device, \
             model, policy, knobs, measure, relation, value, tolerance, needs) or device, model, test, before, \
             before_err, after, after_err; or is one of those that ship"
        ))
    };
    let header = reader(text).headers().cloned().map_err(|e| unfit(e.to_string()))?;
    let has = |column: &str| header.iter().any(|h| h == column);
    if has("before") && has("after") {
        let rows: Vec<Row> =
            reader(text).deserialize().collect::<Result<_, _>>().map_err(|e| unfit(e.to_string()))?;
        return Ok(before_and_after(&rows));
    }
    let (claims, own) = if has("measure") { (text, true) } else { (CLAIMS, false) };
    let claims: Vec<Claim> =
        reader(claims).deserialize().collect::<Result<_, _>>().map_err(|e| unfit(e.to_string()))?;
    let claims: Vec<Claim> = claims.into_iter().filter(|c| own || c.table == name).collect();
    if claims.is_empty() {
        return Err(unfit("nothing is known of its columns".into()));
    }
    Ok(claims
        .iter()
        .map(|claim| match claim.measure.as_str() {
            "never" => Judged {
                claim: claim.claim.clone(),
                mark: Mark::NotTestable,
                why: format!("no report has this quantity: {}", claim.needs),
            },
            "ladder" => by_own_steps(claim, text),
            _ => by_reports(claim, reports),
        })
        .collect())
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes())
}

fn by_reports(claim: &Claim, reports: &[Report]) -> Judged {
    let arms = reports.iter().flat_map(|r| r.arms.iter().map(move |a| (r, a)));
    let found: Vec<(String, Found)> = arms
        .filter(|(report, arm)| speaks(claim, report, arm))
        .filter_map(|(_, arm)| Some((format!("{} on {}", arm.driver, arm.device.name), measure(claim, arm)?)))
        .collect();
    let (mark, why) = match found.as_slice() {
        [] => (Mark::NotTestable, format!("needs {}", claim.needs)),
        found => {
            let said = found.iter().map(|(at, found)| format!("{found} on {at}"));
            let why = format!("published {}; here {}", wanted(claim), said.collect::<Vec<_>>().join(", "));
            let answers: Vec<Option<bool>> = found.iter().map(|(_, found)| holds(claim, *found)).collect();
            if answers.contains(&Some(false)) {
                (Mark::Contradicted, why)
            } else if answers.contains(&None) {
                (Mark::NotTestable, format!("{why}: the interval has both; more rounds would tell"))
            } else {
                (Mark::Confirmed, why)
            }
        }
    };
    Judged { claim: claim.claim.clone(), mark, why }
}

/// Whether each step of a ladder is faster than the one before, by the table's own figures: a name, then a time or a range of
/// times, such as `325-804`. Ranges that overlap leave open which is faster, unless one lies higher at both ends.
fn by_own_steps(claim: &Claim, text: &str) -> Judged {
    let steps: Option<Vec<(String, (f64, f64))>> = reader(text)
        .records()
        .map(|record| {
            let record = record.ok()?;
            let (low, high) = record.get(1)?.split_once('-').unwrap_or((record.get(1)?, record.get(1)?));
            Some((record.get(0)?.to_owned(), (low.trim().parse().ok()?, high.trim().parse().ok()?)))
        })
        .collect();
    let judged = |mark, why| Judged { claim: claim.claim.clone(), mark, why };
    let Some(steps) = steps.filter(|steps| steps.len() > 1) else {
        return judged(Mark::NotTestable, format!("needs {}", claim.needs));
    };
    let said = |(name, (low, high)): &(String, (f64, f64))| match low == high {
        true => format!("'{name}' with {}", short(*low)),
        false => format!("'{name}' with {} to {}", short(*low), short(*high)),
    };
    let pairs = |is: fn((f64, f64), (f64, f64)) -> bool| -> Vec<String> {
        let found = steps.windows(2).filter(|pair| is(pair[0].1, pair[1].1));
        found.map(|pair| format!("{} after {}", said(&pair[1]), said(&pair[0]))).collect()
    };
    let slower = pairs(|before, after| after.0 >= before.0 && after.1 >= before.1);
    let open = pairs(|before, after| after.1 >= before.0);
    match (slower.is_empty(), open.is_empty()) {
        (false, _) => {
            judged(Mark::Contradicted, format!("by the table's own figures: {}", slower.join("; ")))
        }
        (true, false) => {
            judged(Mark::NotTestable, format!("the table's ranges overlap: {}", open.join("; ")))
        }
        (true, true) => judged(Mark::Confirmed, "by the table's own figures".into()),
    }
}

/// What a report has of a claim's quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Found {
    value: f64,
    /// The ends of its interval, where it has one.
    interval: Option<(f64, f64)>,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&short(self.value))?;
        match self.interval {
            Some((low, high)) => write!(f, " [{}, {}]", short(low), short(high)),
            None => Ok(()),
        }
    }
}

fn speaks(claim: &Claim, report: &Report, arm: &Arm) -> bool {
    let part = |wanted: &str, found: &str| found.to_lowercase().contains(&wanted.to_lowercase());
    let device = match claim.device.as_str() {
        "gpu" => arm.executes && arm.device.kind.ends_with("gpu"),
        name => part(name, &arm.device.name),
    };
    let model = part(&claim.model, &arm.model)
        || report.settings.application.as_deref().is_some_and(|a| part(&claim.model, a));
    let knobs: Vec<String> = arm.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let knob = match claim.knobs.as_str() {
        "" => arm.knobs.keys().all(|k| matches!(k.as_str(), "record" | "busy")),
        wanted => knobs.iter().any(|k| k == wanted),
    };
    let role = matches!(arm.role, ArmRole::Reference | ArmRole::Policy);
    let policy = arm.policy.as_deref() == Some(claim.policy.as_str());
    part(&claim.driver, &arm.driver) && device && model && knob && role && policy
}

fn measure(claim: &Claim, arm: &Arm) -> Option<Found> {
    let ratio = arm.vs_stock.as_ref().filter(|_| claim.measure == "vs_stock");
    let interval = ratio.map(|ratio| (ratio.lo, ratio.hi));
    quantity(claim, arm).map(|value| Found { value, interval })
}

fn quantity(claim: &Claim, arm: &Arm) -> Option<f64> {
    let yes = |b: bool| Some(f64::from(u8::from(b)));
    match claim.measure.as_str() {
        "dispatches" => arm.dispatches_per_token,
        "asked" => arm.barriers_asked_per_token,
        "emitted" => arm.barriers_emitted_per_token,
        "driver_dispatches" => arm.driver_packets.as_ref()?.dispatches,
        "flushes" => arm.driver_flushes_per_token,
        "tok_s" => Some(arm.tok_s?.median),
        "vs_stock" => Some(arm.vs_stock?.ratio),
        "no_effect" => yes(arm.verdict == Verdict::NoEffect),
        "wrong" if !arm.executes || arm.runs == 0 => None,
        // A ceiling is not judged by the gates, but what differs under it is kept; an application has no perplexity.
        "wrong" => yes((arm.perplexity.is_none() && arm.measured.is_none())
            || !arm.failing.is_empty()
            || arm.verdict == Verdict::Refuted
            || arm.gates.values().any(|g| g.status == Status::Fail)),
        _ => None,
    }
}

/// Whether a claim holds; `None` where the interval of what was found has both answers.
fn holds(claim: &Claim, found: Found) -> Option<bool> {
    let Found { value, interval } = found;
    let (low, high) = interval.unwrap_or((value, value));
    let side = |all: bool, none: bool| if all { Some(true) } else { none.then_some(false) };
    match claim.relation.as_str() {
        "about" => {
            let room = claim.tolerance.unwrap_or(0.05) * claim.value.abs();
            let (least, most) = (claim.value - room, claim.value + room);
            side(least <= low && high <= most, high < least || most < low)
        }
        "above" => side(low > claim.value, high <= claim.value),
        "below" => side(high < claim.value, low >= claim.value),
        _ => Some(value == claim.value),
    }
}

fn wanted(claim: &Claim) -> String {
    let value = short(claim.value);
    match (claim.relation.as_str(), claim.tolerance) {
        ("about", Some(t)) => format!("{value} (within {})", percent(t)),
        ("above" | "below", _) => format!("{} {value}", claim.relation),
        _ => value,
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The rows by their own figures, then the rows without deviations together, then the whole table.
fn before_and_after(rows: &[Row]) -> Vec<Judged> {
    let compared: Vec<Option<Comparison>> = rows
        .iter()
        .map(|r| {
            let side = |mean, deviation| Summary { mean, deviation, n: ROW_RUNS };
            Comparison::of_summaries(side(r.after, r.after_err?), side(r.before, r.before_err?))
        })
        .collect();
    let differs = holm(&compared.iter().map(|c| c.and_then(|c| c.p)).collect::<Vec<_>>());
    let mut judged: Vec<Judged> = Vec::new();
    for ((row, c), differs) in rows.iter().zip(&compared).zip(differs) {
        let claim = format!("{}, {}, {}", row.device, row.model, row.test);
        let Some(c) = c else {
            let alone = rows.iter().filter(|r| r.device == row.device && r.before_err.is_none());
            let ratios: Vec<f64> = alone.map(|r| r.after / r.before).collect();
            let together = Comparison::paired(&ratios);
            let why = format!(
                "{} to {} ({:+.1}%) without a deviation, which is one run a side; with the other single runs of this device: {}",
                row.before,
                row.after,
                100.0 * (row.after / row.before - 1.0),
                together.map_or("nothing to compare".into(), |c| c.words())
            );
            let seen = together.is_some_and(|c| matches!(c.answer, Answer::Higher | Answer::Lower));
            judged.push(Judged { claim, mark: if seen { Mark::Differs } else { Mark::NoDifference }, why });
            continue;
        };
        let interval = format!("{:.4} [{:.4}, {:.4}]", c.ratio, c.lo, c.hi);
        let why = match (differs, c.answer) {
            (true, _) => interval,
            (false, Answer::Higher | Answer::Lower) => {
                format!(
                    "{interval}; alone it would count, of {} rows it is one that chance makes",
                    rows.len()
                )
            }
            (false, _) => format!("{interval}; {}", c.words()),
        };
        judged.push(Judged { claim, mark: if differs { Mark::Differs } else { Mark::NoDifference }, why });
    }
    let ratios: Vec<f64> = rows.iter().map(|r| r.after / r.before).collect();
    if let Some(c) = Comparison::paired(&ratios) {
        let seen = matches!(c.answer, Answer::Higher | Answer::Lower);
        judged.push(Judged {
            claim: "the whole table".into(),
            mark: if seen { Mark::Differs } else { Mark::NoDifference },
            why: format!("median of all rows {:.4} [{:.4}, {:.4}]; {}", c.ratio, c.lo, c.hi, c.words()),
        });
    }
    judged
}

/// The answers as Markdown.
pub fn render(name: &str, text: &str, judged: &[Judged]) -> String {
    let mut out = format!("# {name}\n\n");
    for line in text.lines().take_while(|line| line.starts_with('#')) {
        out.push_str(&format!("> {}\n", line.trim_start_matches(['#', ' '])));
    }
    out.push_str("\n| claim | here | why |\n| --- | --- | --- |\n");
    for j in judged {
        let cell = |text: &str| text.replace('|', "\\|");
        out.push_str(&format!("| {} | {} | {} |\n", cell(&j.claim), j.mark.words(), cell(&j.why)));
    }
    let count = |mark| judged.iter().filter(|j| j.mark == mark).count();
    out.push_str(&format!(
        "\n{} confirmed, {} contradicted, {} not testable here, {} judged by the table's own figures.\n",
        count(Mark::Confirmed),
        count(Mark::Contradicted),
        count(Mark::NotTestable),
        count(Mark::Differs) + count(Mark::NoDifference)
    ));
    out
}

#[cfg(test)]
#[path = "against_tests.rs"]
mod tests;
