//! `zinc-barrier explain`: a trace, for people.
//!
//! Four questions are answered. Which places in the application's code do the barriers come from? (The table: pairs of
//! pipelines, most frequent first.) Why is this barrier there, and why could that one go? (One stretch, barrier by
//! barrier.) What would it take to need fewer? (The picture: the conflict graph of one stretch, with the heaviest path
//! marked. No order of the operations needs fewer barriers than that path has required pairs.) Which conflicts did the
//! application leave unordered? (`unordered`.)
//!
//! Everything is read from the trace and nothing from the layer's memory; the graph is computed again from the accesses.

mod picture;
mod read;
mod unordered;

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use read::{Emission, Line};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The arguments.
#[derive(Args)]
pub struct Explain {
    /// A trace: what ZINC_BARRIER_TRACE=PATH left behind.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Tell of the stretch of this number, barrier by barrier; stretches are numbered from 0.
    #[arg(long, value_name = "N")]
    stretch: Option<usize>,
    /// Draw the conflict graph of one stretch as SVG: of --stretch, or else of the longest.
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,
    /// How many places the table has.
    #[arg(long, value_name = "N", default_value_t = 10)]
    places: usize,
}

/// Explains a trace.
///
/// # Errors
///
/// When the file can't be read, is no trace, lacks the stretch, or the picture can't be written.
pub fn explain(arguments: &Explain) -> Result<String> {
    let path = &arguments.trace;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = read::lines(&text).with_context(|| format!("{} is no trace", path.display()))?;
    if lines.is_empty() {
        bail!("{}: nothing was recorded", path.display());
    }
    if let Some(number) = arguments.stretch.filter(|n| *n >= lines.len()) {
        bail!("there is no stretch {number}; {} has 0 to {}", path.display(), lines.len() - 1);
    }
    let mut text = summary(&lines);
    let _ = write!(text, "\n{}", places(&lines, arguments.places));
    let _ = write!(text, "\n{}", unordered::table(&lines, arguments.places));
    if let Some(number) = arguments.stretch {
        let _ = write!(text, "\n{}", one(number, &lines[number]));
    }
    if let Some(svg) = &arguments.svg {
        let longest = (0..lines.len()).max_by_key(|n| lines[*n].operations.len()).unwrap_or(0);
        let number = arguments.stretch.unwrap_or(longest);
        let picture = picture::draw(&lines[number]).with_context(|| format!("stretch {number}"))?;
        zinc_settings::files::write_whole(svg, picture.svg.as_bytes(), 0o666)
            .with_context(|| format!("cannot write {}", svg.display()))?;
        let _ = writeln!(
            text,
            "\n{}: the conflict graph of stretch {number}: {} operations; the heaviest path has {} required pairs, so \
             no order of the operations needs fewer barriers; {} are emitted.",
            svg.display(),
            lines[number].operations.len(),
            picture.heaviest,
            lines[number].emissions.len()
        );
    }
    Ok(text)
}

fn summary(lines: &[Line]) -> String {
    let sum = |f: &dyn Fn(&Line) -> usize| lines.iter().map(f).sum::<usize>();
    let fates = |fate: &'static str| sum(&|l: &Line| l.asked.iter().filter(|a| a.fate == fate).count());
    format!(
        "{}: {} stretches, {} operations, {} barriers asked for.\n\
         {} are emitted: some pair of accesses needs them.\n\
         {} are merged: the pairs that need them are ordered by one that is emitted anyway.\n\
         {} are idle: no two accesses to the same bytes need them.\n",
        lines[0].policy,
        lines.len(),
        sum(&|l| l.operations.len()),
        sum(&|l| l.asked.len()),
        fates("emitted"),
        fates("merged"),
        fates("idle"),
    )
}

/// Who stands on one side of a pair.
fn side(line: &Line, operation: Option<usize>, nobody: &str) -> String {
    operation.and_then(|n| line.operations.get(n)).map_or(nobody.into(), |o| o.what.clone())
}

