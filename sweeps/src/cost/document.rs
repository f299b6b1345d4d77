//! `cost.json`: what barriers cost on one device, for programs.
//!
//! The rule for versions is the report's: a field that readers may ignore keeps the number, anything else raises
//! [`SCHEMA_VERSION`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fit::least_squares;
use super::grid::{Axis, DIRTIED, is_base};
use super::measure::Sample;
use super::scope::Scope;
use crate::report::{DeviceReport, Host};
use crate::stats::difference::Interval;

/// The version of the document.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "What a barrier costs")]
pub struct Cost {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of the sweep that measured.
    pub sweep_version: String,
    /// When, seconds since 1970.
    pub made_unix_s: u64,
    /// The machine.
    pub host: Host,
    /// The device.
    pub device: DeviceReport,
    /// Whether the figures say something about a GPU: a CPU driver's do not.
    pub proves_speed: bool,
    /// Whose clock `us_per_dispatch` and `us_per_barrier` are of.
    pub clock: Clock,
    /// Rounds.
    pub rounds: u32,
    /// Every series.
    pub points: Vec<Point>,
    /// A line for each sort of barrier.
    pub fits: Vec<Fit>,
    /// What a reader must know before believing the numbers, in sentences.
    pub notes: Vec<String>,
}

/// A clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The device's, by timestamps at both ends of the series: submission is not in it.
    Device,
    /// The host's, from submission to the fence, where the queue has no timestamps.
    Host,
}

/// A series of dispatches with one sort of barrier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// What was varied.
    pub axis: Axis,
    /// What stood in between.
    pub scope: Scope,
    /// Bytes that each dispatch read.
    pub read_bytes: u64,
    /// Bytes that each dispatch wrote.
    pub dirtied_bytes: u64,
    /// Dispatches between two barriers.
    pub beside: u32,
    /// Workgroups of each dispatch, of 256 invocations.
    pub workgroups: u32,
    /// Dispatches; steps, where all are one.
    pub dispatches: u32,
    /// Barriers.
    pub barriers: u32,
    /// Whether all were one resident dispatch.
    pub resident: bool,
    /// Time of the series by its dispatches, microseconds; null where it gave nothing.
    pub us_per_dispatch: Option<Interval>,
    /// What one barrier added, microseconds: the difference to the series without, formed within each round.
    pub us_per_barrier: Option<Interval>,
    /// The processor's time to record one dispatch with its share of barriers, microseconds.
    pub record_us_per_dispatch: Option<Interval>,
    /// What one barrier added to that.
    pub record_us_per_barrier: Option<Interval>,
    /// From submission to the fence on the host's clock, by dispatches, microseconds.
    pub wall_us_per_dispatch: Option<Interval>,
}

/// What a barrier costs, as a line: `fixed + read * MiB + dirtied * MiB + beside * (dispatches - 1)`, where bytes are those
/// of all dispatches between two barriers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// The sort.
    pub scope: Scope,
    /// Microseconds whatever stands around it.
    pub fixed_us: f64,
    /// Microseconds for each MiB read between two barriers.
    pub us_per_mib_read: f64,
    /// Microseconds for each MiB written; null where that was not varied.
    pub us_per_mib_dirtied: Option<f64>,
    /// Microseconds for each further dispatch between two barriers; null where that was not varied.
    pub us_per_dispatch_beside: Option<f64>,
    /// Root of the mean square of what the line leaves over, microseconds.
    pub rms_us: f64,
    /// The most that it leaves over.
    pub worst_us: f64,
    /// Points.
    pub points: u32,
}

const MIB: f64 = 1048576.0;

/// The points of samples.
pub fn points(samples: &[Sample]) -> Vec<Point> {
    samples
        .iter()
        .map(|sample| {
            let series = &sample.series;
            let base = samples
                .iter()
                .find(|s| s.axis == sample.axis && is_base(&s.series, series))
                .unwrap_or(sample);
            let times = |s: &Sample, f: fn(&super::gpu::Times) -> f64| -> Vec<Option<f64>> {
                s.rounds.iter().map(|r| r.as_ref().map(f)).collect()
            };
            let each = |f| {
                let values = times(sample, f).into_iter().flatten().map(|t| t / f64::from(series.dispatches));
                Interval::of(&values.collect::<Vec<f64>>())
            };
            // The control has no barrier; what it is off by is counted as if each dispatch had one.
            let parts = match series.scope {
                Scope::None => None,
                Scope::NoneAgain => Some(series.dispatches),
                _ => Some(series.barriers()),
            };
            let added = |f| Interval::of_differences(&times(sample, f), &times(base, f), f64::from(parts?));
            Point {
                axis: sample.axis,
                scope: series.scope,
                read_bytes: series.work.read,
                dirtied_bytes: series.work.dirtied,
                beside: series.beside,
                workgroups: series.work.groups,
                dispatches: series.dispatches,
                barriers: series.barriers(),
                resident: series.resident,
                us_per_dispatch: each(|t| t.device.unwrap_or(t.wall)),
                us_per_barrier: added(|t| t.device.unwrap_or(t.wall)),
                record_us_per_dispatch: each(|t| t.record).filter(|_| !series.resident),
                record_us_per_barrier: added(|t| t.record).filter(|_| !series.resident),
                wall_us_per_dispatch: each(|t| t.wall),
            }
        })
        .collect()
}

