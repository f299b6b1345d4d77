//! The scripts that prepare a machine: they change nothing where nothing is missing, and say what they can't do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use zinc_tests::artefacts::repository;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended};

/// A folder with links to a few programs, to be the whole PATH of a script.
fn only(folder: &Path, programs: &[&str]) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("the folder can be written");
    let path = std::env::var_os("PATH").expect("PATH is set");
    for program in programs {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists());
        let found = found.unwrap_or_else(|| panic!("this machine has no {program}"));
        symlink(found, bin.join(program)).expect("the folder can be written");
    }
    bin
}

fn script(name: &str) -> Child {
    Child::new(repository().join(name))
}

fn says(ended: &Ended, words: &[&str]) {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    for word in words {
        assert!(said.contains(word), "'{word}' is missing: {}", ended.transcript());
    }
}

#[test]
fn setup_does_nothing_where_everything_is_there() {
    let folder = scratch();
    // Neither apt-get nor sudo is to be found, so nothing can have been installed.
    let path =
        only(folder.path(), &["bash", "env", "sed", "grep", "dirname", "cargo", "cc", "glslangValidator"]);
    let ended = script("sweeps/setup").env("PATH", &path).run().succeeded();
    says(&ended, &["nothing to install"]);
}

#[test]
fn setup_without_apt_lists_what_is_needed() {
    let folder = scratch();
    let path = only(folder.path(), &["bash", "env", "sed", "grep", "dirname", "cargo", "cc"]);
    let ended = script("sweeps/setup").env("PATH", &path).run();
    assert_eq!(ended.code(), Some(3), "{}", ended.transcript());
    says(&ended, &["glslangValidator", "glslang-tools", "apt-get"]);
    let ended = script("sweeps/setup").arg("--check").env("PATH", &path).run();
    assert_eq!(ended.code(), Some(1), "{}", ended.transcript());
}

#[test]
fn setup_without_rust_or_a_compiler_says_so() {
    let folder = scratch();
    let path = only(folder.path(), &["bash", "env", "sed", "grep", "dirname"]);
    script("sweeps/setup").env("PATH", &path).run().refused(3, &["rust"]);
    let folder = scratch();
    let path = only(folder.path(), &["bash", "env", "sed", "grep", "dirname", "cargo"]);
    script("sweeps/setup").env("PATH", &path).run().refused(3, &["C compiler"]);
}

#[test]
fn scripts_refuse_arguments_that_they_do_not_know() {
    script("sweeps/setup").arg("--everything").run().refused(2, &["--everything", "--tests"]);
    script("tests/setup").arg("--everything").run().refused(2, &["--everything"]);
    script("tests/oracles").arg("--everything").env("HOME", "/nowhere").run().refused(2, &["--everything"]);
    script("tests/front-ends")
        .arg("--everything")
        .env("HOME", "/nowhere")
        .run()
        .refused(2, &["--everything"]);
    script("tests/front-ends")
        .arg("--where")
        .env("XDG_CACHE_HOME", "/nowhere")
        .run()
        .refused(1, &["tests/front-ends"]);
    script("tests/fuzz").arg("--everything").run().refused(2, &["--everything", "--help"]);
    let ended = script("tests/run").env("ZINC_BARRIER_ORACLES", "no").run();
    ended.refused(2, &["ZINC_BARRIER_ORACLES", "skip"]);
}

#[test]
fn oracles_that_cannot_be_fetched_leave_nothing_that_looks_fetched() {
    let folder = scratch();
    let oracles = || script("tests/oracles").env("XDG_CACHE_HOME", folder.path());
    oracles().arg("--where").run().refused(1, &["tests/oracles"]);
    let ended = oracles().env("ZINC_BARRIER_MIRROR", "http://127.0.0.1:9/debian").limit(300).run();
    ended.refused(1, &["127.0.0.1:9", "ZINC_BARRIER_MIRROR"]);
    oracles().arg("--where").run().refused(1, &["tests/oracles"]);
}
