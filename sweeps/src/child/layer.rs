//! The layer's own report of a run, and whether it is of the run that was asked for.
//!
//! A layer that was not loaded looks exactly like a layer that changes nothing, so the lack of a report is never taken
//! for a result.

use std::collections::BTreeMap;
use std::path::Path;

use zinc_report::{Counts, Report, WrittenAt};

use crate::outcome::{Failure, Measured};
use crate::plan::RunSpec;

pub(super) fn read_report(spec: &RunSpec, path: &Path) -> Result<Report, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Failure::LayerNotLoaded),
        Err(error) => return Err(Failure::LayerDiffers(format!("its report cannot be read: {error}"))),
    };
    let report = Report::from_json(&text).map_err(|e| Failure::LayerDiffers(format!("its report: {e}")))?;
    check_report(spec, &report)?;
    Ok(report)
}

/// The reports in a folder, one for each device that the application made: the counts of all of them together, and what
/// the layer says. They must be of `device`, as far as anything ran.
pub(super) fn read_reports(
    spec: &RunSpec,
    folder: &Path,
    device: Option<&str>,
) -> Result<(Report, Counts), Failure> {
    let differs = |why: String| Failure::LayerDiffers(why);
    let entries =
        std::fs::read_dir(folder).map_err(|e| differs(format!("its reports cannot be read: {e}")))?;
    let mut reports = Vec::new();
    let mut numbers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let text =
            std::fs::read_to_string(&path).map_err(|e| differs(format!("its report cannot be read: {e}")))?;
        let report = Report::from_json(&text).map_err(|e| differs(format!("its report: {e}")))?;
        check_asked(spec, &report)?;
        // Named `%p-%i-%d`: a process that became another program numbers its devices from 0 again.
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let image = name.rsplit_once('-').map_or("", |(image, _)| image).to_owned();
        numbers.entry(image).or_default().push(report.device.number);
        reports.push(report);
    }
    numbers.into_iter().try_for_each(|(image, numbers)| check_numbers(&image, numbers))?;
    if reports.is_empty() {
        return Err(Failure::LayerNotLoaded);
    }
    // A program that looks at every device before it takes one makes devices on which nothing runs.
    reports.retain(|report| report.totals.submits > 0);
    let counts: Counts = reports.iter().map(|report| report.totals).sum();
    if let Some((report, asked)) =
        reports.iter().zip(device.into_iter().cycle()).find(|(r, d)| r.device.name != *d)
    {
        return Err(differs(format!("it saw device {} instead of {asked}", report.device.name)));
    }
    let first = reports.into_iter().next().ok_or_else(|| differs("it saw nothing submitted".into()))?;
    check_dropped(spec, &counts)?;
    Ok((first, counts))
}

/// Devices are numbered in each program of a process from 0, and each leaves a report: a number that is left out is a report that is missing.
fn check_numbers(image: &str, mut numbers: Vec<u32>) -> Result<(), Failure> {
    let process = image.split('-').next().unwrap_or_default();
    numbers.sort_unstable();
    match (0..).zip(&numbers).find(|(expected, found)| expected != *found) {
        None => Ok(()),
        Some((missing, _)) => Err(Failure::ReportsMissing(format!(
            "process {process} made {} devices or more, and device {missing} has none",
            numbers.last().map_or(0, |last| last + 1)
        ))),
    }
}

/// Whether the report is of the run that was asked for.
pub(super) fn check_report(spec: &RunSpec, report: &Report) -> Result<(), Failure> {
    check_asked(spec, report)?;
    if report.totals.dispatches == 0 {
        return Err(Failure::LayerDiffers("it saw no dispatch".into()));
    }
    check_dropped(spec, &report.totals)
}

/// Whether it is of the policy, order and mutation that were asked for.
fn check_asked(spec: &RunSpec, report: &Report) -> Result<(), Failure> {
    let number = |k: Option<u64>| k.map_or("none".to_string(), |k| k.to_string());
    let asked = [
        ("policy", spec.policy.map(|p| p.to_string()).unwrap_or_default(), report.policy.clone()),
        ("shuffle", spec.shuffle.to_string(), report.shuffle.clone()),
        ("dropped barrier", number(spec.mutate), number(report.mutate)),
    ];
    for (what, asked, found) in asked {
        if asked != found {
            return Err(Failure::LayerDiffers(format!("{what} {found} instead of {asked}")));
        }
    }
    if report.layer_failed {
        // From there on the run was one of `stock`, whatever policy stands in the report.
        return Err(Failure::LayerDiffers("it failed and passed the rest through".into()));
    }
    if report.written_at == WrittenAt::Running {
        return Err(Failure::ReportsMissing(
            "a process was ended by a signal, _exit or abort, or became another program, and what it submitted last may not \
             be counted"
                .into(),
        ));
    }
    // The audit is on where `--knob ZINC_BARRIER_AUDIT=1` asks for it. What is wrong on purpose is found by it, too.
    let meant = spec.policy.is_some_and(|policy| policy.is_correct()) && spec.mutate.is_none();
    if let Some(audit) = report.audit.filter(|audit| meant && audit.violations > 0) {
        return Err(Failure::Unordered(audit.violations));
    }
    Ok(())
}

/// Whether the layer saw what the engine says that it recorded: the counts of another run, or of a part of one, would
/// otherwise stand beside its rate.
pub(super) fn check_dispatches(counts: &Counts, measured: &Measured) -> Result<(), Failure> {
    let recorded = measured.dispatches_per_token.saturating_mul(measured.tokens);
    match counts.dispatches == recorded {
        true => Ok(()),
        false => Err(Failure::LayerDiffers(format!(
            "it saw {} dispatches where the engine says that it recorded {recorded}",
            counts.dispatches
        ))),
    }
}

/// Whether a barrier was withheld where one was to be.
fn check_dropped(spec: &RunSpec, counts: &Counts) -> Result<(), Failure> {
    match spec.mutate {
        Some(k) if counts.barriers_mutated == 0 => Err(Failure::NothingDropped(k)),
        _ => Ok(()),
    }
}
