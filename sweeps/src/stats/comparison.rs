//! Do two sides differ, and if not, what could have been seen?
//!
//! "No difference" is a result, but a hollow one unless it says how blunt the instrument was: three runs on a busy
//! machine see no difference of 10% either. So every answer carries the smallest difference that these runs would have
//! shown four times in five (the usual power of 80%), computed from their own scatter.
//!
//! The interval is made from six rounds on by bootstrap: the rounds are drawn anew, with replacement, and the central
//! 95% of the medians are kept. With fewer rounds a bootstrap can draw little but what it has and is far too sure of
//! itself (of three values, the range misses the median once in four times), so there Student's t on the logarithms
//! stands in, which is wide, and honest for rates that scatter evenly. The draws come from a fixed seed: the same
//! rounds give the same interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::LEVEL;

/// From so many values on the interval is a bootstrap's.
pub const BOOTSTRAP_FROM: usize = 6;

/// How often the values are drawn anew.
const DRAWS: usize = 2000;

/// The chance with which the smallest difference would have been seen.
pub const POWER: f64 = 0.80;

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The ratio is above 1, and its interval too.
    Higher,
    /// The ratio is below 1, and its interval too.
    Lower,
    /// The interval holds 1.
    NoDifference,
    /// One value a side: there is no scatter to judge by.
    TooFewRuns,
}

impl Answer {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::NoDifference => "no difference",
            Self::TooFewRuns => "too few runs to tell",
        }
    }
}

/// A ratio of two sides and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The ratio: a median, or of published means the quotient.
    pub ratio: f64,
    /// Lower end of its 95% interval; the ratio itself where there is none.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// Values on the smaller side.
    pub n: usize,
    /// What it says.
    pub answer: Answer,
    /// The smallest difference, as a share (0.01 is 1%), that would have been seen with a chance of [`POWER`].
    pub smallest: Option<f64>,
    /// Two-sided probability of a ratio so far from 1 where there is no difference, by Student's t.
    pub p: Option<f64>,
}

/// A mean of so many values with their standard deviation, as tables print it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The mean; more than 0.
    pub mean: f64,
    /// Standard deviation of single values.
    pub deviation: f64,
    /// Number of values.
    pub n: usize,
}

impl Comparison {
    /// Of ratios that were each formed within a round. Those that are not finite and positive are left out; `None` when
    /// none is left.
    pub fn paired(ratios: &[f64]) -> Option<Comparison> {
        let logs = logarithms(ratios);
        let n = logs.len();
        let median = median(&logs)?;
        let (mean, variance) = moments(&logs);
        let error = (variance / n as f64).sqrt();
        let interval = (n >= BOOTSTRAP_FROM).then(|| bootstrap(|rng| median_of_draw(&logs, rng)));
        Some(Self::judged(median, mean, error, n as f64 - 1.0, n, interval))
    }

    /// Of two sets of values that have no rounds in common, such as two reports: the ratio `a / b` of their medians.
    pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Comparison> {
        let (a, b) = (logarithms(a), logarithms(b));
        let n = a.len().min(b.len());
        let centre = median(&a)? - median(&b)?;
        let ((mean_a, var_a), (mean_b, var_b)) = (moments(&a), moments(&b));
        let (error, freedom) = welch(var_a, a.len(), var_b, b.len());
        let interval =
            (n >= BOOTSTRAP_FROM).then(|| bootstrap(|rng| median_of_draw(&a, rng) - median_of_draw(&b, rng)));
        Some(Self::judged(centre, mean_a - mean_b, error, freedom, n, interval))
    }

    /// Of two published means, `a / b`, whose deviations are small beside them.
    pub fn of_summaries(a: Summary, b: Summary) -> Option<Comparison> {
        let relative = |s: Summary| (s.deviation / s.mean).powi(2);
        let usable = |s: Summary| s.mean > 0.0 && s.mean.is_finite() && s.deviation >= 0.0 && s.n > 0;
        if !usable(a) || !usable(b) {
            return None;
        }
        let (error, freedom) = welch(relative(a), a.n, relative(b), b.n);
        let centre = (a.mean / b.mean).ln();
        Some(Self::judged(centre, centre, error, freedom, a.n.min(b.n), None))
    }

