//! Choosing the next token.
//!
//! In llama.cpp's order: first the `top_k` likeliest tokens are kept, then the likeliest of those that together have the
//! probability `top_p`, and the temperature only flattens or sharpens what is left. With a temperature of zero the
//! likeliest token is taken, the first of equals, so that a run can be repeated on any device. A seed makes the rest
//! repeatable too, as far as the logits are the same.

use clap::Args;

use crate::decode::argmax;

/// How the next token is chosen.
#[derive(Debug, Clone, Args, PartialEq)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// 0 always takes the likeliest token; 1 follows the model's probabilities; above, they are flattened.
    #[arg(long, default_value_t = 0.0, value_name = "T", value_parser = temperature)]
    pub temperature: f32,
    /// Only the K likeliest tokens; 0 for all.
    #[arg(long, default_value_t = 40, value_name = "K")]
    pub top_k: u32,
    /// Only the likeliest tokens that together have this probability.
    #[arg(long, default_value_t = 0.95, value_name = "P", value_parser = probability)]
    pub top_p: f32,
    /// Where random numbers begin: the same seed gives the same text on the same device.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
}

fn temperature(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("expected zero or more".to_owned()) }
}

fn probability(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err("expected above 0, at most 1".to_owned()) }
}

/// Chooses tokens one after the other.
#[derive(Debug, Clone)]
pub struct Sampler {
    args: SamplingArgs,
    rng: fastrand::Rng,
}

impl Sampler {
    /// A sampler at the beginning of its random numbers.
    pub fn new(args: &SamplingArgs) -> Self {
        Self { args: args.clone(), rng: fastrand::Rng::with_seed(args.seed) }
    }

    /// Whether the likeliest token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.args.temperature == 0.0
    }

    /// The next token. A logit that is NaN is never chosen.
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        if self.is_greedy() {
            return argmax(logits);
        }
        let mut kept: Vec<(f32, u32)> =
            (0..).zip(logits).filter(|(_, v)| !v.is_nan()).map(|(i, v)| (*v, i)).collect();
        // The likeliest first, of equals the one with the lower number.
        let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let k = self.args.top_k as usize;
        if k > 0 && k < kept.len() {
            kept.select_nth_unstable_by(k - 1, order);
            kept.truncate(k);
        }
        kept.sort_unstable_by(order);
        let Some(&(largest, first)) = kept.first() else { return 0 };
        if !largest.is_finite() {
            return first;
        }
        let weights = |kept: &[(f32, u32)], temperature: f32| -> Vec<f64> {
            kept.iter().map(|(v, _)| (f64::from(v - largest) / f64::from(temperature)).exp()).collect()
        };
        let plain = weights(&kept, 1.0);
        let wanted = f64::from(self.args.top_p) * plain.iter().sum::<f64>();
        let mut sum = 0.0;
        let enough = plain.iter().position(|p| {
            sum += p;
            sum >= wanted
        });
        kept.truncate(enough.map_or(kept.len(), |last| last + 1));
        let heated = weights(&kept, self.args.temperature);
        let mut left = self.rng.f64() * heated.iter().sum::<f64>();
        let chosen = heated.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        kept[chosen.unwrap_or(0)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f32, top_k: u32, top_p: f32, seed: u64) -> Sampler {
        Sampler::new(&SamplingArgs { temperature, top_k, top_p, seed })
    }

    fn counts(mut sampler: Sampler, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut counts = vec![0; logits.len()];
        (0..draws).for_each(|_| counts[sampler.choose(logits) as usize] += 1);
        counts
    }

    #[test]
    fn a_temperature_of_zero_takes_the_first_of_the_likeliest() {
        let logits = [1.0, 5.0, 5.0, f32::NAN];
        assert!((0..9).all(|seed| sampler(0.0, 40, 0.5, seed).choose(&logits) == 1));
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let logits = [0.6f32.ln(), 0.3f32.ln(), 0.1f32.ln()];
        let counts = counts(sampler(1.0, 0, 1.0, 1), &logits, 20_000);
        for (count, p) in counts.iter().zip([0.6, 0.3, 0.1]) {
            // Five standard deviations.
            let variance: f64 = 20_000.0 * p * (1.0 - p);
            let off = (*count as f64 - 20_000.0 * p).abs();
            assert!(off < 5.0 * variance.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn top_k_and_top_p_leave_out_the_rest() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        assert_eq!(counts(sampler(5.0, 2, 1.0, 1), &logits, 500)[0], 0);
        // 0.6 alone is less than 0.7, with 0.3 it is more; the temperature does not change who takes part.
        let kept = counts(sampler(5.0, 0, 0.7, 1), &logits, 500);
        assert!(kept[0] == 0 && kept[1] > 0 && kept[2] > 0, "{kept:?}");
        assert_eq!(counts(sampler(5.0, 0, 0.5, 1), &logits, 50)[1], 50);
    }

    #[test]
    fn the_same_seed_gives_the_same_tokens_and_another_one_others() {
        let logits: Vec<f32> = (0..100).map(|i| (i % 7) as f32 * 0.1).collect();
        let draw = |seed| {
            let mut s = sampler(1.0, 0, 1.0, seed);
            (0..20).map(|_| s.choose(&logits)).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn numbers_of_a_broken_run_end_in_a_token_and_not_in_a_panic() {
        for logits in [vec![f32::NAN; 4], vec![f32::NEG_INFINITY; 4], vec![f32::INFINITY, 1.0, f32::NAN]] {
            assert!((sampler(1.0, 2, 0.9, 1).choose(&logits) as usize) < logits.len());
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        assert!(temperature("-1").is_err() && temperature("nan").is_err() && temperature("x").is_err());
        assert!(probability("0").is_err() && probability("1.5").is_err() && probability("1").is_ok());
    }
}
