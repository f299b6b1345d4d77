//! The conflict graph of a stretch as SVG.
//!
//! A row is a level: how many barriers must have been passed before an operation can run. Operations of one row may run
//! side by side, and nothing in a row can move up, so the picture shows at a glance how much there is to gain. Edges that
//! follow from others are left out. What came before the stretch and what follows it are the two bars.
//!
//! A layout engine was considered and is not needed: the levels *are* the layout.

use super::read::Line;
use anyhow::{Result, bail};
use std::fmt::Write as _;

/// Operations beyond which a picture is of no use, and edges too many to find.
const MOST_OPERATIONS: usize = 600;

const ROW: usize = 46;
const BOX: (usize, usize) = (190, 24);
const GAP: usize = 14;
const MARGIN: usize = 60;

/// A picture and the number under it.
pub struct Picture {
    pub svg: String,
    /// The weight of the heaviest path.
    pub heaviest: usize,
}

/// Draws the conflict graph of a stretch.
///
/// # Errors
///
/// When there are too many operations.
pub fn draw(line: &Line) -> Result<Picture> {
    let count = line.operations.len();
    if count > MOST_OPERATIONS {
        bail!("{count} operations are too many for a picture; {MOST_OPERATIONS} are the most");
    }
    let (edges, path) = line.stretch().edges();
    // Node 0 is what came before, 1 to `count` the operations, the last what follows.
    let end = count + 1;
    let node = |operation: Option<usize>, nobody: usize| operation.map_or(nobody, |n| n + 1);
    let edges: Vec<(usize, usize, bool, bool)> = edges
        .iter()
        .enumerate()
        .map(|(n, e)| (node(e.earlier, 0), node(e.later, end), e.required, path.contains(&n)))
        .collect();
    let mut level = vec![0; end + 1];
    for to in 1..=end {
        let into = edges.iter().filter(|e| e.1 == to);
        level[to] = into.map(|e| level[e.0] + usize::from(e.2)).max().unwrap_or(0);
    }
    level[end] = level.iter().copied().max().unwrap_or(0).max(1);
    let rows = level[end] + 2;
    let mut places = vec![(0, 0); end + 1];
    let mut filled = vec![0; rows];
    for n in 1..=count {
        places[n] = (MARGIN + filled[level[n]] * (BOX.0 + GAP), MARGIN + ROW + level[n] * ROW);
        filled[level[n]] += 1;
    }
    let width = 2 * MARGIN + filled.iter().max().copied().unwrap_or(1).max(4) * (BOX.0 + GAP);
    let height = 2 * MARGIN + (rows + 1) * ROW;
    places[0] = (MARGIN, MARGIN - BOX.1 / 2);
    places[end] = (MARGIN, MARGIN + ROW + (rows - 1) * ROW);
    let mut svg = String::new();
    let out = &mut svg;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"13\">{} operations, {} barriers asked for; heaviest path: {} required \
         pairs (red).</text>\n<text x=\"{MARGIN}\" y=\"34\">A row may run side by side; dashes: conflicts left unordered.</text>\n",
        count,
        line.asked.len(),
        path.len()
    );
    let drawn = direct(&edges, end + 1);
    let on_path = |n: usize| edges.iter().any(|e| e.3 && (e.0 == n || e.1 == n));
    let middle = |n: usize, lower: bool| {
        let (x, y) = places[n];
        let wide = if n == 0 || n == end { width - 2 * MARGIN } else { BOX.0 };
        (x + wide / 2, if lower { y + BOX.1 } else { y })
    };
    for &(from, to, required, heavy) in drawn.iter() {
        let ((a, b), (c, d)) = (middle(from, true), middle(to, false));
        // Bars are met where the operation stands.
        let (a, c) = (if from == 0 { c } else { a }, if to == end { a } else { c });
        let bend = (d as i64 - b as i64) / 2;
        let style = match (heavy, required) {
            (true, _) => "stroke=\"#c62828\" stroke-width=\"2.5\"",
            (false, true) => "stroke=\"#90a4ae\" stroke-width=\"1\"",
            (false, false) => "stroke=\"#bdbdbd\" stroke-width=\"1\" stroke-dasharray=\"4 3\"",
        };
        let _ = writeln!(
            out,
            "<path d=\"M{a} {b} C{a} {} {c} {} {c} {d}\" fill=\"none\" {style}/>",
            b as i64 + bend,
            d as i64 - bend
        );
    }
    for (n, &(x, y)) in places.iter().enumerate() {
        let (wide, text) = match n {
            0 => (width - 2 * MARGIN, "what came before".to_string()),
            n if n == end => (width - 2 * MARGIN, "what follows".to_string()),
            n => (BOX.0, format!("{} {}", n - 1, short(&line.operations[n - 1].what))),
        };
        let (fill, stroke) = if on_path(n) { ("#ffebee", "#c62828") } else { ("#eceff1", "#607d8b") };
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{}\" rx=\"4\" fill=\"{fill}\" stroke=\"{stroke}\">\
             <title>{}</title></rect><text x=\"{}\" y=\"{}\">{}</text>",
            BOX.1,
            escaped(&told(line, n)),
            x + 6,
            y + 16,
            escaped(&text)
        );
    }
    svg += "</svg>\n";
    Ok(Picture { heaviest: path.len(), svg })
}

/// The edges that don't follow from two others; those of the heaviest path are all kept.
fn direct(edges: &[(usize, usize, bool, bool)], nodes: usize) -> Vec<(usize, usize, bool, bool)> {
    // `reach[n]`: the nodes that lead to n, as bits.
    let words = nodes.div_ceil(64);
    let mut reach = vec![vec![0u64; words]; nodes];
    let mut kept = Vec::new();
    for to in 0..nodes {
        let mut into: Vec<_> = edges.iter().filter(|e| e.1 == to).copied().collect();
        // The latest first: what leads to it is reached through it.
        into.sort_by_key(|e| (std::cmp::Reverse(e.0), !e.2));
        into.dedup_by_key(|e| e.0);
        for edge in into {
            let (word, bit) = (edge.0 / 64, 1u64 << (edge.0 % 64));
            if reach[to][word] & bit == 0 || edge.3 {
                kept.push(edge);
            }
            let from = reach[edge.0].clone();
            reach[to].iter_mut().zip(from).for_each(|(a, b)| *a |= b);
            reach[to][word] |= bit;
        }
    }
    kept
}

/// What a box says when it is pointed at: the whole name, and what it touches.
fn told(line: &Line, node: usize) -> String {
    let Some(operation) = node.checked_sub(1).and_then(|n| line.operations.get(n)) else {
        return "other command buffers, the host".into();
    };
    let mut text = format!("operation {}: {}", node - 1, operation.what);
    for access in operation.accesses.iter().take(12) {
        let kind = if access.kind == zinc_hazard::Kind::Write { "writes" } else { "reads" };
        let _ = match access.range {
            zinc_hazard::Range::Bytes { memory, start, end } => {
                write!(text, "\n{kind} allocation {}, bytes {start} to {end}", memory.0)
            }
            zinc_hazard::Range::Anywhere => write!(text, "\n{kind} anything"),
        };
    }
    text
}

fn short(text: &str) -> String {
    match text.char_indices().nth(24) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
