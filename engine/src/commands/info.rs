//! `engine info`: works without a driver too, and then says what is missing; with `--device` or `--require`, such a
//! device must be there.

use std::collections::BTreeMap;

use super::{device_line, identity, model_line, open_model, parse, print_json, print_text};
use crate::cli::{Common, Require};
use crate::error::Error;
use crate::gguf::{Gguf, ModelFile};
use crate::model::Model;
use crate::results::{DeviceInfo, Info, ModelInfo, SCHEMA};
use crate::vk::{self, Instance, choose, requirements};

pub(super) fn execute(common: &Common) -> Result<(), Error> {
    let file = open_model(common)?;
    let gguf = parse(&file)?;
    let model = describe_model(&file, &gguf)?;
    let (devices, vulkan_error) = match describe_devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    if common.device.is_some() || common.require.is_some() {
        let described: Vec<_> = devices.iter().map(|info| info.device.clone()).collect();
        choose(&described, common.device.as_ref(), common.require.map(Into::into))?;
        if common.require == Some(Require::Gpu) {
            super::open_device(common)?;
        }
    }
    let result = Info {
        schema: SCHEMA,
        command: "info".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        devices,
        vulkan_error,
        model: Some(model),
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
}

fn describe_devices() -> Result<Vec<DeviceInfo>, vk::Error> {
    let devices = Instance::new()?.devices()?;
    if devices.is_empty() {
        return Err(vk::Error::NoDriver);
    }
    let describe = |physical: vk::Physical| DeviceInfo {
        unusable: requirements::check(&physical.caps).err().map(|missing| missing.to_string()),
        device: physical.device,
    };
    Ok(devices.into_iter().map(describe).collect())
}

fn describe_model(file: &ModelFile, gguf: &Gguf<'_>) -> Result<ModelInfo, Error> {
    let name = || file.source().to_owned();
    let model = Model::from_gguf(gguf).map_err(|source| Error::Model { name: name(), source })?;
    let named = gguf
        .string("tokenizer.ggml.model")
        .map_err(|source| Error::Gguf { name: name(), source })?
        .unwrap_or("none")
        .to_owned();
    let (end_tokens, unusable) = match super::tokenizer(gguf, &model) {
        Ok(tokenizer) => (tokenizer.end_tokens().iter().map(|id| u64::from(*id)).collect(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let mut tensor_types = BTreeMap::new();
    for tensor in gguf.tensors() {
        *tensor_types.entry(tensor.ty.to_string()).or_insert(0) += 1;
    }
    let c = &model.config;
    Ok(ModelInfo {
        model: identity(file, &model),
        layers: c.layers.into(),
        embedding: c.embedding.into(),
        feed_forward: c.feed_forward.into(),
        heads: c.heads.into(),
        kv_heads: c.kv_heads.into(),
        head_dim: c.head_dim.into(),
        vocabulary: c.vocabulary.into(),
        context: c.context.into(),
        tokenizer: named,
        tensor_types,
        end_tokens,
        unusable,
    })
}

fn table(info: &Info) -> String {
    let mut lines = Vec::new();
    for device in &info.devices {
        lines.push(device_line(&device.device));
        lines.extend(device.unusable.as_ref().map(|why| format!("            unusable: {why}")));
    }
    lines.extend(info.vulkan_error.as_ref().map(|error| format!("no device   {error}")));
    if let Some(m) = &info.model {
        lines.push(model_line(&m.model));
        lines.push(format!(
            "shape       {} layers, width {}, hidden {}, {} heads ({} for keys and values) of {}, vocabulary {}, \
             context {}",
            m.layers, m.embedding, m.feed_forward, m.heads, m.kv_heads, m.head_dim, m.vocabulary, m.context
        ));
        let types: Vec<_> = m.tensor_types.iter().map(|(ty, count)| format!("{count} {ty}")).collect();
        lines.push(format!("tensors     {}; tokenizer {}", types.join(", "), m.tokenizer));
        lines.extend(m.unusable.as_ref().map(|why| format!("            not for run or perplexity: {why}")));
        lines.push(format!("file        BLAKE3 {}", m.model.blake3));
    }
    lines.join("\n")
}
