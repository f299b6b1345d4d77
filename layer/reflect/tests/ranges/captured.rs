//! Shaders that were not written for this test: the engine's own, and llama.cpp's with dispatches that it recorded.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use zinc_reflect::{Dispatch, Extent, Fault, Footprint, Specialization};

use crate::gpu::Seen;
use crate::{escapes, footprint, seen, tools};

/// The control: which faults of the analysis have been noticed by what was seen.
#[derive(Default)]
struct Noticed([bool; 3]);

impl Noticed {
    fn look(&mut self, seen: &Seen, footprint: &Footprint, dispatch: &Dispatch<'_>) {
        let faults = [Fault::LoopsEndEarly, Fault::StrictIsStricter, Fault::RestsAreSmaller];
        for (noticed, fault) in self.0.iter_mut().zip(faults) {
            let extents = || footprint.clone().with_fault(fault).evaluate(dispatch);
            *noticed = *noticed || !escapes(seen, &extents(), dispatch, &[]).is_empty();
        }
    }
}

#[test]
fn no_access_of_the_engines_shaders_leaves_its_extent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shaders");
    let mut shaders: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the engine's shaders are there")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "comp"))
        // Fused kernels are text for several kernels, of which each needs its own definitions: they are compared as the engine
        // dispatches them (`tests/tests/logged_accesses.rs`).
        // Cooperative matrices are not to be had on the distribution's lavapipe.
        .filter(|path| {
            let text = std::fs::read_to_string(path).expect("a shader is text");
            !text.contains("include/fused") && !text.contains("cooperative_matrix")
        })
        .collect();
    shaders.sort();
    assert!(shaders.len() > 10, "only {} shaders in {}", shaders.len(), folder.display());
    let specialization: Specialization = [(0, 32)].into_iter().collect();
    let (mut compared, mut tight, mut noticed) = (0, 0, Noticed::default());
    let kernels = shaders.iter().flat_map(|shader| variants(shader).into_iter().map(move |v| (shader, v)));
    for (shader, variant) in kernels {
        let words = tools::compile_with(shader, "vulkan1.3", variant.as_deref());
        let footprint = footprint(&words, &specialization);
        let bindings = &footprint.entry_point().bindings;
        let sizes: BTreeMap<(u32, u32), u64> =
            bindings.iter().map(|b| ((b.set, b.binding), 1 << 18)).collect();
        for round in 0..3u32 {
            // Small shapes of all kinds; whether they make sense to the kernel doesn't matter.
            let push: Vec<u8> =
                (0..16u32).flat_map(|n| (1 + (n * 7 + round * 13) % 48).to_le_bytes()).collect();
            let dispatch = Dispatch { push_constants: &push, groups: [1 + round * 3, 1, 1], base: [0; 3] };
            let seen = seen(&words, &specialization, &dispatch, &sizes, |index| index as u32 % 5);
            let extents = footprint.evaluate(&dispatch);
            let found = escapes(&seen, &extents, &dispatch, &[]);
            assert!(found.is_empty(), "{} {variant:?} round {round}: {found:?}", shader.display());
            noticed.look(&seen, &footprint, &dispatch);
            compared += seen.len();
            let bytes = |extent: Extent| matches!(extent, Extent::Bytes { end, .. } if end <= 1 << 18);
            tight += extents.bindings.iter().filter(|b| bytes(b.write)).count();
        }
    }
    assert!(compared > 60 && tight > 15, "{compared} intervals compared, {tight} of them tight");
    assert_eq!(noticed.0, [true; 3], "faults that these shaders notice");
}

/// The macros of the kernels that a file is text for, one each, as its first lines name them; none where it is one kernel.
fn variants(shader: &Path) -> Vec<Option<String>> {
    let text = std::fs::read_to_string(shader).expect("a shader is text");
    match text.lines().find_map(|line| line.strip_prefix("// variants: ")) {
        Some(named) => {
            named.split_whitespace().map(|word| Some(word.trim_end_matches('-').to_owned())).collect()
        }
        None => vec![None],
    }
}

/// llama.cpp's Vulkan backend as `tests/oracles` fetched it; nothing where that is to be skipped.
fn backend() -> Option<PathBuf> {
    if std::env::var_os("ZINC_BARRIER_ORACLES").is_some_and(|value| value == "skip") {
        eprintln!("not-run: llama.cpp's shaders: ZINC_BARRIER_ORACLES=skip");
        return None;
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let library = cache.join("zinc-barrier/oracles/sid/start/libggml-vulkan.so");
    assert!(
        library.exists(),
        "{} is missing: run tests/oracles to fetch it, or set ZINC_BARRIER_ORACLES=skip to go without",
        library.display()
    );
    Some(library)
}

/// The SPIR-V modules that lie in a file, by the hash of their functions.
fn modules(bytes: &[u8]) -> HashMap<u64, Vec<u32>> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut found = HashMap::new();
    let mut at = 0;
    while let Some(next) = bytes[at..].windows(4).position(|b| b == [3, 2, 0x23, 7]) {
        let start = at + next;
        let (mut end, mut functions, mut last) = (start + 20, None, None);
        while let Some(first) = word(end).filter(|first| first >> 16 != 0) {
            let op = first & 0xffff;
            // Between functions nothing but functions, and names of lines.
            if last == Some(56) && !matches!(op, 54 | 8 | 317) {
                break;
            }
            if op == 54 {
                functions.get_or_insert(end);
            }
            last = Some(op);
            end += 4 * (first >> 16) as usize;
        }
        if let (Some(functions), Some(56), Some(code)) = (functions, last, bytes.get(start..end)) {
            let hash = bytes[functions..end]
                .iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
            let words = code.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            found.insert(hash, words.collect());
            at = end;
        } else {
            at = start + 4;
        }
    }
    found
}

