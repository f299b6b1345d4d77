//! A short run of each target, and planted faults that the same run must find. The long runs are `tests/fuzz`.

use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zinc-fuzz")).args(arguments).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn good(arguments: &[&str]) {
    let output = fuzz(arguments);
    assert!(output.status.success() && text(&output).contains("| good |"), "{}", text(&output));
}

#[test]
fn damaged_shaders_end_no_program_and_leave_nothing_behind() {
    good(&["spirv", "--executions", "5000", "--generated", "10", "--seed", "5"]);
}

#[test]
fn random_calls_to_a_failing_driver_end_no_program_and_leave_nothing_behind() {
    good(&["streams", "--executions", "5000", "--seed", "5"]);
}

#[test]
fn a_planted_panic_is_found_and_can_be_replayed() {
    for target in ["spirv", "streams"] {
        let output = fuzz(&[target, "--executions", "40", "--generated", "1", "--plant", "panic"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("execution 20: ") && said.contains("planted"), "{said}");
        assert!(said.contains(&format!("again: zinc-fuzz {target} --seed 1 --first")), "{said}");
    }
}

#[test]
fn a_planted_leak_is_found() {
    let output = fuzz(&["streams", "--executions", "8000", "--plant", "leak"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
}
