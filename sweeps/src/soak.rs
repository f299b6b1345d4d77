//! How often something goes wrong, from many runs of the same thing.
//!
//! A race that hits one record in a thousand passes any handful of runs. So a soak decodes the same text again and again,
//! with a digest for every record (a chunk of the text, which the engine begins with nothing remembered), and counts the
//! records that are not the reference's. Where none is bad the rate is not zero but unknown, and below 3/N with 95%
//! confidence (the rule of three); where some are, the bound is Clopper's and Pearson's.
//!
//! A soak that sees nothing has to be able to see something: one more run, without barriers and reversed, is its control,
//! and the rate of bad records there says that the digests tell.

use statrs::distribution::{Beta, ContinuousCDF};
use zinc_hazard::Policy;

use crate::outcome::{Measured, Observation};
use crate::plan::{Role, RunSpec};
use crate::report::SoakReport;
use crate::stats::LEVEL;
use crate::target::Target;

/// Below this rate none of `n` records in which `bad` were bad would leave their true rate, with [`LEVEL`] confidence.
pub fn bound(bad: u64, n: u64) -> f64 {
    match (bad, n) {
        (_, 0) => 1.0,
        (0, n) => (3.0 / n as f64).min(1.0),
        (bad, n) if bad >= n => 1.0,
        (bad, n) => Beta::new((bad + 1) as f64, (n - bad) as f64).map_or(1.0, |beta| beta.inverse_cdf(LEVEL)),
    }
}

/// What the repetitions of `spec` gave; `None` where there was none.
pub fn of(target: &Target, spec: &RunSpec) -> Option<SoakReport> {
    let soaked = |o: &&Observation| o.spec.same_arm(spec);
    let runs: Vec<&Observation> = target.observations.iter().filter(soaked).collect();
    if runs.is_empty() {
        return None;
    }
    // The text of a record is the same in every run. Which digests are right, a repetition of stock tells that gave the
    // reference's numbers as a whole: the first one may be one of the bad.
    let reference = target.evidence().reference()?;
    let of_stock = |o: &&Observation| o.spec.role == Role::Soak && o.spec.policy == Some(Policy::Stock);
    let stock = target.observations.iter().filter(of_stock).filter_map(|o| o.outcome.as_ref().ok());
    let right = stock.filter(|m| m.digest == reference.digest).find(|m| !m.cases.is_empty());
    let (mut tokens, mut records, mut bad, mut failed) = (0, 0, 0, 0);
    for run in runs {
        let Ok(measured) = &run.outcome else {
            failed += 1;
            continue;
        };
        tokens += measured.tokens;
        let (all, wrong) = match right {
            Some(right) if !measured.cases.is_empty() => {
                (measured.cases.len() as u64, differing(right, measured))
            }
            // A run that tells of no records is one, and so is each where no record is known to be right.
            _ => (1, u64::from(target.evidence().difference(&run.spec, measured).is_some())),
        };
        records += all;
        bad += wrong;
    }
    Some(SoakReport {
        driver: target.chosen.driver.clone(),
        device: target.chosen.device.name.clone(),
        model: target.model.clone(),
        policy: spec.policy.map(|policy| policy.to_string()).unwrap_or_default(),
        shuffle: spec.shuffle.to_string(),
        control: spec.same_arm(&RunSpec::soaking_control()),
        tokens,
        records,
        bad,
        failed,
        rate: if records == 0 { 0.0 } else { bad as f64 / records as f64 },
        bound: bound(bad, records),
    })
}

fn differing(right: &Measured, run: &Measured) -> u64 {
    run.cases.iter().filter(|(record, digest)| right.cases.get(*record) != Some(digest)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_none_is_bad_the_bound_is_three_in_n() {
        assert_eq!(bound(0, 3000), 0.001);
        assert_eq!((bound(0, 0), bound(0, 2), bound(5, 5)), (1.0, 1.0, 1.0));
    }

    #[test]
    fn where_some_are_bad_the_bound_is_that_of_the_binomial() {
        // The largest rate at which seeing so few has a chance of one in twenty; R: qbeta(0.95, 2, 99) and (6, 95).
        assert!((bound(1, 100) - 0.046_558).abs() < 1e-4, "{}", bound(1, 100));
        assert!((bound(5, 100) - 0.102_253).abs() < 1e-4, "{}", bound(5, 100));
        // And nearly the rule of three's, one below.
        assert!(bound(1, 100) > bound(0, 100));
    }
}
