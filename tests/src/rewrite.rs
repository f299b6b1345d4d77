//! GGUF files with changed metadata or more tensors: what an oracle and the engine are to agree on, written from a file
//! that the engine wrote.
//!
//! This is a reader of its own on purpose, since the engine's is what is tested.

use std::io;
use std::path::Path;

/// Of GGUF: tensor data begins and tensors lie at multiples of this.
const ALIGNMENT: usize = 32;

/// A metadata value to write.
#[derive(Clone, Debug)]
pub enum Value {
    /// A 32-bit number without a sign.
    U32(u32),
    /// A 32-bit float.
    F32(f32),
    /// A flag.
    Bool(bool),
    /// A text.
    Text(String),
    /// 32-bit numbers without a sign.
    U32s(Vec<u32>),
    /// 32-bit numbers.
    I32s(Vec<i32>),
    /// 32-bit floats.
    F32s(Vec<f32>),
    /// Flags.
    Bools(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

/// A file in memory: metadata as encoded, tensors with their data.
#[derive(Clone, Debug)]
pub struct GgufFile {
    /// The version in the header.
    pub version: u32,
    metadata: Vec<(String, Vec<u8>)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    dims: Vec<u64>,
    ty: u32,
    data: Vec<u8>,
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    fn text(&mut self) -> String {
        let length = self.u64() as usize;
        String::from_utf8_lossy(self.take(length)).into_owned()
    }

    /// Steps over a value of this type.
    fn skip(&mut self, ty: u32) {
        match ty {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            10..=12 => drop(self.take(8)),
            8 => drop(self.text()),
            9 => {
                let (element, count) = (self.u32(), self.u64());
                (0..count).for_each(|_| self.skip(element));
            }
            other => panic!("{other} is no type of a value"),
        }
    }
}

impl GgufFile {
    /// Reads a file that is known to be sound.
    ///
    /// # Panics
    ///
    /// When the file cannot be read or is no GGUF.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        let mut r = Reader { bytes: &bytes, at: 0 };
        assert_eq!(r.take(4), b"GGUF");
        let version = r.u32();
        let (tensors, keys) = (r.u64(), r.u64());
        let metadata = (0..keys)
            .map(|_| {
                let (key, from) = (r.text(), r.at);
                let ty = r.u32();
                r.skip(ty);
                (key, bytes[from..r.at].to_vec())
            })
            .collect();
        let table: Vec<_> = (0..tensors)
            .map(|_| {
                let (name, count) = (r.text(), r.u32());
                let dims: Vec<u64> = (0..count).map(|_| r.u64()).collect();
                (name, dims, r.u32(), r.u64() as usize)
            })
            .collect();
        let data = &bytes[r.at.next_multiple_of(ALIGNMENT).min(bytes.len())..];
        let mut ends: Vec<usize> = table.iter().map(|tensor| tensor.3).chain([data.len()]).collect();
        ends.sort_unstable();
        let end = |from: usize| ends.iter().copied().find(|end| *end > from).unwrap_or(from);
        let tensor = |(name, dims, ty, from): (String, Vec<u64>, u32, usize)| Tensor {
            name,
            dims,
            ty,
            data: data[from..end(from)].to_vec(),
        };
        Self { version, metadata, tensors: table.into_iter().map(tensor).collect() }
    }

    /// Sets a key, in its place if it is there.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        let encoded = encode(&value.into());
        match self.metadata.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = encoded,
            None => self.metadata.push((key.to_string(), encoded)),
        }
        self
    }

    /// The texts of an array.
    ///
    /// # Panics
    ///
    /// When the key is not there or holds something else.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let entry = self.metadata.iter().find(|entry| entry.0 == key);
        let mut r = Reader { bytes: &entry.unwrap_or_else(|| panic!("no key {key}")).1, at: 0 };
        assert_eq!((r.u32(), r.u32()), (9, 8), "{key} is no array of texts");
        (0..r.u64()).map(|_| r.text()).collect()
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> &mut Self {
        self.metadata.retain(|entry| entry.0 != key);
        self
    }

    /// Adds a vector of 32-bit floats.
    pub fn vector(&mut self, name: &str, values: &[f32]) -> &mut Self {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensors.push(Tensor { name: name.to_string(), dims: vec![values.len() as u64], ty: 0, data });
        self
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            out.extend(text(key));
            out.extend(value);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            out.extend(text(&tensor.name));
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|d| d.to_le_bytes()));
            out.extend(tensor.ty.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset += tensor.data.len().next_multiple_of(ALIGNMENT);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
            out.extend(&tensor.data);
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        std::fs::write(path, out)
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Type and value as GGUF stores them.
fn encode(value: &Value) -> Vec<u8> {
    let plain = |ty: u32, bytes: &[u8]| [&ty.to_le_bytes(), bytes].concat();
    let array = |ty: u32, count: usize, bytes: Vec<u8>| {
        [&9u32.to_le_bytes()[..], &ty.to_le_bytes(), &(count as u64).to_le_bytes(), &bytes].concat()
    };
    match value {
        Value::U32(v) => plain(4, &v.to_le_bytes()),
        Value::F32(v) => plain(6, &v.to_le_bytes()),
        Value::Bool(v) => plain(7, &[u8::from(*v)]),
        Value::Text(v) => plain(8, &text(v)),
        Value::U32s(all) => array(4, all.len(), all.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Value::I32s(all) => array(5, all.len(), all.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Value::F32s(all) => array(6, all.len(), all.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Value::Bools(all) => array(7, all.len(), all.iter().map(|v| u8::from(*v)).collect()),
        Value::Texts(all) => array(8, all.len(), all.iter().flat_map(|v| text(v)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        let mut file = GgufFile { version: 3, metadata: Vec::new(), tensors: Vec::new() };
        file.set("a", Value::U32(1)).set("b", "text").set("c", Value::Texts(vec!["x".into(), String::new()]));
        file.vector("t", &[1.0, 2.0, 3.0]).vector("u", &[4.0]);
        file.write(&first).unwrap();
        let mut read = GgufFile::read(&first);
        read.write(&second).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
        read.set("a", Value::Bool(true)).remove("b");
        assert_eq!(read.metadata[0], ("a".to_string(), vec![7, 0, 0, 0, 1]));
        assert_eq!(read.metadata.len(), 2);
    }
}
