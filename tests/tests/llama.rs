//! llama.cpp as an oracle and as a stranger: it computes the engine's numbers by other code, and its Vulkan backend is
//! an application that knows nothing of the layer.

use std::fs;
use std::path::Path;

use zinc_report::Report;
use zinc_tests::artefacts::{self, repository};
use zinc_tests::oracle::{Oracles, VALIDATION, hazards, oracles, synchronization_validation};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Layer, vulkan};

/// Tokens in a chunk, and chunks, of the texts on which perplexities are compared.
const CHUNK: u32 = 128;
const CHUNKS: u32 = 2;

/// The figure in llama.cpp's last line, `Final estimate: PPL = X +/- Y`; `None` when the line is not there.
fn final_estimate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("Final estimate"))?;
    let figure = line.split("PPL = ").nth(1).and_then(|rest| rest.split_whitespace().next());
    Some(figure.and_then(|f| f.parse().ok()).unwrap_or_else(|| panic!("no figure in: {line}")))
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

    // llama.cpp writes its log from a thread of its own, and a successful run now and then ends before its last line is
    // out. Such a run says nothing, so it is made again; that no run says anything is a failure.
    let run = || {
        let ended = oracles
            .child("llama-perplexity", folder.path())
            .args(["-c", &CHUNK.to_string(), "-b", &CHUNK.to_string(), "--chunks", &CHUNKS.to_string()])
            .args(["-ctk", "f32", "-ctv", "f32", "-fa", "off", "-ngl", "0", "-dev", "none", "-t", "2"])
            .arg("-m")
            .arg(&model)
            .arg("-f")
            .arg(&text)
            .run()
            .succeeded();
        final_estimate(&format!("{}{}", ended.stdout, ended.stderr))
    };
    let theirs = (0..8).find_map(|_| run()).expect("llama-perplexity never came to an estimate");
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

/// A program of llama.cpp on its Vulkan backend with the embedded model, under the layer or not.
fn on_vulkan(oracles: &Oracles, program: &str, layer: Option<&Layer>, folder: &Path) -> Child {
    let child = oracles
        .child(program, folder)
        .env("MESA_SHADER_CACHE_DIR", artefacts::stream().with_file_name("test-shader-cache"))
        .args(["-ngl", "99", "-t", "1", "-m"])
        .arg(repository().join("engine/model/embedded-q8_0.gguf"))
        .limit(300);
    match layer {
        None => child,
        Some(layer) => child.envs(&layer.environment()),
    }
}

/// What it continues a text with. Blanks at the end are cut off, because the program may lose them when it exits.
fn text(oracles: &Oracles, layer: Option<&Layer>, folder: &Path) -> Vec<u8> {
    let child = on_vulkan(oracles, "llama-completion", layer, folder);
    let ended =
        child.args(["-p", "The king", "-n", "16", "--temp", "0", "-no-cnv", "--no-warmup"]).run().succeeded();
    assert!(ended.stdout.len() > "The king is".len(), "{}", ended.transcript());
    ended.stdout.trim_end().into()
}

/// Every logit, to 16 bits, of a text decoded one token at a time.
fn logits(oracles: &Oracles, layer: Option<&Layer>, folder: &Path) -> Vec<u8> {
    let (input, output) = (folder.join("text"), folder.join("logits"));
    let held_out =
        fs::read(repository().join("engine/model/heldout.txt")).expect("the text is in the repository");
    fs::write(&input, &held_out[..400]).expect("the folder can be written");
    let child = on_vulkan(oracles, "llama-perplexity", layer, folder);
    let child = child.args(["-c", "32", "-b", "1", "-ub", "1", "--chunks", "1", "-f"]).arg(input);
    let ended = child.arg("--save-all-logits").arg(&output).run().succeeded();
    let bytes = fs::read(&output).unwrap_or_else(|e| panic!("no logits ({e}): {}", ended.transcript()));
    assert!(bytes.len() > 16 * 257, "only {} bytes of logits", bytes.len());
    bytes
}

/// Something that llama.cpp computes must be the same under the layer in any order, with as many dispatches and asked
/// barriers as without elision, and fewer emitted ones. The control has to differ in the end.
fn undisturbed(oracles: &Oracles, what: &str, compute: fn(&Oracles, Option<&Layer>, &Path) -> Vec<u8>) {
    let truth = compute(oracles, None, scratch().path());
    let under = |policy: &str, shuffle: &str| -> (Report, bool) {
        let folder = scratch();
        let layer = Layer::new(folder.path()).policy(policy).set("SHUFFLE", shuffle);
        let same = compute(oracles, Some(&layer), folder.path()) == truth;
        (layer.report(), same)
    };
    let (stock, same) = under("stock", "off");
    assert!(same, "{what} is not the same under stock, or not the same twice");
    let stock = stock.totals;
    assert!(stock.dispatches > 0 && stock.barriers_asked > 0, "nothing ran on Vulkan: {stock:?}");
    let arms =
        [("alias-only", "off"), ("alias-only", "reverse"), ("narrow", "reverse"), ("reorder", "reverse")];
    for (policy, shuffle) in arms {
        let (report, same) = under(policy, shuffle);
        assert!(same, "{what} changed under {policy}, shuffle {shuffle}");
        let totals = report.totals;
        assert_eq!(totals.dispatches, stock.dispatches, "shuffle {shuffle}");
        assert_eq!(totals.barriers_asked, stock.barriers_asked, "shuffle {shuffle}");
        assert!(totals.barriers_elided > 0, "shuffle {shuffle}: {totals:?}");
        println!(
            "llama.cpp {}, {what}, {policy}, shuffle {shuffle}: {} dispatches, {} of {} barriers elided",
            oracles.version("libggml0-backend-vulkan"),
            totals.dispatches,
            totals.barriers_elided,
            totals.barriers_asked
        );
    }
    let (_, same) = under("none", "reverse");
    assert!(!same, "{what} does not notice that no barrier is left");
}

#[test]
fn its_vulkan_backend_writes_the_same_text_under_the_layer_with_fewer_barriers() {
    let test = "its_vulkan_backend_writes_the_same_text_under_the_layer_with_fewer_barriers";
    let Some(oracles) = oracles(test) else { return };
    undisturbed(&oracles, "the text", text);
}

#[test]
fn its_vulkan_backend_computes_the_same_logits_under_the_layer_with_fewer_barriers() {
    let test = "its_vulkan_backend_computes_the_same_logits_under_the_layer_with_fewer_barriers";
    let Some(oracles) = oracles(test) else { return };
    undisturbed(&oracles, "every logit", logits);
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
            .args(["perplexity", "--tokens", "5", "--ctx", "5", "--json"])
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
