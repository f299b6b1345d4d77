//! What is wrong before the first run: found early, named, and nothing left behind.

use std::fs;

use crate::bench::Bench;

#[test]
fn a_policy_that_does_not_exist_is_a_usage_error_that_lists_those_that_do() {
    let bench = Bench::new();
    let swept = bench.sweep(&["--policy", "alias"]).expect(2);
    for name in ["stock", "every", "alias-only", "none"] {
        assert!(swept.stderr.contains(name), "{}", swept.stderr);
    }
    assert!(!bench.path("out").exists());
}

#[test]
fn fewer_tokens_than_a_chunk_are_a_usage_error() {
    let swept = Bench::new().sweep(&["--tokens", "16", "--ctx", "64"]).expect(2);
    assert!(swept.stderr.contains("--ctx"), "{}", swept.stderr);
}

#[test]
fn a_driver_that_is_not_here_is_named_beside_what_is_here() {
    let bench = Bench::new();
    let swept = bench.sweep(&["--driver", "honeykrisp"]).expect(3);
    assert!(swept.stderr.contains("honeykrisp") && swept.stderr.contains("Fake CPU"), "{}", swept.stderr);
    assert!(!bench.path("out").exists());
}

#[test]
fn a_machine_without_a_gpu_is_refused_where_one_is_required() {
    let swept = Bench::new().sweep(&["--require", "gpu"]).expect(3);
    assert!(swept.stderr.contains("gpu"), "{}", swept.stderr);
}

#[test]
fn a_machine_without_any_device_is_told_what_to_install() {
    let swept = Bench::new().with_devices(&[]).sweep(&[]).expect(3);
    assert!(swept.stderr.contains("mesa-vulkan-drivers"), "{}", swept.stderr);
}

#[test]
fn a_model_that_is_not_there_is_named() {
    let bench = Bench::new();
    let swept = bench.sweep(&["--model", "no/such.gguf"]).expect(3);
    assert!(swept.stderr.contains("no/such.gguf"), "{}", swept.stderr);
    assert!(!bench.path("out").exists());
}

#[test]
fn a_model_that_the_engine_refuses_is_refused_with_the_engines_words() {
    let bench = Bench::new().with("info", "error: the GGUF ends after 12 of 4096 bytes");
    fs::write(bench.path("short.gguf"), "GGUF").unwrap();
    let swept = bench.sweep(&["--model", "short.gguf"]).expect(3);
    assert!(swept.stderr.contains("short.gguf") && swept.stderr.contains("12 of 4096"), "{}", swept.stderr);
    assert!(!bench.path("out").exists());
}

#[test]
fn an_engine_or_layer_that_is_not_there_is_named_with_the_command_that_builds_it() {
    for option in ["--engine", "--layer"] {
        let bench = Bench::new();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_sweep"))
            .arg("--engine")
            .arg(bench.path(if option == "--engine" { "absent" } else { "engine.sh" }))
            .arg("--layer")
            .arg(bench.path(if option == "--layer" { "absent" } else { "libzinc_barrier.so" }))
            .output()
            .unwrap();
        let swept = bench.swept(output).expect(3);
        assert!(swept.stderr.contains("absent") && swept.stderr.contains("cargo build"), "{}", swept.stderr);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_first_run() {
    let bench = Bench::new();
    fs::write(bench.path("file"), "").unwrap();
    for place in ["file", "file/below", "/proc/no-reports-here"] {
        let swept = bench.sweep(&["--policy", "alias-only", "--out", place]).expect(1);
        assert!(swept.stderr.contains(place) && swept.stderr.contains("--out"), "{}", swept.stderr);
    }
    assert_eq!(bench.runs(), [""; 0], "nothing was run");
}

#[test]
fn help_teaches_with_examples_and_the_schema_is_json() {
    let help = Bench::new().sweep(&["--help"]).expect(0);
    for needle in ["Examples:", "sweep --policy alias-only", "Exit status:"] {
        assert!(help.stdout.contains(needle), "{}", help.stdout);
    }
    let schema = Bench::new().sweep(&["--print-schema"]).expect(0);
    assert!(
        serde_json::from_str::<serde_json::Value>(&schema.stdout).unwrap()["properties"]["arms"].is_object()
    );
}
