//! The writer: for `engine export` and `engine synth`, and for every test that needs a small or a broken file.
//!
//! Metadata is encoded as it is added. Tensor data is asked for one tensor at a time while the file is written, so a
//! large model is never held in memory as a whole.

use std::io::{self, Write};

use super::types::TensorType;
use super::value::{Array, Value, ValueType};

const ALIGNMENT: u64 = 32;

/// Collects metadata and the tensor table, then writes a GGUF version 3 file.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    keys: u64,
    metadata: Vec<u8>,
    tensors: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    dims: Vec<u64>,
    ty: TensorType,
}

impl Writer {
    /// An empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. `general.alignment` is the writer's own and is left out, since it lays out the data itself.
    pub fn put(&mut self, key: &str, value: Value<'_>) -> &mut Self {
        if key == "general.alignment" {
            return self;
        }
        self.keys += 1;
        string(&mut self.metadata, key.as_bytes());
        self.metadata.extend((value.value_type() as u32).to_le_bytes());
        match value {
            Value::String(s) => string(&mut self.metadata, s.as_bytes()),
            Value::Array(array) => {
                self.metadata.extend((array.element() as u32).to_le_bytes());
                self.metadata.extend(array.len().to_le_bytes());
                self.metadata.extend(array.encoded());
            }
            scalar => encode(&mut self.metadata, scalar),
        }
        self
    }

    /// Adds an array of strings.
    pub fn put_strings<S: AsRef<[u8]>>(&mut self, key: &str, strings: &[S]) -> &mut Self {
        let mut encoded = Vec::new();
        for s in strings {
            string(&mut encoded, s.as_ref());
        }
        self.put(key, Value::Array(Array::from_encoded(ValueType::String, strings.len() as u64, &encoded)))
    }

    /// Adds an array of 32-bit integers.
    pub fn put_i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let encoded: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.put(key, Value::Array(Array::from_encoded(ValueType::I32, values.len() as u64, &encoded)))
    }

    /// Adds an array of 32-bit floats.
    pub fn put_f32s(&mut self, key: &str, values: &[f32]) -> &mut Self {
        let encoded: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.put(key, Value::Array(Array::from_encoded(ValueType::F32, values.len() as u64, &encoded)))
    }

    /// Adds an array of values of one fixed size, whose type is that of the first; of 32-bit integers if there is none.
    pub fn put_scalars(&mut self, key: &str, values: &[Value<'_>]) -> &mut Self {
        let element = values.first().map_or(ValueType::I32, Value::value_type);
        let mut encoded = Vec::new();
        values.iter().for_each(|value| encode(&mut encoded, *value));
        self.put(key, Value::Array(Array::from_encoded(element, values.len() as u64, &encoded)))
    }

    /// Announces a tensor; `dims` as in [`super::TensorInfo::dims`].
    pub fn tensor(&mut self, name: &str, dims: &[u64], ty: TensorType) -> &mut Self {
        self.tensors.push(Entry { name: name.to_owned(), dims: dims.to_vec(), ty });
        self
    }

    /// Writes the file. `data` is called once for each tensor, in the order in which they were announced, and must
    /// write exactly the bytes that its type and dimensions take; anything else is an error.
    pub fn write<W: Write>(
        &self,
        out: &mut W,
        mut data: impl FnMut(usize, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut header = Vec::new();
        header.extend(b"GGUF");
        header.extend(3u32.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend(self.keys.to_le_bytes());
        header.extend(&self.metadata);
        let mut offset = 0u64;
        let mut sizes = Vec::new();
        for entry in &self.tensors {
            string(&mut header, entry.name.as_bytes());
            header.extend((entry.dims.len() as u32).to_le_bytes());
            entry.dims.iter().for_each(|dim| header.extend(dim.to_le_bytes()));
            header.extend(entry.ty.id().to_le_bytes());
            header.extend(offset.to_le_bytes());
            let elements = entry.dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
            let size = elements
                .and_then(|elements| entry.ty.bytes_for(elements))
                .ok_or_else(|| io::Error::other(format!("tensor {} is not whole blocks", entry.name)))?;
            sizes.push(size);
            offset = (offset + size).next_multiple_of(ALIGNMENT);
        }
        header.resize((header.len() as u64).next_multiple_of(ALIGNMENT) as usize, 0);
        out.write_all(&header)?;
        for (index, &size) in sizes.iter().enumerate() {
            let mut counted = Counted { inner: out, written: 0 };
            data(index, &mut counted)?;
            if counted.written != size {
                let name = &self.tensors[index].name;
                return Err(io::Error::other(format!("tensor {name}: {} bytes of {size}", counted.written)));
            }
            let padding = size.next_multiple_of(ALIGNMENT) - size;
            out.write_all(&[0; ALIGNMENT as usize][..padding as usize])?;
        }
        out.flush()
    }
}

/// Appends a value of fixed size. Strings and arrays have a length before them, which their callers write.
fn encode(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::U8(v) => out.push(v),
        Value::I8(v) => out.push(v as u8),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(v.into()),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::String(s) => string(out, s.as_bytes()),
        Value::Array(array) => out.extend(array.encoded()),
    }
}

struct Counted<'w, W: Write> {
    inner: &'w mut W,
    written: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}
