//! Joining the reports of a plan's arms.
//!
//! What does not belong together is refused: another plan, another engine. What is missing is named, and makes the joined
//! report incomplete, which its exit status says too. Where an arm was made twice, as after a requeue into another folder,
//! the complete one is taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::arguments::MergeArgs;
use super::plan::Plan;
use crate::error::SweepError;
use crate::output::{Folder, REPORT_FILES};
use crate::reading;
use crate::report::{PartHost, Report};

/// Joins reports into one, which is also written.
///
/// # Errors
///
/// [`SweepError::Missing`] when a report cannot be read, [`SweepError::Usage`] when two do not belong together.
pub fn merge(args: &MergeArgs) -> Result<Report, SweepError> {
    let plan = args.plan.as_deref().map(Plan::read).transpose()?;
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for path in &args.reports {
        match reading::report(path) {
            Ok(report) => read.push((path.clone(), report)),
            // An arm that was killed before its first run left no report: that is a hole, not an error.
            Err(why) => unread.push(why.to_string()),
        }
    }
    let mut joined = join(read, plan.as_ref())?;
    for why in unread {
        joined.notes.push(format!("Not taken: {why}"));
    }
    for note in joined.notes.iter().filter(|n| n.starts_with("Missing: ") || n.starts_with("Not taken: ")) {
        eprintln!("sweep: {note}");
    }
    let folder = Folder::claim(&args.out, &REPORT_FILES)?;
    check(&args.out, args.force)?;
    folder.write(&joined)?;
    folder.write_pictures(&joined)?;
    Ok(joined)
}

/// Checks that no report lies in `folder` but one that was joined from others, which can be joined again.
pub(super) fn check(folder: &Path, force: bool) -> Result<(), SweepError> {
    match reading::report(folder) {
        Ok(report) if !report.parts.is_empty() => Ok(()),
        _ => Folder::keeps(folder, &REPORT_FILES[..1], force),
    }
}

fn join(reports: Vec<(PathBuf, Report)>, plan: Option<&Plan>) -> Result<Report, SweepError> {
    let usage = |path: &PathBuf, why: String| Err(SweepError::Usage(format!("'{}' {why}", path.display())));
    let mut hash = plan.map(|p| p.hash.clone());
    let mut taken: BTreeMap<u32, (PathBuf, Report)> = BTreeMap::new();
    let (mut arms, mut notes) = (plan.map_or(0, |p| p.arms.len() as u32), Vec::new());
    let mut digests: BTreeMap<String, String> = BTreeMap::new();
    for (path, report) in reports {
        let Some(part) = report.plan.clone() else {
            return usage(
                &path,
                "is the report of no plan's arm; `sweep compare` lays any two side by side".into(),
            );
        };
        if *hash.get_or_insert_with(|| part.plan.clone()) != part.plan {
            return usage(&path, "is of another plan than the others".into());
        }
        for (role, digest) in &report.blake3 {
            if digests.entry(role.clone()).or_insert_with(|| digest.clone()) != digest {
                return usage(&path, format!("was made with another {role} than the others"));
            }
        }
        arms = arms.max(part.arms);
        match taken.get(&part.arm) {
            Some((other, known)) if known.complete || !report.complete => {
                notes.push(format!(
                    "Arm {} is in '{}' and in '{}'; the former was taken.",
                    part.arm,
                    other.display(),
                    path.display()
                ));
            }
            _ => {
                taken.insert(part.arm, (path, report));
            }
        }
    }
    let Some((_, first)) = taken.values().next() else {
        return Err(SweepError::Missing("none of these is a report that could be joined".into()));
    };
    let about = |arm: u32| {
        let words = plan.and_then(|p| p.arms.iter().find(|a| a.arm == arm)).map(|a| a.about());
        words.map_or(format!("arm {arm}"), |words| format!("arm {arm} ({words})"))
    };
    let mut joined = Report {
        arms: Vec::new(),
        gates: Vec::new(),
        notes: Vec::new(),
        timeline: Vec::new(),
        parts: Vec::new(),
        plan: None,
        prediction: None,
        blake3: digests,
        ..first.clone()
    };
    let mut policies: Vec<String> = Vec::new();
    for arm in 0..arms {
        match taken.get(&arm) {
            None => notes.push(format!("Missing: {} has no report.", about(arm))),
            Some((_, report)) if !report.complete => {
                notes
                    .push(format!("Missing: {} was not finished; `sweep run --resume` goes on.", about(arm)));
            }
            Some(_) => {}
        }
    }
    joined.complete = !notes.iter().any(|n| n.starts_with("Missing: "));
    let mut hosts: Vec<String> = Vec::new();
    for (arm, (_, report)) in taken {
        joined.parts.push(PartHost {
            arm,
            complete: report.complete,
            host: report.host.clone(),
            began_unix_s: report.began_unix_s,
        });
        let host =
            format!("{}, {} logical processors, {}", report.host.cpu, report.host.cores, report.host.os);
        if !hosts.contains(&host) {
            hosts.push(host);
        }
        joined.arms.extend(report.arms.into_iter().map(|a| crate::report::Arm { part: Some(arm), ..a }));
        joined.gates.extend(report.gates);
        for note in report.notes {
            let note = format!("Arm {arm}: {note}");
            notes.push(note);
        }
        policies.extend(
            report.settings.policies.into_iter().filter(|p| !policies.contains(p)).collect::<Vec<_>>(),
        );
    }
    joined.settings.policies = policies;
    if hosts.len() > 1 {
        notes.push(format!("The arms were made on machines of {} sorts: {}.", hosts.len(), hosts.join("; ")));
    }
    notes.extend(disagreements(&joined));
    joined.notes = notes;
    Ok(joined)
}

/// References that should be of one stream and are not: on one device and model, the bits of `stock` cannot depend on the
/// arm.
fn disagreements(joined: &Report) -> Vec<String> {
    // By device, driver, model and knobs: the part and its bits.
    let mut known: BTreeMap<[String; 4], (Option<u32>, String)> = BTreeMap::new();
    let mut notes = Vec::new();
    for arm in joined.arms.iter().filter(|a| a.role == crate::report::ArmRole::Reference) {
        let Some(digest) = &arm.logits_digest else { continue };
        let knobs: Vec<String> = arm
            .knobs
            .iter()
            .filter(|(k, _)| !matches!(k.as_str(), "record" | "busy"))
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let device = &arm.device;
        let key = [device.name.clone(), device.driver_version.clone(), arm.model.clone(), knobs.join(" ")];
        let (part, first) = known.entry(key).or_insert_with(|| (arm.part, digest.clone()));
        if first != digest {
            notes.push(format!(
                "The references of arms {} and {} have other bits on {}: two such devices, or two runs of it, do not agree.",
                part.unwrap_or_default(),
                arm.part.unwrap_or_default(),
                arm.device.name
            ));
        }
    }
    notes
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
