//! Where the programs under test are, freshly built.
//!
//! `cargo test` builds the programs of the crate under test only, and a `cdylib` that is somebody's dependency ends
//! under a name with a hash. So the harness asks cargo itself, once a process, for everything: cargo knows best what is
//! out of date, and when all is built this takes a moment. `tests/run` has built everything before it starts the tests,
//! and says so with `ZINC_BARRIER_BUILT=FOLDER`; then cargo is not asked.
//!
//! The programs are built as tests are, optimised but with overflow checks and debug assertions: a layer that computes
//! with other people's numbers is to stop at the first sum that wraps. It also spares a fresh machine a second build of
//! every dependency.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the repository")
}

/// The layer's library.
pub fn layer() -> PathBuf {
    find("libzinc_barrier.so")
}

/// The command `zinc-barrier`.
pub fn installer() -> PathBuf {
    find("zinc-barrier")
}

/// The command `engine`.
pub fn engine() -> PathBuf {
    find("engine")
}

/// The command `sweep`; the engine and the layer are beside it, where it looks for them.
pub fn sweep() -> PathBuf {
    find("sweep")
}

/// The stream player.
pub fn stream() -> PathBuf {
    find("stream")
}

/// The program that plays random valid programs.
pub fn programs() -> PathBuf {
    find("programs")
}

/// The command that writes docs/driver-truth.md.
pub fn driver_truth() -> PathBuf {
    find("driver-truth")
}

/// The command that checks what patched RADV emits.
pub fn mesa_proof() -> PathBuf {
    find("mesa-proof")
}

/// The command that writes docs/shader-stats.md.
pub fn shader_stats() -> PathBuf {
    find("shader-stats")
}

/// The program that draws pictures.
pub fn pictures() -> PathBuf {
    find("pictures")
}

/// The packet counter's library.
pub fn packets() -> PathBuf {
    find("libzinc_packets.so")
}

/// The library that starts on a shim what a script starts.
pub fn start() -> PathBuf {
    find("libzinc_start.so")
}

/// The example of `zinc-reflect` that runs captured dispatches with shaders that log their accesses.
pub fn checked() -> PathBuf {
    find("examples/checked")
}

/// The mock driver's library.
pub fn mock_driver() -> PathBuf {
    find("examples/libmock_driver.so")
}

/// A file in the folder of what was built.
///
/// # Panics
///
/// When it is not there.
fn find(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let path = FOLDER.get_or_init(folder).join(name);
    assert!(
        path.is_file(),
        "{} was not built: run tests/run, or cargo test without ZINC_BARRIER_BUILT",
        path.display()
    );
    path
}

fn folder() -> PathBuf {
    std::env::var_os("ZINC_BARRIER_BUILT").map_or_else(build, PathBuf::from)
}

/// Builds everything; the folder in which it lies.
fn build() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(repository()).args([
        "build",
        "--profile",
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--examples",
    ]);
    let output = cargo.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit()).output();
    let output =
        output.unwrap_or_else(|e| panic!("cannot start cargo to build the programs under test: {e}"));
    assert!(output.status.success(), "the programs under test do not build; cargo's messages are above");
    // Cargo's messages name each program, which all lie in one folder.
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let program = message["executable"].as_str().map(PathBuf::from);
        program.filter(|path| path.file_name().is_some_and(|name| name == "stream"))
    });
    let folder = programs.next_back().and_then(|path| path.parent().map(Path::to_path_buf));
    folder.expect("cargo names the stream player among what it built")
}
