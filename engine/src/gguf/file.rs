//! Where a model's bytes come from: a mapped file, or the program itself.

use std::path::Path;

use super::Error;

/// The bytes of a GGUF file and where they came from.
pub struct ModelFile {
    bytes: Bytes,
    source: String,
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Static(&'static [u8]),
}

impl ModelFile {
    /// Maps the file at `path`. Nothing is read yet.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Open { path: path.display().to_string(), source };
        // Asked before it is opened: to open a pipe waits until something writes to it.
        let metadata = std::fs::metadata(path).map_err(fail)?;
        if !metadata.is_file() {
            return Err(fail(std::io::Error::other("it is not a regular file")));
        }
        let file = std::fs::File::open(path).map_err(fail)?;
        if metadata.len() == 0 {
            return Err(fail(std::io::Error::other("it is empty; download it again")));
        }
        // SAFETY: the mapping is private to this process and only read. As with every mapped file, another process
        // that shortens it meanwhile makes reads fault; model files are not edited in place by anything that we know.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(fail)?;
        Ok(Self { bytes: Bytes::Mapped(map), source: path.display().to_string() })
    }

    /// Bytes that are part of the program.
    pub fn embedded(bytes: &'static [u8]) -> Self {
        Self { bytes: Bytes::Static(bytes), source: "embedded".to_owned() }
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Static(bytes) => bytes,
        }
    }

    /// The path as it was given, or `embedded`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// BLAKE3 of all bytes, hexadecimal.
    pub fn blake3(&self) -> String {
        blake3::hash(self.bytes()).to_hex().to_string()
    }
}
