//! The gates that were asked for, and the programs that they need.
//!
//! A gate whose program is missing is an error before the first run, with what brings it: a sweep that leaves a gate out
//! by itself would claim more than it looked at.

use std::path::PathBuf;

use crate::child::Tools;
use crate::cli::{Cli, GateName};
use crate::error::SweepError;
use crate::gate::{Gate, Probe};
use crate::programs::beside;

/// The gates of the engine: bits and perplexity unless others were named.
pub(super) fn gates(cli: &Cli) -> Vec<Gate> {
    let all = cli.gates.contains(&GateName::All);
    let wanted = |name: GateName| all || cli.gates.contains(&name);
    let named = [
        (GateName::Bits, Gate::Bits),
        (GateName::Perplexity, Gate::Perplexity),
        (GateName::Ops, Gate::Ops),
        (GateName::BackendOps, Gate::BackendOps),
        (GateName::Validation, Gate::Validation),
        (GateName::Graphics, Gate::Graphics),
        (GateName::Window, Gate::Window),
    ];
    if cli.gates.is_empty() {
        return Gate::OF_DECODING.to_vec();
    }
    named.into_iter().filter(|(name, _)| wanted(*name)).map(|(_, gate)| gate).collect()
}

/// The programs of the gates.
pub(super) fn find(cli: &Cli) -> Result<Tools, SweepError> {
    let gates = gates(cli);
    let needs = |probe: Probe| gates.iter().any(|gate| gate.probe() == probe);
    let pictures = if needs(Probe::Graphics) || needs(Probe::Window) {
        let found =
            beside(cli.pictures.as_deref(), "pictures", "the program of the graphics gates", "--pictures");
        Some(found.map_err(|error| match error {
            SweepError::Missing(why) => SweepError::Missing(format!(
                "{why} (for this one `cargo build --release -p zinc-tests --bin pictures`)"
            )),
            other => other,
        })?)
    } else {
        None
    };
    // An application brings its own loader, and validation with it.
    let validated = needs(Probe::Validation) && cli.command_line().is_none();
    let oracles = if needs(Probe::BackendOps) || validated { Some(oracles(cli)?) } else { None };
    Ok(Tools { pictures, oracles, backend_ops: cli.backend_ops.clone() })
}

/// The folder that `tests/oracles` filled: the one that was named, or the latest in its own place.
fn oracles(cli: &Cli) -> Result<PathBuf, SweepError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let folder = cli.oracles.clone().or_else(|| Some(cache()?.join("zinc-barrier/oracles/sid")));
    match folder.filter(|folder| folder.join("run").is_file()) {
        Some(folder) => std::path::absolute(&folder)
            .map_err(|source| SweepError::System { what: "cannot find the oracles".into(), source }),
        None => Err(SweepError::Missing(
            "the gates validation and backend-ops need other people's programs: run tests/oracles to fetch them, or say \
             where they are with --oracles"
                .into(),
        )),
    }
}
