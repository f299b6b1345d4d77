//! The device that is timed, by the names that a sweep's drivers have.
//!
//! Here commands are recorded in this process and not in a child's, so a driver that the loader does not find by itself
//! needs this process to have been started with the variables that name it. Where it was not, it starts itself anew with
//! them; the children that predict inherit the same.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;

use zinc_engine::results;
use zinc_engine::vk::{self, Device, Instance, Kind, Selector};

use super::CostArgs;
use super::of_vulkan;
use crate::drivers::{self, DriverSpec};
use crate::error::SweepError;
use crate::patched;
use crate::require::Require;

/// The device that `args` name, opened.
///
/// # Errors
///
/// [`SweepError::Missing`] when there is none, with what there is; or when the driver only records.
pub(super) fn open(args: &CostArgs) -> Result<Rc<Device>, SweepError> {
    match &args.driver {
        DriverSpec::Shim(shim) => {
            return Err(SweepError::Missing(format!(
                "driver '{shim}' records without executing, so nothing can be timed on it; `sweep --driver {shim}` counts"
            )));
        }
        DriverSpec::Patched(driver) => {
            become_started_with(patched::variables(&driver.manifest(|name| std::env::var_os(name))?))?;
        }
        DriverSpec::Auto | DriverSpec::Driver(_) | DriverSpec::Name(_) => {}
    }
    let instance = Instance::new().map_err(of_vulkan)?;
    if let Some(longest) = args.submit_timeout {
        instance.set_patience(longest);
    }
    let devices = instance.devices().map_err(of_vulkan)?;
    let known: Vec<results::Device> = devices.iter().map(|d| d.device.clone()).collect();
    let require = args.require.map(|r| match r {
        Require::Gpu => Kind::Gpu,
        Require::Cpu => Kind::Cpu,
    });
    let chosen = match &args.device {
        // The kind is the whole question where a driver was not named.
        None if args.driver == DriverSpec::Auto => vk::choose(&known, None, require).map_err(of_vulkan)?,
        None => of_driver(args, &known, require)?,
        Some(text) => {
            let selector: Option<Selector> = text.parse().ok();
            vk::choose(&known, selector.as_ref(), require).map_err(of_vulkan)?
        }
    };
    Device::new(instance, devices[chosen].clone()).map_err(of_vulkan)
}

/// The best device of the driver, as a place in `known`.
fn of_driver(args: &CostArgs, known: &[results::Device], require: Option<Kind>) -> Result<usize, SweepError> {
    let own: Vec<usize> =
        (0..known.len()).filter(|i| drivers::fits(&args.driver, &known[*i], None)).collect();
    if own.is_empty() {
        let here: Vec<String> =
            known.iter().map(|d| format!("{} ({}, {})", d.name, drivers::label(d), d.kind)).collect();
        let here = if here.is_empty() { "no device at all".into() } else { here.join(", ") };
        return Err(SweepError::Missing(format!("driver '{}' is not here; here are: {here}", args.driver)));
    }
    let devices: Vec<results::Device> = own.iter().map(|i| known[*i].clone()).collect();
    Ok(own[vk::choose(&devices, None, require).map_err(of_vulkan)?])
}

/// Returns where this process has the variables already, and else replaces it by one that has.
fn become_started_with(variables: Vec<(String, OsString)>) -> Result<(), SweepError> {
    if variables.iter().all(|(name, value)| std::env::var_os(name).as_ref() == Some(value)) {
        return Ok(());
    }
    let system = |source| SweepError::System { what: "cannot start anew with another driver".into(), source };
    let own = std::env::current_exe().map_err(system)?;
    Err(system(Command::new(own).args(std::env::args_os().skip(1)).envs(variables).exec()))
}
