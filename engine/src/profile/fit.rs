//! What a dispatch costs before it reads a byte.
//!
//! A step's time grows with what it reads, from a beginning that is paid by every one. A straight line through the steps
//! separates the two; how far the steps lie from it says how much to believe it.

use serde::{Deserialize, Serialize};

/// A line through steps: microseconds against bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Microseconds of a step that reads nothing.
    pub fixed_us: f64,
    /// Bytes a second of what comes on top; infinite is written as none: time then does not grow with bytes.
    pub bytes_s: Option<f64>,
    /// Root of the mean square of what the line misses, microseconds.
    pub residual_us: f64,
    /// Steps.
    pub steps: u64,
}

/// Least squares through (megabytes, microseconds). None with fewer than two sizes.
pub fn line(points: &[(f64, f64)]) -> Option<Fit> {
    let n = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if points.len() < 2 || spread <= f64::EPSILON * x * x {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread;
    let fixed_us = y - slope * x;
    let squares: f64 = points.iter().map(|p| (p.1 - fixed_us - slope * p.0).powi(2)).sum();
    Some(Fit {
        fixed_us,
        bytes_s: (slope > 0.0).then(|| 1e12 / slope),
        residual_us: (squares / n).sqrt(),
        steps: points.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_what_it_misses_is_told() {
        let exact: Vec<_> = (1..9).map(|i| (f64::from(i), 2.0 + 0.5 * f64::from(i))).collect();
        let fit = line(&exact).unwrap();
        assert!((fit.fixed_us - 2.0).abs() < 1e-9 && fit.residual_us < 1e-9, "{fit:?}");
        assert!((fit.bytes_s.unwrap() / 2e12 - 1.0).abs() < 1e-9, "{fit:?}");
        let noisy: Vec<_> = exact.iter().enumerate().map(|(i, p)| (p.0, p.1 + (i % 2) as f64)).collect();
        assert!(line(&noisy).unwrap().residual_us > 0.4);
    }

    #[test]
    fn one_size_gives_no_line_and_a_falling_one_no_bandwidth() {
        assert_eq!(line(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 3.0), (2.0, 2.0)]).unwrap().bytes_s, None);
    }
}
