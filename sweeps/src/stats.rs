//! Few numbers, said honestly.
//!
//! A sweep has three to a few dozen runs of each arm, on a machine that does other things too: rates are skewed, and
//! one run in ten is an outlier. So the centre is the median and the interval is made of *order statistics*: the
//! interval between the k-th smallest and the k-th largest value holds the true median with a probability that is a
//! binomial tail, whatever the distribution. No resampling, no seed, no assumption, and with fewer than six runs it
//! says openly that the whole range covers the median with less than 95%.
//!
//! Ratios are formed within a round, between two runs made within seconds of each other, and only then summarised: a
//! machine that slows down over the minutes slows both and cancels. That is what interleaving the arms is for.
//!
//! Whether two sides differ at all is [`comparison`]'s to say, and whether the machine changed meanwhile [`drift`]'s.

pub mod comparison;
pub mod difference;
pub mod drift;

use comparison::Comparison;
use statrs::distribution::{Binomial, DiscreteCDF};

/// The probability with which an interval should hold the true median, where there are enough values.
pub const LEVEL: f64 = 0.95;

/// Half of the runs further apart than this share of their median make the rates of an arm worth a warning.
pub const NOISE: f64 = 0.10;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// Lower end of the interval.
    pub lo: f64,
    /// Upper end of the interval.
    pub hi: f64,
    /// Number of values.
    pub n: usize,
    /// Probability that the interval holds the true median: at least [`LEVEL`] from six values on.
    pub coverage: f64,
    /// Largest less smallest value, as a share of the median.
    pub range: f64,
}

impl Spread {
    /// Median and interval of `values`; those that are not finite are left out. `None` when nothing is left.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let cut = trimmed(n);
        let range = if median == 0.0 { 0.0 } else { (last - first) / median.abs() };
        Some(Spread {
            median,
            lo: sorted[cut],
            hi: sorted[n - 1 - cut],
            n,
            coverage: coverage(n, cut),
            range,
        })
    }

    /// Whether the values lie further apart than [`NOISE`].
    pub fn is_noisy(&self) -> bool {
        self.n > 1 && self.range > NOISE
    }
}

/// The ratios `arm / reference`, round by round, summarised. A round that lacks either value is left out.
pub fn paired_ratio(arm: &[Option<f64>], reference: &[Option<f64>]) -> Option<Comparison> {
    let ratios: Vec<f64> =
        arm.iter().zip(reference).filter_map(|(a, r)| Some((*a)? / r.filter(|r| *r > 0.0)?)).collect();
    Comparison::paired(&ratios)
}

/// How many values may be cut off at either end of `n` sorted ones such that the rest still covers the median with
/// [`LEVEL`]; 0 where not even all of them do.
fn trimmed(n: usize) -> usize {
    (0..n.div_ceil(2)).take_while(|&cut| cut == 0 || coverage(n, cut) >= LEVEL).last().unwrap_or(0)
}

/// Probability that the true median lies between the smallest and the largest value after `cut` were taken off at
/// either end of `n`: the chance that neither fewer than `cut + 1` values fell below it nor fewer than that above.
fn coverage(n: usize, cut: usize) -> f64 {
    match Binomial::new(0.5, n as u64) {
        // The tail comes from an incomplete beta function with some fifteen digits: the last ones are noise.
        Ok(below) => ((1.0 - 2.0 * below.cdf(cut as u64)).max(0.0) * 1e12).round() / 1e12,
        Err(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_values_are_covered_by_their_range_with_three_chances_in_four() {
        let s = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((s.median, s.lo, s.hi, s.n), (2.0, 1.0, 3.0, 3));
        assert!((s.coverage - 0.75).abs() < 1e-12, "{}", s.coverage);
    }

    #[test]
    fn from_six_values_on_the_interval_holds_the_median_with_95_percent() {
        for n in 1..200 {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let s = Spread::of(&values).unwrap();
            assert_eq!(s.coverage >= LEVEL, n >= 6, "{n} values: {}", s.coverage);
        }
    }

    #[test]
    fn published_ranks_of_the_sign_interval_are_reproduced() {
        // 95% interval of the median by order statistics: n = 10 takes ranks 2 and 9, n = 20 ranks 6 and 15.
        assert_eq!((trimmed(10), trimmed(20)), (1, 5));
        assert!((coverage(10, 1) - 0.978_515_625).abs() < 1e-9);
    }

    #[test]
    fn values_that_are_not_numbers_are_left_out_and_nothing_gives_nothing() {
        assert_eq!(Spread::of(&[f64::NAN, 5.0, f64::INFINITY]).unwrap().n, 1);
        assert_eq!(Spread::of(&[f64::NAN]), None);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_drift_that_both_arms_share_cancels_in_the_ratio() {
        let reference: Vec<Option<f64>> = (1..=9).map(|i| Some(100.0 / f64::from(i))).collect();
        let arm: Vec<Option<f64>> = reference.iter().map(|r| r.map(|r| r * 1.25)).collect();
        let ratio = paired_ratio(&arm, &reference).unwrap();
        assert!((ratio.lo - 1.25).abs() < 1e-12 && (ratio.hi - 1.25).abs() < 1e-12);
        assert_eq!(ratio.answer, comparison::Answer::Higher);
    }

    #[test]
    fn rounds_without_a_partner_are_left_out() {
        let ratio = paired_ratio(&[Some(2.0), None, Some(3.0)], &[Some(1.0), Some(1.0), None]).unwrap();
        assert!((ratio.ratio - 2.0).abs() < 1e-12 && ratio.n == 1);
        assert_eq!(paired_ratio(&[None], &[Some(1.0)]), None);
        assert_eq!(paired_ratio(&[Some(1.0)], &[Some(0.0)]), None);
    }

    #[test]
    fn a_spread_of_a_fifth_is_noise_and_one_of_a_hundredth_is_not() {
        assert!(Spread::of(&[90.0, 100.0, 110.0]).unwrap().is_noisy());
        assert!(!Spread::of(&[99.5, 100.0, 100.5]).unwrap().is_noisy());
        assert!(!Spread::of(&[100.0]).unwrap().is_noisy());
    }

    proptest! {
        #[test]
        fn the_median_lies_in_its_interval_and_the_interval_in_the_range(
            values in prop::collection::vec(0.1f64..1e6, 1..60)
        ) {
            let s = Spread::of(&values).unwrap();
            prop_assert!(s.lo <= s.median && s.median <= s.hi);
            prop_assert!(values.contains(&s.lo) && values.contains(&s.hi));
            let below = values.iter().filter(|v| **v < s.median).count();
            let above = values.iter().filter(|v| **v > s.median).count();
            prop_assert!(below <= s.n / 2 && above <= s.n / 2);
        }
    }
}
