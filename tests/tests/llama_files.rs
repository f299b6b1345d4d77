//! llama.cpp as an oracle for what a file may say: metadata that changes results, tokens that end a text, parts of a split
//! file. The files are the engine's own random models with changed metadata.

use std::fs;
use std::path::{Path, PathBuf};

use zinc_tests::artefacts::{self, repository};
use zinc_tests::oracle::{Oracles, oracles};
use zinc_tests::rewrite::{GgufFile, Value};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, vulkan};

/// Tokens of the one chunk on which perplexities are compared.
const CHUNK: usize = 128;

fn engine(folder: &Path) -> Child {
    Child::new(artefacts::engine()).envs(&vulkan::environment(folder))
}

/// A random model of this shape with F32 weights, and a text: llama.cpp wants two chunks before it computes one.
fn model_and_text(folder: &Path, shape: &str) -> (GgufFile, PathBuf) {
    let path = folder.join("plain.gguf");
    engine(folder).args(["synth", shape, "--type", "f32", "--head-type", "f32"]).arg(&path).run().succeeded();
    let text = folder.join("text");
    let held_out = fs::read(repository().join("engine/model/heldout.txt")).expect("the text is there");
    fs::write(&text, &held_out[..3 * CHUNK]).expect("the folder can be written");
    (GgufFile::read(&path), text)
}

