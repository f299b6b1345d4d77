//! What the owner sees while it runs: how far it is, what the last run gave, how long it will take.
//!
//! A bar where stderr is a terminal, and a plain line a run where it is not, since a log is read afterwards. The time
//! left is the mean time of a run so far times the runs left: runs of a sweep differ little.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows the sweep's progress on stderr.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    done: u64,
    total: u64,
}

impl Progress {
    /// A sweep of about `total` runs begins now.
    pub fn new(total: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar, started: Instant::now(), done: 0, total }
    }

    /// The number of runs has changed by `by`: some turned out to be needed, or not to be.
    pub fn expect(&mut self, by: i64) {
        self.total = self.total.saturating_add_signed(by).max(self.done);
        if let Some(bar) = &self.bar {
            bar.set_length(self.total);
        }
    }

    /// A run begins.
    pub fn start(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{what}{}", self.left()));
        }
    }

    /// A run need not be made, since an earlier sweep made it.
    pub fn skip(&mut self) {
        self.expect(-1);
    }

    /// A run has ended.
    pub fn finish(&mut self, what: &str, result: &str, wall: Duration) {
        self.done += 1;
        self.total = self.total.max(self.done);
        match &self.bar {
            Some(bar) => bar.set_position(self.done),
            None => eprintln!(
                "[{:>3}/{}] {what}: {result} ({:.1} s{})",
                self.done,
                self.total,
                wall.as_secs_f64(),
                self.left()
            ),
        }
    }

    /// Takes the bar away, so that what is printed next stands alone.
    pub fn close(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left(&self) -> String {
        let runs = self.total.saturating_sub(self.done);
        if self.done == 0 || runs == 0 {
            return String::new();
        }
        let seconds = self.started.elapsed().as_secs_f64() / self.done as f64 * runs as f64;
        format!("; about {} left", human(seconds))
    }
}

fn human(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", (s + 30) / 60),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        for (seconds, text) in [(0.2, "0 s"), (119.4, "119 s"), (150.0, "3 min"), (9000.0, "2.5 h")] {
            assert_eq!(human(seconds), text);
        }
    }

    #[test]
    fn runs_that_turn_out_to_be_needed_or_not_change_the_time_left() {
        let mut progress = Progress::new(10);
        progress.done = 5;
        progress.expect(-8);
        assert_eq!(progress.total, 5, "never fewer than were made");
        assert_eq!(progress.left(), "");
        progress.expect(2);
        assert!(progress.left().contains("left"));
    }
}
