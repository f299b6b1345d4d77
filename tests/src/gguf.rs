//! A model of which only the shape is real: Qwen3-4B in Q4_0, 2.36 GB, written in a moment.
//!
//! Where nothing executes, weights are read and never looked at. So the file is a header with a hole behind it: all
//! weights are zero, and the hole takes no room on a disk and no time to write. What an application records for it is
//! what it would for the real model, since that depends on shapes and types alone.
//!
//! The format is GGUF version 3; dimensions are those of the published model's configuration.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

const LAYERS: u32 = 36;
const EMBEDDING: u64 = 2560;
const FEED_FORWARD: u64 = 9728;
const HEADS: u32 = 32;
const KV_HEADS: u32 = 8;
const HEAD: u64 = 128;
const VOCABULARY: u64 = 151_936;
/// Of GGUF: tensor data begins and tensors lie at multiples of this.
const ALIGNMENT: u64 = 32;

/// A tensor type by its number in GGUF, with elements and bytes of a block.
#[derive(Clone, Copy)]
struct Type(u32, u64, u64);

const F32: Type = Type(0, 1, 4);
const Q4_0: Type = Type(2, 32, 18);
const Q6_K: Type = Type(14, 256, 210);

/// Writes the model to `path` and returns the file's length in bytes.
///
/// # Errors
///
/// When the file cannot be written.
pub fn qwen3_4b(path: &Path) -> io::Result<u64> {
    let mut header = b"GGUF".to_vec();
    let tensors = tensors();
    let metadata = metadata();
    header.extend(3u32.to_le_bytes());
    header.extend((tensors.len() as u64).to_le_bytes());
    header.extend((metadata.len() as u64).to_le_bytes());
    header.extend(metadata.concat());
    let mut offset = 0u64;
    for (name, dimensions, Type(number, elements, bytes)) in tensors {
        header.extend(string(&name));
        header.extend((dimensions.len() as u32).to_le_bytes());
        header.extend(dimensions.iter().flat_map(|d| d.to_le_bytes()));
        header.extend(number.to_le_bytes());
        header.extend(offset.to_le_bytes());
        offset += (dimensions.iter().product::<u64>() / elements * bytes).next_multiple_of(ALIGNMENT);
    }
    let length = (header.len() as u64).next_multiple_of(ALIGNMENT) + offset;
    let mut file = File::create(path)?;
    file.write_all(&header)?;
    file.set_len(length)?;
    Ok(length)
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Key, type and value of each piece of metadata.
fn metadata() -> Vec<Vec<u8>> {
    // GGUF's numbers of the types.
    const UINT32: u32 = 4;
    const FLOAT32: u32 = 6;
    const STRING: u32 = 8;
    let entry = |key: &str, ty: u32, value: &[u8]| [&string(key), &ty.to_le_bytes()[..], value].concat();
    let number = |key: &str, n: u32| entry(key, UINT32, &n.to_le_bytes());
    let float = |key: &str, x: f32| entry(key, FLOAT32, &x.to_le_bytes());
    let text = |key: &str, s: &str| entry(key, STRING, &string(s));
    vec![
        text("general.architecture", "qwen3"),
        number("general.quantization_version", 2),
        number("general.file_type", 2),
        text("tokenizer.ggml.model", "none"),
        number("qwen3.block_count", LAYERS),
        number("qwen3.context_length", 8192),
        number("qwen3.embedding_length", EMBEDDING as u32),
        number("qwen3.feed_forward_length", FEED_FORWARD as u32),
        number("qwen3.attention.head_count", HEADS),
        number("qwen3.attention.head_count_kv", KV_HEADS),
        number("qwen3.attention.key_length", HEAD as u32),
        number("qwen3.attention.value_length", HEAD as u32),
        number("qwen3.rope.dimension_count", HEAD as u32),
        number("qwen3.vocab_size", VOCABULARY as u32),
        float("qwen3.rope.freq_base", 1e6),
        float("qwen3.attention.layer_norm_rms_epsilon", 1e-6),
    ]
}

/// Name, dimensions (the fastest first) and type of each tensor; embedding and output head are one.
fn tensors() -> Vec<(String, Vec<u64>, Type)> {
    let (queries, keys) = (u64::from(HEADS) * HEAD, u64::from(KV_HEADS) * HEAD);
    let mut tensors = vec![
        ("token_embd.weight".to_string(), vec![EMBEDDING, VOCABULARY], Q6_K),
        ("output_norm.weight".to_string(), vec![EMBEDDING], F32),
    ];
    for layer in 0..LAYERS {
        let parts: [(&str, &[u64], Type); 11] = [
            ("attn_norm", &[EMBEDDING], F32),
            ("attn_q", &[EMBEDDING, queries], Q4_0),
            ("attn_k", &[EMBEDDING, keys], Q4_0),
            ("attn_v", &[EMBEDDING, keys], Q4_0),
            ("attn_output", &[queries, EMBEDDING], Q4_0),
            ("attn_q_norm", &[HEAD], F32),
            ("attn_k_norm", &[HEAD], F32),
            ("ffn_norm", &[EMBEDDING], F32),
            ("ffn_gate", &[EMBEDDING, FEED_FORWARD], Q4_0),
            ("ffn_up", &[EMBEDDING, FEED_FORWARD], Q4_0),
            ("ffn_down", &[FEED_FORWARD, EMBEDDING], Q4_0),
        ];
        tensors.extend(
            parts.map(|(name, dimensions, ty)| {
                (format!("blk.{layer}.{name}.weight"), dimensions.to_vec(), ty)
            }),
        );
    }
    tensors
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_model_is_as_large_as_the_real_one_and_takes_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let length = qwen3_4b(&path).unwrap();
        let found = path.metadata().unwrap();
        assert_eq!(found.len(), length);
        assert!((2_300_000_000..2_400_000_000).contains(&length), "{length}");
        assert!(found.blocks() * 512 < 1 << 20, "{} blocks on the disk", found.blocks());
    }
}
