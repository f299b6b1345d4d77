//! No access leaves its extent: shaders that log every access, on a CPU device, against what the crate says.
//!
//! Needs glslangValidator, glslc, spirv-opt, spirv-val and lavapipe (`tests/setup` installs them). Slang's compiler is optional
//! (`tests/front-ends` fetches it).

mod captured;
mod escapes;
mod exact;
mod generate;
mod generated;
mod gpu;
mod instrument;
#[path = "../suite/tools.rs"]
#[allow(dead_code, reason = "shared with the other test binary, which uses all of it")]
mod tools;

#[path = "../valid/mod.rs"]
mod valid;
mod valid_run;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use escapes::escapes;
use zinc_reflect::{Dispatch, Footprint, Specialization};

/// The device; opened once for all tests, which use it in turn.
static GPU: LazyLock<std::sync::Mutex<gpu::Gpu>> = LazyLock::new(|| {
    let gpu = gpu::Gpu::open().unwrap_or_else(|error| panic!("no CPU device ({error}): run tests/setup"));
    std::sync::Mutex::new(gpu)
});

/// Runs one dispatch of the logging copy of a shader.
fn seen(
    words: &[u32],
    specialization: &Specialization,
    dispatch: &Dispatch<'_>,
    sizes: &BTreeMap<(u32, u32), u64>,
    fill: impl Fn(usize) -> u32,
) -> gpu::Seen {
    let gpu = GPU.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let logged = instrument::instrument(words, gpu.address);
    gpu.run(&logged, "main", specialization, dispatch, sizes, fill).expect("the logging copy runs")
}

/// Where the memory begins that shaders may reach by address.
fn arena() -> u64 {
    GPU.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).address
}

/// Compiles the footprint of `main`.
fn footprint(words: &[u32], specialization: &Specialization) -> Footprint {
    Footprint::compile(words, "main", specialization).expect("a module that the compiler made")
}
