//! Bad input to the engine and the sweep: the thing and the remedy are named, the exit status is the promised one,
//! and nothing half-written is left.

use std::fs;
use std::path::{Path, PathBuf};

use zinc_tests::artefacts::{self, repository};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, vulkan};

/// A damaged copy of the embedded model.
fn damaged(folder: &Path, name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let good = repository().join("engine/model/embedded-q8_0.gguf");
    let mut bytes = fs::read(&good).unwrap_or_else(|e| panic!("cannot read {}: {e}", good.display()));
    damage(&mut bytes);
    let path = folder.join(name);
    fs::write(&path, bytes).expect("the folder can be written");
    path
}

/// Where the description of a tensor goes on after its name: number of dimensions, dimensions, type, offset.
fn description_of(bytes: &[u8], tensor: &str) -> usize {
    let mut wanted = (tensor.len() as u64).to_le_bytes().to_vec();
    wanted.extend(tensor.as_bytes());
    let at = bytes.windows(wanted.len()).position(|window| window == wanted);
    at.unwrap_or_else(|| panic!("the model has no tensor {tensor}")) + wanted.len()
}

fn engine(folder: &Path) -> Child {
    Child::new(artefacts::engine()).envs(&vulkan::environment(folder))
}

fn sweep(folder: &Path) -> Child {
    Child::new(artefacts::sweep()).envs(&vulkan::environment(folder)).in_folder(folder)
}

/// Bad models: a name, the file, and what the message has to mention.
fn bad_models(folder: &Path) -> Vec<(PathBuf, Vec<&'static str>)> {
    vec![
        (damaged(folder, "half.gguf", |b| b.truncate(b.len() / 2)), vec!["half.gguf", "truncated"]),
        (damaged(folder, "header.gguf", |b| b.truncate(20)), vec!["header.gguf", "truncated"]),
        (damaged(folder, "empty.gguf", Vec::clear), vec!["empty.gguf"]),
        (damaged(folder, "other.gguf", |b| b[..4].copy_from_slice(b"RIFF")), vec!["other.gguf", "GGUF"]),
        (damaged(folder, "old.gguf", |b| b[4] = 1), vec!["old.gguf", "version 1"]),
        (
            damaged(folder, "tensors.gguf", |b| b[8..16].copy_from_slice(&u64::MAX.to_le_bytes())),
            vec!["tensors.gguf"],
        ),
        (
            damaged(folder, "keys.gguf", |b| b[16..24].copy_from_slice(&(1u64 << 60).to_le_bytes())),
            vec!["keys.gguf"],
        ),
        (
            damaged(folder, "type.gguf", |b| {
                // I8, a type that GGUF has and no engine computes with.
                let at = description_of(b, "token_embd.weight") + 4 + 2 * 8;
                b[at..at + 4].copy_from_slice(&24u32.to_le_bytes());
            }),
            vec!["type.gguf", "token_embd.weight", "I8", "Q8_0"],
        ),
        (
            damaged(folder, "size.gguf", |b| {
                let at = description_of(b, "token_embd.weight") + 4;
                b[at..at + 8].copy_from_slice(&(1u64 << 61).to_le_bytes());
            }),
            vec!["size.gguf", "token_embd.weight"],
        ),
    ]
}

/// The engine's exit status for a bad model: one without a byte counts as missing.
fn status(model: &Path) -> i32 {
    if fs::metadata(model).is_ok_and(|file| file.len() == 0) { 3 } else { 1 }
}

#[test]
fn the_engine_refuses_damaged_models_and_writes_nothing() {
    let folder = scratch();
    for (model, words) in bad_models(folder.path()) {
        for args in [&["run", "--prompt", "a", "-n", "1"][..], &["perplexity", "--tokens", "8", "--ctx", "8"]]
        {
            let ended = engine(folder.path()).args(args).arg("--model").arg(&model).run();
            let ended = ended.refused(status(&model), &words);
            assert!(ended.stdout.is_empty(), "{}", ended.transcript());
        }
        let out = folder.path().join("out.gguf");
        let export =
            engine(folder.path()).args(["export", "--type", "f32"]).arg(&out).arg("--model").arg(&model);
        export.run().refused(status(&model), &words);
        assert!(!out.exists(), "{} became a file all the same", model.display());
    }
    let left = fs::read_dir(folder.path()).expect("it is there").flatten();
    let left: Vec<_> = left.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    assert!(
        left.iter().all(|name| !name.contains("tmp") && !name.starts_with(".export")),
        "left behind: {left:?}"
    );
}

#[test]
fn a_model_or_text_that_is_not_there_is_named() {
    let folder = scratch();
    let missing = folder.path().join("missing.gguf");
    engine(folder.path())
        .args(["run", "--prompt", "a", "--model"])
        .arg(&missing)
        .run()
        .refused(3, &["missing.gguf"]);
    engine(folder.path())
        .args(["perplexity", "--file", "/no/such/text"])
        .run()
        .refused(1, &["/no/such/text"]);
    let out = folder.path().join("report");
    let ended = sweep(folder.path()).arg("--model").arg(&missing).arg("--out").arg(&out).run();
    ended.refused(3, &["missing.gguf"]);
    assert!(!out.exists(), "a sweep that could not start left a folder");
}

