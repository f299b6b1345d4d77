//! All series, round by round.
//!
//! First each base is run a few times to find how many dispatches fill a time that the clock resolves well; the series
//! that are compared with it get the same number. Then come the rounds: every series once, in one order and in the next
//! round in the other, so that a device that warms up or is shared does not favour anyone.

use std::sync::atomic::{AtomicBool, Ordering};

use zinc_engine::vk::Error;

use super::gpu::{Gpu, Series, Times};
use super::grid::{Axis, Grid, MULTIPLE, is_base};
use super::scope::Scope;

/// A series and what its rounds took.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What it belongs to.
    pub axis: Axis,
    /// The series.
    pub series: Series,
    /// Each round; `None` where it gave nothing.
    pub rounds: Vec<Option<Times>>,
}

/// Why nothing was measured.
#[derive(Debug)]
pub enum Stopped {
    /// A Vulkan call failed.
    Device(Error),
    /// The owner asked to stop.
    Interrupted,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Device(error)
    }
}

/// Runs everything; `told` hears of each finished round. A resident dispatch whose workgroups were not all resident
/// gives nothing, and is not tried again.
///
/// # Errors
///
/// [`Stopped`].
pub fn measure(
    gpu: &mut Gpu,
    grid: &Grid,
    rounds: u32,
    stop: &AtomicBool,
    mut told: impl FnMut(u32),
) -> Result<Vec<Sample>, Stopped> {
    let mut points = grid.points(gpu.has_resident());
    let bases: Vec<Series> = points.iter().map(|p| p.1).filter(|s| s.scope == Scope::None).collect();
    for base in bases {
        let dispatches = length(gpu, grid, &base)?;
        for (_, series) in points.iter_mut().filter(|(_, s)| is_base(&base, s)) {
            series.dispatches = dispatches;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted);
        }
    }
    let mut samples: Vec<Sample> =
        points.into_iter().map(|(axis, series)| Sample { axis, series, rounds: Vec::new() }).collect();
    for round in 0..rounds {
        let n = samples.len();
        for i in 0..n {
            let sample = &mut samples[if round % 2 == 0 { i } else { n - 1 - i }];
            let hopeless = sample.rounds.first().is_some_and(Option::is_none);
            let times = if hopeless { None } else { gpu.run(&sample.series)? };
            sample.rounds.push(times);
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped::Interrupted);
            }
        }
        told(round + 1);
    }
    Ok(samples)
}

/// How many dispatches of a base take the grid's target, a multiple of [`MULTIPLE`].
fn length(gpu: &mut Gpu, grid: &Grid, base: &Series) -> Result<u32, Error> {
    let mut best = f64::INFINITY;
    // The first run finds everything cold.
    for _ in 0..3 {
        if let Some(times) = gpu.run(base)? {
            best = best.min(times.device.unwrap_or(times.wall) / f64::from(base.dispatches));
        }
    }
    Ok(fitting(grid, best))
}

fn fitting(grid: &Grid, us: f64) -> u32 {
    let wanted = if us > 0.0 && us.is_finite() { grid.target / us } else { f64::from(grid.most) };
    let most = grid.most / MULTIPLE;
    ((wanted / f64::from(MULTIPLE)).ceil() as u32).clamp(1, most.max(1)) * MULTIPLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_as_long_as_the_clock_needs_and_no_longer() {
        let grid = Grid::gpu(1 << 36, 264);
        assert_eq!(fitting(&grid, 0.18), 512);
        assert_eq!(fitting(&grid, 70.0), 32);
        assert_eq!(fitting(&grid, 1e9), 16);
        assert_eq!((fitting(&grid, 0.0), fitting(&grid, f64::INFINITY)), (512, 512));
    }
}
