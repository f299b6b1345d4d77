//! How tight the extents of a captured stream of dispatches are, and how many conflicts they leave.
//!
//! `cargo run -p zinc-reflect --release --example footprints -- [--verbose] CAPTURE` reads the folder that a capture
//! wrote: `stream.txt` with one event a line (`P` pipeline, `D` dispatch, `B` barrier asked, `E` end of a command
//! buffer) and one `NUMBER.spv` a pipeline. For each stretch between two barriers it counts the pairs of dispatches
//! that conflict by what is bound, and those that still do by what is touched; the latter with the reason. Exits with
//! 1 when the capture can't be read.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zinc_reflect::{Dispatch, Extent, Footprint, Specialization};

fn main() -> ExitCode {
    let (options, folders): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let [folder] = folders.as_slice() else {
        eprintln!("usage: footprints [--verbose] CAPTURE");
        return ExitCode::from(2);
    };
    match run(folder, options.iter().any(|option| option == "--verbose")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::from(1)
        }
    }
}

/// One access: whether it writes, the memory, the bytes, and where it comes from.
#[derive(Clone)]
struct Touch {
    write: bool,
    memory: u64,
    start: u64,
    end: u64,
    from: String,
}

fn conflict<'t>(a: &'t [Touch], b: &'t [Touch]) -> Option<(&'t Touch, &'t Touch)> {
    a.iter()
        .flat_map(|x| b.iter().map(move |y| (x, y)))
        .find(|(x, y)| (x.write || y.write) && x.memory == y.memory && x.start < y.end && y.start < x.end)
}

#[derive(Default)]
struct Totals {
    dispatches: usize,
    distinct: usize,
    bindings: usize,
    tight: usize,
    bound_conflicts: usize,
    tight_conflicts: usize,
    evaluation: Duration,
    slowest: Duration,
    reasons: BTreeMap<String, usize>,
    survivors: BTreeMap<String, usize>,
}

fn run(folder: &str, verbose: bool) -> Result<(), String> {
    let text = fs::read_to_string(format!("{folder}/stream.txt")).map_err(|error| error.to_string())?;
    let mut pipelines: HashMap<u32, Footprint> = HashMap::new();
    let mut seen: HashMap<String, ()> = HashMap::new();
    let mut totals = Totals::default();
    let (mut bound_stretch, mut tight_stretch): (Vec<Vec<Touch>>, Vec<Vec<Touch>>) = Default::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "P" => {
                let id: u32 = number(words.get(1))?;
                let footprint = pipeline(folder, id, words.get(2).copied().unwrap_or("main"), words.get(3))?;
                pipelines.insert(id, footprint);
            }
            "B" => {
                bound_stretch.clear();
                tight_stretch.clear();
            }
            "D" => {
                let id: u32 = number(words.get(1))?;
                let footprint = pipelines.get(&id).ok_or("a dispatch of a pipeline that isn't there")?;
                let (bound, tight) =
                    dispatch(footprint, id, &words, &mut totals, verbose && !seen.contains_key(line))?;
                totals.distinct += usize::from(seen.insert(line.to_owned(), ()).is_none());
                totals.bound_conflicts +=
                    bound_stretch.iter().filter(|b| conflict(b, &bound).is_some()).count();
                for before in &tight_stretch {
                    if let Some((a, b)) = conflict(before, &tight) {
                        totals.tight_conflicts += 1;
                        *totals.survivors.entry(format!("{} / {}", a.from, b.from)).or_default() += 1;
                    }
                }
                bound_stretch.push(bound);
                tight_stretch.push(tight);
            }
            _ => {}
        }
    }
    print(&totals);
    Ok(())
}

fn number<T: std::str::FromStr>(word: Option<&&str>) -> Result<T, String> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| "a line lacks a number".to_owned())
}

fn pipeline(folder: &str, id: u32, name: &str, constants: Option<&&str>) -> Result<Footprint, String> {
    let file = format!("{folder}/{id}.spv");
    let bytes = fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let constants = constants.unwrap_or(&"").split(',').filter_map(|pair| {
        let (id, value) = pair.split_once('=')?;
        Some((id.parse().ok()?, value.parse().ok()?))
    });
    let specialization: Specialization = constants.collect();
    Footprint::compile(&words, name, &specialization).map_err(|error| format!("{file}: {error}"))
}

