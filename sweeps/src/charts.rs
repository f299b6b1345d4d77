//! `report.svg`: the report as pictures.
//!
//! A rate without its correctness is how people fool themselves, so in the picture that everybody looks at, rate against
//! barriers, the *shape* says what the arm may be called: a disc is right, a cross is wrong, a triangle is not proven.
//! Shapes and not colours alone, so that it survives a grey printer and colour-blind eyes. All is drawn from the report
//! and from nothing else. What there is nothing to draw of has no panel.

mod labels;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Arm, ArmRole, Rate, Report};
use crate::table::{arm_name, groups};
use crate::verdict::Verdict;
use labels::Labels;

const WIDTH: u32 = 900;
const PANEL: u32 = 380;

/// What an arm may be called, as a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Right,
    Wrong,
    Unproven,
}

impl Shape {
    fn of(arm: &Arm) -> Shape {
        match arm.verdict {
            Verdict::Reference | Verdict::Verified | Verdict::NoEffect => Self::Right,
            Verdict::Refuted | Verdict::IncorrectByDesign | Verdict::Failed => Self::Wrong,
            Verdict::Unproven | Verdict::CountedOnly | Verdict::NotRun => Self::Unproven,
        }
    }

    fn colour(self) -> RGBColor {
        match self {
            Self::Right => RGBColor(0, 110, 80),
            Self::Wrong => RGBColor(200, 60, 20),
            Self::Unproven => RGBColor(120, 120, 120),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Unproven => "not proven",
        }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A panel: its title, and how it is drawn.
struct Panel<'r> {
    title: String,
    kind: Kind<'r>,
}

enum Kind<'r> {
    /// Rate against barriers.
    Scatter(Vec<&'r Arm>),
    /// Bars: label, value, interval, shape.
    Bars(Vec<Bar>, String),
    /// Runs along the time.
    Timeline(&'r Report),
}

struct Bar {
    label: String,
    value: f64,
    interval: Option<(f64, f64)>,
    shape: Shape,
}

/// The pictures as one SVG document; `None` when there is nothing to draw.
///
/// # Errors
///
/// In words, when the plotting library cannot draw.
pub fn svg(report: &Report) -> Result<Option<String>, String> {
    let panels = panels(report);
    if panels.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    {
        let heights: Vec<u32> = panels.iter().map(Panel::height).collect();
        let area = SVGBackend::with_string(&mut text, (WIDTH, heights.iter().sum())).into_drawing_area();
        let draw = || -> Drawn {
            area.fill(&WHITE)?;
            let mut rest = area.clone();
            for (panel, height) in panels.iter().zip(heights) {
                let (top, below) = rest.split_vertically(height);
                panel.draw(&top)?;
                rest = below;
            }
            area.present()
        };
        draw().map_err(|e| format!("the plots could not be drawn: {e}"))?;
    }
    Ok(Some(text))
}

fn panels(report: &Report) -> Vec<Panel<'_>> {
    let mut panels = Vec::new();
    for (title, arms) in groups(report) {
        let shown = |a: &&&Arm| matches!(a.role, ArmRole::Reference | ArmRole::Policy);
        let arms: Vec<&Arm> = arms.iter().filter(shown).copied().collect();
        let rated: Vec<&Arm> = arms
            .iter()
            .filter(|a| a.tok_s.is_some() && a.barriers_emitted_per_token.is_some())
            .copied()
            .collect();
        if rated.len() > 1 {
            panels
                .push(Panel { title: format!("Rate against barriers: {title}"), kind: Kind::Scatter(rated) });
        }
        let rates = bars(&arms, |a| a.tok_s.map(|r| (r.median, Some((r.lo, r.hi)))));
        if rates.len() > 1 {
            panels
                .push(Panel { title: format!("Ladder: {title}"), kind: Kind::Bars(rates, rate_axis(&arms)) });
        }
        let recorded: Vec<&Arm> = arms.iter().filter(|a| !a.executes).copied().collect();
        let flushes = bars(&recorded, |a| a.driver_flushes_per_token.map(|n| (n, None)));
        let emitted = bars(&recorded, |a| a.barriers_emitted_per_token.map(|n| (n, None)));
        if flushes.len() > 1 {
            let kind = Kind::Bars(flushes, "flushes in the driver's stream, a token".into());
            panels.push(Panel { title: title.clone(), kind });
        } else if emitted.len() > 1 {
            panels.push(Panel { title: title.clone(), kind: Kind::Bars(emitted, count_axis(&arms)) });
        }
    }
    panels.extend(ablation(report));
    if report.timeline.len() > 1 {
        panels.push(Panel { title: "Timeline".into(), kind: Kind::Timeline(report) });
    }
    panels
}

/// What the rate of these arms is called: an application's by its own name.
fn rate_axis(arms: &[&Arm]) -> String {
    let measured = arms.iter().find_map(|arm| arm.measured.as_ref());
    measured.map_or("tokens a second", |measured| measured.metric.as_str()).into()
}

/// What barriers are counted by.
fn count_axis(arms: &[&Arm]) -> String {
    let measured = arms.iter().find_map(|arm| arm.measured.as_ref());
    format!("barriers emitted, a {}", measured.map_or("token", |measured| measured.per.as_str()))
}

fn bars(arms: &[&Arm], value: impl Fn(&Arm) -> Option<(f64, Option<(f64, f64)>)>) -> Vec<Bar> {
    let bar = |a: &&Arm| {
        let (value, interval) = value(a)?;
        Some(Bar { label: arm_name(a), value, interval, shape: Shape::of(a) })
    };
    arms.iter().filter_map(bar).collect()
}

/// All settings of one knob side by side, as ratios to the reference.
fn ablation(report: &Report) -> Vec<Panel<'_>> {
    let set = |a: &&Arm| a.role == ArmRole::Policy && a.vs_stock.is_some() && knob(a).is_some();
    let mut panels: Vec<(String, Vec<Bar>)> = Vec::new();
    for arm in report.arms.iter().filter(set) {
        let (Some(ratio), Some((name, value))) = (arm.vs_stock, knob(arm)) else { continue };
        let title =
            format!("Ablation of {name}: {} on {}", arm.policy.as_deref().unwrap_or("?"), arm.device.name);
        let bar = Bar {
            label: value.into(),
            value: ratio.ratio,
            interval: Some((ratio.lo, ratio.hi)),
            shape: Shape::of(arm),
        };
        match panels.iter_mut().find(|(t, _)| *t == title) {
            Some((_, bars)) => bars.push(bar),
            None => panels.push((title, vec![bar])),
        }
    }
    let several = panels.into_iter().filter(|(_, bars)| bars.len() > 1);
    several
        .map(|(title, bars)| Panel { title, kind: Kind::Bars(bars, "rate against the reference".into()) })
        .collect()
}