    fn judged(
        centre: f64,
        mean: f64,
        error: f64,
        freedom: f64,
        n: usize,
        interval: Option<(f64, f64)>,
    ) -> Comparison {
        let ratio = centre.exp();
        let Some(t) = (n >= 2).then(|| StudentsT::new(0.0, 1.0, freedom.max(1.0)).ok()).flatten() else {
            let (answer, smallest, p) = (Answer::TooFewRuns, None, None);
            return Comparison { ratio, lo: ratio, hi: ratio, n, answer, smallest, p };
        };
        let reach = t.inverse_cdf((1.0 + LEVEL) / 2.0) * error;
        let (lo, hi) = interval.unwrap_or((mean - reach, mean + reach));
        // The median of few values may lie outside of an interval about their mean.
        let (lo, hi) = (lo.min(centre), hi.max(centre));
        // What the arithmetic leaves of equal sides is no difference.
        let answer = match () {
            () if lo > 1e-9 => Answer::Higher,
            () if hi < -1e-9 => Answer::Lower,
            () => Answer::NoDifference,
        };
        let p = if error > 0.0 {
            2.0 * (1.0 - t.cdf((mean / error).abs()))
        } else if mean.abs() > 1e-9 {
            0.0
        } else {
            1.0
        };
        let smallest = (reach + t.inverse_cdf(POWER) * error).exp() - 1.0;
        Comparison { ratio, lo: lo.exp(), hi: hi.exp(), n, answer, smallest: Some(smallest), p: Some(p) }
    }

    /// Half of the interval's width as a share of the ratio; infinite where nothing is known of the scatter.
    pub fn half_width(&self) -> f64 {
        if self.answer == Answer::TooFewRuns { f64::INFINITY } else { (self.hi - self.lo) / 2.0 / self.ratio }
    }

    /// The answer as a clause: `no difference; one of 0.8% or more would have shown`.
    pub fn words(&self) -> String {
        clause(self.answer, self.smallest)
    }
}

/// The same of an answer in a report.
pub fn clause(answer: Answer, smallest: Option<f64>) -> String {
    match (answer, smallest) {
        (Answer::NoDifference, Some(smallest)) => {
            format!("no difference; one of {} or more would have shown", percent(smallest))
        }
        (answer, _) => answer.words().into(),
    }
}

/// A share as people read it.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if !p.is_finite() || p >= 1000.0 => "tenfold".into(),
        p if p >= 10.0 => format!("{p:.0}%"),
        p if p >= 0.1 => format!("{p:.1}%"),
        p => format!("{p:.2}%"),
    }
}

/// Which of several comparisons still differ when they are judged together: Holm's step-down procedure, under which one
/// false alarm in the whole table stays as improbable as it should be in one row.
pub fn holm(ps: &[Option<f64>]) -> Vec<bool> {
    let mut order: Vec<(usize, f64)> = ps.iter().enumerate().filter_map(|(i, p)| Some((i, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (mut differs, m) = (vec![false; ps.len()], order.len());
    for (rank, (i, p)) in order.into_iter().enumerate() {
        if p > (1.0 - LEVEL) / (m - rank) as f64 {
            break;
        }
        differs[i] = true;
    }
    differs
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect()
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Mean and unbiased variance; the variance of one value is 0.
pub(super) fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, squares / (n - 1.0).max(1.0))
}

/// Standard error of a difference of means, and its degrees of freedom by Welch and Satterthwaite.
fn welch(var_a: f64, n_a: usize, var_b: f64, n_b: usize) -> (f64, f64) {
    let (a, b) = (var_a / n_a as f64, var_b / n_b as f64);
    let part = |v: f64, n: usize| v * v / (n as f64 - 1.0).max(1.0);
    let below = part(a, n_a) + part(b, n_b);
    let freedom = if below > 0.0 { (a + b).powi(2) / below } else { (n_a + n_b) as f64 - 2.0 };
    ((a + b).sqrt(), freedom)
}

pub(super) fn median_of_draw(values: &[f64], rng: &mut fastrand::Rng) -> f64 {
    let mut draw: Vec<f64> = values.iter().map(|_| values[rng.usize(..values.len())]).collect();
    let n = draw.len();
    let (_, upper, _) = draw.select_nth_unstable_by(n / 2, f64::total_cmp);
    let upper = *upper;
    if n % 2 == 1 {
        return upper;
    }
    let lower = draw[..n / 2].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (lower + upper) / 2.0
}

pub(super) fn bootstrap(mut draw: impl FnMut(&mut fastrand::Rng) -> f64) -> (f64, f64) {
    let mut rng = fastrand::Rng::with_seed(0x5eed);
    let mut centres: Vec<f64> = (0..DRAWS).map(|_| draw(&mut rng)).collect();
    centres.sort_by(f64::total_cmp);
    let cut = (DRAWS as f64 * (1.0 - LEVEL) / 2.0) as usize;
    (centres[cut], centres[DRAWS - 1 - cut])
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
