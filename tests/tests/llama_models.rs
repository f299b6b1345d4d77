//! llama.cpp as an oracle for the engine's architectures, formats and tokenizers, on models of a few hundred thousand
//! random weights and on whichever real ones were fetched.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zinc_tests::artefacts::{self, repository};
use zinc_tests::oracle::{Oracles, not_run, oracles, perplexity_of_saved_logits};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, vulkan};

const ARCHITECTURES: [&str; 4] = ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-gemma3"];
/// Tokens in a chunk, and chunks, of the texts on which perplexities are compared.
const CHUNK: u32 = 128;
const CHUNKS: u32 = 2;

fn engine(folder: &Path) -> Child {
    Child::new(artefacts::engine()).envs(&vulkan::environment(folder))
}

/// Writes a model with random weights.
fn synth(folder: &Path, shape: &str, ty: &str) -> PathBuf {
    let path = folder.join(format!("{shape}-{ty}.gguf"));
    engine(folder).args(["synth", shape, "--type", ty, "--head-type", ty]).arg(&path).run().succeeded();
    path
}

/// What llama.cpp's CPU backend makes of a text, with keys and values in f32 and without flash attention.
///
/// Its log comes from a thread of its own, and a run of a small model may end before a line is out. So the figure comes
/// from the file of all scored tokens' log-probabilities, which is complete when the program ends well.
fn theirs(oracles: &Oracles, folder: &Path, model: &Path, text: &Path) -> f64 {
    let file = folder.join("logits");
    let ended = oracles
        .child("llama-perplexity", folder)
        .args(["-c", &CHUNK.to_string(), "-b", &CHUNK.to_string(), "--chunks", &CHUNKS.to_string()])
        .args(["-ctk", "f32", "-ctv", "f32", "-fa", "off", "-ngl", "0", "-dev", "none", "-t", "2"])
        .arg("-m")
        .arg(model)
        .arg("-f")
        .arg(text)
        .arg("--save-all-logits")
        .arg(&file)
        .run()
        .succeeded();
    let bytes = fs::read(&file).unwrap_or_else(|e| panic!("no logits ({e}): {}", ended.transcript()));
    perplexity_of_saved_logits(&bytes)
}

fn ours(folder: &Path, model: &Path, text: &Path) -> f64 {
    let json: Value = engine(folder)
        .args([
            "perplexity",
            "--json",
            "--ctx",
            &CHUNK.to_string(),
            "--tokens",
            &(CHUNK * CHUNKS).to_string(),
        ])
        .arg("--model")
        .arg(model)
        .arg("--file")
        .arg(text)
        .run()
        .succeeded()
        .json();
    json["perplexity"]["value"].as_f64().expect("a number")
}

/// A text of as many tokens as are compared, and a few more: one byte is one token.
fn text(folder: &Path) -> PathBuf {
    let path = folder.join("text");
    let held_out =
        fs::read(repository().join("engine/model/heldout.txt")).expect("the text is in the repository");
    fs::write(&path, &held_out[..(CHUNK * (CHUNKS + 1)) as usize]).expect("the folder can be written");
    path
}

#[test]
fn each_architecture_has_llama_cpp_s_perplexity() {
    let Some(oracles) = oracles("each_architecture_has_llama_cpp_s_perplexity") else { return };
    let folder = scratch();
    let text = text(folder.path());
    let mut all = Vec::new();
    for shape in ARCHITECTURES {
        let model = synth(folder.path(), shape, "f32");
        let pair = (ours(folder.path(), &model, &text), theirs(&oracles, folder.path(), &model, &text));
        println!("{shape} f32: engine {:.4}, llama.cpp {:.4}", pair.0, pair.1);
        assert!(
            (pair.0 / pair.1 - 1.0).abs() < 1e-3,
            "{shape}: the engine says {}, llama.cpp {}",
            pair.0,
            pair.1
        );
        all.push(pair.0);
    }
    // The control: another architecture computes something else, by far more than the two programs differ.
    for pair in all.windows(2) {
        assert!((pair[0] / pair[1] - 1.0).abs() > 1e-2, "{all:?}");
    }
}

#[test]
fn each_format_has_llama_cpp_s_perplexity() {
    let Some(oracles) = oracles("each_format_has_llama_cpp_s_perplexity") else { return };
    let folder = scratch();
    let text = text(folder.path());
    // Its CPU backend rounds activations to eight bits before it multiplies them with quantised weights.
    let formats = [
        ("f16", 1e-3),
        ("bf16", 1e-2),
        ("q8_0", 2e-2),
        ("q5_0", 2e-2),
        ("q4_1", 2e-2),
        ("q4_0", 2e-2),
        ("q6_k", 2e-2),
        ("q4_k", 2e-2),
    ];
    for (ty, tolerance) in formats {
        let model = synth(folder.path(), "tiny-llama", ty);
        let (ours, theirs) =
            (ours(folder.path(), &model, &text), theirs(&oracles, folder.path(), &model, &text));
        println!("tiny-llama {ty}: engine {ours:.4}, llama.cpp {theirs:.4}");
        assert!((ours / theirs - 1.0).abs() < tolerance, "{ty}: the engine says {ours}, llama.cpp {theirs}");
    }
}

fn our_tokens(folder: &Path, model: &Path, text: &Path) -> Vec<u64> {
    let json: Value = engine(folder)
        .args(["tokenize", "--json", "--file"])
        .arg(text)
        .arg("--model")
        .arg(model)
        .run()
        .succeeded()
        .json();
    json["tokens"].as_array().expect("a list").iter().map(|id| id.as_u64().expect("a number")).collect()
}