/// Who stands on the two sides of the emission of this number.
fn sides(line: &Line, number: usize, emission: &Emission) -> (String, String) {
    // What is due to whatever follows has no pair; the last operation before it tells the place in the code.
    let asked = line.asked.iter().rfind(|asked| asked.emission == Some(number) && asked.fate == "emitted");
    let before = asked.filter(|_| emission.kind == "flush").and_then(|asked| asked.before.checked_sub(1));
    let first = match (emission.earlier, before) {
        (None, Some(last)) => format!("{} and all before", side(line, Some(last), "")),
        _ => side(line, emission.earlier, "anything before"),
    };
    (first, side(line, emission.later, "anything behind"))
}

/// The places that most often force a barrier.
fn places(lines: &[Line], count: usize) -> String {
    type Sides<'a> = (String, String, &'a str);
    let mut places: HashMap<Sides<'_>, (usize, Option<[u64; 3]>)> = HashMap::new();
    for line in lines {
        for (number, emission) in line.emissions.iter().enumerate() {
            let (first, second) = sides(line, number, emission);
            let place = places.entry((first, second, &emission.kind)).or_insert((0, emission.range));
            place.0 += 1;
        }
    }
    let all: usize = places.values().map(|(count, _)| count).sum();
    let mut list: Vec<_> = places.into_iter().collect();
    list.sort_by(|a, b| (b.1.0, &a.0).cmp(&(a.1.0, &b.0)));
    let shown: usize = list.iter().take(count).map(|(_, (n, _))| n).sum();
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["first", "second", "kind", "barriers", "for example at"]);
    table.column_mut(3).into_iter().for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    for ((first, second, kind), (times, range)) in list.into_iter().take(count) {
        table.add_row([
            first,
            second,
            kind.to_string(),
            times.to_string(),
            range.map_or(String::new(), bytes),
        ]);
    }
    let unnamed = lines.iter().flat_map(|line| &line.operations).any(|o| o.what.starts_with("pipeline "));
    let hint = if unnamed { UNNAMED } else { "" };
    format!("Where barriers come from ({shown} of {all} emitted):\n\n{table}\n{hint}")
}

/// What helps whoever finds numbers in the place of names.
const UNNAMED: &str = "Pipelines are numbered as they were made, from 0. With ZINC_BARRIER_NAMES=1 they have the names that the \
                       application gives them by vkSetDebugUtilsObjectNameEXT.\n";

fn bytes([memory, start, end]: [u64; 3]) -> String {
    format!("allocation {memory}, bytes {start} to {end}")
}

