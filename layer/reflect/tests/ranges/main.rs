//! No access leaves its extent: shaders that log every access, on a CPU device, against what the crate says.
//!
//! Needs glslangValidator, spirv-opt and lavapipe (`tests/setup` installs them).

mod captured;
mod exact;
mod generate;
mod generated;
mod gpu;
mod instrument;
#[path = "../suite/tools.rs"]
#[allow(dead_code, reason = "shared with the other test binary, which uses all of it")]
mod tools;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use zinc_reflect::{Dispatch, Extent, Extents, Footprint, Specialization};

/// The device; opened once for all tests, which use it in turn.
static GPU: LazyLock<std::sync::Mutex<gpu::Gpu>> = LazyLock::new(|| {
    let gpu = gpu::Gpu::open().unwrap_or_else(|error| panic!("no CPU device ({error}): run tests/setup"));
    std::sync::Mutex::new(gpu)
});

/// What left its extent, in words; nothing where all stayed inside.
fn escapes(seen: &gpu::Seen, extents: &Extents) -> Vec<String> {
    let mut found = Vec::new();
    for ((set, binding, write), (low, high)) in seen {
        let extent = extents.binding(*set, *binding).map(|b| if *write { b.write } else { b.read });
        let inside = match extent {
            Some(Extent::Whole { .. }) => true,
            Some(Extent::Bytes { start, end, .. }) => start <= *low && *high <= end,
            Some(Extent::Nothing) | None => false,
        };
        if !inside {
            let what = if *write { "written" } else { "read" };
            found.push(format!("{set}.{binding}: {what} {low}..{high}, the extent is {extent:?}"));
        }
    }
    found
}

/// Runs one dispatch of the logging copy of a shader.
fn seen(
    words: &[u32],
    specialization: &Specialization,
    dispatch: &Dispatch<'_>,
    sizes: &BTreeMap<(u32, u32), u64>,
    fill: impl Fn(usize) -> u32,
) -> gpu::Seen {
    let logged = instrument::instrument(words);
    let gpu = GPU.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    gpu.run(&logged, "main", specialization, dispatch, sizes, fill).expect("the logging copy runs")
}

/// Compiles the footprint of `main`.
fn footprint(words: &[u32], specialization: &Specialization) -> Footprint {
    Footprint::compile(words, "main", specialization).expect("a module that the compiler made")
}
