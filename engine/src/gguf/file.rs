//! Where a model's bytes come from: mapped files, or the program itself.

use std::path::Path;

use super::split::{self, Place};
use super::{Error, Gguf};

/// The bytes of a GGUF file, or of all parts of a split one, and where they came from.
pub struct ModelFile {
    /// In their order; one for a file that is whole.
    parts: Vec<Part>,
    source: String,
}

struct Part {
    path: String,
    bytes: Bytes,
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Static(&'static [u8]),
}

impl Part {
    fn map(path: &Path) -> Result<Self, Error> {
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
        Ok(Self { path: path.display().to_string(), bytes: Bytes::Mapped(map) })
    }

    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Static(bytes) => bytes,
        }
    }
}

impl ModelFile {
    /// Maps the file at `path`, and the other parts where it is one part of a model. Weights are not read yet.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let source = path.display().to_string();
        let given = Part::map(path)?;
        // What is wrong with the file is said when it is parsed.
        let place = match Gguf::metadata_of(given.bytes()) {
            Ok(known) => Place::of(&known)?,
            Err(_) => None,
        };
        let Some(place) = place else { return Ok(Self { parts: vec![given], source }) };
        let mut given = Some(given);
        let mut parts = Vec::new();
        for (number, path) in (0..).zip(split::paths(path, place)?) {
            let part = if number == place.number { given.take().map(Ok) } else { None };
            let part = part.unwrap_or_else(|| Part::map(&path)).map_err(|error| match error {
                Error::Open { path, source } => {
                    Error::MissingPart { path, number: number + 1, count: place.count, source }
                }
                other => other,
            })?;
            parts.push(part);
        }
        Ok(Self { parts, source })
    }

    /// Bytes that are part of the program.
    pub fn embedded(bytes: &'static [u8]) -> Self {
        let source = "embedded".to_owned();
        Self { parts: vec![Part { path: source.clone(), bytes: Bytes::Static(bytes) }], source }
    }

    /// Parses all parts as one model.
    pub fn parse(&self) -> Result<Gguf<'_>, Error> {
        match &self.parts[..] {
            [whole] => Gguf::parse(whole.bytes()),
            parts => Gguf::join(parts.iter().map(|part| (part.path.as_str(), part.bytes()))),
        }
    }

    /// Parses the metadata alone, which is that of the first part.
    pub fn metadata(&self) -> Result<Gguf<'_>, Error> {
        Gguf::metadata_of(self.parts[0].bytes())
    }

    /// Bytes of all parts together.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes().len() as u64).sum()
    }

    /// Returns true if there are no bytes: never, once opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path as it was given, or `embedded`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// BLAKE3 of all bytes, one part behind the other, hexadecimal.
    pub fn blake3(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        self.parts.iter().for_each(|part| _ = hasher.update(part.bytes()));
        hasher.finalize().to_hex().to_string()
    }
}
