//! How long a run may take before anything is known of how long one takes.

use std::time::Duration;

/// The time allowed for a run on a machine of [`USUAL_CORES`] with nothing else to do, before anything is known of how long
/// one takes.
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);

/// Logical processors on which a CPU device is as fast as [`FIRST_TIMEOUT`] takes for granted.
const USUAL_CORES: f64 = 8.0;

/// The first limit on this machine as it is now.
pub fn first_timeout() -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    first_timeout_on(cores as f64, load)
}

/// The first limit on a machine with so many logical processors, for which so many processes stand in line: longer where
/// there are fewer, and by as much as each process gets less.
fn first_timeout_on(cores: f64, load: f64) -> Duration {
    FIRST_TIMEOUT.mul_f64((USUAL_CORES / cores).max(1.0) * ((load + 1.0) / cores).clamp(1.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_is_longer_on_a_small_machine_and_on_a_busy_one() {
        let seconds = |cores, load| first_timeout_on(cores, load).as_secs();
        assert_eq!((seconds(8.0, 0.0), seconds(64.0, 10.0)), (300, 300));
        assert_eq!(seconds(2.0, 0.0), 1200);
        // Ten in line for two: five times as long.
        assert_eq!(seconds(2.0, 9.0), 6000);
        assert_eq!(seconds(16.0, 31.0), 600);
    }
}
