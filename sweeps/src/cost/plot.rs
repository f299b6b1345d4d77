//! `cost.svg`: a barrier's cost along each axis.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::document::{Cost, Point};
use super::grid::Axis;
use super::scope::Scope;
use super::words::bytes;

const WIDTH: u32 = 900;
const PANEL: u32 = 400;

/// What is drawn: the sorts between which people choose. Others lie on top of these.
const SHOWN: [Scope; 6] =
    [Scope::Execution, Scope::Shader, Scope::Transfer, Scope::All, Scope::Event, Scope::InKernel];

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A line: its name, its colour, its points (place on the axis, median, lower and upper end).
struct Line {
    name: String,
    colour: RGBColor,
    mark: usize,
    points: Vec<(usize, f64, f64, f64)>,
}

/// The pictures as one SVG document.
///
/// # Errors
///
/// In words, when the plotting library cannot draw.
pub fn svg(cost: &Cost) -> Result<String, String> {
    let mut text = String::new();
    {
        let panels: Vec<(Axis, &str)> = [
            (Axis::Size, "bytes that each dispatch reads"),
            (Axis::Dirtied, "bytes that each dispatch writes"),
            (Axis::Beside, "dispatches between two barriers"),
        ]
        .into_iter()
        .filter(|(axis, _)| cost.points.iter().any(|p| p.axis == *axis))
        .collect();
        let area =
            SVGBackend::with_string(&mut text, (WIDTH, PANEL * panels.len() as u32)).into_drawing_area();
        let draw = || -> Drawn {
            area.fill(&WHITE)?;
            for (part, (axis, about)) in area.split_evenly((panels.len(), 1)).iter().zip(&panels) {
                panel(part, cost, *axis, about)?;
            }
            area.present()
        };
        draw().map_err(|e| format!("the plots could not be drawn: {e}"))?;
    }
    Ok(text)
}

fn panel(area: &DrawingArea<SVGBackend<'_>, Shift>, cost: &Cost, axis: Axis, about: &str) -> Drawn {
    let label: fn(&Point) -> String = match axis {
        Axis::Size => |p| bytes(p.read_bytes),
        Axis::Dirtied => |p| bytes(p.dirtied_bytes),
        Axis::Beside => |p| p.beside.to_string(),
    };
    let (labels, lines) = lines(cost, axis, label);
    let ends = lines.iter().flat_map(|l| &l.points).map(|(_, _, _, hi)| *hi);
    let most = 1.1 * ends.filter(|v| v.is_finite()).fold(0.1, f64::max);
    let least = lines.iter().flat_map(|l| &l.points).map(|(_, _, lo, _)| *lo).fold(0.0, f64::min);
    let title = format!("What one barrier adds on {}, us", cost.device.name);
    area.draw(&Text::new(title, (14, 12), ("sans-serif", 17).into_font().color(&BLACK)))?;
    let (_, inner) = area.split_vertically(36);
    let small = || ("sans-serif", 14).into_font().color(&BLACK);
    let last = labels.len().saturating_sub(1).max(1) as f64;
    let mut chart = ChartBuilder::on(&inner)
        .margin_right(210)
        .margin_left(12)
        .x_label_area_size(48)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.2..last + 0.2, least..most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .x_desc(about)
        .label_style(small())
        .axis_desc_style(small())
        .light_line_style(WHITE)
        .draw()?;
    let root = inner.strip_coord_spec();
    let (dx, dy) = root.get_base_pixel();
    for (i, label) in labels.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(i as f64, least));
        let style = small().pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(label.clone(), (x - dx, y - dy + 6), style))?;
    }
    for (i, line) in lines.iter().enumerate() {
        let at = |(x, y, _, _): &(usize, f64, f64, f64)| (*x as f64, *y);
        chart.draw_series(LineSeries::new(line.points.iter().map(at), line.colour.stroke_width(2)))?;
        for (x, y, lo, hi) in &line.points {
            let x = *x as f64;
            chart.draw_series([PathElement::new(vec![(x, *lo), (x, *hi)], line.colour.stroke_width(1))])?;
            let (x, y) = chart.backend_coord(&(x, *y));
            mark(&root, (x - dx, y - dy), line)?;
        }
        let (x, y) = (WIDTH as i32 - 196, 14 + 24 * i as i32);
        mark(&root, (x, y), line)?;
        let style = small().pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(line.name.clone(), (x + 14, y), style))?;
    }
    Ok(())
}

/// The labels of an axis in ascending order, and a line for each sort.
fn lines(cost: &Cost, axis: Axis, label: fn(&Point) -> String) -> (Vec<String>, Vec<Line>) {
    let middle = cost.points.iter().find(|p| p.axis != Axis::Size).map(|p| p.read_bytes);
    let on = |p: &&Point| {
        p.axis == axis || axis != Axis::Size && p.axis == Axis::Size && Some(p.read_bytes) == middle
    };
    let mut points: Vec<&Point> = cost.points.iter().filter(on).collect();
    points.sort_by_key(|p| match axis {
        Axis::Size => p.read_bytes,
        Axis::Dirtied => p.dirtied_bytes,
        Axis::Beside => u64::from(p.beside),
    });
    let mut labels: Vec<String> = Vec::new();
    for p in &points {
        if !labels.contains(&label(p)) {
            labels.push(label(p));
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    for scope in SHOWN {
        for p in points.iter().filter(|p| p.scope == scope) {
            let Some(us) = p.us_per_barrier else { continue };
            let name = match p.resident {
                true if p.workgroups > 1 => format!("{}, {} workgroups", scope.name(), p.workgroups),
                _ => scope.name().to_string(),
            };
            // A resident dispatch of one workgroup is a point of every such line, and a line of its own nowhere.
            let place = labels.iter().position(|l| *l == label(p)).unwrap_or_default();
            let point = (place, us.median, us.lo, us.hi);
            match lines.iter_mut().find(|l| l.name == name) {
                Some(line) => line.points.push(point),
                None => {
                    let i = lines.len();
                    let colour = COLOURS[i % COLOURS.len()];
                    lines.push(Line { name, colour, mark: i, points: vec![point] });
                }
            }
        }
    }
    (labels, lines.into_iter().filter(|l| l.points.len() > 1).collect())
}

const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 110, 80),
    RGBColor(230, 159, 0),
    RGBColor(200, 60, 20),
    RGBColor(120, 80, 160),
    RGBColor(90, 90, 90),
    RGBColor(0, 0, 0),
];

/// Shapes too, so that lines can be told apart without colours.
fn mark<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    (x, y): (i32, i32),
    line: &Line,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let colour = line.colour;
    match line.mark % 4 {
        0 => area.draw(&Circle::new((x, y), 5, colour.filled())),
        1 => area.draw(&TriangleMarker::new((x, y), 7, colour.filled())),
        2 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], colour.filled())),
        _ => area.draw(&Cross::new((x, y), 5, colour.stroke_width(2))),
    }
}
