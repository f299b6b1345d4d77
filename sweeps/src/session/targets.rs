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

use crate::absent::not_run;
use crate::application::Application;
use crate::assemble::{Setting, Target};
use crate::child::{Engine, Job};
use crate::cli::Cli;
use crate::drivers::{Chosen, DriverSpec, choose};
use crate::error::SweepError;
use crate::gates::Gate;
use crate::knobs;
use crate::patched;
use crate::report::Arm;
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

/// When the engine records, its busy neighbours, and the driver's knobs.
type Point = (Option<String>, Option<u32>, Vec<(String, String)>);

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
    let models: Vec<Option<&Path>> = match &cli.models[..] {
        [] => vec![None],
        models => models.iter().map(|m| Some(m.as_path())).collect(),
    };
    let mut found = Found::default();
    for model in models {
        let mut absent = absent.clone();
        let mut with = WithModel { cli, settings, application, model, found: &mut found };
        if !drivers.is_empty() {
            let (info, announced) = engine.info(model, None, &[])?;
            for chosen in choose(&info, &drivers, cli.require)? {
                knobs::check(&cli.knob, &announced, &chosen.driver)?;
                with.add(&info, &chosen, None, &[])?;
            }
        }
        for (spec, place) in &places {
            let (info, announced) = engine.info(model, None, place)?;
            for mut chosen in choose(&info, std::slice::from_ref(spec), cli.require)? {
                knobs::check(&cli.knob, &announced, &chosen.driver)?;
                chosen.driver = spec.to_string();
                with.add(&info, &chosen, None, place)?;
            }
        }
        for shim in &shims {
            let (info, announced) = engine.info(model, Some(shim), &[])?;
            match launch::choose(shim.driver, &info) {
                Ok(chosen) => {
                    knobs::check(&cli.knob, &announced, shim.driver.label())?;
                    with.add(&info, &chosen, Some(shim), &[])?;
                }
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

/// Where targets with one model are gathered.
struct WithModel<'a> {
    cli: &'a Cli,
    settings: &'a [Setting],
    application: Option<&'a Application>,
    model: Option<&'a Path>,
    found: &'a mut Found,
}

impl WithModel<'_> {
    /// One device, once for each place on the axes.
    fn add(
        &mut self,
        info: &Info,
        chosen: &Chosen,
        shim: Option<&Shim>,
        place: &[(String, OsString)],
    ) -> Result<(), SweepError> {
        let name = match self.application {
            Some(application) => application.name(),
            None => model_name(self.model, info)?,
        };
        if let Some(known) = &info.model {
            self.found.models.insert(name.clone(), known.model.blake3.clone());
        }
        for (record, busy, combination) in axes(self.cli) {
            let variables = place.iter().cloned().chain(knobs::variables(&combination)).collect();
            let job = Job {
                device: chosen.selector.clone(),
                device_name: chosen.device.name.clone(),
                model: self.model.map(Into::into),
                tokens: self.cli.tokens,
                ctx: self.cli.chunk(),
                shim: shim.cloned(),
                record: record.clone(),
                settings: self.settings.to_vec(),
                busy: busy.unwrap_or(0),
                application: self.application.cloned(),
                variables,
            };
            let named = [("record", record), ("busy", busy.map(|n| n.to_string()))];
            let named = named.into_iter().filter_map(|(k, v)| Some((k.to_string(), v?)));
            let target = Target {
                chosen: chosen.clone(),
                model: name.clone(),
                knobs: named.chain(combination).collect(),
                settings: self.settings.to_vec(),
                executes: shim.is_none(),
                policies: self.cli.arms(),
                gates: Gate::OF_DECODING.to_vec(),
                findings: Vec::new(),
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
            Ok(shim) => shims.push(shim.rooted(cli.root.as_deref())?),
            Err(why) => absent.push((*driver, why.to_string())),
        }
    }
    Ok((drivers, places, shims, absent))
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

/// All combinations of when the engine records, how busy its neighbours are, and the driver's knobs; `None` where
/// nothing was said.
fn axes(cli: &Cli) -> Vec<Point> {
    let mut axes = Vec::new();
    // An axis of which nothing was said has one place all the same, and nothing stands there.
    for r in 0..cli.record.len().max(1) {
        for b in 0..cli.busy.len().max(1) {
            for combination in knobs::combinations(&cli.knob) {
                axes.push((cli.record.get(r).map(record_name), cli.busy.get(b).copied(), combination));
            }
        }
    }
    axes
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