#[test]
fn no_access_of_llama_cpp_leaves_its_extent() {
    let Some(library) = backend() else { return };
    let modules = modules(&std::fs::read(library).expect("the backend can be read"));
    let text = std::fs::read_to_string(tools::folder("fixtures").join("llama-dispatches.txt"))
        .expect("the recorded dispatches can be read");
    let mut current = None;
    let (mut shaders, mut missing, mut dispatches) = (0, 0, 0);
    let (mut bindings, mut inside, mut noticed) = (0, 0, Noticed::default());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "P" => {
                let hash = u64::from_str_radix(words[1], 16).expect("a hash");
                let constants = words[3].split(',').filter_map(|pair| pair.split_once('='));
                let specialization: Specialization = constants
                    .map(|(id, value)| (id.parse().expect("an id"), value.parse().expect("a value")))
                    .collect();
                current =
                    modules.get(&hash).map(|code| (code, footprint(code, &specialization), specialization));
                shaders += 1;
                missing += usize::from(current.is_none());
            }
            "D" => {
                let Some((code, footprint, specialization)) = &current else { continue };
                let groups = [1, 2, 3].map(|at| words[at].parse().expect("a number of workgroups"));
                let hex = &words[4][1..];
                let push: Vec<u8> = (0..hex.len() / 2)
                    .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("a byte"))
                    .collect();
                let mut sizes = BTreeMap::new();
                for pair in words[5].split(',') {
                    let (place, size) = pair.split_once('=').expect("a place and a size");
                    let (set, binding) = place.split_once('.').expect("a set and a binding");
                    let place = (set.parse().expect("a set"), binding.parse().expect("a binding"));
                    sizes.insert(place, size.parse::<u64>().expect("a size"));
                }
                let bound = sizes.clone();
                for binding in &footprint.entry_point().bindings {
                    sizes.entry((binding.set, binding.binding)).or_insert(256);
                }
                let dispatch = Dispatch { push_constants: &push, groups, base: [0; 3] };
                let extents = footprint.evaluate(&dispatch);
                let seen = seen(code, specialization, &dispatch, &sizes, |_| 0);
                let found = escapes(&seen, &extents, &dispatch, &[]);
                assert!(found.is_empty(), "{line}\n{found:?}");
                noticed.look(&seen, footprint, &dispatch);
                dispatches += 1;
                for found in &extents.bindings {
                    let size = bound.get(&(found.set, found.binding)).copied().unwrap_or(0);
                    for extent in [found.read, found.write] {
                        bindings += usize::from(extent != Extent::Nothing);
                        inside += usize::from(matches!(extent, Extent::Bytes { end, .. } if end <= size));
                    }
                }
            }
            _ => {}
        }
    }
    println!(
        "{shaders} pipelines, {missing} missing, {dispatches} dispatches, {inside} of {bindings} within their bindings"
    );
    // A newer backend may have other shaders; this test is then worth less, and says so before it is worth nothing.
    assert!(
        2 * missing <= shaders,
        "{missing} of {shaders} pipelines are not in this backend: record the dispatches anew"
    );
    assert!(
        dispatches > 10 && inside * 4 > bindings * 3,
        "{dispatches} dispatches, {inside} of {bindings} extents tight"
    );
    assert_eq!(noticed.0, [true; 3], "faults that these dispatches notice");
}

/// Direction, for every module in the backend and not only for those that somebody has recorded.
#[test]
fn the_bindings_of_llama_cpp_s_shaders_resolve_and_those_that_do_not_are_named_with_their_instruction() {
    let Some(library) = backend() else { return };
    let modules = modules(&std::fs::read(library).expect("the backend can be read"));
    let (mut entry_points, mut bindings) = (0, 0);
    let mut stopped: BTreeMap<String, usize> = BTreeMap::new();
    for words in modules.values() {
        let module = zinc_reflect::reflect(words).expect("a module that a driver takes");
        for entry in module.entry_points {
            assert_eq!(entry.unknown, None, "{} is not understood at all", entry.name);
            entry_points += 1;
            bindings += entry.bindings.len();
            for why in entry.bindings.into_iter().filter_map(|binding| binding.stopped_by) {
                *stopped.entry(why).or_default() += 1;
            }
        }
    }
    let unresolved: usize = stopped.values().sum();
    println!(
        "{} modules, {entry_points} entry points, {bindings} bindings, {unresolved} of them unresolved: {stopped:?}",
        modules.len()
    );
    assert!(entry_points > 500 && bindings > 2000, "only {bindings} bindings were found");
    assert!(20 * unresolved <= bindings, "{unresolved} of {bindings} are unresolved: {stopped:?}");
    assert!(stopped.keys().all(|why| why.contains("Op")), "an instruction is named: {stopped:?}");
}
