//! What the user asked of the layer: in the environment, in a settings file, or through the application.
//!
//! A layer has no command line, and it lives in somebody else's process, so two rules shape this file:
//!
//! - **A setting that cannot be honoured must not be half honoured.** A misspelt policy, a seed that is no number, a
//!   check that this version lacks: each is named on stderr with the right values, and then the layer passes
//!   everything through, as under `stock`. Going on with the default policy would look like a measurement of what
//!   was asked.
//! - **The environment may belong to somebody else.** In a process that runs with more rights than its caller
//!   (setuid, file capabilities), the variables are the caller's and the rights are not. There the layer takes
//!   [`Settings::inert`]: it passes everything through and writes nothing.
//!
//! Parsing is a pure function of a lookup, so that the tests never touch the process's real environment. The
//! variables themselves are data, in [`variables`], shared with `zinc-barrier variables`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use zinc_hazard::Policy;

use crate::elsewhere::Elsewhere;
use crate::shuffle::Shuffle;
use crate::variables::{self as var, Variable};
use crate::{OutOfBounds, Ranges, number, printable};

/// The policy where none is named.
pub const DEFAULT_POLICY: Policy = Policy::AliasOnly;

/// Where writes may land unless the user says otherwise: docs/semantics.md, rule 11, says why.
pub const DEFAULT_OUT_OF_BOUNDS: OutOfBounds = OutOfBounds::Trust;

/// How far ranges reach unless the user says otherwise: docs/ranges.md says why.
pub const DEFAULT_RANGES: Ranges = Ranges::Bound;

/// Bytes to which ranges are widened unless the user says otherwise.
pub const DEFAULT_GRANULE: u64 = 64;

/// The largest granule: beyond it everything would overlap everything, and address arithmetic must not overflow.
pub const MAX_GRANULE: u64 = 1 << 20;

/// Where the report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Off,
    /// A table on stderr.
    Stderr,
    /// JSON in a file. The path is a template: `%p` is the process, `%i` its program, `%d` the device's number in it, `%%` a
    /// percent sign.
    File(PathBuf),
}

impl Destination {
    /// The value of the variable.
    fn from_value(value: OsString) -> Destination {
        match value.to_str() {
            Some("off") => Destination::Off,
            Some("stderr") => Destination::Stderr,
            _ => Destination::File(PathBuf::from(value)),
        }
    }

    /// Returns true if a later report replaces an earlier one.
    pub fn is_file(&self) -> bool {
        matches!(self, Destination::File(_))
    }
}

/// All that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is emitted of what was asked.
    pub policy: Policy,
    /// In which order operations are issued where nothing emitted orders them.
    pub shuffle: Shuffle,
    /// The barrier, counted from 0 over those emitted in a submission sequence, that is withheld.
    pub mutate: Option<u64>,
    /// The mutation counts from the device's creation: exactly one barrier is withheld.
    pub mutate_once: bool,
    /// Also count what each other policy would have emitted.
    pub would_emit: bool,
    /// Hold everything that is submitted against the independent model.
    pub audit: bool,
    /// Let writes be seen only by what an issued barrier makes them visible to.
    pub delay: bool,
    /// Cut dispatches into pieces that are issued in turn with those of their unordered neighbours.
    pub slice: bool,
    /// Where the trace goes: a template, as for the report.
    pub trace: Option<PathBuf>,
    /// Where the report goes.
    pub report: Destination,
    /// Whether names of processes and objects may appear in the report.
    pub names: bool,
    /// How far a write may stray from its descriptor's range.
    pub out_of_bounds: OutOfBounds,
    /// How far a binding's range reaches.
    pub ranges: Ranges,
    /// The folder of a capture: a template, as for the report.
    pub capture: Option<PathBuf>,
    /// Ranges are widened to multiples of this many bytes; a power of two.
    pub granule: u64,
    /// The process has more rights than its caller: write nothing anywhere, not even warnings.
    pub silent: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            policy: DEFAULT_POLICY,
            shuffle: Shuffle::Off,
            mutate: None,
            mutate_once: false,
            would_emit: false,
            audit: false,
            delay: false,
            slice: false,
            trace: None,
            report: Destination::Stderr,
            names: false,
            out_of_bounds: DEFAULT_OUT_OF_BOUNDS,
            ranges: DEFAULT_RANGES,
            capture: None,
            granule: DEFAULT_GRANULE,
            silent: false,
        }
    }
}

impl Settings {
    /// What this process's environment asks for, and `elsewhere` where it leaves something open; and one line for each
    /// thing that cannot be honoured.
    pub fn from_environment(elsewhere: &Elsewhere) -> (Settings, Vec<String>) {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let (settings, mut warnings) =
            Settings::from_lookup(|name| set(name).or_else(|| elsewhere.get(name)));
        warnings.extend(elsewhere.warnings.iter().cloned());
        warnings.extend(unknown_variables(std::env::vars_os().map(|(name, _)| name)));
        (settings, warnings)
    }

