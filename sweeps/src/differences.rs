//! What makes two runs of a gate's program differ, and in which cases.

use std::collections::BTreeMap;

use crate::figures::perplexity;
use crate::gate::Gate;
use crate::outcome::Measured;

/// Largest relative difference of perplexities that counts as none: 0.1%, the agreement that this project asks of
/// another engine on the same model and text.
pub const PERPLEXITY_TOLERANCE: f64 = 1e-3;

/// Cases that a reason names one by one; of more it says how many.
const NAMED_CASES: usize = 3;

impl Gate {
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