/// One stretch, asked barrier by asked barrier.
fn one(number: usize, line: &Line) -> String {
    let mut text = format!("Stretch {number}, barrier by barrier:\n");
    for (nth, asked) in line.asked.iter().enumerate() {
        let next = side(line, Some(asked.before), "the end");
        let why = |emission: &Emission| {
            let (first, second) = sides(line, asked.emission.unwrap_or(usize::MAX), emission);
            let name = |n: Option<usize>, what: String| {
                n.map_or(what.clone(), |n| format!("{what} (operation {n})"))
            };
            let at = emission.range.map_or(String::new(), |range| format!(" on {}", bytes(range)));
            format!(
                "{}: {} before {}{at}",
                emission.kind,
                name(emission.earlier, first),
                name(emission.later, second)
            )
        };
        let emission = asked.emission.and_then(|n| line.emissions.get(n));
        let fate = match (asked.fate.as_str(), emission) {
            ("emitted", Some(emission)) => format!(
                "emitted{}; {}",
                if emission.cut { ", cut to what its pairs need" } else { ", with the scopes asked for" },
                why(emission)
            ),
            ("merged", Some(emission)) => {
                format!("merged into another, which is there for {}", why(emission))
            }
            _ => "idle: nothing that conflicts lies on its two sides".into(),
        };
        let _ = writeln!(text, "  {nth} before operation {} ({next}): {fate}", asked.before);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_barrier::journal::{Journal, What};
    use zinc_barrier::trace;
    use zinc_hazard::{Access, Barrier, MemoryId, Nature, Policy, Range};

    /// Two chains of three dispatches, one recorded after the other, a barrier after each dispatch.
    fn told(policy: Policy) -> String {
        let mut journal = Journal::default();
        for chain in [0, 10] {
            for step in 0..3 {
                let range = |n: u64| Range::bytes(MemoryId(7), (chain + n) * 64, 64, 64);
                let accesses = [Access::shader_read(range(step)), Access::shader_write(range(step + 1))];
                journal.operation(What::Dispatch(Some(step)), Nature::Movable, &accesses);
                journal.asked(Barrier::FULL);
            }
        }
        let names = [(1, "middle <1>".to_string())].into();
        trace::explain(&journal, policy, &names).lines
    }

    fn explained(text: &str, stretch: Option<usize>, svg: Option<PathBuf>) -> Result<String> {
        let folder = tempfile::tempdir()?;
        let trace = folder.path().join("trace");
        std::fs::write(&trace, text)?;
        explain(&Explain { trace, stretch, svg, places: 10 })
    }

    #[test]
    fn a_trace_says_where_barriers_come_from_and_what_became_of_each() {
        let text = explained(&told(Policy::Narrow), Some(0), None).unwrap();
        for words in [
            "1 stretches, 6 operations, 6 barriers asked for",
            "| pipeline 0 | middle <1>",
            "bytes 64 to 128",
            "0 before operation 1 (middle <1>): emitted",
            "raw: pipeline 0 (operation 0) before middle <1> (operation 1)",
            "vkSetDebugUtilsObjectNameEXT",
        ] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
    }

    #[test]
    fn a_conflict_without_a_barrier_is_named_and_one_with_a_barrier_is_not() {
        let ordered = explained(&told(Policy::Narrow), None, None).unwrap();
        assert!(ordered.contains("No two operations conflict without a barrier"), "{ordered}");
        let mut journal = Journal::default();
        let range = |start: u64, end: u64| Range::Bytes { memory: MemoryId(7), start, end };
        for (number, bytes) in [range(0, 256), range(192, 512), range(512, 1024)].into_iter().enumerate() {
            let what = What::Dispatch(Some(number as u64));
            journal.operation(what, Nature::Movable, &[Access::shader_write(bytes)]);
        }
        let lines = trace::explain(&journal, Policy::Narrow, &Default::default()).lines;
        let text = explained(&lines, None, None).unwrap();
        for words in ["1 pairs of operations conflict", "pipeline 0", "pipeline 1", "waw", "bytes 192 to 256"]
        {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
        assert!(!text.contains("pipeline 2"), "{text}");
    }

    #[test]
    fn the_picture_has_every_operation_and_the_weight_of_the_heaviest_path() {
        let folder = tempfile::tempdir().unwrap();
        let svg = folder.path().join("graph.svg");
        let said = explained(&told(Policy::Reorder), None, Some(svg.clone())).unwrap();
        assert!(
            said.contains("heaviest path has 4 required pairs") && said.contains("4 are emitted"),
            "{said}"
        );
        let picture = std::fs::read_to_string(svg).unwrap();
        for words in ["0 pipeline 0", "4 middle &lt;1&gt;", "what came before", "what follows", "#c62828"] {
            assert!(picture.contains(words), "{words} is missing in\n{picture}");
        }
        let narrow = explained(&told(Policy::Narrow), None, None).unwrap();
        assert!(narrow.contains("5 are emitted"), "{narrow}");
    }

    #[test]
    fn what_is_no_trace_is_refused_with_the_line() {
        for (text, word) in [
            ("{}", "line 1"),
            ("not json", "line 1"),
            ("{\"trace\": 99}", "version 99"),
            ("", "nothing was recorded"),
        ] {
            let why = format!("{:#}", explained(text, None, None).unwrap_err());
            assert!(why.contains(word), "{text}: {why}");
        }
        let why = format!("{:#}", explained(&told(Policy::Narrow), Some(3), None).unwrap_err());
        assert!(why.contains("there is no stretch 3"), "{why}");
    }
}
