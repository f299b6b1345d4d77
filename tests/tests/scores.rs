//! The scripts that score: single losses of barriers, and llama.cpp's own operator tests. Here a few cases of each, drawn
//! by a seed; docs/runs has the full runs.

use std::path::{Path, PathBuf};

use serde_json::Value;
use zinc_tests::oracle::{Oracles, oracles};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended, artefacts, vulkan};

fn script(name: &str) -> PathBuf {
    artefacts::repository().join("tests").join(name)
}

fn built() -> PathBuf {
    artefacts::layer().parent().map(Path::to_path_buf).expect("programs lie in a folder")
}

fn scored(words: &[&str], oracles: Option<&Oracles>) -> Ended {
    let folder = scratch();
    let mut child = Child::new(script("mutation-score")).arg("--built").arg(built()).args(words).limit(280);
    child = match oracles {
        Some(oracles) => child.arg("--oracles").arg(oracles.folder()),
        None => child.envs(&vulkan::environment(folder.path())),
    };
    child.run()
}

#[test]
fn single_losses_in_a_token_of_the_engine_are_noticed_by_what_executes_and_by_the_audit() {
    let executing = scored(
        &[
            "--target",
            "engine",
            "--sample",
            "6",
            "--seed",
            "5",
            "--instruments",
            "delay,shuffle reverse",
            "--first",
        ],
        None,
    )
    .succeeded();
    let result: Value = executing.json();
    assert_eq!((result["dropped"].as_u64(), result["score_percent"].as_f64()), (Some(6), Some(100.0)));
    let audited =
        scored(&["--target", "engine", "--sample", "2", "--seed", "5", "--instruments", "audit"], None);
    assert_eq!(audited.succeeded().json()["score_percent"].as_f64(), Some(100.0));
}

#[test]
fn a_set_of_instruments_that_misses_too_much_fails() {
    // With nothing but one order that is not the reverse, some barriers are missed in any sample of this size.
    let ended = scored(
        &["--target", "engine", "--sample", "12", "--seed", "5", "--instruments", "shuffle 1", "--first"],
        None,
    );
    assert_eq!(ended.status.code(), Some(1), "{}", ended.transcript());
    assert!(ended.json()["score_percent"].as_f64().is_some_and(|score| score < 99.0));
}

#[test]
fn single_losses_in_a_token_of_llama_cpp_are_noticed() {
    let Some(oracles) = oracles("single_losses_in_a_token_of_llama_cpp_are_noticed") else { return };
    let words = [
        "--target",
        "llama",
        "--sample",
        "4",
        "--seed",
        "3",
        "--instruments",
        "delay,shuffle reverse",
        "--first",
    ];
    let result = scored(&words, Some(&oracles)).succeeded().json();
    assert_eq!(result["score_percent"].as_f64(), Some(100.0), "{result}");
}

#[test]
fn an_instrument_that_does_not_exist_is_a_usage_error_that_names_those_that_do() {
    let ended = scored(&["--target", "engine", "--instruments", "guessing"], None);
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        ended.stderr.contains("guessing") && ended.stderr.contains("shuffle reverse"),
        "{}",
        ended.stderr
    );
}

fn operators(oracles: &Oracles, words: &[&str]) -> Ended {
    Child::new(script("backend-ops"))
        .arg("--layer")
        .arg(artefacts::layer())
        .arg("--oracles")
        .arg(oracles.folder())
        .args(words)
        .limit(280)
        .run()
}

#[test]
fn llama_cpp_s_operator_tests_pass_shuffled_and_those_of_several_dispatches_fail_without_barriers() {
    let test =
        "llama_cpp_s_operator_tests_pass_shuffled_and_those_of_several_dispatches_fail_without_barriers";
    let Some(oracles) = oracles(test) else { return };
    let result = operators(&oracles, &["--sample", "7", "--seed", "3"]).succeeded().json();
    assert_eq!(result["run"].as_u64(), Some(7), "{result}");
    // Permuted operands are made contiguous by a dispatch of their own.
    let several = ["--ops", "MUL_MAT", "--match", r"type_a=f(16|32).*per=\[0,3,2,1\]", "--sample", "3"];
    let delayed = operators(&oracles, &[&several[..], &["--delay"]].concat());
    assert_eq!(delayed.succeeded().json()["run"].as_u64(), Some(3));
    for instrument in [&["--delay"][..], &[]] {
        let control = [&several[..], instrument, &["--policy", "none", "--expect-failures"]].concat();
        operators(&oracles, &control).succeeded();
    }
}