fn knob(arm: &Arm) -> Option<(&str, &str)> {
    let own = |(name, _): &(&String, &String)| !matches!(name.as_str(), "record" | "busy");
    arm.knobs.iter().find(own).map(|(name, value)| (name.as_str(), value.as_str()))
}

impl Panel<'_> {
    fn height(&self) -> u32 {
        match &self.kind {
            Kind::Scatter(_) => PANEL,
            Kind::Bars(bars, _) => 110 + 34 * bars.len() as u32,
            Kind::Timeline(report) => 110 + 22 * rows(report).len() as u32,
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let style = ("sans-serif", 17).into_font().color(&BLACK);
        let title: String = match self.title.chars().count() {
            0..=108 => self.title.clone(),
            _ => self.title.chars().take(107).chain(['…']).collect(),
        };
        area.draw(&Text::new(title, (14, 12), style))?;
        let (_, inner) = area.split_vertically(36);
        match &self.kind {
            Kind::Scatter(arms) => scatter(&inner, arms),
            Kind::Bars(bars, axis) => draw_bars(&inner, bars, axis),
            Kind::Timeline(report) => timeline(&inner, report),
        }
    }
}

/// A number at an axis, without a fraction of nothing.
fn tick(value: &f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn small() -> TextStyle<'static> {
    ("sans-serif", 14).into_font().color(&BLACK)
}

/// An axis from 0 to a little beyond the largest value.
fn reach(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if most > 0.0 { 1.12 * most } else { 1.0 }
}

fn mark<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    (x, y): (i32, i32),
    shape: Shape,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let colour = shape.colour();
    match shape {
        Shape::Right => area.draw(&Circle::new((x, y), 6, colour.filled())),
        Shape::Wrong => area.draw(&Cross::new((x, y), 6, colour.stroke_width(3))),
        Shape::Unproven => area.draw(&TriangleMarker::new((x, y), 8, colour.stroke_width(2))),
    }
}

fn scatter(area: &Area<'_>, arms: &[&Arm]) -> Drawn {
    let barriers = |a: &Arm| a.barriers_emitted_per_token.unwrap_or_default();
    let most = reach(arms.iter().map(|a| barriers(a)));
    let fastest = reach(arms.iter().filter_map(|a| Some(a.tok_s?.hi)));
    let mut chart = ChartBuilder::on(area)
        .margin_right(30)
        .x_label_area_size(46)
        .margin_left(16)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..most, 0.0..fastest)?;
    chart
        .configure_mesh()
        .x_desc(count_axis(arms))
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .y_desc(rate_axis(arms))
        .label_style(small())
        .axis_desc_style(small())
        .light_line_style(WHITE)
        .draw()?;
    let root = area.strip_coord_spec();
    let (dx, dy) = root.get_base_pixel();
    let local = |(x, y): (i32, i32)| (x - dx, y - dy);
    let rated: Vec<(&Arm, Rate, (i32, i32))> = arms
        .iter()
        .filter_map(|arm| {
            let rate = arm.tok_s?;
            Some((*arm, rate, local(chart.backend_coord(&(barriers(arm), rate.median)))))
        })
        .collect();
    let mut labels = Labels::new(root.dim_in_pixel(), rated.iter().map(|(_, _, at)| *at));
    for (arm, rate, at) in rated {
        let shape = Shape::of(arm);
        let end = |rate: f64| local(chart.backend_coord(&(barriers(arm), rate)));
        root.draw(&PathElement::new(vec![end(rate.lo), end(rate.hi)], shape.colour().stroke_width(1)))?;
        mark(&root, at, shape)?;
        let name = arm_name(arm);
        let place = labels.place(at, name.chars().count());
        if place.away {
            let grey = RGBColor(150, 150, 150);
            root.draw(&PathElement::new(vec![at, (place.x, place.y)], grey.stroke_width(1)))?;
        }
        let side = if place.left { HPos::Right } else { HPos::Left };
        root.draw(&Text::new(name, (place.x, place.y), small().pos(Pos::new(side, VPos::Center))))?;
    }
    legend(area)
}

