//! A token put together from many, each with few stamps.
//!
//! A stamp waits for all work before it. On a GPU whose steps take microseconds, one at each end of every step makes a token a
//! quarter to a half longer, and nobody knows where. So each of many tokens gets both stamps of every n-th step only, of
//! other steps each time. How long a step takes comes from tokens that had its own two; where it stands, from the median
//! over those. Two neighbouring steps then have equally many stamps before them (but once in n), so that what those cost
//! cancels; what a step's first stamp costs stays in its own time, and is missing from what lies before the next.

use crate::results::Spread;

/// Steps whose stamps a token bears without being longer by more than a percent or two on the device measured (an NVIDIA
/// H200: about a microsecond a stamp, of 700 or more).
const FEW: u32 = 4;

/// Each how many'th step to stamp, of `steps` in a token, when all of them at once make it `ratio` times as long.
pub fn every(steps: u32, ratio: f64) -> u32 {
    if ratio <= 1.02 { 1 } else { steps.div_ceil(FEW).max(1) }
}

/// The places of all stamps, from tokens that have some steps' and NaN for the others' (equally long, nanoseconds after the
/// token's beginning: that, the end, and two for each step). No place lies before the one before it, or after the end.
pub fn composite(tokens: &[&[f64]]) -> Vec<f64> {
    let stamps = tokens.first().map_or(0, |t| t.len());
    let median = |of: &dyn Fn(&[f64]) -> f64| {
        let seen: Vec<f64> = tokens.iter().map(|t| of(t)).filter(|t| t.is_finite()).collect();
        Spread::of(&seen).map_or(f64::NAN, |s| s.median)
    };
    if stamps < 2 {
        return vec![0.0; stamps];
    }
    let end = median(&|t| t[1]);
    let mut begins = Vec::new();
    let mut before = 0.0;
    for step in 0..(stamps - 2) / 2 {
        // Noise may set a step before the one before it; one that no token stamped is nowhere else.
        before = f64::max(median(&|t| t[2 + 2 * step]), before).min(end.max(before));
        begins.push(before);
    }
    let mut places = vec![0.0, end];
    for (step, begin) in begins.iter().enumerate() {
        let length = f64::max(median(&|t| t[3 + 2 * step] - t[2 + 2 * step]), 0.0);
        // Beginnings bear no stamp of their own, so the next one says how long this step can have taken at most.
        let next = begins.get(step + 1).copied().unwrap_or(end.max(*begin));
        places.extend([*begin, (begin + length).min(next)]);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token of 20 steps of 10 ns with 2 ns before each, on a device where a stamp costs 5 ns; with those of each
    /// `every`th step from `first` on.
    fn token(first: usize, every: usize) -> Vec<f64> {
        let mut stamps = vec![0.0, 0.0];
        let mut now = 0.0;
        for step in 0..20 {
            let chosen = step % every == first;
            for length in [2.0, 10.0] {
                now += length;
                stamps.push(if chosen { now } else { f64::NAN });
                now += if chosen { 5.0 } else { 0.0 };
            }
        }
        stamps[1] = now;
        stamps
    }

    #[test]
    fn what_few_stamps_cost_is_not_in_the_token() {
        let all = token(0, 1);
        assert_eq!(all[1], 440.0, "all stamps at once lengthen a token of 240");
        let tokens: Vec<Vec<f64>> = (0..10).map(|first| token(first, 10)).collect();
        let places = composite(&tokens.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(places[1], 260.0, "two steps' stamps a token");
        let begins: Vec<f64> = (0..20).map(|i| places[2 + 2 * i]).collect();
        // Each step stands 12 after the one before, but where tokens already bear the stamps of one more step.
        let apart: Vec<f64> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(apart.iter().filter(|d| **d == 12.0).count(), 18, "{apart:?}");
        assert!(
            (0..19).all(|i| places[3 + 2 * i] - begins[i] == if i == 9 { 15.0 } else { 12.0 }),
            "10, and as much of the first stamp's 5 as fits before the next step: {places:?}"
        );
    }

    #[test]
    fn places_never_go_back_and_a_step_that_nobody_stamped_takes_no_time() {
        let nan = f64::NAN;
        let places = composite(&[&[0.0, 30.0, 1.0, 4.0, nan, nan, 3.0, 2.0, 29.0, 33.0]]);
        assert_eq!(places, [0.0, 30.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 29.0, 30.0]);
        assert_eq!(composite(&[]), Vec::<f64>::new());
    }

    #[test]
    fn stamps_are_thinned_only_where_they_cost() {
        assert_eq!(every(184, 1.01), 1);
        assert_eq!(every(184, 1.23), 46);
        assert_eq!(every(10, 1.5), 3);
    }
}
