//! Getting a report out of somebody else's process without harming it.
//!
//! A report is written when a device dies, which may be deep in an exit handler, with stderr closed or the disk
//! full. Whatever goes wrong costs one line on stderr at most, and never a panic: `eprintln!` is not used, because
//! it panics when stderr is closed. Files appear whole or not at all.

use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use zinc_report::Report;
use zinc_settings::variables::DISABLE;
use zinc_settings::writing::Patient;
use zinc_settings::{Destination, Elsewhere, Settings, files};

use crate::capture::Capture;
use crate::output::Output;

/// The settings that hold in this process, and where what is to be said of them goes.
#[derive(Debug, Default)]
pub struct InForce {
    settings: Settings,
    output: Output,
}

impl Deref for InForce {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl From<Settings> for InForce {
    /// What is said goes to whatever stderr is by then.
    fn from(settings: Settings) -> InForce {
        InForce { settings, output: Output::default() }
    }
}

impl InForce {
    /// What holds in this process; the warnings are lines for stderr.
    ///
    /// In a process with more rights than its caller, and where `DISABLE_ZINC_BARRIER` is set, the result is
    /// [`Settings::inert`] without any warning, whatever else the environment holds. `elsewhere` finds what variables that
    /// are not set leave open.
    pub fn here(elsewhere: impl FnOnce() -> Elsewhere) -> (InForce, Vec<String>) {
        // A loader keeps an implicit layer out when its manifest's variable says so, but not an explicit one that
        // VK_INSTANCE_LAYERS names. Whoever sets the variable wants the layer gone: then it is as good as gone.
        let disabled = std::env::var_os(DISABLE).is_some();
        if is_secure_process() || disabled {
            (Settings::inert().into(), Vec::new())
        } else {
            let (settings, warnings) = Settings::from_environment(&elsewhere());
            (InForce { settings, output: Output::keep() }, warnings)
        }
    }

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

/// Whether this process runs with more rights than whoever started it.
fn is_secure_process() -> bool {
    // SAFETY: getauxval reads a table that the kernel wrote before the program began; any argument is allowed.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
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

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_hazard::Policy;
    use zinc_report::{Device, DeviceType};
    use zinc_settings::Shuffle;

    fn to_file(path: PathBuf, settings: Settings) -> InForce {
        Settings { report: Destination::File(path), ..settings }.into()
    }

    fn report() -> Report {
        let device = Device {
            name: "a device".into(),
            driver: "a driver".into(),
            driver_version: "1".into(),
            api_version: "1.3.0".into(),
            device_type: DeviceType::Cpu,
            number: 2,
        };
        Report::new("0.1.0", device, "stock", true)
    }

    #[test]
    fn a_report_path_names_the_process_and_the_device() {
        let path = |template: &str| report_path(Path::new(template), 71, 99, 2).display().to_string();
        assert_eq!(path("/r/%p-%d.json"), "/r/71-2.json");
        assert_eq!(path("%p-%i-%d%"), "71-99-2%");
        assert_eq!(path("plain"), "plain");
        assert_eq!(path("100%%p%x%"), "100%p%x%");
    }

    #[test]
    fn a_report_appears_whole_under_its_name_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let settings = to_file(folder.path().join("r%d.json"), Settings::default());
        assert_eq!(settings.deliver(&report(), 1), Some(folder.path().join("r2.json")));
        assert_eq!(
            settings.deliver(&report(), 1),
            Some(folder.path().join("r2.json")),
            "a second time replaces it"
        );
        let text = std::fs::read_to_string(folder.path().join("r2.json")).unwrap();
        let mut expected = report();
        expected.add_standard_notes();
        assert_eq!(Report::from_json(&text).unwrap(), expected);
        assert!(!expected.notes.is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_report_that_cannot_be_written_is_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        for path in
            [folder.path().join("missing/r.json"), folder.path().to_path_buf(), "".into(), "/dev/full".into()]
        {
            let settings = to_file(path.clone(), Settings::default());
            assert_eq!(settings.deliver(&report(), 1), None, "{}", path.display());
        }
    }

    #[test]
    fn a_process_with_more_rights_than_its_caller_is_passed_through_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let secure = Settings::inert();
        assert_eq!((secure.policy, secure.shuffle, secure.mutate), (Policy::Stock, Shuffle::Off, None));
        assert_eq!(secure.report, Destination::Off);
        let tricked = to_file(folder.path().join("r"), secure);
        assert_eq!(tricked.deliver(&report(), 1), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(!is_secure_process());
    }
}
