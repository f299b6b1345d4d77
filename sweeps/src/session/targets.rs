//! What a sweep is to run on: every device that was asked for, with every model and every setting, or the reason why one
//! is not there.
//!
//! All that can be missing is found here, before the first run, in the order of what it costs to find: files, then
//! drivers, each of which takes a start of the engine. What is found carries its own job, so that whoever makes the runs
//! needs to know nothing of the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use zinc_engine::levers::RecordArg;
use zinc_engine::results::Info;

use super::{applications, tools};
use crate::absent::not_run;
use crate::application::Application;
use crate::assemble::{Setting, Target};
use crate::child::{Engine, Job};
use crate::cli::Cli;
use crate::drivers::{Chosen, DriverSpec, choose};
use crate::error::SweepError;
use crate::gate::Gate;
use crate::knobs::{self, Announced};
use crate::patched;
use crate::report::{Arm, Measured};
use crate::shims::ShimDriver;
use crate::shims::folders::Cache;
use crate::shims::launch::{self, Shim};

/// What a report calls the engine's own model.
pub(crate) const EMBEDDED: &str = "embedded";

/// A driver that records only and is not to be had, with the reason.
pub(super) type Absent = (ShimDriver, String);

/// What was asked for, sorted.
pub(super) type Drivers = (Vec<DriverSpec>, Vec<Place>, Vec<Shim>, Vec<Absent>);

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

/// The files that were named and are not there.
pub(super) fn check_models(cli: &Cli) -> Result<(), SweepError> {
    match cli.models.iter().find(|model| !model.is_file()) {
        Some(model) => Err(SweepError::Missing(format!("there is no model file '{}'", model.display()))),
        None => Ok(()),
    }
}

/// Asks every driver of `drivers` for its devices, once with each model.
pub(super) fn find(
    cli: &Cli,
    engine: &Engine<'_>,
    drivers: Drivers,
    settings: &[Setting],
    application: Option<&Application>,
) -> Result<Found, SweepError> {
    let (drivers, places, shims, absent) = drivers;
    let mut found = Found::default();
    if let Some(application) = application.filter(|_| !(drivers.is_empty() && places.is_empty())) {
        applications::find(cli, engine, (&drivers, &places), settings, application, &mut found)?;
    }
    let (drivers, places) = if application.is_some() { (vec![], vec![]) } else { (drivers, places) };
    let models: Vec<Option<&Path>> = match &cli.models[..] {
        [] => vec![None],
        models => models.iter().map(|m| Some(m.as_path())).collect(),
    };
    for model in models {
        let mut absent = absent.clone();
        let mut with = WithModel { cli, settings, application, model, found: &mut found };
        if !drivers.is_empty() {
            let (info, announced) = engine.info(model, None, &[])?;
            for chosen in choose(&info, &drivers, cli.require)? {
                with.add(&info, &At { chosen: &chosen, shim: None, place: &[], announced: &announced })?;
            }
        }
        for (spec, place) in &places {
            let (info, announced) = engine.info(model, None, place)?;
            for chosen in choose(&info, std::slice::from_ref(spec), cli.require)? {
                with.add(&info, &At { chosen: &chosen, shim: None, place, announced: &announced })?;
                with.rename(&spec.to_string());
            }
        }
        for shim in &shims {
            let (info, announced) = engine.info(model, Some(shim), &[])?;
            match launch::choose(shim.driver, &info) {
                Ok(chosen) => with.add(
                    &info,
                    &At { chosen: &chosen, shim: Some(shim), place: &[], announced: &announced },
                )?,
                Err(why) => absent.push((shim.driver, why.to_string())),
            }
        }
        let name = match (application, model) {
            (Some(application), _) => application.name(),
            (None, Some(path)) => file_name(path),
            (None, None) => EMBEDDED.into(),
        };
        let arms = absent.drain(..).flat_map(|(driver, why)| not_run(driver, &why, &name, &cli.arms()));
        found.not_run.extend(arms);
    }
    Ok(found)
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
    fn add(&mut self, info: &Info, at: &At<'_>) -> Result<(), SweepError> {
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
        let by_token = self.cli.command_line().is_none_or(Application::counts_tokens);
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

/// The drivers that execute, the shims that are set up, and those that are not, each once.
pub(super) fn split(cli: &Cli) -> Result<Drivers, SweepError> {
    let (mut drivers, mut shims, mut absent) = (Vec::new(), Vec::<Shim>::new(), Vec::<Absent>::new());
    let mut places: Vec<Place> = Vec::new();
    for spec in &cli.drivers {
        if let DriverSpec::Patched(driver) = spec {
            let manifest = driver.manifest(|name| std::env::var_os(name))?;
            if !places.iter().any(|(known, _)| known == spec) {
                places.push((spec.clone(), patched::variables(&manifest)));
            }
            continue;
        }
        let DriverSpec::Shim(driver) = spec else {
            drivers.push(spec.clone());
            continue;
        };
        if let Some(require) = cli.require {
            return Err(SweepError::Missing(format!(
                "--require {}: {driver} is a shim, which executes nothing",
                require.name()
            )));
        }
        if shims.iter().map(|s| s.driver).chain(absent.iter().map(|a| a.0)).any(|known| known == *driver) {
            continue;
        }
        match Cache::here().and_then(|cache| Shim::find(*driver, &cache)) {
            Ok(shim) => shims.push(shim.rooted(applications::root(cli).as_deref())?),
            Err(why) => absent.push((*driver, why.to_string())),
        }
    }
    Ok((drivers, places, shims, absent))
}

/// What is to be known of a variable that no driver announced.
fn unvouched(name: &str) -> String {
    format!(
        "No driver here announces {name}, so nothing says that it is known there: where nothing changes that is counted, it \
         may have done nothing at all."
    )
}

/// The knobs that the drivers of the command line announce, for people.
///
/// # Errors
///
/// [`SweepError`], as [`super::run`].
pub fn list_knobs(cli: &Cli, stop: &AtomicBool) -> Result<String, SweepError> {
    let program = beside(cli.engine.as_deref(), "engine", "the engine", "--engine")?;
    let layer = beside(cli.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?;
    let engine = Engine::new(&program, &layer, None, stop)?;
    let (drivers, places, shims, _) = split(cli)?;
    let mut all = Vec::new();
    if !drivers.is_empty() {
        all.extend(engine.info(None, None, &[])?.1);
    }
    for (_, place) in &places {
        all.extend(engine.info(None, None, place)?.1);
    }
    for shim in &shims {
        all.extend(engine.info(None, Some(shim), &[])?.1);
    }
    Ok(knobs::list(&all))
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

/// The path that was given, or the file of that name beside this program.
pub(crate) fn beside(
    given: Option<&Path>,
    name: &str,
    what: &str,
    option: &str,
) -> Result<PathBuf, SweepError> {
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.parent()?.join(name)))
            .unwrap_or_else(|| PathBuf::from(name)),
    };
    if !path.is_file() {
        return Err(SweepError::Missing(format!(
            "{what} is not at '{}'; build it with `cargo build --release -p zinc-barrier -p zinc-engine`, or say \
             where it is with {option}",
            path.display()
        )));
    }
    // The loader and the child resolve relative paths from elsewhere.
    std::path::absolute(&path)
        .map_err(|source| SweepError::System { what: format!("cannot find {what}"), source })
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

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}