fn legend(area: &Area<'_>) -> Drawn {
    let (width, _) = area.dim_in_pixel();
    for (i, shape) in [Shape::Right, Shape::Wrong, Shape::Unproven].into_iter().enumerate() {
        let x = width as i32 - 300 + 95 * i as i32;
        mark(area, (x, -6), shape)?;
        area.draw(&Text::new(shape.words(), (x + 12, -6), small().pos(Pos::new(HPos::Left, VPos::Center))))?;
    }
    Ok(())
}

fn draw_bars(area: &Area<'_>, bars: &[Bar], axis: &str) -> Drawn {
    let most = reach(bars.iter().map(|b| b.interval.map_or(b.value, |(_, hi)| hi.max(b.value))));
    let n = bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_right(80)
        .x_label_area_size(46)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..most, n..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(axis)
        .x_label_formatter(&tick)
        .label_style(small())
        .axis_desc_style(small())
        .light_line_style(WHITE)
        .draw()?;
    let root = area.strip_coord_spec();
    let (dx, dy) = root.get_base_pixel();
    for (i, bar) in bars.iter().enumerate() {
        let local = |x: f64, y: f64| {
            let (x, y) = chart.backend_coord(&(x, y));
            (x - dx, y - dy)
        };
        let middle = i as f64 + 0.5;
        let colour = bar.shape.colour();
        let corners = [local(0.0, i as f64 + 0.25), local(bar.value, i as f64 + 0.75)];
        root.draw(&Rectangle::new(corners, colour.mix(0.35).filled()))?;
        if let Some((lo, hi)) = bar.interval {
            root.draw(&PathElement::new(vec![local(lo, middle), local(hi, middle)], colour.stroke_width(2)))?;
        }
        mark(&root, local(bar.value, middle), bar.shape)?;
        let (x, y) = local(0.0, middle);
        let label = small().pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(bar.label.clone(), (x - 10, y), label))?;
        let (x, y) = local(bar.interval.map_or(bar.value, |(_, hi)| hi.max(bar.value)), middle);
        let value = match bar.value {
            v if v >= 100.0 || v == 0.0 => format!("{v:.0}"),
            v if v >= 10.0 => format!("{v:.1}"),
            v => format!("{v:.3}"),
        };
        root.draw(&Text::new(value, (x + 12, y), small().pos(Pos::new(HPos::Left, VPos::Center))))?;
    }
    legend(area)
}

/// One row for each driver and sort of run.
fn rows(report: &Report) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for run in &report.timeline {
        let row = row_of(run);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

fn row_of(run: &crate::report::Run) -> String {
    // Single drops share a row, or they would fill the page.
    match run.run.split_once(", without barrier") {
        Some((name, _)) => format!("{}: {name}, drops", run.driver),
        None => format!("{}: {}", run.driver, run.run),
    }
}

fn timeline(area: &Area<'_>, report: &Report) -> Drawn {
    let rows = rows(report);
    let end = reach(report.timeline.iter().map(|r| r.start_s + r.wall_s));
    let mut chart = ChartBuilder::on(area)
        .margin_right(30)
        .x_label_area_size(46)
        .y_label_area_size(330)
        .build_cartesian_2d(0.0..end, rows.len() as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("seconds since the sweep began")
        .x_label_formatter(&tick)
        .label_style(small())
        .axis_desc_style(small())
        .light_line_style(WHITE)
        .draw()?;
    for run in &report.timeline {
        let at = rows.iter().position(|r| *r == row_of(run)).unwrap_or_default() as f64;
        let colour = if run.ok { Shape::Right.colour() } else { Shape::Wrong.colour() };
        let corners = [(run.start_s, at + 0.15), (run.start_s + run.wall_s, at + 0.85)];
        chart.draw_series([Rectangle::new(corners, colour.mix(0.6).filled())])?;
        chart.draw_series([Rectangle::new(corners, colour.stroke_width(1))])?;
    }
    let root = area.strip_coord_spec();
    let (dx, dy) = root.get_base_pixel();
    for (i, row) in rows.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(0.0, i as f64 + 0.5));
        let style = small().pos(Pos::new(HPos::Right, VPos::Center));
        let row: String = row.chars().take(48).collect();
        root.draw(&Text::new(row, (x - dx - 10, y - dy), style))?;
    }
    Ok(())
}