type Both = (Vec<Touch>, Vec<Touch>);

fn dispatch(
    footprint: &Footprint,
    id: u32,
    words: &[&str],
    totals: &mut Totals,
    verbose: bool,
) -> Result<Both, String> {
    let mut numbers = [0u32; 6];
    for (number_, word) in numbers.iter_mut().zip(&words[2..]) {
        *number_ = number(Some(word))?;
    }
    let hex =
        words.get(8).and_then(|word| word.strip_prefix('x')).ok_or("a dispatch without push constants")?;
    let push: Vec<u8> =
        (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()).collect();
    let [x, y, z, bx, by, bz] = numbers;
    let what = Dispatch { push_constants: &push, groups: [x, y, z], base: [bx, by, bz] };
    let begun = Instant::now();
    let extents = footprint.evaluate(&what);
    let took = begun.elapsed();
    totals.evaluation += took;
    totals.slowest = totals.slowest.max(took);
    totals.dispatches += 1;
    if verbose {
        println!("D {id} {:?}", what.groups);
    }
    let (mut bound, mut tight) = (Vec::new(), Vec::new());
    for word in words.get(9..).unwrap_or(&[]) {
        let parts: Vec<&str> = word.split(':').collect();
        let [place, kind, memory, start, end] = parts[..] else { continue };
        let (set, binding) = place.split_once('.').ok_or("a place without a dot")?;
        let (set, binding): (u32, u32) = (number(Some(&set))?, number(Some(&binding))?);
        let (start, end): (u64, u64) = (number(Some(&start))?, number(Some(&end))?);
        let write = kind == "Write";
        let from = format!("{id} {place}");
        let whole = Touch { write, memory: number(Some(&memory))?, start, end, from };
        totals.bindings += 1;
        let extent = extents.binding(set, binding).map(|b| if write { b.write } else { b.read });
        let mut note = |reason: &str| {
            *totals.reasons.entry(format!("{id} {place}: {reason}")).or_default() += 1;
        };
        match extent {
            Some(Extent::Nothing) => totals.tight += 1,
            Some(Extent::Bytes { start: s, end: e, because }) if start + e <= end => {
                totals.tight += 1;
                let from = match because {
                    Some(because) => format!("{id} {place} ({})", footprint.text(because)),
                    None => whole.from.clone(),
                };
                tight.push(Touch { start: start + s, end: start + e, from, ..whole.clone() });
            }
            Some(Extent::Bytes { because, .. }) => {
                let reason = because.map_or("reaches past the end", |because| footprint.text(because));
                note(reason);
                tight.push(Touch { from: format!("{id} {place} ({reason})"), ..whole.clone() });
            }
            Some(Extent::Whole { because }) => {
                note(footprint.text(because));
                tight.push(Touch {
                    from: format!("{id} {place} ({})", footprint.text(because)),
                    ..whole.clone()
                });
            }
            None => tight.push(whole.clone()),
        }
        if verbose {
            println!("  {place} {kind} bound {} {:?}", end - start, extent);
        }
        bound.push(whole);
    }
    Ok((bound, tight))
}

fn print(totals: &Totals) {
    println!("{} dispatches, {} of them distinct", totals.dispatches, totals.distinct);
    println!("{} bindings, of which {} within what is bound", totals.bindings, totals.tight);
    println!(
        "pairs without a barrier between them that conflict: {} by what is bound, {} by what is touched",
        totals.bound_conflicts, totals.tight_conflicts
    );
    println!(
        "evaluation: {:?} each, {:?} at most",
        totals.evaluation / totals.dispatches.max(1) as u32,
        totals.slowest
    );
    for (reason, count) in &totals.reasons {
        println!("  {count:6} wide: {reason}");
    }
    for (reason, count) in &totals.survivors {
        println!("  {count:6} left: {reason}");
    }
}
