//! Files that are no model for this engine, recognised before anything in them can be misunderstood.

use super::Error;
use crate::gguf::Gguf;

/// Refuses files that hold something else than a model, by `general.type` or, where a file has none, by a key that only
/// such files have.
pub(super) fn refuse_other_files(gguf: &Gguf<'_>) -> Result<(), Error> {
    const KINDS: [(&str, &str, &str); 4] = [
        (
            "adapter",
            "adapter.type",
            "a LoRA adapter, which changes another model; merge the two with llama-export-lora and run the result",
        ),
        (
            "imatrix",
            "imatrix.datasets",
            "an importance matrix, which llama-quantize reads; give the model that it was made of",
        ),
        (
            "mmproj",
            "clip.has_vision_encoder",
            "a projector of pictures or sound for another model; give that model, whose text can be run",
        ),
        ("vocab", "", "a vocabulary without a model"),
    ];
    let kind = gguf.string("general.type")?;
    let found = KINDS.iter().find(|(name, key, _)| match kind {
        Some(kind) => kind == *name,
        None => gguf.get(key).is_some(),
    });
    match (found, kind) {
        (Some((_, _, what)), _) => Err(Error::NoModel((*what).to_owned())),
        (None, None | Some("model")) => Ok(()),
        (None, Some(other)) => Err(Error::NoModel(format!("a file of the type {other:?} (general.type)"))),
    }
}

/// Refuses mixtures of experts and drafts, by their tensors or their metadata.
pub(super) fn refuse_variants(gguf: &Gguf<'_>, architecture: &str) -> Result<(), Error> {
    let tensor = |marks: &[&str]| {
        gguf.tensors().iter().map(|t| t.name).find(|name| marks.iter().any(|mark| name.contains(mark)))
    };
    let counted = |suffix: &str| -> Result<Option<String>, Error> {
        let key = format!("{architecture}.{suffix}");
        Ok(gguf.u64(&key)?.filter(|n| *n > 0).map(|n| format!("{key} is {n}")))
    };
    let refuse = |what: &str, sign: String| {
        Err(Error::Unsupported(format!("{what} of the architecture {architecture:?} ({sign})")))
    };
    let named = |name: &str| format!("tensor {name}");
    let experts = tensor(&["_exps.", "ffn_gate_inp"]).map(named);
    if let Some(sign) = experts.or(counted("expert_count")?) {
        return refuse("a mixture of experts", sign);
    }
    let prediction = tensor(&[".nextn."]).map(named);
    if let Some(sign) = prediction.or(counted("nextn_predict_layers")?) {
        return refuse("multi-token prediction", sign);
    }
    Ok(())
}
