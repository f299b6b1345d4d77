//! Ways to compare a run with the reference.
//!
//! Each gate looks at one thing that a wrong barrier would change, and at runs of one program only: the engine's logits
//! say nothing of pictures. What it looks at is either one value for the whole run (a digest, a number) or a list of
//! *cases*, each with its own answer: kernels, scenes, sorts of hazard. Cases make a failure legible, since two bits
//! that break the same three kernels have most likely one cause.

use std::collections::BTreeMap;

use crate::outcome::Measured;
use crate::table::perplexity;

/// Largest relative difference of perplexities that counts as none: 0.1%, the agreement that this project asks of
/// another engine on the same model and text.
pub const PERPLEXITY_TOLERANCE: f64 = 1e-3;

/// Cases that a reason names one by one; of more it says how many.
const NAMED_CASES: usize = 3;

/// The program that a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// What is swept: the engine's decoding, or the application.
    Main,
    /// `engine ops`.
    Ops,
    /// llama.cpp's `test-backend-ops`.
    BackendOps,
    /// The engine's decoding with Khronos synchronization validation below the layer.
    Validation,
    /// The program `pictures`, off-screen.
    Graphics,
    /// The same in a window, under a virtual X server.
    Window,
}

impl Probe {
    /// The name that stands behind a run's own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Ops => "ops",
            Self::BackendOps => "backend-ops",
            Self::Validation => "validation",
            Self::Graphics => "graphics",
            Self::Window => "window",
        }
    }

    /// Whether issuing operations in another order could show this gate something. Validation judges what is recorded,
    /// in whatever order it comes.
    pub fn sees_order(self) -> bool {
        self != Self::Validation
    }

    /// Whether the owner's variables, which are a driver's, could show this gate something.
    pub fn sees_settings(self) -> bool {
        self != Self::Validation
    }
}

/// A way to compare a run with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Every bit of every logit vector, by digest.
    Bits,
    /// Perplexity, finite and within [`PERPLEXITY_TOLERANCE`].
    Perplexity,
    /// What an application prints, by digest.
    Output,
    /// A number that an application prints, within so many parts per million.
    Value {
        /// The largest relative difference that counts as none, in parts per million.
        ppm: u32,
    },
    /// Every kernel of the engine against its CPU reference.
    Ops,
    /// Every case of llama.cpp's `test-backend-ops`.
    BackendOps,
    /// No hazard that the reference's stream has not.
    Validation,
    /// Pictures, off-screen.
    Graphics,
    /// Pictures in a window.
    Window,
}

impl Gate {
    /// The gates of the engine's decoding.
    pub const OF_DECODING: [Gate; 2] = [Gate::Bits, Gate::Perplexity];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Perplexity => "perplexity",
            Self::Output => "output",
            Self::Value { .. } => "value",
            Self::Ops => "ops",
            Self::BackendOps => "backend-ops",
            Self::Validation => "validation",
            Self::Graphics => "graphics",
            Self::Window => "window",
        }
    }

    /// The program whose runs it looks at.
    pub fn probe(self) -> Probe {
        match self {
            Self::Bits | Self::Perplexity | Self::Output | Self::Value { .. } => Probe::Main,
            Self::Ops => Probe::Ops,
            Self::BackendOps => Probe::BackendOps,
            Self::Validation => Probe::Validation,
            Self::Graphics => Probe::Graphics,
            Self::Window => Probe::Window,
        }
    }

    /// Why `run` differs from `reference`, both of the gate's own program; `None` when it does not.
    pub fn difference(self, reference: &Measured, run: &Measured) -> Option<String> {
        match self {
            Self::Bits => (run.digest != reference.digest).then(|| "the logits differ".into()),
            Self::Output => (run.digest != reference.digest).then(|| "the output differs".into()),
            Self::Perplexity => number("perplexity", reference, run, PERPLEXITY_TOLERANCE),
            Self::Value { ppm } => number("value", reference, run, f64::from(ppm) / 1e6),
            Self::Validation => {
                named(&more(&reference.cases, &run.cases), "hazards that the reference has not")
            }
            Self::Ops | Self::BackendOps => named(&changed(&reference.cases, &run.cases), "cases differ"),
            Self::Graphics | Self::Window => named(&changed(&reference.cases, &run.cases), "pictures differ"),
        }
    }

    /// The cases in which `run` differs from `reference`; empty for a gate that sees the run as a whole.
    pub fn differing(self, reference: &Measured, run: &Measured) -> Vec<String> {
        match self {
            Self::Perplexity | Self::Value { .. } if !run.perplexity.is_finite() => {
                vec!["not a number".into()]
            }
            Self::Bits | Self::Perplexity | Self::Output | Self::Value { .. } => Vec::new(),
            Self::Validation => more(&reference.cases, &run.cases),
            Self::Ops | Self::BackendOps | Self::Graphics | Self::Window => {
                changed(&reference.cases, &run.cases)
            }
        }
    }
}