/// A line for each sort of barrier of which enough was measured.
pub fn fits(points: &[Point]) -> Vec<Fit> {
    Scope::EVERY
        .into_iter()
        .filter(|s| !matches!(s, Scope::None | Scope::NoneAgain))
        .filter_map(|s| fit(points, s))
        .collect()
}

fn fit(points: &[Point], scope: Scope) -> Option<Fit> {
    let most = points.iter().filter(|p| p.resident && p.scope == scope).map(|p| p.workgroups).max();
    // One line cannot be of several grids: that of the fullest is drawn.
    let of_scope = |p: &&Point| p.scope == scope && (!p.resident || Some(p.workgroups) == most);
    let chosen: Vec<(&Point, f64)> =
        points.iter().filter(of_scope).filter_map(|p| Some((p, p.us_per_barrier?.median))).collect();
    let varies = |f: fn(&Point) -> u64| chosen.iter().any(|(p, _)| f(p) != f(chosen[0].0));
    let (dirtied, beside) = (varies(|p| p.dirtied_bytes), varies(|p| u64::from(p.beside)));
    let rows: Vec<Vec<f64>> = chosen
        .iter()
        .map(|(p, _)| {
            let together = f64::from(p.beside);
            let mut row = vec![1.0, together * p.read_bytes as f64 / MIB];
            row.extend(dirtied.then_some(together * p.dirtied_bytes as f64 / MIB));
            row.extend(beside.then_some(together - 1.0));
            row
        })
        .collect();
    let values: Vec<f64> = chosen.iter().map(|(_, v)| *v).collect();
    let line = least_squares(&rows, &values)?;
    let mut further = line.coefficients[2..].iter().copied();
    Some(Fit {
        scope,
        fixed_us: line.coefficients[0],
        us_per_mib_read: line.coefficients[1],
        us_per_mib_dirtied: if dirtied { further.next() } else { None },
        us_per_dispatch_beside: if beside { further.next() } else { None },
        rms_us: line.rms,
        worst_us: line.worst,
        points: values.len() as u32,
    })
}

impl Cost {
    /// What one barrier of a sort costs between dispatches that read so many bytes each, microseconds: between two
    /// measured sizes in proportion, beyond them that of the last. `None` where the sort was not measured.
    pub fn at(&self, scope: Scope, read_bytes: f64) -> Option<Interval> {
        let plain = |p: &&Point| p.axis == Axis::Size && p.scope == scope && p.dirtied_bytes == DIRTIED;
        let mut sizes: Vec<(f64, Interval)> = self
            .points
            .iter()
            .filter(plain)
            .filter_map(|p| Some((p.read_bytes as f64, p.us_per_barrier?)))
            .collect();
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (sizes.first()?, sizes.last()?);
        if read_bytes <= first.0 {
            return Some(first.1);
        }
        let above = sizes.iter().position(|(size, _)| *size >= read_bytes);
        let Some(above) = above else { return Some(last.1) };
        let ((a, low), (b, high)) = (sizes[above - 1], sizes[above]);
        let part = (read_bytes - a) / (b - a);
        let between = |f: fn(&Interval) -> f64| f(&low) + part * (f(&high) - f(&low));
        Some(Interval {
            median: between(|i| i.median),
            lo: between(|i| i.lo),
            hi: between(|i| i.hi),
            n: low.n.min(high.n),
        })
    }

    /// The document as JSON, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// What must be said of the figures.
pub fn notes(points: &[Point], proves_speed: bool, clock: Clock, device: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if !proves_speed {
        notes.push(format!(
            "{device} is a CPU device: it executes commands in order on the processor, so these figures say what its driver \
             spends and nothing about any GPU."
        ));
    }
    if clock == Clock::Host {
        notes.push("The queue has no timestamps: all times are the host's, with submission in them.".into());
    }
    let control: Vec<&Point> = points.iter().filter(|p| p.scope == Scope::NoneAgain).collect();
    let off = control.iter().filter_map(|p| p.us_per_barrier).map(|i| i.median.abs()).fold(0.0, f64::max);
    let outside = control.iter().filter(|p| p.us_per_barrier.is_some_and(|i| !i.holds_zero())).count();
    notes.push(format!(
        "Control: the same series without barriers, measured twice, differ by at most {off:.3} us a dispatch; {outside} of \
         {} such intervals leave out zero. What costs less than that was not told from nothing.",
        control.len()
    ));
    let lost = points.iter().filter(|p| p.us_per_dispatch.is_none()).count();
    if lost > 0 {
        notes.push(format!(
            "{lost} series of resident dispatches gave nothing: their workgroups were not all resident at once."
        ));
    }
    if points.iter().all(|p| !p.resident) {
        notes.push(
            "The barrier within a kernel was not measured: the device lacks the Vulkan memory model with device scope."
                .into(),
        );
    }
    notes
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
