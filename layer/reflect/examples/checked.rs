//! Runs captured dispatches with shaders that log where they read and write, and compares with the extents.
//!
//! `cargo run -p zinc-reflect --release --example checked -- CAPTURE [MOST]` reads the folder that a capture wrote (see
//! the example `footprints`) and runs each distinct dispatch once, at most MOST of each pipeline (default 1000), on the
//! first Vulkan device. Exits with 1 when an access leaves its extent.

#[path = "../tests/ranges/gpu.rs"]
mod gpu;
#[path = "../tests/ranges/instrument.rs"]
mod instrument;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::process::ExitCode;

use zinc_reflect::{Dispatch, Extent, Footprint, Specialization};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first() else {
        eprintln!("usage: checked CAPTURE [MOST]");
        return ExitCode::from(2);
    };
    let most = arguments.get(1).and_then(|most| most.parse().ok()).unwrap_or(1000);
    match run(folder, most) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::from(1)
        }
    }
}

struct Pipeline {
    name: String,
    specialization: Specialization,
    footprint: Footprint,
    logged: instrument::Logged,
    runs: usize,
}

fn run(folder: &str, most: usize) -> Result<usize, String> {
    let text = fs::read_to_string(format!("{folder}/stream.txt")).map_err(|error| error.to_string())?;
    let gpu = gpu::Gpu::open()?;
    let mut pipelines: HashMap<u32, Pipeline> = HashMap::new();
    let mut done = BTreeSet::new();
    let (mut runs, mut compared, mut escaped) = (0, 0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
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
                let logged = instrument::instrument(&code);
                pipelines.insert(id, Pipeline { name, specialization, footprint, logged, runs: 0 });
            }
            ("D", Some(id)) => {
                let pipeline = pipelines.get_mut(&id).ok_or("a dispatch of a pipeline that isn't there")?;
                let numbers: Vec<u32> = words[2..8].iter().filter_map(|word| word.parse().ok()).collect();
                let hex = words[8].trim_start_matches('x');
                let push: Vec<u8> = (0..hex.len() / 2)
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
                if pipeline.runs >= most || !done.insert((id, numbers.clone(), push.clone(), sizes.clone())) {
                    continue;
                }
                // Bindings that nothing touches are bound, too.
                for binding in &pipeline.footprint.entry_point().bindings {
                    sizes.entry((binding.set, binding.binding)).or_insert(256);
                }
                pipeline.runs += 1;
                runs += 1;
                let dispatch = Dispatch {
                    push_constants: &push,
                    groups: [numbers[0], numbers[1], numbers[2]],
                    base: [0; 3],
                };
                let seen = gpu.run(
                    &pipeline.logged,
                    &pipeline.name,
                    &pipeline.specialization,
                    &dispatch,
                    &sizes,
                    |_| 0,
                )?;
                let extents = pipeline.footprint.evaluate(&dispatch);
                for ((set, binding, write), (low, high)) in seen {
                    compared += 1;
                    let extent = extents.binding(set, binding).map(|b| if write { b.write } else { b.read });
                    let inside = match extent {
                        Some(Extent::Whole { .. }) => true,
                        Some(Extent::Bytes { start, end, .. }) => start <= low && high <= end,
                        Some(Extent::Nothing) | None => false,
                    };
                    if !inside {
                        escaped += 1;
                        println!(
                            "ESCAPED: pipeline {id} {set}.{binding} write {write}: {low}..{high}, said {extent:?}"
                        );
                        println!("  {line}");
                    } else if std::env::args().any(|a| a == "-v") {
                        println!("{id} {set}.{binding} write {write}: {low}..{high} said {extent:?}");
                    }
                }
            }
            _ => {}
        }
    }
    println!("{}: {runs} dispatches, {compared} intervals compared, {escaped} left", gpu.name);
    Ok(escaped)
}
