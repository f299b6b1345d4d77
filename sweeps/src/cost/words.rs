//! The cost document as tables, for the terminal and for `cost.md`.
//!
//! First the table that people ask for, microseconds of one barrier by sort and by the size of the work around it, then
//! the other two axes, then the lines, and last the processor's time: it is another clock and another payer.

use super::document::{Clock, Cost, Point};
use super::grid::{Axis, DIRTIED};
use super::predict::Prediction;
use super::scope::Scope;
use crate::stats::difference::Interval;
use crate::table::table;

/// Everything, as Markdown.
pub fn render(cost: &Cost) -> String {
    let clock = match cost.clock {
        Clock::Device => "on the device's clock",
        Clock::Host => "on the host's clock, submission included",
    };
    let proves = if cost.proves_speed { "" } else { " **A CPU device: no measure of any GPU.**" };
    let mut text = format!(
        "# What a barrier costs\n\n{}, driver {} {}, Vulkan {}, {}.{proves} Host: {}, {} logical processors, {}. {} rounds, \
         interleaved; medians with 95% intervals where they are wider than 5% of the median.\n\n",
        cost.device.name,
        cost.device.driver,
        cost.device.driver_version,
        cost.device.api_version,
        cost.device.kind,
        cost.host.cpu,
        cost.host.cores,
        cost.host.os,
        cost.rounds
    );
    let device: Column = |p| p.us_per_barrier;
    let title = format!("Microseconds that one barrier adds, {clock}");
    let by_size = |p: &&Point| p.axis == Axis::Size;
    let axes: [(&str, Heading, Order); 3] = [
        ("by the bytes that each dispatch reads", |p| bytes(p.read_bytes), |p| p.read_bytes),
        ("by the bytes that each dispatch writes", |p| bytes(p.dirtied_bytes), |p| p.dirtied_bytes),
        (
            "by the dispatches side by side between two barriers",
            |p| p.beside.to_string(),
            |p| u64::from(p.beside),
        ),
    ];
    for ((about, heading, order), axis) in axes.into_iter().zip([Axis::Size, Axis::Dirtied, Axis::Beside]) {
        // Each of the other axes has its middle on the first.
        let middle = cost.points.iter().find(|p| p.axis != Axis::Size).map(|p| p.read_bytes);
        let on = |p: &&Point| {
            p.axis == axis || axis != Axis::Size && p.axis == Axis::Size && Some(p.read_bytes) == middle
        };
        let mut points: Vec<&Point> = cost.points.iter().filter(on).collect();
        points.sort_by_key(|p| order(p));
        if points.iter().any(|p| p.axis == axis) {
            text.push_str(&format!("## {title}, {about}\n\n{}\n\n", matrix(&points, heading, device)));
        }
    }
    let sizes: Vec<&Point> = cost.points.iter().filter(by_size).collect();
    text.push_str(&format!(
        "## The same series: microseconds of one dispatch with its barrier, {clock}\n\n{}\n\n",
        matrix(&sizes, |p| bytes(p.read_bytes), |p| p.us_per_dispatch)
    ));
    text.push_str(&format!("## As a line\n\n{}\n\n{}\n", lines(cost), LINES));
    let smallest: Vec<&Point> = sizes.iter().filter(|p| !p.resident).copied().collect();
    text.push_str(&format!(
        "\n## What recording costs the processor, microseconds\n\n{}\n\n",
        processor(&smallest)
    ));
    for note in &cost.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

const LINES: &str = "The cost of one barrier is fitted as *fixed*, plus a share of what is read and written between two \
     barriers, plus a share for each further dispatch beside the first. *Left over* is the root of the mean square that the \
     line does not explain, and in brackets the worst: where it is not small beside *fixed*, take the tables.";

type Column = fn(&Point) -> Option<Interval>;
type Heading = fn(&Point) -> String;
type Order = fn(&Point) -> u64;

/// Sorts by rows, `heading` by columns.
fn matrix(points: &[&Point], heading: Heading, value: Column) -> String {
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<(Scope, Option<u32>)> = Vec::new();
    for p in points {
        if !columns.contains(&heading(p)) {
            columns.push(heading(p));
        }
    }
    let shown = |p: &Point| value(p).is_some() || p.scope == Scope::InKernel;
    for scope in Scope::EVERY {
        for p in points.iter().filter(|p| p.scope == scope && shown(p)) {
            let row = (scope, p.resident.then_some(p.workgroups).filter(|g| *g > 1));
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    let cells = |(scope, groups): &(Scope, Option<u32>)| -> Vec<String> {
        let name = match (scope, groups) {
            (Scope::None, Some(groups)) => format!("none, resident, {groups} workgroups"),
            (_, Some(groups)) => format!("{}, {groups} workgroups", scope.name()),
            (_, None) => scope.name().into(),
        };
        let cell = |column: &String| {
            let of = |p: &&&Point| {
                p.scope == *scope
                    && heading(p) == *column
                    && p.resident.then_some(p.workgroups).filter(|g| *g > 1) == *groups
            };
            points.iter().find(of).and_then(|p| value(p)).map_or("-".into(), interval)
        };
        std::iter::once(name)
            .chain(std::iter::once(scope.about().into()))
            .chain(columns.iter().map(cell))
            .collect()
    };
    let header: Vec<&str> =
        ["between", "what"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let numbers: Vec<usize> = (2..header.len()).collect();
    table(&header, rows.iter().map(cells), &numbers)
}

fn lines(cost: &Cost) -> String {
    let number = |n: Option<f64>| n.map_or("-".into(), |n| format!("{n:.4}"));
    let rows = cost.fits.iter().map(|f| {
        vec![
            f.scope.name().into(),
            format!("{:.3}", f.fixed_us),
            number(Some(f.us_per_mib_read)),
            number(f.us_per_mib_dirtied),
            number(f.us_per_dispatch_beside),
            format!("{:.3} ({:.3})", f.rms_us, f.worst_us),
            f.points.to_string(),
        ]
    });
    let header = [
        "between",
        "fixed us",
        "us/MiB read",
        "us/MiB written",
        "us/dispatch beside",
        "left over us",
        "points",
    ];
    table(&header, rows, &[1, 2, 3, 4, 5, 6])
}

/// Recording does not depend on the work, so one size stands for all: the least.
fn processor(points: &[&Point]) -> String {
    let least = points.iter().map(|p| p.read_bytes).min().unwrap_or_default();
    let rows = points.iter().filter(|p| p.read_bytes == least && p.dirtied_bytes == DIRTIED).map(|p| {
        let shown = |i: Option<Interval>| i.map_or("-".into(), interval);
        vec![
            p.scope.name().into(),
            shown(p.record_us_per_dispatch),
            shown(p.record_us_per_barrier),
            shown(p.wall_us_per_dispatch),
        ]
    });
    let header =
        ["between", "recording a dispatch with it", "of that, the barrier", "submit to fence, a dispatch"];
    table(&header, rows, &[1, 2, 3])
}

/// A prediction as Markdown.
pub fn prediction(prediction: &Prediction) -> String {
    let mut text = String::from("# What the policies should win\n");
    for model in &prediction.models {
        let asked: Vec<String> =
            model.asked_per_token.iter().map(|(scope, n)| format!("{n:.1} {}", scope.name())).collect();
        text.push_str(&format!(
            "\n## {} on {}\n\nUnder `stock` a token takes {} us, with {:.0} dispatches of {} and these barriers: {}. One \
             of them costs {} us here, and one that is added behind another {} us.\n\n",
            model.model,
            prediction.device.name,
            interval(model.stock_us_per_token),
            model.dispatches_per_token,
            bytes(model.read_bytes_per_dispatch as u64),
            asked.join(", "),
            interval(model.us_per_asked_barrier),
            interval(model.us_per_added_barrier),
        ));
        let rows = model.policies.iter().map(|p| {
            let floor = if p.at_the_floor { "at the floor: launching alone takes this long" } else { "" };
            vec![
                p.policy.clone(),
                format!("{:.1}", p.emitted_per_token),
                format!("{:.1}", p.added_per_token),
                interval(p.us_per_token),
                format!("{:.3} [{:.3}, {:.3}]", p.ratio.median, p.ratio.lo, p.ratio.hi),
                floor.into(),
            ]
        });
        let header = ["policy", "barriers", "of them added", "us a token", "rate against stock", ""];
        text.push_str(&format!("{}\n", table(&header, rows, &[1, 2, 3, 4])));
    }
    if !prediction.proves_speed {
        text.push_str("\n- The costs are of a CPU device: they say nothing about any GPU.\n");
    }
    text
}

/// A size as people write it.
pub fn bytes(n: u64) -> String {
    let (kib, mib) = (n as f64 / 1024.0, n as f64 / 1048576.0);
    match n {
        0..1024 => format!("{n} B"),
        1024..1048576 => format!("{} KiB", plain(kib)),
        _ => format!("{} MiB", plain(mib)),
    }
}

fn plain(n: f64) -> String {
    let text = format!("{n:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// A median, with its interval where that is wide.
fn interval(i: Interval) -> String {
    let digits = if i.median.abs() < 10.0 { 2 } else { 1 };
    let wide = (i.hi - i.lo).abs() > 0.1 * i.median.abs();
    // No minus before nothing.
    let number = |n: f64| {
        let text = format!("{n:.digits$}");
        if text.trim_start_matches(['-', '0', '.']).is_empty() {
            text.trim_start_matches('-').into()
        } else {
            text
        }
    };
    if wide { format!("{} [{}, {}]", number(i.median), number(i.lo), number(i.hi)) } else { number(i.median) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_intervals_read_as_people_write_them() {
        let shown = [0, 512, 2048, 1536 << 10, 1 << 20, 320 << 20].map(bytes);
        assert_eq!(shown, ["0 B", "512 B", "2 KiB", "1.5 MiB", "1 MiB", "320 MiB"]);
        let i = |median, lo, hi| interval(Interval { median, lo, hi, n: 9 });
        assert_eq!(i(2.751, 2.74, 2.76), "2.75");
        assert_eq!(i(12.34, 10.0, 14.0), "12.3 [10.0, 14.0]");
        assert_eq!(i(-0.001, -0.02, 0.01), "0.00 [-0.02, 0.01]");
    }
}
