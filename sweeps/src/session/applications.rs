//! The targets of an application that executes.
//!
//! Which device an application takes is its own affair: the engine's list says nothing of it. So it is run once under
//! `stock`, and the layer's report tells. A driver that was asked for by name is offered alone where the loader can do
//! that, and an application that takes another device all the same is refused, not measured.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use zinc_engine::results::{Device, DeviceKind};
use zinc_report::DeviceType;

use super::found::{At, Found, Place, WithModel};
use crate::application::Application;
use crate::child::{Engine, Job};
use crate::cli::{Cli, GateName};
use crate::command_line::CommandLine;
use crate::drivers::{Chosen, DriverSpec, fits, label, loader_filter};
use crate::error::SweepError;
use crate::gate::Gate;
use crate::knobs::Announced;
use crate::limits::first_timeout;
use crate::measure::Compare;
use crate::shims::folders::Cache;
use crate::shims::subject;
use crate::variables::Setting;

/// Adds the application on every driver that was asked for.
pub(super) fn find(
    cli: &Cli,
    engine: &Engine<'_>,
    (drivers, places): (&[DriverSpec], &[Place]),
    settings: &[Setting],
    application: &Application,
    found: &mut Found,
) -> Result<(), SweepError> {
    let named = drivers.iter().map(|spec| (spec, loader_filter(spec)));
    let all = named.chain(places.iter().map(|(spec, place)| (spec, place.clone())));
    for (spec, place) in all {
        let (chosen, announced) = first(cli, engine, spec, &place, application)?;
        let gates = gates(cli, application);
        let mut with = WithModel { cli, settings, application: Some(application), model: None, found };
        let at = At { chosen: &chosen, shim: None, place: &place, announced: &announced };
        with.add_named(&application.name(), &at, &gates)?;
        if let DriverSpec::Patched(_) = spec {
            with.rename(&spec.to_string());
        }
    }
    Ok(())
}

/// The device that the application takes.
fn first(
    cli: &Cli,
    engine: &Engine<'_>,
    spec: &DriverSpec,
    place: &[(String, OsString)],
    application: &Application,
) -> Result<(Chosen, Vec<Announced>), SweepError> {
    let job = Job::of_application(application, place.to_vec(), cli.tokens);
    let timeout: Duration = cli.timeout.unwrap_or_else(first_timeout);
    let (seen, announced) = engine.first_run(application, &job, timeout)?;
    let device = Device {
        index: 0,
        name: seen.name,
        driver: seen.driver,
        driver_version: seen.driver_version,
        api_version: seen.api_version,
        kind: match seen.device_type {
            DeviceType::Other => DeviceKind::Other,
            DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
            DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
            DeviceType::VirtualGpu => DeviceKind::VirtualGpu,
            DeviceType::Cpu => DeviceKind::Cpu,
        },
    };
    if !fits(spec, &device, cli.require) {
        let required = cli.require.map(|r| format!(" of kind {}", r.name())).unwrap_or_default();
        return Err(SweepError::Missing(format!(
            "'{}' took {} ({}), where a device of driver '{spec}'{required} was asked for: choose with an option of the \
             application's own, or with VK_DRIVER_FILES",
            application.name(),
            device.name,
            device.kind
        )));
    }
    let driver = label(&device);
    Ok((Chosen { selector: device.name.clone(), driver, device }, announced))
}

/// What every correct policy has to pass.
fn gates(cli: &Cli, application: &Application) -> Vec<Gate> {
    let mut gates = match &application.measure.compare {
        Compare::Nothing => vec![],
        Compare::Output | Compare::Check { value: None, .. } => vec![Gate::Output],
        Compare::Check { value: Some(_), .. } => {
            let tolerance = cli.tolerance.unwrap_or(0.0);
            vec![Gate::Value { ppm: (tolerance * 1e6).round() as u32 }]
        }
    };
    if cli.gates.contains(&GateName::Validation) {
        gates.push(Gate::Validation);
    }
    gates
}

/// The folder whose libraries the application is to have on a shim.
pub(super) fn root(cli: &Cli) -> Option<PathBuf> {
    let name = cli.command_line()?.first()?;
    let path = std::env::var_os("PATH");
    let cache = Cache::here().ok()?;
    subject::root(name, cli.root.as_deref(), path.as_deref(), &cache)
}

/// The application with all that is read off it.
pub(super) fn application(cli: &Cli) -> Result<Option<Application>, SweepError> {
    let Some(command) = cli.command_line() else { return Ok(None) };
    let path = std::env::var_os("PATH");
    let on_shim = cli.drivers.iter().any(|driver| matches!(driver, DriverSpec::Shim(_)));
    let root = root(cli).filter(|_| on_shim);
    let line = CommandLine::find(command, root.as_deref(), path.as_deref(), on_shim)?;
    let mut application = Application::new(line);
    application.called = cli.app_name.clone();
    let measure = &mut application.measure;
    measure.metric = cli.metric.clone();
    measure.ignore = cli.ignore.clone();
    if cli.same_output {
        measure.compare = Compare::Output;
    }
    if let Some(words) = &cli.check {
        let command = CommandLine::find(&words.0, cli.root.as_deref(), path.as_deref(), false)?;
        measure.compare = Compare::Check { command, value: cli.check_value.clone() };
    }
    Ok(Some(application))
}
