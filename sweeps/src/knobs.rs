//! The switches of a driver: which there are, and which values of them make arms.
//!
//! A driver reads its settings from variables, and a variable that it does not know does nothing at all. A sweep over a
//! misspelled name would so measure the same driver several times and call the noise a result. So names and values
//! are never taken on trust: the drivers of `mesa-patches` announce their knobs to whoever asks, and what was not
//! announced by the driver in use is an error before the first run.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::str::FromStr;

use serde::Deserialize;

use crate::error::SweepError;

/// The variables that have a driver announce its knobs; each names a file to which one line of JSON is appended.
pub const ASK: [&str; 3] = ["RADV_BARRIER_HELP", "HK_BARRIER_HELP", "LP_BARRIER_HELP"];

/// A knob, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Knob {
    /// The variable.
    pub name: String,
    /// `switch`, `number`, `mask`, or `sink`, which is a place to write to.
    pub kind: String,
    /// What it does.
    pub help: String,
    /// The value that holds where nothing is set.
    #[serde(default)]
    pub default: u64,
    /// The largest legal value.
    #[serde(default)]
    pub max: u64,
    /// Names of a mask's bits, from bit 0 on.
    #[serde(default)]
    pub bits: Vec<String>,
}

/// What one driver announced.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Announced {
    /// `radv`, `honeykrisp` or `lavapipe`.
    pub driver: String,
    /// Its Mesa's version.
    pub mesa: String,
    /// Its knobs.
    pub knobs: Vec<Knob>,
}

/// What drivers wrote when they were asked. A driver may have been asked several times; it counts once.
pub fn parse(text: &str) -> Vec<Announced> {
    let mut found: Vec<Announced> = Vec::new();
    for said in text.lines().filter_map(|line| serde_json::from_str::<Announced>(line).ok()) {
        if !found.contains(&said) {
            found.push(said);
        }
    }
    found
}

/// One `--knob NAME=VALUE,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// The knob.
    pub name: String,
    /// Its values, each an arm.
    pub values: Vec<String>,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) =
            text.split_once('=').ok_or("a knob is NAME=VALUE or NAME=VALUE,VALUE,...".to_string())?;
        let mut axis = Axis { name: name.trim().into(), values: Vec::new() };
        for value in values.split(',').map(str::trim) {
            if value.is_empty() {
                return Err(format!("'{text}' holds an empty value"));
            }
            if axis.values.iter().any(|known| known == value) {
                return Err(format!("'{text}' names {value} twice"));
            }
            axis.values.push(value.into());
        }
        if axis.name.is_empty() { Err(format!("'{text}' names no knob")) } else { Ok(axis) }
    }
}

/// All combinations of the axes' values, the last axis fastest; one empty combination where there is no axis.
pub fn combinations(axes: &[Axis]) -> Vec<Vec<(String, String)>> {
    axes.iter().fold(vec![Vec::new()], |all, axis| {
        all.iter()
            .flat_map(|sofar| {
                axis.values.iter().map(|value| {
                    let mut longer = sofar.clone();
                    longer.push((axis.name.clone(), value.clone()));
                    longer
                })
            })
            .collect()
    })
}

/// A combination as variables of an arm's process.
pub fn variables(combination: &[(String, String)]) -> Vec<(String, OsString)> {
    combination.iter().map(|(name, value)| (name.clone(), value.into())).collect()
}

/// Whether the driver called `label` knows every knob and takes every value.
///
/// # Errors
///
/// [`SweepError::Usage`] naming the knob, and what there is instead.
pub fn check(axes: &[Axis], announced: &[Announced], label: &str) -> Result<(), SweepError> {
    if axes.is_empty() {
        return Ok(());
    }
    let own = announced.iter().find(|said| said.driver == label);
    for axis in axes {
        let Some(own) = own else {
            return Err(SweepError::Usage(format!(
                "--knob {}: the driver '{label}' announces no knobs: only drivers that mesa-patches/build made have any \
                 (--driver patched:radv)",
                axis.name
            )));
        };
        let Some(knob) = own.knobs.iter().find(|knob| knob.name == axis.name) else {
            let names: Vec<&str> = own.knobs.iter().map(|knob| knob.name.as_str()).collect();
            return Err(SweepError::Usage(format!(
                "--knob {}: the driver '{label}' has no such knob; it has {}",
                axis.name,
                names.join(", ")
            )));
        };
        for value in &axis.values {
            if !knob.takes(value) {
                return Err(SweepError::Usage(format!(
                    "--knob {}={value}: the value must be {}",
                    axis.name,
                    knob.legal()
                )));
            }
        }
    }
    Ok(())
}

