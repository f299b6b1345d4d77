//! Metadata keys that the engine does not read and that change no result, each with its reason.
//!
//! Every key below the architecture's name is read, or it is in this table with a value that the table allows, or the
//! model is refused: a key that is left out silently may be the one that makes the numbers right. Many entries are here
//! because llama.cpp's own saver writes every hyper-parameter that it knows of any architecture, with the value that
//! means "none" (`llama_model_saver::add_kv_from_model`). What it writes is recorded in `saved-keys.txt`.

use crate::gguf::Value;

/// The values with which a key is harmless.
#[derive(Clone, Copy)]
enum When {
    /// All.
    Always,
    /// Zero, `false`, and arrays of these.
    Zero,
    /// One of these numbers, and arrays of them.
    Numbers(&'static [f64]),
    /// This flag.
    Flag(bool),
    /// One of these texts.
    Texts(&'static [&'static str]),
}

/// Keys below the architecture's name (a `*` at the end stands for any rest), when they are harmless, and why.
const HARMLESS: [(&[&str], When, &str); 22] = [
    (
        &["vocab_size"],
        When::Always,
        "counts the tokens; the vocabulary and the rows of the embedding count them, too",
    ),
    (
        &["rope.scaling.original_context_length", "rope.scaling.finetuned", "rope.scaling.yarn_*"],
        When::Always,
        "belongs to YaRN, which is refused by rope.scaling.type; llama.cpp ignores it with linear scaling",
    ),
    (
        &["attention.layer_norm_epsilon", "attention.group_norm_epsilon", "attention.group_norm_groups"],
        When::Always,
        "these architectures have RMS norms only, whose epsilon is another key",
    ),
    (&["pooling_type"], When::Always, "says how an embedding of a whole text is made, not how logits are"),
    (
        &["expert_*", "experts_per_group", "moe_*", "leading_dense_block_count", "interleave_moe_layer_step"],
        When::Always,
        "belongs to mixtures of experts, which are refused by expert_count and by their tensors",
    ),
    (
        &["attention.value_expert_*", "router_logit_softcapping"],
        When::Always,
        "belongs to mixtures of experts, which are refused by expert_count and by their tensors",
    ),
    (
        &["attention.sliding_window_pattern", "rope.freq_base_swa"],
        When::Always,
        "says which layers see a window, or how they rotate; read where there is a window, which is refused elsewhere",
    ),
    (
        &["decoder_start_token_id", "decoder_block_count", "attention.relative_buckets_count"],
        When::Always,
        "belongs to models with an encoder, whose tensors are refused",
    ),
    (
        &["tensor_data_layout"],
        When::Texts(&["Meta AI original pth", "reference"]),
        "names the order of the rows of queries and keys that the architecture has anyway",
    ),
    (
        &["attn_logit_softcapping"],
        When::Numbers(&[0.0, 50.0]),
        "none of these architectures bounds its scores; llama.cpp's saver writes its default of 50 and ignores it",
    ),
    (
        &["final_logit_softcapping"],
        When::Numbers(&[0.0, 30.0]),
        "read where the architecture bounds its logits; for others llama.cpp's saver writes its default of 30",
    ),
    (&["attention.causal"], When::Flag(true), "attention sees no later token in any of these architectures"),
    (
        &[
            "logit_scale",
            "residual_scale",
            "embedding_scale",
            "attention.output_scale",
            "attention.value_scale",
        ],
        When::Numbers(&[0.0, 1.0]),
        "a factor of none or of one changes nothing",
    ),
    (
        &[
            "attention.clamp_kqv",
            "swiglu_clamp_*",
            "attention.max_alibi_bias",
            "attention.temperature_*",
            "use_parallel_residual",
        ],
        When::Zero,
        "zero means none",
    ),
    (
        &["rope.scaling.alpha", "rope.dimension_sections", "attention.shared_kv_layers", "features_length"],
        When::Zero,
        "zero means none",
    ),
    (
        &["attention.*_rank", "attention.*_rank_swa", "attention.*_mla", "attention.*_mla_swa"],
        When::Zero,
        "zero means that queries, keys and values are no products of smaller matrices",
    ),
    (
        &["attention.indexer.*", "attention.recurrent_layers", "attention.compress_*", "hash_layer_count"],
        When::Numbers(&[0.0, 1.0]),
        "belongs to attention over chosen positions, whose tensors are refused; the saver's defaults are 0 and true",
    ),
    (
        &["attention.rope_pattern", "attention.output_group_count", "activation.*", "num_loops"],
        When::Numbers(&[0.0, 1.0]),
        "belongs to other architectures; the saver's defaults are 0 and 1",
    ),
    (
        &["rope.section_order"],
        When::Texts(&["tyxz"]),
        "orders the parts of rope.dimension_sections, of which there are none",
    ),
    (
        &[
            "n_deepstack_layers",
            "deepstack_mapping",
            "classifier.output_labels",
            "dense_*",
            "nextn_predict_layers",
        ],
        When::Numbers(&[0.0, -1.0]),
        "belongs to pictures, classifiers and drafts; the saver's defaults are 0, -1 and none",
    ),
    (
        &["token_shift_count", "wkv.*", "time_*", "rescale_every_n_layers", "ssm.*", "kda.*", "shortconv.*"],
        When::Numbers(&[0.0, 2.0, f64::NEG_INFINITY]),
        "belongs to recurrent architectures; the saver's defaults are 0, 2 and minus infinity",
    ),
    (
        &["hrm.*", "hyper_connection.*", "attn_res.*", "posnet.*", "convnext.*", "swin_norm"],
        When::Zero,
        "belongs to other architectures; zero means none",
    ),
];

/// Returns true if a key, without the architecture's name, changes no result with this value.
pub(super) fn is_harmless(suffix: &str, value: &Value<'_>) -> bool {
    let of_key = |entry: &&(&[&str], When, &str)| entry.0.iter().any(|pattern| matches(pattern, suffix));
    HARMLESS.iter().filter(of_key).any(|(_, when, _)| allows(*when, value))
}

/// Returns true if the pattern, in which one `*` stands for any text, is the key.
fn matches(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((before, after)) => {
            key.len() >= before.len() + after.len() && key.starts_with(before) && key.ends_with(after)
        }
    }
}

fn allows(when: When, value: &Value<'_>) -> bool {
    let number = |value: &Value<'_>, numbers: &[f64]| match *value {
        Value::Bool(flag) => numbers.contains(&f64::from(u8::from(flag))),
        _ => value.as_f64().is_some_and(|number| numbers.contains(&number)),
    };
    let numbers = |numbers: &[f64]| match value {
        Value::Array(array) => {
            array.scalars().is_some_and(|all| all.iter().all(|value| number(value, numbers)))
        }
        plain => number(plain, numbers),
    };
    match when {
        When::Always => true,
        When::Zero => numbers(&[0.0]),
        When::Numbers(allowed) => numbers(allowed),
        When::Flag(flag) => *value == Value::Bool(flag),
        When::Texts(texts) => matches!(value, Value::String(text) if texts.contains(text)),
    }
}
