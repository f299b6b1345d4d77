//! A position in the file from which little-endian values are taken, each checked against what is left.

use super::Error;

/// Reads forward through `bytes`; never past the end.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset from the beginning of the bytes.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Bytes that are left.
    pub(super) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `len` bytes; `what` names them in the error.
    pub(super) fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8], Error> {
        if len > self.remaining() {
            return Err(Error::Truncated {
                what: what.to_owned(),
                offset: self.offset(),
                needed: len,
                available: self.remaining(),
            });
        }
        // `len` is at most the length of a slice, so it fits usize.
        let len = len as usize;
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A string: length in bytes (u64), then the bytes.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a [u8], Error> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    /// A count of things that take at least `least` bytes each: refused when the file cannot hold so many.
    pub(super) fn count(&mut self, least: u64, what: &str) -> Result<u64, Error> {
        let offset = self.offset();
        let count = self.u64(what)?;
        match count.checked_mul(least) {
            Some(needed) if needed <= self.remaining() => Ok(count),
            needed => Err(Error::Truncated {
                what: format!("{what} ({count})"),
                offset,
                needed: needed.unwrap_or(u64::MAX),
                available: self.remaining(),
            }),
        }
    }
}