impl Knob {
    fn takes(&self, value: &str) -> bool {
        if self.kind == "sink" {
            return true;
        }
        let number = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        // Rust's numbers may begin with a sign, the drivers' may not.
        value.starts_with(|c: char| c.is_ascii_digit()) && number.is_ok_and(|number| number <= self.max)
    }

    /// Its legal values, in words.
    pub fn legal(&self) -> String {
        match self.kind.as_str() {
            "sink" => "a path or stderr".into(),
            "switch" => "0 or 1".into(),
            "mask" => format!("a mask of the bits 0 to {0:#x}", self.max),
            _ => format!("a number from 0 to {}", self.max),
        }
    }
}

/// The list for people.
pub fn list(announced: &[Announced]) -> String {
    let mut text = String::new();
    for said in announced {
        let _ = writeln!(text, "{} (Mesa {})", said.driver, said.mesa);
        for knob in &said.knobs {
            let _ = writeln!(text, "  {}: {}", knob.name, knob.help);
            let default = if knob.kind == "sink" { "off".into() } else { format!("{:#x}", knob.default) };
            let _ = writeln!(text, "      {}; default {default}", knob.legal());
            let bits = knob.bits.iter().enumerate().map(|(i, bit)| format!("{i} {bit}"));
            let bits: Vec<String> = bits.collect();
            if !bits.is_empty() {
                let _ = writeln!(text, "      bits: {}", bits.join(", "));
            }
        }
    }
    if text.is_empty() {
        text.push_str("no driver here announces knobs; mesa-patches/build makes some that do\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"driver":"radv","mesa":"25.0.7","knobs":[
        {"name":"RADV_SKIP","kind":"switch","help":"skips","default":0,"max":1},
        {"name":"RADV_MASK","kind":"mask","help":"masks","default":255,"max":255,"bits":["A","B"]},
        {"name":"RADV_SINK","kind":"sink","help":"writes"}]}"#;

    fn announced() -> Vec<Announced> {
        parse(&LINE.replace('\n', ""))
    }

    fn axes(words: &[&str]) -> Vec<Axis> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    fn refused(words: &[&str], label: &str) -> String {
        let error = check(&axes(words), &announced(), label).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn knobs_that_the_driver_announced_are_taken() {
        check(&axes(&["RADV_SKIP=0,1", "RADV_MASK=0xff,254", "RADV_SINK=stderr"]), &announced(), "radv")
            .unwrap();
        check(&[], &[], "nvidia").unwrap();
    }

    #[test]
    fn an_unknown_knob_is_an_error_that_names_those_there_are() {
        assert!(refused(&["RADV_SKIPP=1"], "radv").contains("RADV_SKIP, RADV_MASK"));
        // Another driver's announcement is none of this one's.
        assert!(refused(&["RADV_SKIP=1"], "lavapipe").contains("announces no knobs"));
    }

    #[test]
    fn an_illegal_value_is_an_error_that_names_the_legal_ones() {
        for value in ["2", "-1", "+1", "yes", "1x", "0x2"] {
            assert!(refused(&[&format!("RADV_SKIP={value}")], "radv").contains("0 or 1"), "{value}");
        }
        assert!(refused(&["RADV_MASK=256"], "radv").contains("0xff"));
    }

    #[test]
    fn an_axis_has_a_name_and_values() {
        for wrong in ["RADV_SKIP", "=1", "RADV_SKIP=", "RADV_SKIP=1,", "RADV_SKIP=1,1"] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn axes_are_crossed() {
        let all = combinations(&axes(&["A=1,2", "B=3,4"]));
        let shown: Vec<String> = all.iter().map(|c| c.iter().map(|(_, v)| v.as_str()).collect()).collect();
        assert_eq!(shown, ["13", "14", "23", "24"]);
        assert_eq!(combinations(&[]), [vec![]]);
    }

    #[test]
    fn a_driver_that_was_asked_twice_counts_once_and_other_lines_are_passed_over() {
        let line = LINE.replace('\n', "");
        assert_eq!(parse(&format!("{line}\nnoise\n{line}\n")).len(), 1);
    }
}
