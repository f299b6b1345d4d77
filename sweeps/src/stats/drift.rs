//! Did the machine change while it was measured?
//!
//! Interleaving cancels a drift in ratios, but not in rates, and a card that is still warming up is a warning that a
//! reader wants. The test is Mann and Kendall's: of all pairs of rounds, do more rise than fall? It asks nothing of the
//! distribution. For the few rounds of a sweep the probability is exact: it counts the orders of n values that are as
//! one-sided (those with as few inversions). How much it changed is the median slope between pairs (Theil and Sen).

/// A trend over the rounds that chance would hardly make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Two-sided probability of such a trend where there is none.
    pub p: f64,
    /// Change from the first round to the last, as a share of the median.
    pub change: f64,
}

/// Below this probability a trend is worth a warning.
const SIGNIFICANT: f64 = 0.05;

/// More rounds than this are thinned: an exact count of orders overflows nothing yet, and nobody makes so many.
const MOST: usize = 160;

impl Drift {
    /// The trend of `values`, in the order in which they were measured, where it is one. Fewer than five values can show
    /// none: even a perfect order of four comes once in twelve times.
    pub fn of(values: &[f64]) -> Option<Drift> {
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let values: Vec<f64> = finite.iter().copied().step_by(finite.len().div_ceil(MOST).max(1)).collect();
        let n = values.len();
        let pairs = || (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)));
        let mut slopes: Vec<f64> = pairs().map(|(i, j)| (values[j] - values[i]) / (j - i) as f64).collect();
        let falls = slopes.iter().filter(|s| **s < 0.0).count();
        let rises = slopes.iter().filter(|s| **s > 0.0).count();
        // Equal values count for neither side: the rest is spread evenly, which can only hide a trend.
        let equal = slopes.len() - falls - rises;
        let fewer = falls.min(rises) + equal / 2;
        let p = (2.0 * at_most(n, fewer)).min(1.0);
        slopes.sort_by(f64::total_cmp);
        let slope = *slopes.get(slopes.len() / 2)?;
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[n / 2];
        (p < SIGNIFICANT && median != 0.0).then(|| Drift { p, change: slope * (n - 1) as f64 / median })
    }
}

/// The share of all orders of `n` values that have at most `k` inversions.
fn at_most(n: usize, k: usize) -> f64 {
    // One value more can be put before 0 to i of those there are, each as likely.
    let mut shares = vec![1.0f64];
    for i in 1..n {
        let mut next = vec![0.0; shares.len() + i];
        for (at, share) in shares.iter().enumerate() {
            for slot in &mut next[at..=at + i] {
                *slot += share / (i + 1) as f64;
            }
        }
        shares = next;
    }
    shares.iter().take(k + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_probabilities_are_those_of_kendalls_table() {
        // Of the 24 orders of four values one has no inversion and three have one; of five, 1 in 120 and 4 more.
        assert!((at_most(4, 0) - 1.0 / 24.0).abs() < 1e-12);
        assert!((at_most(4, 1) - 4.0 / 24.0).abs() < 1e-12);
        assert!((at_most(5, 1) - 5.0 / 120.0).abs() < 1e-12);
        assert!((at_most(6, 15) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_machine_that_slows_down_is_found_and_by_how_much_is_said() {
        let values: Vec<f64> = (0..10).map(|i| 100.0 - f64::from(i) + 0.3 * f64::from(i % 3)).collect();
        let drift = Drift::of(&values).unwrap();
        assert!(drift.p < 0.001 && (-0.11..-0.07).contains(&drift.change), "{drift:?}");
        let up: Vec<f64> = values.iter().rev().copied().collect();
        assert!(Drift::of(&up).unwrap().change > 0.0);
    }

    #[test]
    fn noise_without_a_trend_is_no_drift_and_neither_are_equal_or_few_values() {
        let mut rng = fastrand::Rng::with_seed(11);
        let found = (0..500).filter(|_| {
            let values: Vec<f64> = (0..12).map(|_| 100.0 + rng.f64()).collect();
            Drift::of(&values).is_some()
        });
        let found = found.count();
        assert!(found <= 40, "{found} of 500 where 25 are to be expected");
        for values in [&[5.0; 12][..], &[1.0, 2.0, 3.0, 4.0], &[1.0], &[]] {
            assert_eq!(Drift::of(values), None, "{values:?}");
        }
    }

    #[test]
    fn a_thousand_rounds_are_no_trouble() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(Drift::of(&values).is_some());
    }
}
