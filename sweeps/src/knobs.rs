//! The switches of a driver: which there are, and which values of them make arms.
//!
//! A driver reads its settings from variables, and a variable that it does not know does nothing at all. A sweep over a
//! misspelled name would so measure the same driver several times and call the noise a result. The drivers of
//! `mesa-patches` announce their knobs to whoever asks: of those, a value that the driver would not take is an error
//! before the first run, and so is a name that is one of theirs but for a letter or two. Any other variable is taken as it
//! is, and the report says that nobody vouches for it; whether it does anything shows in what is counted.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::error::SweepError;
use crate::variables::{Ablation, Knob as Given};

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

/// Whether the driver called `label` takes every value of what it announced, and no name is an announced one misspelled.
/// Returns the names that nobody announced.
///
/// # Errors
///
/// [`SweepError::Usage`] naming the knob, and what there is instead.
pub fn check(knobs: &[Given], announced: &[Announced], label: &str) -> Result<Vec<String>, SweepError> {
    let own = announced.iter().find(|said| said.driver == label).map_or(&[][..], |own| &own.knobs);
    let mut unknown = Vec::new();
    for given in knobs {
        match own.iter().find(|knob| knob.name == given.name) {
            Some(knob) => {
                if let Some(value) = given.values.iter().find(|value| !knob.takes(value)) {
                    return Err(SweepError::Usage(format!(
                        "--knob {}={value}: the value must be {}",
                        given.name,
                        knob.legal()
                    )));
                }
            }
            None => {
                if let Some(meant) = own.iter().find(|knob| is_slip(&given.name, &knob.name)) {
                    let names: Vec<&str> = own.iter().map(|knob| knob.name.as_str()).collect();
                    return Err(SweepError::Usage(format!(
                        "--knob {}: the driver '{label}' has no such knob; is {} meant? It has {}",
                        given.name,
                        meant.name,
                        names.join(", ")
                    )));
                }
                unknown.push(given.name.clone());
            }
        }
    }
    Ok(unknown)
}

/// A mask that is ablated, and what its driver calls its bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    ablation: Ablation,
    bits: Vec<String>,
}

impl Masked {
    /// A value in words, where it is the mask without one bit: which one, by the driver's name for it if it has one.
    pub fn say(&self, name: &str, value: &str) -> Option<String> {
        let mask = self.ablation.mask;
        let bit = mask.set().find(|bit| mask.with(mask.bits & !(1 << bit)).to_string() == value)?;
        let called = self.bits.get(bit as usize).map(|bit| format!(" ({bit})")).unwrap_or_default();
        (self.ablation.name == name).then(|| format!("{name} without bit {bit}{called}"))
    }
}

/// The masks that are ablated, with the names that the driver called `label` gave their bits.
pub fn masks(ablations: &[Ablation], announced: &[Announced], label: &str) -> Vec<Masked> {
    let own = announced.iter().find(|said| said.driver == label).map_or(&[][..], |own| &own.knobs);
    let bits =
        |name: &str| own.iter().find(|knob| knob.name == name).map_or_else(Vec::new, |k| k.bits.clone());
    ablations.iter().map(|a| Masked { ablation: a.clone(), bits: bits(&a.name) }).collect()
}

/// Whether one name becomes the other by at most two letters more, less or changed.
fn is_slip(given: &str, known: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (given.chars().collect(), known.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()] <= 2
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

    fn given(words: &[&str]) -> Vec<Given> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    fn refused(words: &[&str], label: &str) -> String {
        let error = check(&given(words), &announced(), label).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn knobs_that_the_driver_announced_are_taken() {
        let words = ["RADV_SKIP=0,1", "RADV_MASK=0xff,254", "RADV_SINK=stderr"];
        assert!(check(&given(&words), &announced(), "radv").unwrap().is_empty());
        assert!(check(&[], &[], "nvidia").unwrap().is_empty());
    }

    #[test]
    fn a_knob_that_nobody_announced_is_taken_and_named() {
        assert_eq!(check(&given(&["RADV_DEBUG=zerovram"]), &announced(), "radv").unwrap(), ["RADV_DEBUG"]);
        // Another driver's announcement is none of this one's.
        assert_eq!(check(&given(&["RADV_SKIP=yes"]), &announced(), "lavapipe").unwrap(), ["RADV_SKIP"]);
    }

    #[test]
    fn a_slip_of_an_announced_name_is_an_error_that_names_those_there_are() {
        for slip in ["RADV_SKIPP=1", "RADV_SKP=1", "RADV_KSIP=1", "radv_SKIP=1", "RADV_MSK=1"] {
            let refused = check(&given(&[slip]), &announced(), "radv");
            assert_eq!(refused.is_err(), slip != "radv_SKIP=1", "{slip}: four letters are another name");
        }
        assert!(refused(&["RADV_SKIPP=1"], "radv").contains("RADV_SKIP, RADV_MASK"));
    }

    #[test]
    fn an_illegal_value_is_an_error_that_names_the_legal_ones() {
        for value in ["2", "-1", "+1", "yes", "1x", "0x2"] {
            assert!(refused(&[&format!("RADV_SKIP={value}")], "radv").contains("0 or 1"), "{value}");
        }
        assert!(refused(&["RADV_MASK=256"], "radv").contains("0xff"));
    }

    #[test]
    fn a_cleared_bit_has_the_drivers_name_for_it() {
        let ablated = ["RADV_MASK=0x3f".parse().unwrap()];
        let masked = &masks(&ablated, &announced(), "radv")[0];
        assert_eq!(masked.say("RADV_MASK", "0x3d").as_deref(), Some("RADV_MASK without bit 1 (B)"));
        assert_eq!(masked.say("RADV_MASK", "0x1f").as_deref(), Some("RADV_MASK without bit 5"));
        assert_eq!(masked.say("RADV_MASK", "0x3f"), None);
        assert_eq!(masked.say("OTHER", "0x3d"), None);
    }

    #[test]
    fn a_driver_that_was_asked_twice_counts_once_and_other_lines_are_passed_over() {
        let line = LINE.replace('\n', "");
        assert_eq!(parse(&format!("{line}\nnoise\n{line}\n")).len(), 1);
    }
}