fn number(what: &str, reference: &Measured, run: &Measured, tolerance: f64) -> Option<String> {
    if !run.perplexity.is_finite() {
        return Some(format!("the {what} is not a finite number"));
    }
    let off = (run.perplexity - reference.perplexity).abs();
    // Written so that a reference that is itself not a number lets nothing pass.
    let same = off <= tolerance * reference.perplexity.abs();
    (!same).then(|| {
        let (found, wanted) = (perplexity(run.perplexity), perplexity(reference.perplexity));
        format!("{what} {found} instead of {wanted}")
    })
}

/// Cases whose answers are not the same, those that only one side has among them.
fn changed(reference: &BTreeMap<String, String>, run: &BTreeMap<String, String>) -> Vec<String> {
    let gone = reference.keys().filter(|case| !run.contains_key(*case));
    let other =
        run.iter().filter(|(case, answer)| reference.get(*case) != Some(answer)).map(|(case, _)| case);
    let mut cases: Vec<String> = gone.chain(other).cloned().collect();
    cases.sort();
    cases
}

/// Cases whose number is greater than the reference's.
fn more(reference: &BTreeMap<String, String>, run: &BTreeMap<String, String>) -> Vec<String> {
    let number = |text: Option<&String>| text.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
    let more = run.iter().filter(|(case, n)| number(Some(n)) > number(reference.get(*case)));
    more.map(|(case, _)| case.clone()).collect()
}

fn named(cases: &[String], what: &str) -> Option<String> {
    match cases.len() {
        0 => None,
        n if n > NAMED_CASES => Some(format!("{n} {what}, {} among them", cases[..NAMED_CASES].join(", "))),
        _ => Some(format!("{what}: {}", cases.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cases: &[(&str, &str)]) -> Measured {
        let cases = cases.iter().map(|(case, answer)| (case.to_string(), answer.to_string())).collect();
        Measured { cases, ..Measured::nothing(1) }
    }

    #[test]
    fn a_case_that_is_missing_differs_as_much_as_one_with_another_answer() {
        let reference = with(&[("a", "1"), ("b", "2")]);
        let differing = |run| Gate::Graphics.differing(&reference, &run);
        assert_eq!(differing(with(&[("a", "1"), ("b", "2")])), [] as [String; 0]);
        assert_eq!(differing(with(&[("a", "1")])), ["b"]);
        assert_eq!(differing(with(&[("a", "1"), ("b", "3"), ("c", "4")])), ["b", "c"]);
        let said = Gate::Graphics.difference(&reference, &with(&[])).unwrap();
        assert!(said.contains("a, b"), "{said}");
    }

    #[test]
    fn a_hazard_counts_only_beyond_those_of_the_reference() {
        let reference = with(&[("READ_AFTER_WRITE", "2")]);
        let said = |run| Gate::Validation.difference(&reference, &run);
        assert_eq!(said(with(&[])), None);
        assert_eq!(said(with(&[("READ_AFTER_WRITE", "2")])), None);
        assert!(said(with(&[("READ_AFTER_WRITE", "3")])).is_some());
        assert!(said(with(&[("WRITE_AFTER_WRITE", "1")])).unwrap().contains("WRITE_AFTER_WRITE"));
    }

    #[test]
    fn a_value_may_be_off_by_its_tolerance_and_no_more() {
        let value = |v| Measured { perplexity: v, ..Measured::nothing(1) };
        let off = |v| Gate::Value { ppm: 1000 }.difference(&value(2.0), &value(v)).is_some();
        assert!(!off(2.0) && !off(2.0019) && off(2.0021) && off(f64::NAN));
        let exact = Gate::Value { ppm: 0 };
        assert_eq!(exact.difference(&value(0.0), &value(0.0)), None);
        assert!(exact.difference(&value(0.0), &value(1e-9)).is_some());
        assert!(exact.difference(&value(f64::NAN), &value(1.0)).is_some());
    }
}
