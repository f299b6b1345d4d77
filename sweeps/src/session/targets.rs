//! What a sweep is to run on: every device that was asked for, with every model and every setting, or the reason why one
//! is not there.
//!
//! All that can be missing is found here, before the first run, in the order of what it costs to find: files, then
//! drivers, each of which takes a start of the engine. What is found carries its own job, so that whoever makes the runs
//! needs to know nothing of the command line.

use std::path::Path;

use super::applications;
use super::asked::Drivers;
use super::found::At;
use super::found::Found;
use super::found::WithModel;
use super::found::file_name;
use crate::absent::not_run;
use crate::application::Application;
use crate::child::Engine;
use crate::cli::Cli;
use crate::drivers::choose;
use crate::error::SweepError;
use crate::programs::EMBEDDED;
use crate::shims::launch;
use crate::variables::Setting;

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