fn their_tokens(oracles: &Oracles, folder: &Path, model: &Path, text: &Path) -> Vec<u64> {
    let ended = oracles
        .child("llama-tokenize", folder)
        .args(["--ids", "--no-parse-special", "--log-disable", "-m"])
        .arg(model)
        .arg("-f")
        .arg(text)
        .run()
        .succeeded();
    serde_json::from_str(ended.stdout.trim()).unwrap_or_else(|e| panic!("{e}: {}", ended.transcript()))
}

fn assert_same_tokens(oracles: &Oracles, folder: &Path, what: &str, model: &Path) {
    let text = repository().join("tests/texts/multilingual.txt");
    let (ours, theirs) = (our_tokens(folder, model, &text), their_tokens(oracles, folder, model, &text));
    let differ = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    let around = |ids: &[u64]| {
        let at = differ.unwrap_or(ids.len().min(theirs.len().min(ours.len())));
        ids[at.saturating_sub(4)..ids.len().min(at + 8)].to_vec()
    };
    assert!(
        ours == theirs,
        "{what}: {} tokens and {}, the first difference at {differ:?}: {:?} and {:?}",
        ours.len(),
        theirs.len(),
        around(&ours),
        around(&theirs)
    );
    assert!(ours.len() > 100, "{what}: only {} tokens", ours.len());
}

/// A `tokenizer.json` of 256 bytes and every pair of characters of some kinds as a merge, so that each place where the
/// text is cut, and each where it is not, shows in the tokens.
fn pairs() -> Value {
    let spell = |byte: u8| {
        let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let before = (0..byte).filter(|b| !printable(*b)).count() as u32;
        char::from_u32(if printable(byte) { byte.into() } else { 0x100 + before }).expect("a character")
    };
    let mut vocab = serde_json::Map::new();
    for byte in 0..=255u8 {
        vocab.insert(spell(byte).to_string(), vocab.len().into());
    }
    let some = "\n\r\t aeinorstSTLER0123456789.,!?'\"-_/()<>|=$%\u{e9}\u{df}\u{442}\u{43e}\u{65e5}\u{301}\u{a0}\u{3000}\u{661}";
    let bytes: Vec<u8> = {
        let mut bytes = some.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes.dedup();
        bytes
    };
    let mut merges = Vec::new();
    for a in &bytes {
        for b in &bytes {
            let (a, b) = (spell(*a), spell(*b));
            vocab.insert(format!("{a}{b}"), vocab.len().into());
            merges.push(Value::from(format!("{a} {b}")));
        }
    }
    serde_json::json!({ "model": { "vocab": vocab, "merges": merges }, "added_tokens": [] })
}

#[test]
fn each_pre_tokenizer_cuts_as_llama_cpp_does() {
    let Some(oracles) = oracles("each_pre_tokenizer_cuts_as_llama_cpp_does") else { return };
    let folder = scratch();
    let vocabulary = folder.path().join("tokenizer.json");
    fs::write(&vocabulary, pairs().to_string()).expect("the folder can be written");
    let model = folder.path().join("llama-bpe.gguf");
    engine(folder.path())
        .args(["synth", "smollm2-135m", "--layers", "1", "--type", "q4_0", "--vocabulary"])
        .arg(&vocabulary)
        .arg(&model)
        .run()
        .succeeded();
    let bytes = fs::read(&model).expect("the model was written");
    let name = b"llama-bpe";
    let at = bytes.windows(name.len()).position(|w| w == name).expect("the pre-tokenizer is named");
    let mut seen = Vec::new();
    // Names of the same length can be written over each other; shorter ones would move everything behind them.
    for pre in ["llama-bpe", "gpt-2", "smollm", "qwen2", "default"] {
        let mut renamed = bytes[..at - 8].to_vec();
        renamed.extend((pre.len() as u64).to_le_bytes());
        renamed.extend(pre.as_bytes());
        renamed.extend(&bytes[at + name.len()..]);
        // Tensor data begins at a multiple of 32 bytes; nobody looks at random weights here, but they must be there.
        renamed.extend([0; 32]);
        let path = folder.path().join(format!("{pre}.gguf"));
        fs::write(&path, renamed).expect("the folder can be written");
        assert_same_tokens(&oracles, folder.path(), pre, &path);
        seen.push(our_tokens(folder.path(), &path, &repository().join("tests/texts/multilingual.txt")));
    }
    // The control: each of them cuts differently from every other on this text.
    for (i, tokens) in seen.iter().enumerate() {
        assert!(seen[..i].iter().all(|other| other != tokens), "pre-tokenizer {i} cuts like another");
    }
}

#[test]
fn tokens_of_real_vocabularies_are_llama_cpp_s() {
    let test = "tokens_of_real_vocabularies_are_llama_cpp_s";
    let Some(oracles) = oracles(test) else { return };
    let folder = scratch();
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let fetched = cache.expect("a home").join("zinc-barrier/models");
    let models = [
        ("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", None),
        ("gemma3-270m", "gemma-3-270m-q4_k_m.gguf", None),
        ("qwen-vocabulary", "qwen.tiktoken", Some("qwen3-0.6b")),
        ("llama3-vocabulary", "llama3-tokenizer.json", Some("llama-1b")),
    ];
    for (name, file, shape) in models {
        let file = fetched.join(file);
        if !file.exists() {
            not_run(test, &format!("{name} is not there; engine fetch {name}"));
            continue;
        }
        let model = match shape {
            None => file,
            Some(shape) => {
                let model = folder.path().join(format!("{name}.gguf"));
                engine(folder.path())
                    .args(["synth", shape, "--layers", "1", "--type", "q4_0", "--vocabulary"])
                    .arg(&file)
                    .arg(&model)
                    .run()
                    .succeeded();
                model
            }
        };
        assert_same_tokens(&oracles, folder.path(), name, &model);
    }
}
