//! For build scripts: the commit that a program is built from.
//!
//! A program that is started in a checkout need not be built from it: after a pull the checkout has another commit. So
//! the commit is written into the program when it is built. Git watches its own files and the folders that go into the
//! program, so that the build script runs again when one of them changes. Without git, or in a folder that is no checkout
//! of this project, there is no commit: one of another repository would be worse than none.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What lies in every checkout of this project, and the line in it by which it is known.
const KNOWN_BY: (&str, &str) = ("sweeps/Cargo.toml", "name = \"zinc-sweeps\"");

/// Hexadecimal digits of a commit in a version.
const DIGITS: usize = 12;

/// The state of the source that a program is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The commit, in full.
    pub commit: String,
    /// Whether a tracked file that goes into the program differs from it.
    pub changed: bool,
    /// The files of git that change when the commit does.
    pub watched: Vec<PathBuf>,
    /// The folder of the checkout.
    pub top: PathBuf,
}

/// Sets what a program says of its source, as variables of the build: `ZINC_BUILD_COMMIT` (empty where it is unknown),
/// `ZINC_BUILD_CHANGED` (`true` or `false`) and `ZINC_BUILD_VERSION`. `folders` go into the program, each relative to
/// the checkout's top; files may be among them.
pub fn emit(folders: &[&str]) {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let source = source(&here, folders, "git");
    let (commit, changed) = source.as_ref().map_or(("", false), |s| (s.commit.as_str(), s.changed));
    println!("cargo::rustc-env=ZINC_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=ZINC_BUILD_CHANGED={changed}");
    println!("cargo::rustc-env=ZINC_BUILD_VERSION={}", describe(&version, source.as_ref()));
    // What is not there would have the script run each time.
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(source) = &source {
        let own = folders.iter().map(|folder| source.top.join(folder));
        for path in own.chain(source.watched.iter().cloned()).filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// A version with its commit, such as `0.1.0 (0123456789ab, changed)`.
pub fn describe(version: &str, source: Option<&Source>) -> String {
    match source {
        None => version.into(),
        Some(Source { commit, changed, .. }) => {
            let changed = if *changed { ", changed" } else { "" };
            format!("{version} ({}{changed})", &commit[..commit.len().min(DIGITS)])
        }
    }
}

/// The state of the checkout of this project that `here` lies in, by the program `git`; `None` where there is none.
pub fn source(here: &Path, folders: &[&str], git: &str) -> Option<Source> {
    let ask = |folder: &Path, args: &[&str]| {
        let output = Command::new(git)
            .arg("-C")
            .arg(folder)
            .args(args)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim_end().to_string())
    };
    let top = PathBuf::from(ask(here, &["rev-parse", "--show-toplevel"])?);
    let (file, line) = KNOWN_BY;
    if !std::fs::read_to_string(top.join(file)).ok()?.contains(line) {
        return None;
    }
    let commit = ask(&top, &["rev-parse", "HEAD"])?;
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changed = !ask(&top, &[&status[..], folders].concat())?.is_empty();
    let branch = ask(&top, &["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    // What git prints is relative to `top` unless it is absolute.
    let watched =
        names.filter_map(|name| Some(top.join(ask(&top, &["rev-parse", "--git-path", name])?))).collect();
    Some(Source { commit, changed, watched, top })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs git with a name and no settings of the user's.
    fn git(folder: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(["-c", "user.name=n", "-c", "user.email=e@example.org"]);
        command.args(["-c", "commit.gpgsign=false"]).args(args);
        let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    /// A checkout that `manifest` says what it is of, with one commit.
    fn checkout(manifest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("sweeps/Cargo.toml", manifest), ("engine/a.rs", "a"), ("docs/b.md", "b")] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(folder.path(), &["init", "-q"]);
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "-q", "-m", "first"]);
        folder
    }

    const OURS: &str = "[package]\nname = \"zinc-sweeps\"\n";

    #[test]
    fn a_program_has_the_commit_of_its_checkout_and_knows_of_changes_to_what_goes_into_it() {
        let folder = checkout(OURS);
        let here = folder.path().join("engine");
        let of = || source(&here, &["engine"], "git").unwrap();
        let head = git(folder.path(), &["rev-parse", "HEAD"]);
        assert_eq!((of().commit, of().changed), (head.clone(), false));
        std::fs::write(folder.path().join("docs/b.md"), "other").unwrap();
        assert!(!of().changed, "that goes into no program");
        std::fs::write(folder.path().join("engine/a.rs"), "other").unwrap();
        assert!(of().changed);
        git(folder.path(), &["commit", "-q", "-a", "-m", "second"]);
        assert_ne!(of().commit, head);
        assert!(!of().changed);
    }

    #[test]
    fn a_commit_changes_a_file_that_is_watched() {
        let folder = checkout(OURS);
        let read = || {
            let watched = source(folder.path(), &["engine"], "git").unwrap().watched;
            watched.iter().map(|path| std::fs::read(path).ok()).collect::<Vec<_>>()
        };
        let before = read();
        assert!(before.iter().any(Option::is_some));
        git(folder.path(), &["commit", "-q", "--allow-empty", "-m", "second"]);
        assert_ne!(read(), before);
    }

    #[test]
    fn another_repository_a_plain_folder_and_a_machine_without_git_have_no_commit() {
        let other = checkout("[package]\nname = \"other\"\n");
        assert_eq!(source(&other.path().join("engine"), &["engine"], "git"), None);
        let plain = tempfile::tempdir().unwrap();
        assert_eq!(source(plain.path(), &["engine"], "git"), None);
        assert_eq!(source(checkout(OURS).path(), &["engine"], "no-such-git"), None);
    }

    #[test]
    fn a_version_names_the_commit_where_it_is_known() {
        let source = |changed| Source {
            commit: "0123456789abcdef0123456789abcdef01234567".into(),
            changed,
            watched: vec![],
            top: PathBuf::new(),
        };
        assert_eq!(describe("0.1.0", None), "0.1.0");
        assert_eq!(describe("0.1.0", Some(&source(false))), "0.1.0 (0123456789ab)");
        assert_eq!(describe("0.1.0", Some(&source(true))), "0.1.0 (0123456789ab, changed)");
    }
}
