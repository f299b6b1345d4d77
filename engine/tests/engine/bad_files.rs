//! Models that are cut off, damaged, or not for this engine.

use proptest::prelude::*;
use zinc_engine::embedded;
use zinc_engine::gguf::Gguf;
use zinc_engine::model::Model;
use zinc_engine::quant::WeightType;
use zinc_engine::tokenizer::Tokenizer;

use crate::support::{Tiny, assert_fails, engine, text, type_offset};

/// Runs a command that loads the model, on a file with these bytes.
fn load(bytes: &[u8]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    engine(&["perplexity", "--via", "reference", "--ctx", "8", "--tokens", "8", "--model", text(&path)])
}

#[test]
fn a_sound_small_model_loads() {
    assert!(load(&Tiny::default().file()).status.success());
}

#[test]
fn a_truncated_model_is_refused_wherever_it_is_cut() {
    let file = embedded::MODEL;
    let cuts = [1, 3, 4, 7, 12, 23, 24, 31, 100, 1000, 5000, 20_000, file.len() / 2, file.len() - 1000];
    for cut in cuts {
        let output = load(&file[..cut]);
        assert_fails(&output, 1, &["truncated", "model.gguf"]);
    }
    assert_fails(&load(b""), 3, &["empty"]);
    assert_fails(&load(b"<html>not found</html>"), 1, &["not a GGUF file"]);
}

#[test]
fn an_unsupported_tensor_type_is_named_with_the_supported_ones() {
    let mut file = embedded::MODEL.to_vec();
    let at = type_offset(&file, "blk.0.attn_q.weight", 2);
    file[at..at + 4].copy_from_slice(&7u32.to_le_bytes());
    let supported = "F32, F16, BF16, Q8_0, Q5_0, Q4_1, Q4_0, Q6_K, Q4_K";
    assert_fails(&load(&file), 1, &["blk.0.attn_q.weight", "Q5_1", supported]);
    file[at..at + 4].copy_from_slice(&4242u32.to_le_bytes());
    assert_fails(&load(&file), 1, &["blk.0.attn_q.weight", "4242"]);
}

#[test]
fn absurd_sizes_are_refused() {
    let file = embedded::MODEL;
    let patched = |at: usize, value: u64| {
        let mut file = file.to_vec();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        file
    };
    assert_fails(&load(&patched(8, u64::MAX)), 1, &["tensor count"]);
    assert_fails(&load(&patched(16, 1 << 60)), 1, &["metadata count"]);
    let dims = type_offset(file, "blk.0.attn_q.weight", 2) - 16;
    assert_fails(&load(&patched(dims, 1 << 62)), 1, &["blk.0.attn_q.weight", "absurd"]);
    assert_fails(&load(&patched(dims + 8, 1 << 40)), 1, &["blk.0.attn_q.weight"]);
}

#[test]
fn hyper_parameters_that_make_no_sense_are_named() {
    let cases = [
        (Tiny { heads: 3, kv_heads: 2, ty: WeightType::F32, ..Tiny::default() }, "head_count_kv"),
        (Tiny { head_dim: 18, rope_dim: 18, ty: WeightType::F32, ..Tiny::default() }, "key_length"),
        (Tiny { rope_dim: 15, ..Tiny::default() }, "rope.dimension_count"),
        (Tiny { rope_dim: 18, ..Tiny::default() }, "rope.dimension_count"),
        (Tiny { context: 0, ..Tiny::default() }, "context_length"),
        (Tiny { layers: 0, ..Tiny::default() }, "block_count"),
        (Tiny { layers: u32::MAX, ..Tiny::default() }, "block_count"),
    ];
    for (mut shape, key) in cases {
        // Only the metadata is meant to be wrong.
        let layers = shape.layers;
        shape.layers = layers.min(2);
        let mut file = shape.file();
        let at = file.windows(11).position(|w| w == b"block_count").unwrap() + 11 + 4;
        file[at..at + 4].copy_from_slice(&layers.to_le_bytes());
        assert_fails(&load(&file), 1, &[key]);
    }
}

#[test]
fn another_architecture_and_a_missing_or_extra_tensor_are_named() {
    let file = Tiny::default().file();
    let replace = |from: &[u8], to: &[u8]| {
        let mut file = file.clone();
        let at = file.windows(from.len()).position(|w| w == from).unwrap();
        file[at..at + to.len()].copy_from_slice(to);
        file
    };
    assert_fails(&load(&replace(b"llama", b"mamba")), 1, &["mamba", "llama", "qwen3", "gemma3"]);
    let experts = replace(b"blk.1.ffn_gate.weight", b"blk.1.ffn_x_exps.weig");
    assert_fails(&load(&experts), 1, &["mixture of experts", "blk.1.ffn_x_exps.weig"]);
    let prediction = replace(b"blk.1.ffn_gate.weight", b"blk.1.nextn.eh.weight");
    assert_fails(&load(&prediction), 1, &["multi-token prediction", "blk.1.nextn.eh.weight"]);
    let renamed = replace(b"blk.1.attn_k.weight", b"blk.1.attn_k.wrongg");
    assert_fails(&load(&renamed), 1, &["blk.1.attn_k.weight"]);
    let layers = file.windows(11).position(|w| w == b"block_count").unwrap() + 11 + 4;
    let mut fewer = file.clone();
    fewer[layers] = 1;
    assert_fails(&load(&fewer), 1, &["blk.1.attn_q.weight", "ignore"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_model_with_flipped_header_bits_never_panics(flips in proptest::collection::vec((0usize..9000, 0u8..8), 1..5)) {
        let mut file = Tiny { layers: 1, ..Tiny::default() }.file();
        for (at, bit) in flips {
            let at = at % file.len();
            file[at] ^= 1 << bit;
        }
        if let Ok(gguf) = Gguf::parse(&file) {
            let model = Model::from_gguf(&gguf);
            let tokenizer = Tokenizer::from_gguf(&gguf);
            if let (Ok(model), Ok(tokenizer)) = (model, tokenizer) {
                prop_assert!(model.config.vocabulary > 0);
                prop_assert!(tokenizer.encode(b"any text").is_ok());
            }
        }
    }
}
