//! The targets of a sweep as they are found: each device with one model, once for each place on the sweep's own axes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;
use zinc_engine::levers::RecordArg;
use zinc_engine::results::Info;

use super::tools;
use crate::application::Application;
use crate::child::Job;
use crate::cli::Cli;
use crate::command_line::CommandLine;
use crate::drivers::Chosen;
use crate::drivers::DriverSpec;
use crate::error::SweepError;
use crate::gate::Gate;
use crate::knobs;
use crate::knobs::Announced;
use crate::programs::EMBEDDED;
use crate::report::Arm;
use crate::report::Measured;
use crate::shims::launch::Shim;
use crate::target::Target;
use crate::variables::Setting;
/// A driver outside of the loader's folders, and the variables that have the loader take it.
pub(super) type Place = (DriverSpec, Vec<(String, OsString)>);

/// When the engine records, and its busy neighbours.
type Point = (Option<String>, Option<u32>);

/// All targets of a sweep.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Each with the job that its runs have in common.
    pub targets: Vec<(Target, Job)>,
    /// The arms of drivers that are not here.
    pub not_run: Vec<Arm>,
    /// BLAKE3 of each model, by the name that the report calls it.
    pub models: BTreeMap<String, String>,
}

/// A device, and how to come to it.
pub(super) struct At<'a> {
    pub chosen: &'a Chosen,
    pub shim: Option<&'a Shim>,
    /// Variables that have the loader take its driver.
    pub place: &'a [(String, OsString)],
    /// What the drivers there say of their knobs.
    pub announced: &'a [Announced],
}

/// Where targets with one model are gathered.
pub(super) struct WithModel<'a> {
    pub cli: &'a Cli,
    pub settings: &'a [Setting],
    pub application: Option<&'a Application>,
    pub model: Option<&'a Path>,
    pub found: &'a mut Found,
}

impl WithModel<'_> {
    /// One device of which the engine told, once for each place on the axes.
    pub(super) fn add(&mut self, info: &Info, at: &At<'_>) -> Result<(), SweepError> {
        let name = match self.application {
            Some(application) => application.name(),
            None => model_name(self.model, info)?,
        };
        if let Some(known) = &info.model {
            self.found.models.insert(name.clone(), known.model.blake3.clone());
        }
        let gates = if self.application.is_none() { tools::gates(self.cli) } else { vec![] };
        self.add_named(&name, at, &gates)
    }

    /// Calls the driver of the device that was added last as its owner did.
    pub(super) fn rename(&mut self, driver: &str) {
        let last = self.found.targets.last().map(|(target, _)| target.chosen.clone());
        for (target, _) in &mut self.found.targets {
            if Some(&target.chosen) == last.as_ref() {
                target.chosen.driver = driver.into();
            }
        }
    }

    /// One device, once for each place on the axes.
    pub(super) fn add_named(&mut self, name: &str, at: &At<'_>, gates: &[Gate]) -> Result<(), SweepError> {
        let At { chosen, shim, place, announced } = *at;
        let executes = shim.is_none();
        // An application that executes and takes no number of tokens is counted by the run.
        let by_token = self.cli.command_line().is_none_or(CommandLine::counts_tokens);
        let measure = self.application.filter(|_| executes).map(|application| Measured {
            metric: application.measure.name(),
            per: if by_token { "token".into() } else { "run".into() },
        });
        let label = shim.map_or(chosen.driver.as_str(), |shim| shim.driver.label());
        let unknown = knobs::check(&self.cli.knobs_given(), announced, label)?;
        let findings: Vec<String> = unknown.iter().map(|name| unvouched(name)).collect();
        for (record, busy) in axes(self.cli) {
            let job = Job {
                device: chosen.selector.clone(),
                device_name: chosen.device.name.clone(),
                model: self.model.map(Into::into),
                tokens: if by_token { self.cli.tokens } else { 1 },
                ctx: self.cli.chunk(),
                shim: shim.cloned(),
                record: record.clone(),
                settings: self.settings.to_vec(),
                busy: busy.unwrap_or(0),
                application: self.application.cloned(),
                variables: place.to_vec(),
            };
            let named = [("record", record), ("busy", busy.map(|n| n.to_string()))];
            let named = named.into_iter().filter_map(|(k, v)| Some((k.to_string(), v?)));
            let target = Target {
                chosen: chosen.clone(),
                model: name.to_string(),
                measure: measure.clone(),
                knobs: named.collect(),
                settings: self.settings.to_vec(),
                executes,
                policies: self.cli.arms(),
                gates: gates.to_vec(),
                findings: findings.clone(),
                masks: knobs::masks(&self.cli.ablations, announced, label),
                observations: Vec::new(),
                complete: false,
            };
            self.found.targets.push((target, job));
        }
        Ok(())
    }
}

/// What is to be known of a variable that no driver announced.
fn unvouched(name: &str) -> String {
    format!(
        "No driver here announces {name}, so nothing says that it is known there: where nothing changes that is counted, it \
         may have done nothing at all."
    )
}

/// All combinations of when the engine records and how busy its neighbours are; `None` where nothing was said.
fn axes(cli: &Cli) -> Vec<Point> {
    // An axis of which nothing was said has one place all the same, and nothing stands there.
    let records: Vec<Option<String>> = match &cli.record[..] {
        [] => vec![None],
        named => named.iter().map(|record| Some(record_name(record))).collect(),
    };
    let busy: Vec<Option<u32>> = match &cli.busy[..] {
        [] => vec![None],
        named => named.iter().copied().map(Some).collect(),
    };
    records.iter().flat_map(|record| busy.iter().map(|busy| (record.clone(), *busy))).collect()
}

pub(super) fn record_name(record: &RecordArg) -> String {
    record.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
}

fn model_name(model: Option<&Path>, info: &Info) -> Result<String, SweepError> {
    match (model, &info.model) {
        (Some(path), _) => Ok(file_name(path)),
        (None, Some(_)) => Ok(EMBEDDED.into()),
        (None, None) => {
            Err(SweepError::Missing("the engine has no embedded model; name a GGUF with --model".into()))
        }
    }
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}
