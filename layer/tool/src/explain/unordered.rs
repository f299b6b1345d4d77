//! Conflicts that the application left unordered.
//!
//! Two operations that share a byte, one of them writing it, with no barrier between that orders them, are one of two
//! things: a barrier that is missing in the application, or ranges that say more than the operations touch. The layer adds
//! no barrier for them (docs/semantics.md, "The contract"). Whoever looks for races starts here, and so does whoever
//! wants to know what `ZINC_BARRIER_RANGES=tight` is worth.

use super::read::Line;
use super::{bytes, side};
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use zinc_hazard::{Access, Kind, Range};

/// Says how many there are, and the `count` most frequent by who they are.
pub fn table(lines: &[Line], count: usize) -> String {
    type Sides = (String, String, &'static str);
    let mut places: BTreeMap<Sides, (usize, Option<[u64; 3]>)> = BTreeMap::new();
    for line in lines {
        let stretch = line.stretch();
        for edge in stretch.edges().0.into_iter().filter(|edge| !edge.required) {
            let (Some(earlier), Some(later)) = (edge.earlier, edge.later) else { continue };
            let (first, second) = (stretch.accesses(earlier), stretch.accesses(later));
            let pairs = || first.iter().flat_map(|a| second.iter().map(move |b| (a, b)));
            let Some((a, b)) = pairs().find(|(a, b)| a.conflicts(b)) else { continue };
            let sides = (side(line, Some(earlier), ""), side(line, Some(later), ""), kind(a, b));
            places.entry(sides).or_insert((0, common(a, b))).0 += 1;
        }
    }
    let all: usize = places.values().map(|(times, _)| times).sum();
    if all == 0 {
        return "No two operations conflict without a barrier that orders them.\n".into();
    }
    let mut list: Vec<_> = places.into_iter().collect();
    list.sort_by_key(|(_, (times, _))| std::cmp::Reverse(*times));
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["first", "second", "kind", "pairs", "for example at"]);
    table.column_mut(3).into_iter().for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    for ((first, second, kind), (times, range)) in list.into_iter().take(count) {
        table.add_row([first, second, kind.into(), times.to_string(), range.map_or(String::new(), bytes)]);
    }
    format!(
        "{all} pairs of operations conflict, and no barrier that was asked for orders them: barriers that are missing in \
         the application, or ranges that are wider than what is touched (ZINC_BARRIER_RANGES=tight):\n\n{table}\n"
    )
}

fn kind(earlier: &Access, later: &Access) -> &'static str {
    match (earlier.kind, later.kind) {
        (Kind::Read, _) => "war",
        (Kind::Write, Kind::Read) => "raw",
        (Kind::Write, Kind::Write) => "waw",
    }
}

fn common(a: &Access, b: &Access) -> Option<[u64; 3]> {
    match (a.range, b.range) {
        (Range::Bytes { memory, start, end }, Range::Bytes { start: s, end: e, .. }) => {
            Some([memory.0, start.max(s), end.min(e)])
        }
        _ => None,
    }
}
