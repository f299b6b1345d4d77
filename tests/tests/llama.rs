//! llama.cpp as an oracle and as a stranger: it computes the engine's numbers by other code, and its Vulkan backend is
//! an application that knows nothing of the layer.

use std::fs;
use std::path::Path;

use zinc_report::Report;
use zinc_tests::artefacts::{self, repository};
use zinc_tests::oracle::{Oracles, VALIDATION, hazards, oracles, synchronization_validation};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended, Layer, vulkan};

/// Tokens in a chunk, and chunks, of the texts on which perplexities are compared.
const CHUNK: u32 = 128;
const CHUNKS: u32 = 2;

/// The figures in llama.cpp's last line, `Final estimate: PPL = X +/- Y`.
fn final_estimate(said: &str) -> f64 {
    let line = said.lines().find(|line| line.contains("Final estimate"));
    let line = line.unwrap_or_else(|| panic!("no estimate in:\n{said}"));
    let figure = line.split("PPL = ").nth(1).and_then(|rest| rest.split_whitespace().next());
    figure.and_then(|f| f.parse().ok()).unwrap_or_else(|| panic!("no figure in: {line}"))
}

#[test]
fn its_perplexity_of_the_f32_export_is_the_engine_s() {
    let Some(oracles) = oracles("its_perplexity_of_the_f32_export_is_the_engine_s") else { return };
    let folder = scratch();
    let engine = || Child::new(artefacts::engine()).envs(&vulkan::environment(folder.path()));
    let model = folder.path().join("f32.gguf");
    engine().args(["export", "--type", "f32"]).arg(&model).run().succeeded();
    let text = folder.path().join("text");
    let held_out =
        fs::read(repository().join("engine/model/heldout.txt")).expect("the text is in the repository");
    // One byte is one token, and llama.cpp wants a little more than it is going to use.
    fs::write(&text, &held_out[..(CHUNK * (CHUNKS + 1)) as usize]).expect("the folder can be written");

    let theirs = oracles
        .child("llama-perplexity", folder.path())
        .args(["-c", &CHUNK.to_string(), "-b", &CHUNK.to_string(), "--chunks", &CHUNKS.to_string()])
        .args(["-ctk", "f32", "-ctv", "f32", "-fa", "off", "-ngl", "0", "-dev", "none", "-t", "2"])
        .arg("-m")
        .arg(&model)
        .arg("-f")
        .arg(&text)
        .run()
        .succeeded();
    let theirs = final_estimate(&format!("{}{}", theirs.stdout, theirs.stderr));
    let ours = engine()
        .args([
            "perplexity",
            "--json",
            "--ctx",
            &CHUNK.to_string(),
            "--tokens",
            &(CHUNK * CHUNKS).to_string(),
        ])
        .arg("--model")
        .arg(&model)
        .arg("--file")
        .arg(&text)
        .run()
        .succeeded()
        .json();
    let ours = ours["perplexity"]["value"].as_f64().expect("a number");
    println!("llama.cpp {}: {theirs}, engine: {ours:.4}", oracles.version("llama.cpp-tools"));
    assert!((ours / theirs - 1.0).abs() < 1e-3, "llama.cpp says {theirs}, the engine {ours}");
}

/// llama.cpp's Vulkan backend continuing a text with the embedded model, under the layer or not.
fn continued(oracles: &Oracles, layer: Option<&Layer>, folder: &Path) -> Ended {
    let cache = artefacts::stream().with_file_name("test-shader-cache");
    let child = oracles
        .child("llama-completion", folder)
        .env("MESA_SHADER_CACHE_DIR", cache)
        .args([
            "-p",
            "The king",
            "-n",
            "16",
            "--temp",
            "0",
            "-no-cnv",
            "-ngl",
            "99",
            "-t",
            "1",
            "--no-warmup",
            "-m",
        ])
        .arg(repository().join("engine/model/embedded-q8_0.gguf"))
        .limit(300);
    match layer {
        None => child,
        Some(layer) => child.envs(&layer.environment()),
    }
    .run()
    .succeeded()
}

#[test]
fn its_vulkan_backend_writes_the_same_text_under_the_layer_with_fewer_barriers() {
    let Some(oracles) =
        oracles("its_vulkan_backend_writes_the_same_text_under_the_layer_with_fewer_barriers")
    else {
        return;
    };
    let folder = scratch();
    let truth = continued(&oracles, None, folder.path());
    assert!(truth.stderr.contains("Vulkan") || truth.stdout.contains("Vulkan") || truth.stdout.len() > 16);
    let under = |policy: &str, shuffle: &str| -> Report {
        let folder = scratch();
        let layer = Layer::new(folder.path()).policy(policy).set("SHUFFLE", shuffle);
        let ended = continued(&oracles, Some(&layer), folder.path());
        assert_eq!(ended.stdout, truth.stdout, "policy {policy}, shuffle {shuffle}");
        layer.report()
    };
    let stock = under("stock", "off").totals;
    assert!(stock.dispatches > 0 && stock.barriers_asked > 0, "nothing ran on Vulkan: {stock:?}");
    for shuffle in ["off", "reverse"] {
        let totals = under("alias-only", shuffle).totals;
        assert_eq!(totals.dispatches, stock.dispatches, "shuffle {shuffle}");
        assert_eq!(totals.barriers_asked, stock.barriers_asked, "shuffle {shuffle}");
        assert!(totals.barriers_elided > 0, "shuffle {shuffle}: {totals:?}");
        println!(
            "llama.cpp {}, shuffle {shuffle}: {} dispatches, {} of {} barriers elided",
            oracles.version("libggml0-backend-vulkan"),
            totals.dispatches,
            totals.barriers_elided,
            totals.barriers_asked
        );
    }
}

#[test]
fn synchronization_validation_finds_no_hazard_in_the_engine_under_alias_only_and_many_under_none() {
    let test =
        "synchronization_validation_finds_no_hazard_in_the_engine_under_alias_only_and_many_under_none";
    let Some(oracles) = oracles(test) else { return };
    let validated = |policy: &str| {
        let folder = scratch();
        let engine = artefacts::engine().display().to_string();
        let layer = Layer::new(folder.path()).policy(policy).above(VALIDATION);
        let ended = oracles
            .child(&engine, folder.path())
            .args(["perplexity", "--tokens", "4", "--ctx", "4", "--json"])
            .envs(&layer.environment())
            .envs(&synchronization_validation())
            .limit(300)
            .run()
            .succeeded();
        assert!(layer.report().totals.dispatches > 0, "{}", ended.transcript());
        format!("{}{}", ended.stdout, ended.stderr)
    };
    let said = validated("alias-only");
    assert!(hazards(&said).is_empty(), "{said}");
    let said = validated("none");
    assert!(
        !hazards(&said).is_empty(),
        "validation {} is blind: {said}",
        oracles.version("vulkan-validationlayers")
    );
}