    /// Settings under which the layer touches nothing and writes nothing.
    pub fn inert() -> Settings {
        Settings { policy: Policy::Stock, report: Destination::Off, silent: true, ..Settings::default() }
    }

    /// Settings from a lookup of variables by name, and one line for each that cannot be honoured.
    ///
    /// An unset variable and an empty one both mean the default. After any fault the policy is `stock`, nothing is
    /// shuffled and nothing mutated; a last line says so.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> (Settings, Vec<String>) {
        let mut reader = Reader { lookup, faults: Vec::new() };
        let default = Settings::default();
        let mut settings = Settings {
            policy: reader.word(&var::POLICY).unwrap_or(default.policy),
            shuffle: reader.word(&var::SHUFFLE).unwrap_or(default.shuffle),
            mutate: reader
                .text(&var::MUTATE, |s| if s == "off" { Some(None) } else { number(s).map(Some) })
                .flatten(),
            mutate_once: reader
                .text(&var::MUTATE_COUNT, |s| match s {
                    "submission" => Some(false),
                    "device" => Some(true),
                    _ => None,
                })
                .unwrap_or(default.mutate_once),
            would_emit: reader.text(&var::WOULD_EMIT, switch).unwrap_or(default.would_emit),
            audit: reader.text(&var::AUDIT, switch).unwrap_or(default.audit),
            delay: reader.text(&var::DELAY, switch).unwrap_or(default.delay),
            slice: reader.text(&var::SLICE, switch).unwrap_or(default.slice),
            trace: reader.set(&var::TRACE).filter(|path| path != "off" && path != "0").map(PathBuf::from),
            report: reader.set(&var::REPORT).map_or(default.report, Destination::from_value),
            names: reader.text(&var::NAMES, switch).unwrap_or(default.names),
            out_of_bounds: reader.text(&var::OUT_OF_BOUNDS, out_of_bounds).unwrap_or(default.out_of_bounds),
            ranges: reader.text(&var::RANGES, ranges).unwrap_or(default.ranges),
            capture: reader.set(&var::CAPTURE).filter(|path| path != "off" && path != "0").map(PathBuf::from),
            granule: reader.text(&var::GRANULE, granule).unwrap_or(default.granule),
            silent: false,
        };
        let mut warnings = reader.faults;
        if !warnings.is_empty() {
            settings.policy = Policy::Stock;
            settings.shuffle = Shuffle::Off;
            settings.mutate = None;
            settings.delay = false;
            settings.slice = false;
            warnings.push(
                "therefore everything is passed through (policy stock, no shuffle, no mutation); \
                 'zinc-barrier variables' lists what can be set"
                    .into(),
            );
        }
        (settings, warnings)
    }
}

/// One line for each name that looks like a setting of the layer and is none: most likely a typing error.
pub fn unknown_variables(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let mut unknown: Vec<String> = names
        .into_iter()
        .map(|name| printable(&name))
        .filter(|name| name.starts_with(var::PREFIX))
        .filter(|name| {
            !var::VARIABLES.iter().any(|known| known.name == name)
                && !var::OF_THE_KIT.contains(&name.as_str())
        })
        .collect();
    unknown.sort();
    let known = || var::VARIABLES.map(|v| v.name).join(", ");
    unknown
        .into_iter()
        .map(|name| format!("{name} is ignored: no such setting; there are {}", known()))
        .collect()
}

/// Looks variables up and keeps a line for each one that cannot be honoured.
struct Reader<L> {
    lookup: L,
    faults: Vec<String>,
}

impl<L: Fn(&str) -> Option<OsString>> Reader<L> {
    fn set(&self, variable: &Variable) -> Option<OsString> {
        (self.lookup)(variable.name).filter(|value| !value.is_empty())
    }

    fn word<T: FromStr>(&mut self, variable: &Variable) -> Option<T> {
        self.text(variable, |s| s.parse().ok())
    }

    fn text<T>(&mut self, variable: &Variable, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = self.set(variable)?;
        let parsed = value.to_str().and_then(parse);
        if parsed.is_none() {
            let (name, value, values) = (variable.name, printable(&value), (variable.values)());
            self.faults.push(format!("{name}='{value}' is not understood; the values are: {values}"));
        }
        parsed
    }
}

fn switch(s: &str) -> Option<bool> {
    match s {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

fn out_of_bounds(s: &str) -> Option<OutOfBounds> {
    OutOfBounds::ALL.into_iter().find(|choice| choice.name() == s)
}

fn ranges(s: &str) -> Option<Ranges> {
    Ranges::ALL.into_iter().find(|choice| choice.name() == s)
}

fn granule(s: &str) -> Option<u64> {
    number(s).filter(|n| n.is_power_of_two() && *n <= MAX_GRANULE)
}

#[cfg(test)]
mod tests;
