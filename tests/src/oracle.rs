//! The oracles: programs of other people that the tests are checked against.
//!
//! `tests/oracles` fetches them. A test that needs them and does not find them *fails*, because a check that was left
//! out must not look like one that passed. Whoever can't fetch them says so with `ZINC_BARRIER_ORACLES=skip`; then
//! these tests say what was not run, and `tests/run` repeats it in its last lines.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Child;
use crate::artefacts::repository;

/// The folder that `tests/oracles` filled.
#[derive(Clone, Debug)]
pub struct Oracles {
    folder: PathBuf,
}

/// The oracles, or `None` when they are to be skipped: then the test returns at once.
///
/// # Panics
///
/// When they are neither there nor to be skipped.
pub fn oracles(test: &str) -> Option<Oracles> {
    if std::env::var_os("ZINC_BARRIER_ORACLES").is_some_and(|value| value == "skip") {
        not_run(test, "ZINC_BARRIER_ORACLES=skip");
        return None;
    }
    let output = Command::new(repository().join("tests/oracles")).arg("--where").output();
    let output = output.unwrap_or_else(|e| panic!("cannot start tests/oracles: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{test} needs other people's programs: run tests/oracles to fetch them, or set ZINC_BARRIER_ORACLES=skip to go \
         without. {said}"
    );
    Some(Oracles { folder: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()) })
}

/// Says on stderr, and in the file that `tests/run` shows at its end, that a test was not run.
pub fn not_run(test: &str, why: &str) {
    let line = format!("not-run: {test}: {why}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("ZINC_BARRIER_NOT_RUN") {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        written.unwrap_or_else(|e| {
            panic!("cannot note in {} that {test} was not run: {e}", Path::new(&path).display())
        });
    }
}

impl Oracles {
    /// The folder, laid out as `sweep on --root` takes it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program of the folder (by name) or any other (by path), on the folder's own C library, loader and lavapipe.
    pub fn child(&self, program: &str, scratch: &Path) -> Child {
        let driver = self.folder.join("vulkan/lavapipe.json");
        Child::new(self.folder.join("run"))
            .arg(program)
            .envs(&crate::vulkan::driver(&driver))
            .env("HOME", scratch)
            // ggml takes no CPU device by itself, and lavapipe's cooperative matrices are slow.
            .env("GGML_VK_VISIBLE_DEVICES", "0")
            .env("GGML_VK_DISABLE_COOPMAT", "1")
            .env("GGML_VK_DISABLE_COOPMAT2", "1")
    }

    /// The version of a package in the folder, as `tests/oracles` recorded it.
    ///
    /// # Panics
    ///
    /// When the record has no such package.
    pub fn version(&self, package: &str) -> String {
        let path = self.folder.join("versions.txt");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        let line =
            text.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[0] == package);
        line.unwrap_or_else(|| panic!("{} names no {package}", path.display()))[1].into()
    }
}

/// The perplexity in a file of `llama-perplexity --save-all-logits`, as `tools/perplexity/perplexity.cpp` writes it: a mark,
/// context, vocabulary and chunks; the tokens; then for each scored token two floats, scale and least log-probability, and a 16-bit step for each of the vocabulary.
///
/// # Panics
///
/// When the file is laid out otherwise.
pub fn perplexity_of_saved_logits(bytes: &[u8]) -> f64 {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(&bytes[..8], b"_logits_");
    let [context, vocabulary, chunks] = [8, 12, 16].map(|at| word(at) as usize);
    let tokens = |i: usize| word(20 + 4 * i) as usize;
    let row_bytes = 2 * (vocabulary.next_multiple_of(2) + 4);
    let first = context / 2;
    let scored = context - 1 - first;
    let rows = 20 + 4 * chunks * context;
    assert_eq!(bytes.len(), rows + chunks * scored * row_bytes, "the file is not laid out as expected");
    let mut sum = 0.0;
    for chunk in 0..chunks {
        for j in 0..scored {
            let row = rows + (chunk * scored + j) * row_bytes;
            let (scale, least) = (f32::from_bits(word(row)), f32::from_bits(word(row + 4)));
            let at = row + 8 + 2 * tokens(chunk * context + first + j + 1);
            let step = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            sum -= f64::from(scale) * f64::from(step) + f64::from(least);
        }
    }
    (sum / (chunks * scored) as f64).exp()
}

/// The variables with which Khronos validation reports hazards in compute shaders, and nothing else.
pub fn synchronization_validation() -> Vec<(String, OsString)> {
    [("VK_LAYER_VALIDATE_SYNC", "1"), ("VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1")]
        .map(|(name, value)| (name.to_string(), OsString::from(value)))
        .into()
}

/// The name of Khronos validation's layer.
pub const VALIDATION: &str = "VK_LAYER_KHRONOS_validation";

/// The hazards in what validation said, each with its first line.
pub fn hazards(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains("SYNC-HAZARD")).collect()
}

/// All complaints of validation, hazards among them.
pub fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("Validation Error") || line.contains("VUID-")).collect()
}
