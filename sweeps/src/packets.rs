//! What the driver itself put into its command stream, as the packet counter reports it.
//!
//! `libzinc_packets.so`, preloaded before a shim, walks what the driver submits. Of its report the sweep needs one
//! number, the *flushes*: what the driver makes of the barriers that it is handed. On AMD's chips that is the event
//! that waits until all compute work so far is done (CS_PARTIAL_FLUSH), on Apple's the barrier of the compute data
//! master. The caches that a flush writes back or invalidates are in the counter's own report.
//!
//! Walking takes time, on the same thread that submits. So runs with the counter are runs of their own and their CPU
//! time is not looked at.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::SweepError;

/// The version of the counter's report that is understood here.
const SCHEMA: u32 = 1;

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

#[derive(Deserialize)]
struct Document {
    interposed_first: bool,
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    unreadable_submits: u64,
    total: Packets,
}

#[derive(Deserialize)]
struct Packets {
    pm4: Option<Pm4>,
    cdm: Option<Cdm>,
}

#[derive(Deserialize)]
struct Pm4 {
    cs_partial_flushes: u64,
    unreadable: u64,
    truncated: u64,
    limited: u64,
}

#[derive(Deserialize)]
struct Cdm {
    barriers: u64,
    unreadable: u64,
    limited: u64,
}

/// The flushes that the process submitted, by the counter's report.
///
/// # Errors
///
/// Why there is no number to be believed: the text is no such report, or the counter says itself that it missed
/// something.
pub fn flushes(text: &str) -> Result<u64, String> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let garbage = |e: serde_json::Error| format!("its report cannot be read: {e}");
    let Version { schema } = serde_json::from_str(text).map_err(garbage)?;
    if schema != SCHEMA {
        return Err(format!("its report has schema {schema} instead of {SCHEMA}"));
    }
    let document: Document = serde_json::from_str(text).map_err(garbage)?;
    if !document.interposed_first {
        return Err("another library took the driver's calls before it".into());
    }
    if document.devices.is_empty() {
        return Err("it saw no submission".into());
    }
    let mut sum = 0u64;
    for device in document.devices {
        let pm4 = device
            .total
            .pm4
            .map_or((0, 0), |p| (p.cs_partial_flushes, p.unreadable + p.truncated + p.limited));
        let cdm = device.total.cdm.map_or((0, 0), |c| (c.barriers, c.unreadable + c.limited));
        if device.unreadable_submits + pm4.1 + cdm.1 > 0 {
            return Err("it could not read all that was submitted".into());
        }
        sum += pm4.0 + cdm.0;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(first: bool, devices: &str) -> String {
        format!(r#"{{"schema": 1, "interposed_first": {first}, "devices": [{devices}]}}"#)
    }

    const AMD: &str = r#"{"driver": "amdgpu", "unreadable_submits": 0, "queues": [], "total": {"other_buffers": 0,
        "pm4": {"cs_partial_flushes": 7, "acquires": 9, "unreadable": 0, "truncated": 0, "limited": 0}}}"#;
    const APPLE: &str = r#"{"driver": "asahi", "unreadable_submits": 0, "queues": [], "total": {"other_buffers": 0,
        "cdm": {"barriers": 8, "links": 7, "unreadable": 0, "limited": 0}}}"#;

    #[test]
    fn a_counter_is_taken_from_where_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let (good, bad) = (folder.path().join("c.so"), folder.path().join("a b.so"));
        assert!(library(Some(&good)).unwrap_err().to_string().contains("zinc-packets"));
        std::fs::write(&good, "").unwrap();
        std::fs::write(&bad, "").unwrap();
        assert_eq!(library(Some(&good)).unwrap(), Some(good));
        assert!(library(Some(&bad)).unwrap_err().to_string().contains("space"));
        assert_eq!(library(Some(Path::new("off"))).unwrap(), None);
    }

    #[test]
    fn flushes_of_either_hardware_are_counted() {
        assert_eq!(flushes(&report(true, AMD)), Ok(7));
        assert_eq!(flushes(&report(true, APPLE)), Ok(8));
        assert_eq!(flushes(&report(true, &format!("{AMD}, {APPLE}"))), Ok(15));
    }

    #[test]
    fn what_the_counter_missed_is_no_count() {
        assert!(flushes(&report(false, AMD)).unwrap_err().contains("before it"));
        assert!(flushes(&report(true, "")).unwrap_err().contains("no submission"));
        for field in ["unreadable_submits", "truncated", "unreadable", "limited"] {
            let text = report(true, &AMD.replace(&format!("\"{field}\": 0"), &format!("\"{field}\": 1")));
            assert!(flushes(&text).unwrap_err().contains("could not read all"), "{field}");
        }
    }

    #[test]
    fn another_version_or_no_report_is_no_count() {
        assert!(flushes(r#"{"schema": 2}"#).unwrap_err().contains("schema 2"));
        for text in ["", "{}", "[]", r#"{"schema": 1, "devices": 3}"#] {
            assert!(flushes(text).is_err(), "{text}");
        }
    }
}