#[test]
fn the_sweep_refuses_a_damaged_model_and_leaves_no_report() {
    let folder = scratch();
    for (model, words) in bad_models(folder.path()).into_iter().step_by(3) {
        let out = folder.path().join("report");
        let ended = sweep(folder.path()).arg("--model").arg(&model).arg("--out").arg(&out).run();
        let code = ended.code();
        let ended = ended.refused(code.expect("it ended by itself"), &words);
        assert!(matches!(code, Some(1 | 3)), "{}", ended.transcript());
        assert!(!out.exists(), "a sweep that could not start left a folder: {}", ended.transcript());
    }
}

#[test]
fn wrong_usage_lists_what_is_right() {
    let folder = scratch();
    let out = folder.path().join("report");
    let ended = sweep(folder.path()).args(["--policy", "alias"]).arg("--out").arg(&out).run();
    ended.refused(2, &["'alias'", "alias-only", "stock", "every", "none"]);
    sweep(folder.path())
        .args(["--driver", "cuda"])
        .arg("--out")
        .arg(&out)
        .run()
        .refused(2, &["cuda", "lavapipe"]);
    sweep(folder.path()).args(["--reps", "0"]).arg("--out").arg(&out).run().refused(2, &["--reps"]);
    engine(folder.path()).args(["run", "-n", "0"]).run().refused(2, &["--tokens"]);
    engine(folder.path()).args(["run", "-n", "999999999999"]).run().refused(2, &["--tokens"]);
    engine(folder.path()).args(["walk"]).run().refused(2, &["walk"]);
    assert!(!out.exists());
}

#[test]
fn absurd_sizes_are_refused_before_they_are_allocated() {
    let folder = scratch();
    let ended = engine(folder.path()).args(["perplexity", "--ctx", "4000000000"]).run();
    let code = ended.code();
    assert!(matches!(code, Some(1 | 2)), "{}", ended.transcript());
    ended.refused(code.unwrap_or(1), &["context"]);
}

#[test]
fn a_machine_without_a_driver_is_told_what_to_install() {
    let folder = scratch();
    let nowhere = vulkan::driver(Path::new("/no/such/driver.json"));
    let run = engine(folder.path()).args(["run", "--prompt", "a", "-n", "1"]).envs(&nowhere).run();
    run.refused(3, &["driver", "mesa-vulkan-drivers"]);
    let out = folder.path().join("report");
    let ended = sweep(folder.path()).envs(&nowhere).arg("--out").arg(&out).run();
    ended.refused(3, &["driver", "mesa-vulkan-drivers"]);
    assert!(!out.exists());
}

#[test]
fn a_driver_that_is_not_here_is_named_beside_what_is_here() {
    let folder = scratch();
    let ended = sweep(folder.path()).args(["--driver", "nvidia"]).run();
    ended.refused(3, &["nvidia", "llvmpipe"]);
    engine(folder.path()).args(["run", "--device", "Voodoo"]).run().refused(3, &["Voodoo", "llvmpipe"]);
    engine(folder.path()).args(["run", "--require", "gpu"]).run().refused(3, &["llvmpipe"]);
}

#[test]
fn a_device_that_lacks_something_is_refused_with_the_name_of_what_it_lacks() {
    let folder = scratch();
    let text = serde_json::json!({
        "file_format_version": "1.0.0",
        "ICD": { "library_path": artefacts::mock_driver(), "api_version": "1.3.0" },
    });
    let mock = |child: Child, kind: &str| {
        let manifest = folder.path().join(kind).with_extension("json");
        fs::write(&manifest, text.to_string()).expect("the folder can be written");
        child.envs(&vulkan::driver(&manifest))
    };
    for (kind, words) in [
        ("old", &["apiVersion", "1.0"][..]),
        ("no-compute", &["VK_QUEUE_COMPUTE_BIT"]),
        ("small", &["maxComputeWorkGroupInvocations", "256"]),
    ] {
        let words = [&["Mock of a device"], words].concat();
        mock(engine(folder.path()), kind).args(["run", "--prompt", "a", "-n", "1"]).run().refused(3, &words);
        let info = mock(engine(folder.path()), kind).args(["info", "--json"]).run().succeeded().json();
        assert!(info["devices"][0]["unusable"].is_string(), "{kind}: {info}");
        let out = folder.path().join("report");
        mock(sweep(folder.path()), kind).arg("--out").arg(&out).run().refused(3, &words);
        assert!(!out.exists(), "{kind}");
    }
    let broken = mock(engine(folder.path()), "broken").args(["run", "--prompt", "a", "-n", "1"]).run();
    broken.refused(1, &["vkCreateDevice"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_the_work_begins() {
    let folder = scratch();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").expect("the folder can be written");
    let out = file.join("report");
    sweep(folder.path()).arg("--out").arg(&out).run().refused(1, &["file/report", "--out"]);
    let export = engine(folder.path()).args(["export", "--type", "f32"]).arg(file.join("out.gguf")).run();
    export.refused(1, &["file/out.gguf"]);
    assert_eq!(fs::read_to_string(&file).expect("still there"), "in the way");
}
