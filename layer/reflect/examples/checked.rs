//! Runs captured dispatches with shaders that log where they read and write, and compares with the extents.
//!
//! `cargo run -p zinc-reflect --release --example checked -- [--verbose] [--most N] [--fault FAULT] CAPTURE` reads the folder
//! that a capture wrote (see the example `footprints`) and runs each distinct dispatch once, at most N of each pipeline
//! (default 1000), on the first CPU device. An address among the push constants that lies in a buffer whose address the
//! application asked for is replaced by one of memory of that size. Memory holds zeros. A FAULT is built into the analysis
//! to see whether that is noticed: `loops`, `strict` or `rests`. Exits with 1 when an access leaves its extent.

#[path = "../tests/ranges/escapes.rs"]
mod escapes;
#[path = "../tests/ranges/gpu.rs"]
mod gpu;
#[path = "../tests/ranges/instrument.rs"]
mod instrument;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::process::ExitCode;

use zinc_reflect::{Dispatch, Fault, Footprint, Specialization};

/// What the command line says.
#[derive(Default)]
struct Arguments {
    folder: String,
    most: usize,
    fault: Fault,
    verbose: bool,
}

fn arguments() -> Option<Arguments> {
    let mut found = Arguments { most: 1000, ..Arguments::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--verbose" => found.verbose = true,
            "--most" => found.most = words.next()?.parse().ok()?,
            "--fault" => {
                found.fault = match words.next()?.as_str() {
                    "loops" => Fault::LoopsEndEarly,
                    "strict" => Fault::StrictIsStricter,
                    "rests" => Fault::RestsAreSmaller,
                    _ => return None,
                }
            }
            _ if found.folder.is_empty() && !word.starts_with("--") => found.folder = word,
            _ => return None,
        }
    }
    (!found.folder.is_empty()).then_some(found)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("usage: checked [--verbose] [--most N] [--fault loops|strict|rests] CAPTURE");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{}: {error}", arguments.folder);
            ExitCode::from(1)
        }
    }
}

/// Puts addresses of memory that is there in the place of those that were recorded: where in the push constants each stands,
/// how far it lies in its buffer, and the buffer's size.
fn addresses(push: &[u8], known: &BTreeMap<u64, u64>) -> Vec<(usize, u64, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(bytes) = push.get(at..).and_then(|rest| rest.first_chunk()) {
        let address = u64::from_le_bytes(*bytes);
        match known.range(..=address).next_back().filter(|(start, size)| address - **start < **size) {
            Some((start, size)) => {
                found.push((at, address - start, *size));
                at += 8;
            }
            None => at += 4,
        }
    }
    found
}

struct Pipeline {
    name: String,
    specialization: Specialization,
    footprint: Footprint,
    code: Vec<u32>,
    /// The copy that logs, and where memory with addresses begins for it.
    logged: Option<(u64, instrument::Logged)>,
    runs: usize,
}

fn run(arguments: &Arguments) -> Result<usize, String> {
    let Arguments { folder, most, fault, verbose } = arguments;
    let text = fs::read_to_string(format!("{folder}/stream.txt")).map_err(|error| error.to_string())?;
    let mut gpu = gpu::Gpu::open()?;
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let mut pipelines: HashMap<u32, Pipeline> = HashMap::new();
    let mut done = BTreeSet::new();
    let (mut runs, mut compared, mut pointers, mut escaped) = (0, 0, 0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["A", address, size] = words[..] {
            let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{line}: {error}"));
            known.insert(number(address)?, number(size)?);
            continue;
        }
        let id = words.get(1).and_then(|word| word.parse::<u32>().ok());
        match (words[0], id) {
            ("P", Some(id)) => {
                let file = format!("{folder}/{id}.spv");
                let bytes = fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
                let code: Vec<u32> =
                    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
                let constants = words.get(3).unwrap_or(&"").split(',').filter_map(|pair| {
                    let (id, value) = pair.split_once('=')?;
                    Some((id.parse().ok()?, value.parse().ok()?))
                });
                let specialization: Specialization = constants.collect();
                let name = words.get(2).unwrap_or(&"main").to_string();
                let footprint =
                    Footprint::compile(&code, &name, &specialization).map_err(|e| e.to_string())?;
                let footprint = footprint.with_fault(*fault);
                pipelines
                    .insert(id, Pipeline { name, specialization, footprint, code, logged: None, runs: 0 });
            }
            ("D", Some(id)) => {
                let pipeline = pipelines.get_mut(&id).ok_or("a dispatch of a pipeline that isn't there")?;
                let numbers: Vec<u32> = words[2..8].iter().filter_map(|word| word.parse().ok()).collect();
                let hex = words[8].trim_start_matches('x');
                let mut push: Vec<u8> = (0..hex.len() / 2)
                    .filter_map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok())
                    .collect();
                let mut sizes = BTreeMap::new();
                for word in &words[9..] {
                    let parts: Vec<&str> = word.split(':').collect();
                    let [place, _, _, start, end] = parts[..] else { continue };
                    let (set, binding) = place.split_once('.').ok_or("a place without a dot")?;
                    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
                    let place = (number(set)? as u32, number(binding)? as u32);
                    sizes.insert(place, number(end)? - number(start)?);
                }
                if pipeline.runs >= *most || !done.insert((id, numbers.clone(), push.clone(), sizes.clone()))
                {
                    continue;
                }
                // Bindings that nothing touches are bound, too.
                for binding in &pipeline.footprint.entry_point().bindings {
                    sizes.entry((binding.set, binding.binding)).or_insert(256);
                }
                pipeline.runs += 1;
                runs += 1;
                let led = addresses(&push, &known);
                let aligned = |size: u64| size.next_multiple_of(256);
                gpu.reserve(led.iter().map(|(.., size)| aligned(*size)).sum())?;
                let (mut next, mut buffers) = (gpu.address, Vec::new());
                for (at, offset, size) in led {
                    buffers.push((next, next + size));
                    push[at..at + 8].copy_from_slice(&(next + offset).to_le_bytes());
                    next += aligned(size);
                }
                if pipeline.logged.as_ref().is_none_or(|(begin, _)| *begin != gpu.address) {
                    let logged = instrument::instrument(&pipeline.code, gpu.address);
                    pipeline.logged = Some((gpu.address, logged));
                }
                let Some((_, logged)) = &pipeline.logged else { continue };
                let groups = [numbers[0], numbers[1], numbers[2]];
                let dispatch = Dispatch { push_constants: &push, groups, base: [0; 3] };
                let seen =
                    gpu.run(logged, &pipeline.name, &pipeline.specialization, &dispatch, &sizes, |_| 0)?;
                let extents = pipeline.footprint.evaluate(&dispatch);
                compared += seen.len();
                pointers += seen
                    .keys()
                    .filter(|(through, _)| matches!(through, instrument::Through::Pointer(_)))
                    .count();
                let found = escapes::escapes(&seen, &extents, &dispatch, &buffers);
                escaped += found.len();
                for escape in &found {
                    println!("ESCAPED: pipeline {id}: {escape}\n  {line}");
                }
                if *verbose {
                    println!("{id} {seen:?}, and said was {extents:?}");
                }
            }
            _ => {}
        }
    }
    println!(
        "{}: {runs} dispatches of {} pipelines, {compared} intervals compared, {pointers} of them behind addresses, {escaped} left",
        gpu.name,
        pipelines.values().filter(|pipeline| pipeline.runs > 0).count()
    );
    Ok(escaped)
}
