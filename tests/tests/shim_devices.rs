//! Drivers that record commands and execute none have a GPU's name and kind; the engine says what they are.

use zinc_tests::artefacts;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, shims, vulkan};

const DRIVER: &str = "honeykrisp-shim";

#[test]
fn a_device_that_computes_nothing_is_no_gpu() {
    if !shims::are_here(&artefacts::sweep(), "a_device_that_computes_nothing_is_no_gpu", &[DRIVER]) {
        return;
    }
    let folder = scratch();
    let on_shim = |words: &[&str]| {
        Child::new(artefacts::sweep())
            .args(["on", DRIVER, "--"])
            .arg(artefacts::engine())
            .args(words)
            .in_folder(folder.path())
            .env("HOME", std::env::var_os("HOME").unwrap_or_default())
            .run()
    };
    let commands: [&[&str]; 5] = [
        &["bench", "--tokens", "2", "--reps", "1"],
        &["bench", "--tokens", "2", "--reps", "1", "--record", "ahead"],
        &["profile", "--tokens", "2"],
        &["micro", "--reps", "1"],
        &["perplexity", "--ctx", "8", "--tokens", "8"],
    ];
    for words in commands {
        // Counts are worth something there, so the command ends well; what its rates are worth is said.
        let ended = on_shim(words).succeeded();
        assert!(ended.stderr.contains("computes nothing"), "{}", ended.transcript());
    }
    for words in [&["info"][..], &["bench"], &["perplexity", "--ctx", "8", "--tokens", "8"], &["ops"]] {
        let ended = on_shim(&[words, &["--require", "gpu"]].concat());
        assert_eq!(ended.code(), Some(3), "{}", ended.transcript());
        assert!(ended.stderr.contains("computes nothing"), "{}", ended.transcript());
    }
    // The control: a driver that executes is not accused.
    let lavapipe = Child::new(artefacts::engine()).envs(&vulkan::environment(folder.path()));
    let ended = lavapipe.args(commands[0]).run().succeeded();
    assert!(!ended.stderr.contains("computes nothing"), "{}", ended.transcript());
}