/// llama.cpp's perplexity of one chunk, or what it said where it failed.
fn theirs(oracles: &Oracles, folder: &Path, model: &Path, text: &Path) -> Result<f64, String> {
    let logits = folder.join("logits");
    let chunk = CHUNK.to_string();
    let ended = oracles
        .child("llama-perplexity", folder)
        .args(["-c", &chunk, "-b", &chunk, "--chunks", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off"])
        .args(["-ngl", "0", "-dev", "none", "-t", "2", "-m"])
        .arg(model)
        .arg("-f")
        .arg(text)
        .arg("--save-all-logits")
        .arg(&logits)
        .run();
    if ended.status.code() != Some(0) {
        return Err(ended.transcript());
    }
    let bytes = fs::read(&logits).map_err(|e| format!("no logits ({e}): {}", ended.transcript()))?;
    Ok(zinc_tests::oracle::perplexity_of_saved_logits(&bytes))
}

/// The engine's perplexity of the same chunk by plain code, or what it said where it failed.
fn ours(folder: &Path, model: &Path, text: &Path) -> Result<f64, String> {
    let chunk = CHUNK.to_string();
    let ended = engine(folder)
        .args(["perplexity", "--via", "reference", "--json", "--ctx", &chunk, "--tokens", &chunk, "--model"])
        .arg(model)
        .arg("--file")
        .arg(text)
        .run();
    if ended.status.code() != Some(0) {
        return Err(ended.transcript());
    }
    Ok(ended.json()["perplexity"]["value"].as_f64().expect("a number"))
}

/// A change to a model, by name.
type Variant = (&'static str, fn(&mut GgufFile));

/// What changes a model of the architecture `llama`.
const LLAMA: [Variant; 14] = [
    ("as written", |_| ()),
    ("a factor without a type", |f| _ = f.set("llama.rope.scaling.factor", Value::F32(4.0))),
    ("a factor of the type none", |f| {
        f.set("llama.rope.scaling.factor", Value::F32(4.0)).set("llama.rope.scaling.type", "none");
    }),
    ("a factor of zero, as the saver writes it", |f| {
        f.set("llama.rope.scaling.factor", Value::F32(0.0)).set("llama.rope.scaling.type", "linear");
    }),
    ("the factor's old name", |f| _ = f.set("llama.rope.scale_linear", Value::F32(4.0))),
    ("both names of the factor", |f| {
        f.set("llama.rope.scale_linear", Value::F32(4.0)).set("llama.rope.scaling.factor", Value::F32(2.0));
    }),
    ("a magnitude", |f| _ = f.set("llama.rope.scaling.attn_factor", Value::F32(2.0))),
    ("no base", |f| _ = f.remove("llama.rope.freq_base")),
    ("another base", |f| _ = f.set("llama.rope.freq_base", Value::F32(5e5))),
    ("YaRN's numbers without YaRN", |f| {
        f.set("llama.rope.scaling.yarn_ext_factor", Value::F32(1.0));
        f.set("llama.rope.scaling.yarn_attn_factor", Value::F32(2.0));
    }),
    ("numbers of each layer", |f| {
        f.set("llama.attention.head_count", Value::U32s(vec![4, 4]));
        f.set("llama.attention.head_count_kv", Value::I32s(vec![2, 2]));
        f.set("llama.feed_forward_length", Value::U32s(vec![512, 512]));
    }),
    ("a bias behind attention", |f| {
        for layer in 0..2 {
            let values: Vec<f32> =
                (0..256).map(|i| ((i * 37 + layer * 11) % 17) as f32 * 0.05 - 0.4).collect();
            f.vector(&format!("blk.{layer}.attn_output.bias"), &values);
        }
    }),
    ("another epsilon", |f| _ = f.set("llama.attention.layer_norm_rms_epsilon", Value::F32(0.1))),
    ("version 2", |f| f.version = 2),
];

/// What changes a model of the architecture `gemma3` with seven layers.
const GEMMA: [Variant; 11] = [
    ("as written", |_| ()),
    ("no base", |f| _ = f.remove("gemma3.rope.freq_base")),
    ("a large base", |f| _ = f.set("gemma3.rope.freq_base", Value::F32(1e6))),
    ("a base of layers with a window", |f| _ = f.set("gemma3.rope.freq_base_swa", Value::F32(1e6))),
    ("a factor", |f| _ = f.set("gemma3.rope.scaling.factor", Value::F32(8.0))),
    ("a magnitude", |f| _ = f.set("gemma3.rope.scaling.attn_factor", Value::F32(2.0))),
    ("a period of three", |f| _ = f.set("gemma3.attention.sliding_window_pattern", Value::U32(3))),
    ("a flag for each layer", |f| {
        let flags = vec![true, false, false, true, true, true, false];
        f.set("gemma3.attention.sliding_window_pattern", Value::Bools(flags));
    }),
    ("no window", |f| _ = f.set("gemma3.attention.sliding_window", Value::U32(0))),
    ("a bound of the logits", |f| _ = f.set("gemma3.final_logit_softcapping", Value::F32(3.0))),
    ("the saver's bound of the scores", |f| _ = f.set("gemma3.attn_logit_softcapping", Value::F32(50.0))),
];

fn same_figures(test: &str, shape: &str, variants: &[Variant], different: usize) {
    let Some(oracles) = oracles(test) else { return };
    let folder = scratch();
    let folder = folder.path();
    let (plain, text) = model_and_text(folder, shape);
    let mut seen: Vec<f64> = Vec::new();
    for (name, change) in variants {
        let mut file = plain.clone();
        change(&mut file);
        let model = folder.join("changed.gguf");
        file.write(&model).expect("the folder can be written");
        let (ours, theirs) = (ours(folder, &model, &text), theirs(&oracles, folder, &model, &text));
        let (ours, theirs) = (ours.expect(name), theirs.expect(name));
        println!("{shape}, {name}: engine {ours:.4}, llama.cpp {theirs:.4}");
        assert!((ours / theirs - 1.0).abs() < 1e-3, "{name}: the engine says {ours}, llama.cpp {theirs}");
        if seen.iter().all(|other| (other / theirs - 1.0).abs() > 2e-3) {
            seen.push(theirs);
        }
    }
    // The control: what is varied matters, by more than the two programs may differ.
    assert!(seen.len() >= different, "only {} figures differ: {seen:?}", seen.len());
}

#[test]
fn metadata_of_a_llama_means_what_it_means_to_llama_cpp() {
    same_figures("metadata_of_a_llama_means_what_it_means_to_llama_cpp", "tiny-llama", &LLAMA, 6);
}

#[test]
fn metadata_of_a_gemma_3_means_what_it_means_to_llama_cpp() {
    same_figures("metadata_of_a_gemma_3_means_what_it_means_to_llama_cpp", "tiny-gemma3", &GEMMA, 7);
}

#[test]
fn what_changes_llama_cpp_s_figure_and_is_not_computed_here_is_refused() {
    let test = "what_changes_llama_cpp_s_figure_and_is_not_computed_here_is_refused";
    let Some(oracles) = oracles(test) else { return };
    let folder = scratch();
    let folder = folder.path();
    let (plain, text) = model_and_text(folder, "tiny-llama");
    let model = folder.join("changed.gguf");
    plain.write(&model).expect("the folder can be written");
    let usual = theirs(&oracles, folder, &model, &text).expect("llama.cpp runs the plain model");
    let variants: [Variant; 3] = [
        ("llama.attention.causal", |f| _ = f.set("llama.attention.causal", Value::Bool(false))),
        ("yarn", |f| {
            f.set("llama.rope.scaling.type", "yarn").set("llama.rope.scaling.factor", Value::F32(4.0));
            f.set("llama.rope.scaling.original_context_length", Value::U32(64));
        }),
        ("blk.0.ffn_down.bias", |f| {
            (0..2).for_each(|layer| _ = f.vector(&format!("blk.{layer}.ffn_down.bias"), &[0.5; 256]));
        }),
    ];
    for (named, change) in variants {
        let mut file = plain.clone();
        change(&mut file);
        file.write(&model).expect("the folder can be written");
        // That llama.cpp computes something else is why it must not be ignored.
        let theirs = theirs(&oracles, folder, &model, &text).expect(named);
        assert!((theirs / usual - 1.0).abs() > 2e-3, "{named}: {theirs} with and {usual} without");
        let said = ours(folder, &model, &text).expect_err(named);
        assert!(said.contains(named) && said.contains("error:"), "{said}");
    }
}

/// The tokens at which llama.cpp ends generation, as it logs them when it loads a model. The log comes from a thread of its
/// own, and a run may end before all of it is out; then it is run again.
fn their_ends(oracles: &Oracles, folder: &Path, model: &Path, text: &Path) -> Vec<u64> {
    const TRIES: usize = 10;
    let mut log = String::new();
    for _ in 0..TRIES {
        log = oracles
            .child("llama-perplexity", folder)
            .args(["-lv", "5", "-fit", "off", "-c", "128", "-b", "128", "--chunks", "1", "-ngl", "0"])
            .args(["-dev", "none", "-m"])
            .arg(model)
            .arg("-f")
            .arg(text)
            .run()
            .succeeded()
            .transcript();
        // The line behind the list.
        if log.contains("max token length") {
            let number = |line: &str| line.split_once("EOG token")?.1.split(' ').find_map(|w| w.parse().ok());
            let mut ends: Vec<u64> = log.lines().filter_map(number).collect();
            ends.sort_unstable();
            return ends;
        }
    }
    panic!("{TRIES} runs logged no whole list: {log}");
}

#[test]
fn generation_ends_at_llama_cpp_s_tokens() {
    let Some(oracles) = oracles("generation_ends_at_llama_cpp_s_tokens") else { return };
    let folder = scratch();
    let folder = folder.path();
    let (plain, text) = model_and_text(folder, "tiny-llama");
    let key = "tokenizer.ggml.tokens";
    let usual = plain.texts(key);
    let model = folder.join("changed.gguf");
    let ends_of = |marks: &[&str], change: &dyn Fn(&mut GgufFile)| -> Vec<u64> {
        let mut tokens = usual.clone();
        for (at, mark) in (300..).zip(marks) {
            tokens[at] = (*mark).to_string();
        }
        let mut file = plain.clone();
        file.set(key, Value::Texts(tokens));
        change(&mut file);
        file.write(&model).expect("the folder can be written");
        let theirs = their_ends(&oracles, folder, &model, &text);
        let json = engine(folder).args(["info", "--json", "--model"]).arg(&model).run().succeeded().json();
        let list = json["model"]["end_tokens"].as_array().expect("a list");
        let ours: Vec<u64> = list.iter().map(|id| id.as_u64().expect("a number")).collect();
        assert_eq!(ours, theirs, "{marks:?}");
        ours
    };
    // All spellings at once, but for the marks of which a vocabulary has one.
    let all = [
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<end_of_turn>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "[e~[",
        "<|flush|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        "<bos>",
        "<unk>",
        "<|end_of_turn|>",
        "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    ];
    let found = ends_of(&all, &|_| ());
    // The control: 22 of these and the named one, and the five that look alike are not among them.
    assert_eq!(found.len(), 22, "{found:?}");
    for pad in ["<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"] {
        ends_of(&[pad], &|_| ());
    }
    for repository in ["<|fim_repo|>", "<fim-repo>", "<REPO>", "<reponame>"] {
        ends_of(&[repository], &|_| ());
    }
    ends_of(&["<|return|>", "<|call|>", "<|end|>"], &|_| ());
    ends_of(&["<|calls|>", "<|flush|>", "<|end|>"], &|_| ());
    ends_of(&["<|tool_response>", "</s>"], &|_| ());
    ends_of(&["<|plamo:eos|>", "</s>"], &|file| _ = file.set("tokenizer.ggml.eos_token_id", Value::U32(300)));
    let number =
        |file: &mut GgufFile, key: &str, id| _ = file.set(&format!("tokenizer.ggml.{key}"), Value::U32(id));
    ends_of(&["<PAD>"], &|file| {
        for (key, id) in
            [("eot", 65), ("eom", 66), ("fim_pad", 67), ("fim_rep", 68), ("fim_sep", 69), ("padding", 70)]
        {
            number(file, &format!("{key}_token_id"), id);
        }
    });
    ends_of(&[], &|file| number(file, "eot_token_id", u32::MAX));
    ends_of(&[], &|file| _ = file.remove("tokenizer.ggml.eos_token_id"));
}

#[test]
fn parts_that_llama_cpp_made_are_one_model() {
    let Some(oracles) = oracles("parts_that_llama_cpp_made_are_one_model") else { return };
    let folder = scratch();
    let folder = folder.path();
    let (plain, text) = model_and_text(folder, "tiny-gemma3");
    let whole = folder.join("whole.gguf");
    plain.write(&whole).expect("the folder can be written");
    let expected = ours(folder, &whole, &text).expect("the whole model runs");
    for more in
        [&["--split-max-tensors", "20"][..], &["--split-max-tensors", "30", "--no-tensor-first-split"]]
    {
        let parts = scratch();
        oracles
            .child("llama-gguf-split", folder)
            .arg("--split")
            .args(more)
            .arg(&whole)
            .arg(parts.path().join("m"))
            .run()
            .succeeded();
        let mut paths: Vec<PathBuf> = fs::read_dir(parts.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        assert!(paths.len() > 2, "{paths:?}");
        for path in [&paths[0], &paths[2]] {
            assert_eq!(ours(folder, path, &text), Ok(expected), "{}", path.display());
        }
        assert!(
            (theirs(&oracles, folder, &paths[0], &text).expect("llama.cpp runs it") / expected - 1.0).abs()
                < 1e-3
        );
        // The control: without one of them, it is named.
        fs::remove_file(&paths[1]).expect("the part was there");
        let said = ours(folder, &paths[0], &text).expect_err("a part is missing");
        assert!(said.contains(paths[1].to_str().expect("text")), "{said}");
    }
}
