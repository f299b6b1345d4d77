//! Getting a report out of somebody else's process without harming it.
//!
//! A report is written when a device dies, which may be deep in an exit handler, with stderr closed or the disk
//! full. Whatever goes wrong costs one line on stderr at most, and never a panic: `eprintln!` is not used, because
//! it panics when stderr is closed. Files appear whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use std::os::unix::fs::OpenOptionsExt;
use zinc_report::Report;

use super::Settings;
use crate::capture::Capture;
use crate::files;
use crate::output::Patient;

/// Where the report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Off,
    /// A table on stderr.
    Stderr,
    /// JSON in a file; the path is a template for [`report_path`].
    File(PathBuf),
}

impl Destination {
    /// Returns true if a later report replaces an earlier one.
    pub fn is_file(&self) -> bool {
        matches!(self, Destination::File(_))
    }
}

impl Settings {
    /// Writes `report`, with its standard notes, to where the settings want it, for process `pid`.
    ///
    /// Returns the file that was written, if any. Failure is one line on stderr.
    pub fn deliver(&self, report: &Report, pid: u32) -> Option<PathBuf> {
        if self.silent {
            return None;
        }
        let mut report = report.clone();
        report.add_standard_notes();
        match &self.report {
            Destination::Off => None,
            Destination::Stderr => {
                self.say(&report.table());
                None
            }
            Destination::File(template) => {
                let path = report_path(template, pid, image(), report.device.number);
                match files::write_whole(&path, report.to_json().as_bytes(), 0o666) {
                    Ok(()) => Some(path),
                    Err(why) => {
                        self.warn([format!("no report: {why}; see ZINC_BARRIER_REPORT")]);
                        None
                    }
                }
            }
        }
    }

    /// Writes `report` while process `pid` runs, where it goes to a file: of what goes to a pipe or a terminal, each would be one
    /// more. Returns false where it can't be written or is not wanted; nothing is said of that before the last report.
    pub fn deliver_early(&self, report: impl FnOnce() -> Report, pid: u32, device: u32) -> bool {
        let Destination::File(template) = &self.report else { return false };
        let path = report_path(template, pid, image(), device);
        if self.silent || files::is_written_in_place(&path) {
            return false;
        }
        let mut report = report();
        report.add_standard_notes();
        files::write_whole(&path, report.to_json().as_bytes(), 0o666).is_ok()
    }

    /// Makes the file for the trace of device number `device` in process `pid`, where one is wanted. Failure is one line on
    /// stderr.
    pub fn open_trace(&self, pid: u32, device: u32) -> Option<Patient<std::fs::File>> {
        let path = report_path(self.trace.as_ref().filter(|_| !self.silent)?, pid, image(), device);
        let mut options = std::fs::File::options();
        let made = options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK).open(&path);
        made.map(Patient)
            .map_err(|why| {
                self.warn([format!("no trace: {}: {why}; see ZINC_BARRIER_TRACE", path.display())]);
            })
            .ok()
    }

    /// Begins the capture of device number `device` in process `pid`, where one is wanted. Failure is one line on stderr.
    pub fn begin_capture(&self, pid: u32, device: u32) -> Option<Capture> {
        let path = report_path(self.capture.as_ref().filter(|_| !self.silent)?, pid, image(), device);
        Capture::begin(&path)
            .map_err(|why| {
                self.warn([format!("no capture: {}: {why}; see ZINC_BARRIER_CAPTURE", path.display())]);
            })
            .ok()
    }

    /// Writes lines to stderr, each with the layer's name before it.
    pub fn warn(&self, lines: impl IntoIterator<Item = String>) {
        if !self.silent {
            for line in lines {
                self.say(&format!("zinc_barrier: {line}\n"));
            }
        }
    }

    /// An error has nowhere to go.
    fn say(&self, text: &str) {
        let _ = self.output.write(text);
    }
}

/// A number of this program in this process: a process that executes another program, and one of the same number in another
/// name space, have another. It is the time at which it is first asked for, in nanoseconds.
fn image() -> u64 {
    static IMAGE: OnceLock<u64> = OnceLock::new();
    *IMAGE.get_or_init(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
    })
}

/// The path that `template` stands for: `%p` is the process, `%i` its program ([`image`]), `%d` the device's number in it,
/// `%%` a percent sign. Any other percent sign stands for itself.
pub fn report_path(template: &Path, pid: u32, image: u64, device: u32) -> PathBuf {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    let template = template.as_os_str().as_bytes();
    let mut path = Vec::with_capacity(template.len() + 24);
    let mut rest = template;
    while let [byte, tail @ ..] = rest {
        let number = match rest {
            [b'%', b'p', ..] => Some(u64::from(pid)),
            [b'%', b'i', ..] => Some(image),
            [b'%', b'd', ..] => Some(u64::from(device)),
            _ => None,
        };
        let two = number.is_some() || rest.starts_with(b"%%");
        match number {
            Some(number) => path.extend(number.to_string().bytes()),
            None => path.push(*byte),
        }
        rest = &tail[usize::from(two)..];
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}
