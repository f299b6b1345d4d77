//! The drivers that were asked for: those that execute, and the shims that are set up or not.

use std::sync::atomic::AtomicBool;

use super::applications;
use super::found::Place;
use crate::child::Engine;
use crate::cli::Cli;
use crate::drivers::DriverSpec;
use crate::error::SweepError;
use crate::knobs;
use crate::patched;
use crate::programs::beside;
use crate::shims::ShimDriver;
use crate::shims::folders::Cache;
use crate::shims::launch::Shim;
/// A driver that records only and is not to be had, with the reason.
pub(super) type Absent = (ShimDriver, String);

/// What was asked for, sorted.
pub(super) type Drivers = (Vec<DriverSpec>, Vec<Place>, Vec<Shim>, Vec<Absent>);

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
