//! `engine export`: the same model with dequantised weights, for comparison with other programs.

use std::io::Write;

use super::output::write_whole;
use super::{open_model, parse, print_text};
use crate::cli::{Common, ExportArgs, ExportType};
use crate::error::Error;
use crate::gguf::{Gguf, TensorType, Value, Writer};
use crate::model::{self, Model};
use crate::quant::{WeightType, dequantize_row};

/// `general.file_type` of a file whose weights are all F32 (`LLAMA_FTYPE_ALL_F32`).
const ALL_F32: u32 = 0;

pub(super) fn execute(common: &Common, args: &ExportArgs) -> Result<(), Error> {
    let ExportType::F32 = args.ty;
    let file = open_model(common)?;
    let gguf = parse(&file)?;
    // Only models that this engine understands: anything else could not be checked.
    Model::from_gguf(&gguf).map_err(|source| Error::Model { name: file.source().to_owned(), source })?;
    let bytes = gguf.tensors().iter().map(|tensor| 4 * tensor.elements()).sum();
    write_whole(&args.out, bytes, |mut out| write_f32(&gguf, &mut out))?;
    if common.json {
        return super::print_json(&serde_json::json!({ "command": "export", "out": args.out }));
    }
    print_text(&format!("wrote {}", args.out.display()))
}

fn write_f32(gguf: &Gguf<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let mut writer = Writer::new();
    // The parts of a split model are written as one file.
    for (key, value) in gguf.metadata().filter(|(key, _)| !key.starts_with("split.")) {
        let value = if key == "general.file_type" { Value::U32(ALL_F32) } else { value };
        writer.put(key, value);
    }
    for tensor in gguf.tensors() {
        writer.tensor(tensor.name, &tensor.dims, TensorType::F32);
    }
    writer.write(out, |index, out| {
        let tensor = &gguf.tensors()[index];
        let ty = WeightType::from_tensor(tensor.ty).ok_or_else(|| {
            let error = model::Error::Type { name: tensor.name.to_owned(), ty: tensor.ty.to_string() };
            std::io::Error::other(error)
        })?;
        let row_bytes = tensor.data.len() / tensor.rows().max(1) as usize;
        let mut row = Vec::new();
        for data in tensor.data.chunks_exact(row_bytes) {
            row.clear();
            dequantize_row(ty, data, &mut row);
            let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes)?;
        }
        Ok(())
    })
}
