//! A token's two timelines as a picture, for those who have no trace viewer at hand.
//!
//! A token has hundreds of steps, so the whole of it shows only who waits for whom, and how densely the device works. Below
//! it stands a stretch from its middle, wide enough for names.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::segments::{NAMES, class};
use super::{Span, Token};

const SIZE: (u32, u32) = (1600, 560);
const COLOURS: [RGBColor; 6] = [
    RGBColor(46, 110, 166),
    RGBColor(120, 86, 160),
    RGBColor(70, 150, 120),
    RGBColor(214, 96, 77),
    RGBColor(190, 140, 40),
    RGBColor(120, 120, 120),
];
/// How much of the token the lower part shows.
const STRETCH: f64 = 0.06;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The picture of this token on that device, as SVG. Times are microseconds from the host's first span.
pub fn svg(token: &Token, device: &str) -> Result<String, Failed> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let title = format!("One token on {device}");
        let root = root.titled(&title, ("sans-serif", 22))?;
        let (legend, rest) = root.split_vertically(26);
        for (i, (name, colour)) in NAMES.iter().zip(COLOURS).enumerate() {
            let x = 80 + 250 * i as i32;
            legend.draw(&Rectangle::new([(x, 6), (x + 16, 20)], colour.filled()))?;
            legend.draw(&Text::new(*name, (x + 22, 5), ("sans-serif", 15)))?;
        }
        let (whole, part) = rest.split_vertically(240);
        let begin = token.cpu.first().map_or(0.0, |s| s.begin);
        let from = token.gpu.first().map_or(begin, |s| s.begin).min(begin);
        let to = token.cpu.last().map_or(begin, |s| s.end).max(token.gpu.last().map_or(begin, |s| s.end));
        lanes(&whole, token, begin, (from, to), "the whole of it")?;
        let (device_from, length) = (token.gpu.first().map_or(begin, |s| s.begin), token.on_device());
        let middle = device_from + length / 2.0;
        let stretch = (middle, middle + length * STRETCH);
        lanes(&part, token, begin, stretch, "a stretch from its middle")?;
        root.present()?;
    }
    Ok(text)
}

/// Both timelines between two moments (nanoseconds).
fn lanes<D: DrawingBackend>(
    area: &DrawingArea<D, plotters::coord::Shift>,
    token: &Token,
    zero: f64,
    (from, to): (f64, f64),
    caption: &str,
) -> Result<(), Failed>
where
    D::ErrorType: 'static,
{
    let us = |t: f64| (t.clamp(from, to) - zero) / 1e3;
    let failed = |e: DrawingAreaErrorKind<D::ErrorType>| Failed::from(e.to_string());
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 16))
        .margin(8)
        .margin_left(60)
        .x_label_area_size(34)
        .build_cartesian_2d(us(from)..us(to).max(us(from) + 1e-3), 0.0..2.0)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("microseconds")
        .light_line_style(WHITE)
        .label_style(("sans-serif", 14))
        .draw()
        .map_err(failed)?;
    let pixels = f64::from(SIZE.0 - 80) / (us(to) - us(from)).max(1e-9);
    let middle =
        |size: i32| ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Center));
    for (spans, bottom) in [(&token.cpu, 1.1), (&token.gpu, 0.1)] {
        for span in spans.iter().filter(|s| s.end > from && s.begin < to) {
            let (left, right, top) = (us(span.begin), us(span.end), bottom + 0.8);
            let colour = COLOURS[colour(span)];
            let style = if span.name == "wait" { colour.mix(0.25).filled() } else { colour.filled() };
            chart.draw_series([Rectangle::new([(left, bottom), (right, top)], style)]).map_err(failed)?;
            let room = (right - left) * pixels;
            if room > 8.0 * span.name.len() as f64 {
                let at = ((left + right) / 2.0, bottom + 0.4);
                let style = middle(14).color(if span.name == "wait" { &BLACK } else { &WHITE });
                chart.draw_series([Text::new(span.name.clone(), at, style)]).map_err(failed)?;
            }
        }
    }
    for (name, y) in [("CPU", 1.5), ("GPU", 0.5)] {
        let (_, y) = chart.backend_coord(&(us(from), y));
        let (_, top) = area.get_base_pixel();
        area.draw(&Text::new(name, (16, y - top), ("sans-serif", 16))).map_err(failed)?;
    }
    Ok(())
}

/// The segment that a span's time belongs to, as [`super::segments::Segments`] counts it.
fn colour(span: &Span) -> usize {
    match (span.kind, span.name.as_str()) {
        ("host", "host read" | "sampling") => 4,
        ("host", _) => 5,
        ("step", name) => class(name),
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::token;
    use super::*;

    #[test]
    fn a_picture_has_both_lanes_a_legend_and_a_bar_for_each_span() {
        let picture = svg(&token(), "a device").unwrap();
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        for word in ["CPU", "GPU", "One token on a device", "weight streaming", "wait", "microseconds"] {
            assert!(picture.contains(word), "{word}");
        }
        // 5 spans of the host, 7 of the device, 6 in the legend; the lower part repeats what it shows of them.
        assert!(picture.matches("<rect").count() >= 18, "{}", picture.matches("<rect").count());
    }

    #[test]
    fn a_token_of_which_nothing_is_known_is_still_a_picture() {
        let nothing = Token { cpu: Vec::new(), gpu: Vec::new(), steps: Vec::new() };
        assert!(svg(&nothing, "a device").unwrap().contains("</svg>"));
    }
}
