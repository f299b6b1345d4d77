//! Random valid programs over the edges of the API, under every policy (`tests/src/bin/programs`), for as long as a test may take;
//! `tests/fuzz --programs` runs them for an hour, and docs/runs/fuzz.md has a record.
//!
//! They run on a current lavapipe, which the oracles bring: Debian 12's has no descriptor arrays that are bound in part, and its
//! queue thread crashes on one of the first programs, with or without the layer.

use zinc_tests::Child;
use zinc_tests::artefacts;
use zinc_tests::layer::write_manifest;
use zinc_tests::oracle::{Oracles, VALIDATION, oracles, synchronization_validation};
use zinc_tests::stream::scratch;

/// The player with these arguments, where the loader finds the layer under test and Khronos validation.
fn programs(oracles: &Oracles, folder: &std::path::Path, arguments: &[&str]) -> Child {
    let manifests = folder.join("layers");
    write_manifest(&manifests, None);
    let program = artefacts::programs();
    let validation = oracles.folder().join("vulkan/layers");
    assert!(validation.is_dir(), "{}: where {VALIDATION} is", validation.display());
    let path = std::env::join_paths([manifests, validation]).expect("paths without colons");
    oracles
        .child(&program.display().to_string(), folder)
        .env("VK_LAYER_PATH", path)
        .env("MESA_SHADER_CACHE_DIR", program.with_file_name("test-shader-cache"))
        .args(arguments)
        .limit(280)
}

/// The row of a setting in the table.
fn row<'a>(table: &'a str, setting: &str) -> Vec<&'a str> {
    let row = table.lines().find(|line| line.starts_with(&format!("| {setting} |")));
    let row = row.unwrap_or_else(|| panic!("no row {setting}:\n{table}"));
    row.split('|').map(str::trim).collect()
}

#[test]
fn memory_and_counts_are_right_under_every_policy() {
    let Some(oracles) = oracles("random programs under every policy") else { return };
    let folder = scratch();
    // From another place every day: what is found is replayed by the seed that it names.
    let day = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |t| t.as_secs() / 86_400);
    let seed = (day * 100_000).to_string();
    let ended = programs(&oracles, folder.path(), &["--seconds", "40", "--seed", &seed]).run();
    println!("{}", ended.stdout);
    assert!(ended.status.success(), "{}", ended.transcript());
    let emitted = |setting| row(&ended.stdout, setting)[7].parse::<u64>().unwrap();
    let (asked, alias) = (emitted("stock"), emitted("alias-only"));
    assert!(
        alias < asked * 9 / 10,
        "of {asked} barriers {alias} are left: the programs ask for few that nothing needs"
    );
    assert!(emitted("reorder") < emitted("narrow") && emitted("narrow") < alias, "{}", ended.stdout);
}

#[test]
fn validation_has_nothing_to_say_of_the_programs_nor_of_what_the_layer_makes_of_them() {
    let Some(oracles) = oracles("random programs before Khronos validation") else { return };
    let folder = scratch();
    for place in ["above", "below"] {
        let arguments = ["--seconds", "15", "--batch", "10", "--validation", place];
        let ended = programs(&oracles, folder.path(), &arguments).envs(&synchronization_validation()).run();
        println!("{}", ended.stdout);
        assert!(ended.status.success(), "{place}: {}", ended.transcript());
        if place == "below" {
            let control = row(&ended.stdout, "none, reversed (control)");
            assert!(control[5].parse::<u64>().unwrap() > 0, "the control has hazards: {}", ended.stdout);
        }
    }
}

#[test]
fn a_process_may_make_as_many_instances_as_it_likes() {
    let Some(oracles) = oracles("a thousand instances in a process") else { return };
    let folder = scratch();
    // Each batch opens an instance with the layer; a process has 1024 keys for thread-local storage.
    let arguments = ["--programs", "1100", "--batch", "1", "--only", "every"];
    let ended = programs(&oracles, folder.path(), &arguments).run();
    assert!(ended.status.success(), "{}", ended.transcript());
}
