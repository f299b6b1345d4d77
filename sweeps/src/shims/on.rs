//! `sweep on DRIVER -- COMMAND`: any program on a shim.
//!
//! This process becomes the program, so that signals, standard streams and the exit status are the program's own. Only
//! what the dynamic loader could not say in a way that anyone understands is found before: that the program is not
//! there, or was built for another machine.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use clap::Args;

use super::ShimDriver;
use super::folders::Cache;
use super::launch::Shim;
use super::subject;
use crate::error::SweepError;
use crate::packets;
use crate::programs;

const ABOUT: &str = "\
Examples:
  sweep on radv-shim:navi31 -- vulkaninfo --summary
  sweep on honeykrisp-shim -- llama-bench -m MODEL.gguf
      llama.cpp with its libraries, as `sweep setup-shims llama.cpp` fetches it, where PATH has none.
  sweep on honeykrisp-shim --root \"$(tests/oracles --where)\" -- llama-bench -m MODEL.gguf
      A program of another folder, with that one's C library.
  sweep on honeykrisp-shim -- target/release/engine bench
  VK_INSTANCE_LAYERS=zinc_barrier sweep on radv-shim:gfx1201 -- APPLICATION
  ZINC_BARRIER_PACKETS=packets.json sweep on radv-shim:gfx1201 -- APPLICATION
      Also counts the packets that the driver submits (needs libzinc_packets.so beside this program).

COMMAND is a program for x86-64, or a script: whatever program it starts in the end is on the driver, if \
libzinc_start.so is next to this program. A program that brings its own dynamic loader or, by LD_LIBRARY_PATH, its own \
libraries is started as always. A name without a slash is looked for among the programs that come with the driver \
(vulkaninfo), then in PATH, then among those that `sweep setup-shims llama.cpp` fetched.

Nothing executes: what COMMAND computes is garbage, and a rate that it prints is the processor's. What it records and \
submits is what it would on the real card.

Exit status: the program's own; 3 when the driver is not set up or the program cannot be started on it.";

/// The arguments of `sweep on`.
#[derive(Debug, Clone, Args)]
#[command(after_help = ABOUT)]
pub struct OnArgs {
    /// The driver: honeykrisp-shim, radv-shim:CHIP
    #[arg(value_name = "DRIVER")]
    pub driver: ShimDriver,

    /// Take the dynamic loader and libraries of this folder before the driver's own: for a program of a newer
    /// distribution, unpacked as tests/oracles does it
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,

    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Becomes the program; returns only when that fails.
///
/// # Errors
///
/// [`SweepError::Missing`] when the driver is not set up or the program cannot run on it.
pub fn run(args: &OnArgs) -> Result<Infallible, SweepError> {
    let cache = Cache::here()?;
    let shim = Shim::find(args.driver, &cache)?;
    let name = args.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let path = std::env::var_os("PATH");
    let own = name.to_str().and_then(|name| shim.program(name));
    let root = match own {
        Some(_) => args.root.clone(),
        None => subject::root(name, args.root.as_deref(), path.as_deref(), &cache),
    };
    let shim = shim.rooted(root.as_deref())?;
    let own = name.to_str().and_then(|name| shim.program(name));
    let program = programs::find(name, own, path.as_deref())?;
    shim.fits(&program).map_err(|why| {
        SweepError::Missing(format!("'{}' cannot be started on {}: {why}", program.display(), args.driver))
    })?;
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let counter = counter()?;
    shim.apply(&mut env, counter.as_deref());
    let mut command = shim.command(&program, counter.as_deref(), &env);
    command.args(&args.command[1..]).env_clear().envs(env);
    eprintln!(
        "sweep: on {}: nothing executes here; results are garbage and rates are this processor's",
        args.driver
    );
    let source = command.exec();
    Err(SweepError::System { what: format!("cannot start '{}'", program.display()), source })
}

/// The packet counter, where its variable asks for a report.
fn counter() -> Result<Option<PathBuf>, SweepError> {
    if std::env::var_os(packets::VARIABLE).is_none_or(|value| value.is_empty()) {
        return Ok(None);
    }
    packets::library(None)?.map(Some).ok_or_else(|| {
        SweepError::Missing(format!(
            "{} is set, but the packet counter is not beside this program: build it with `cargo build --release -p \
             zinc-packets`, or unset the variable",
            packets::VARIABLE
        ))
    })
}
