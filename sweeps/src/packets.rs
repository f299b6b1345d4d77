//! What the driver itself put into its command stream, as the packet counter reports it.
//!
//! `libzinc_packets.so`, preloaded before a shim, walks what the driver submits. Of its report the sweep keeps what stands
//! beside the layer's counts: how much work was launched, and what the driver made of the barriers that it was handed.
//! On AMD's chips a *flush* is the event that waits until all compute work so far is done (CS_PARTIAL_FLUSH), and the
//! caches that are written back or invalidated stand in acquires and releases; on Apple's a flush is the barrier of the
//! compute data master, with a mask, and a *link* is where the driver joined streams that an asked barrier had split.
//!
//! Walking takes time, on the same thread that submits. So runs with the counter are runs of their own and their CPU
//! time is not looked at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zinc_packets_core::report::{Cdm, Pm4, Report, SCHEMA};

use crate::error::SweepError;

/// Names the file for the counter's report, and turns the counter on.
pub const VARIABLE: &str = "ZINC_BARRIER_PACKETS";

/// The counter's file name.
const NAME: &str = "libzinc_packets.so";

/// The counter's library: where it is said to be, or beside this program if it is there, or none, as when `off` is
/// said.
///
/// # Errors
///
/// [`SweepError::Missing`] when it is not where it was said to be, or where no dynamic loader could be told to look.
pub fn library(given: Option<&Path>) -> Result<Option<PathBuf>, SweepError> {
    let path = match given {
        Some(given) if given == Path::new("off") => return Ok(None),
        Some(given) if given.is_file() => std::path::absolute(given).unwrap_or_else(|_| given.into()),
        Some(given) => {
            return Err(SweepError::Missing(format!(
                "the packet counter is not at '{}'; build it with `cargo build --release -p zinc-packets`, or leave it \
                 out with --packets off",
                given.display()
            )));
        }
        None => {
            let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(NAME)));
            match beside.filter(|path| path.is_file()) {
                Some(path) => path,
                None => return Ok(None),
            }
        }
    };
    // The dynamic loader takes both to separate the libraries that it is to preload.
    if path.as_os_str().as_encoded_bytes().iter().any(|b| b" :".contains(b)) {
        return Err(SweepError::Missing(format!(
            "the packet counter cannot be loaded from '{}', whose path holds a space or a colon; copy it elsewhere and \
             name it with --packets, or leave it out with --packets off",
            path.display()
        )));
    }
    Ok(Some(path))
}

/// One thing that is counted in the driver's stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Count {
    /// Calls by which work was submitted.
    Submits,
    /// Dispatches on AMD, launches on Apple; those with their size in memory too.
    Dispatches,
    /// CS_PARTIAL_FLUSH on AMD, barriers of the compute data master on Apple.
    Flushes,
    /// AMD: ACQUIRE_MEM, or SURFACE_SYNC on older chips.
    Acquires,
    /// AMD: RELEASE_MEM and EVENT_WRITE_EOP.
    Releases,
    /// Apple: links without return.
    Links,
    /// Apple: streams.
    Streams,
    /// Packets of one sort that act on caches.
    Cache(Cache),
}

/// A sort of packet that acts on caches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// The packet's name, with the event of a release.
    pub packet: String,
    /// Its field: `CP_COHER_CNTL`, `GCR_CNTL`, `EVENT`; `MASK` for a barrier on Apple.
    pub field: String,
    /// The field's value, hexadecimal.
    pub value: String,
    /// The names of the bits that are set.
    pub bits: Vec<String>,
}

/// What a process submitted.
pub type Counts = BTreeMap<Count, u64>;

/// What the process submitted, by the counter's report.
///
/// # Errors
///
/// Why there are no numbers to be believed: the text is no such report, or the counter says itself that it missed
/// something.
pub fn read(text: &str) -> Result<Counts, String> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let garbage = |e: serde_json::Error| format!("its report cannot be read: {e}");
    let Version { schema } = serde_json::from_str(text).map_err(garbage)?;
    if schema != SCHEMA {
        return Err(format!("its report has schema {schema} instead of {SCHEMA}"));
    }
    let report: Report = serde_json::from_str(text).map_err(garbage)?;
    if !report.interposed_first {
        return Err("another library took the driver's calls before it".into());
    }
    if report.devices.is_empty() {
        return Err("it saw no submission".into());
    }
    let mut counts = Counts::new();
    for device in report.devices {
        let missed = device.unreadable_submits
            + device.total.pm4.as_ref().map_or(0, |p| p.unreadable + p.truncated + p.limited)
            + device.total.cdm.as_ref().map_or(0, |c| c.unreadable + c.limited);
        if missed > 0 {
            return Err("it could not read all that was submitted".into());
        }
        let mut add = |count: Count, n: u64| *counts.entry(count).or_insert(0) += n;
        add(Count::Submits, device.submits);
        if let Some(p) = device.total.pm4 {
            pm4(p, &mut add);
        }
        if let Some(c) = device.total.cdm {
            cdm(c, &mut add);
        }
    }
    Ok(counts)
}

fn pm4(p: Pm4, add: &mut impl FnMut(Count, u64)) {
    add(Count::Dispatches, p.dispatches + p.dispatches_indirect);
    add(Count::Flushes, p.cs_partial_flushes);
    add(Count::Acquires, p.acquires);
    add(Count::Releases, p.releases);
    for op in p.cache_ops {
        let packet = op.event.map_or(op.packet.clone(), |event| format!("{} {event}", op.packet));
        let cache = Cache { packet, field: op.register, value: op.value, bits: op.bits };
        add(Count::Cache(cache), op.count);
    }
}

fn cdm(c: Cdm, add: &mut impl FnMut(Count, u64)) {
    add(Count::Dispatches, c.launches);
    add(Count::Flushes, c.barriers);
    add(Count::Links, c.links);
    add(Count::Streams, c.streams);
    for barrier in c.barrier_masks {
        let (packet, field) = ("CDM barrier".into(), "MASK".into());
        add(Count::Cache(Cache { packet, field, value: barrier.mask, bits: barrier.bits }), barrier.count);
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
