//! Differences that were each formed within a round: what something costs more than something else, in the unit of both.
//!
//! A ratio would hide the unit and blow up where the lesser side is near nothing, as a dispatch without a barrier can be.
//! As for ratios, the interval is a bootstrap's of the median from six rounds on, and Student's t below.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::LEVEL;
use super::comparison::{BOOTSTRAP_FROM, bootstrap, median, median_of_draw, moments};

/// A median with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// Lower end; the median itself where there is but one value.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// Number of values.
    pub n: u32,
}

impl Interval {
    /// Of values, of which those that are not finite are left out; `None` when none is left.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let centre = median(&values)?;
        let n = values.len();
        let (lo, hi) = if n >= BOOTSTRAP_FROM {
            bootstrap(|rng| median_of_draw(&values, rng))
        } else {
            let (mean, variance) = moments(&values);
            let reach = match StudentsT::new(0.0, 1.0, n as f64 - 1.0) {
                Ok(t) if n > 1 => t.inverse_cdf((1.0 + LEVEL) / 2.0) * (variance / n as f64).sqrt(),
                _ => 0.0,
            };
            (mean - reach, mean + reach)
        };
        Some(Interval { median: centre, lo: lo.min(centre), hi: hi.max(centre), n: n as u32 })
    }

    /// Of the differences `a - b`, round by round, each divided by `parts`.
    pub fn of_differences(a: &[Option<f64>], b: &[Option<f64>], parts: f64) -> Option<Interval> {
        let both = a.iter().zip(b).filter_map(|(a, b)| Some(((*a)? - (*b)?) / parts));
        Interval::of(&both.collect::<Vec<f64>>())
    }

    /// Whether nothing is among what it holds.
    pub fn holds_zero(&self) -> bool {
        self.lo <= 0.0 && self.hi >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_that_both_sides_share_cancels() {
        let b: Vec<Option<f64>> = (0..9).map(|i| Some(100.0 + 10.0 * f64::from(i))).collect();
        let a: Vec<Option<f64>> = b.iter().map(|b| b.map(|b| b + 6.0)).collect();
        let cost = Interval::of_differences(&a, &b, 2.0).unwrap();
        assert_eq!((cost.median, cost.lo, cost.hi, cost.n), (3.0, 3.0, 3.0, 9));
        assert!(!cost.holds_zero());
    }

    #[test]
    fn the_interval_of_scatter_about_nothing_holds_nothing_and_one_value_is_its_own_interval() {
        let values = [-2.0, 1.0, 0.5, -0.5, 2.0, -1.0, 0.1];
        assert!(Interval::of(&values).unwrap().holds_zero());
        assert!(Interval::of(&values[..3]).unwrap().holds_zero());
        let one = Interval::of(&[4.0, f64::NAN]).unwrap();
        assert_eq!((one.median, one.lo, one.hi, one.n), (4.0, 4.0, 4.0, 1));
        assert_eq!(Interval::of(&[f64::NAN]), None);
    }

    #[test]
    fn rounds_that_lack_a_side_are_left_out() {
        let cost =
            Interval::of_differences(&[Some(5.0), None, Some(9.0)], &[Some(1.0), Some(1.0), None], 1.0);
        assert_eq!(cost.map(|c| (c.median, c.n)), Some((4.0, 1)));
    }
}
