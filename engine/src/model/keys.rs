//! Metadata below the architecture's name: each key is read with bounds and remembered, so that none is left unread.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::{Error, harmless};
use crate::gguf::{self, Gguf, Value};

/// Reads metadata keys below the architecture's name, and remembers which.
pub(super) struct Keys<'g, 'a> {
    pub(super) gguf: &'g Gguf<'a>,
    architecture: &'static str,
    read: RefCell<BTreeSet<String>>,
}

impl<'g, 'a> Keys<'g, 'a> {
    pub(super) fn new(gguf: &'g Gguf<'a>, architecture: &'static str) -> Self {
        Self { gguf, architecture, read: RefCell::default() }
    }

    /// The whole name of a key, which counts as read from now on.
    pub(super) fn key(&self, suffix: &str) -> String {
        let key = format!("{}.{suffix}", self.architecture);
        self.read.borrow_mut().insert(key.clone());
        key
    }

    pub(super) fn u64(&self, suffix: &str) -> Result<Option<u64>, Error> {
        Ok(self.gguf.u64(&self.key(suffix))?)
    }

    pub(super) fn f64(&self, suffix: &str) -> Result<Option<f64>, Error> {
        Ok(self.gguf.f64(&self.key(suffix))?)
    }

    pub(super) fn string(&self, suffix: &str) -> Result<Option<&'a str>, Error> {
        Ok(self.gguf.string(&self.key(suffix))?)
    }

    /// A size between 1 and `largest`.
    pub(super) fn size(
        &self,
        suffix: &str,
        default: Option<u64>,
        largest: u64,
        multiple: u64,
    ) -> Result<u32, Error> {
        let key = self.key(suffix);
        let value = gguf::required(self.gguf.u64(&key)?.or(default), &key)?;
        bounded(key, value, largest, multiple)
    }

    /// A size that a file may give once or layer by layer; one that differs between layers is refused.
    pub(super) fn layer_size(
        &self,
        suffix: &str,
        default: Option<u64>,
        largest: u64,
        multiple: u64,
        layers: u32,
    ) -> Result<u32, Error> {
        let key = self.key(suffix);
        let Some(each) = self.per_layer(&key, layers)? else {
            return self.size(suffix, default, largest, multiple);
        };
        let sizes: Option<Vec<u64>> = each.iter().map(Value::as_u64).collect();
        let expected = "unsigned integers";
        let sizes = sizes.ok_or_else(|| wrong_type(&key, self.gguf, expected))?;
        match sizes.iter().find(|size| **size != sizes[0]) {
            None => bounded(key, sizes[0], largest, multiple),
            Some(other) => Err(Error::Unsupported(format!(
                "{key} that differs between layers ({} and {other})",
                sizes[0]
            ))),
        }
    }

    /// The value of each layer, if the key holds an array.
    pub(super) fn per_layer(&self, key: &str, layers: u32) -> Result<Option<Vec<Value<'a>>>, Error> {
        let Some(Value::Array(array)) = self.gguf.get(key) else { return Ok(None) };
        if array.len() != u64::from(layers) {
            return Err(Error::Parameter {
                key: key.to_owned(),
                value: format!("an array of {}", array.len()),
                expected: format!("expected one value, or one for each of the {layers} layers"),
            });
        }
        let values = array.scalars();
        values.map(Some).ok_or_else(|| wrong_type(key, self.gguf, "one number or flag a layer"))
    }

    /// A number above zero.
    pub(super) fn positive(&self, suffix: &str, default: Option<f64>) -> Result<f64, Error> {
        let key = self.key(suffix);
        let value = gguf::required(self.gguf.f64(&key)?.or(default), &key)?;
        if !value.is_finite() || value <= 0.0 {
            return Err(Error::Parameter {
                key,
                value: value.to_string(),
                expected: "expected above zero".to_owned(),
            });
        }
        Ok(value)
    }

    /// A number above zero; absent and zero mean none.
    pub(super) fn optional(&self, suffix: &str) -> Result<Option<f64>, Error> {
        match self.f64(suffix)? {
            None | Some(0.0) => Ok(None),
            Some(_) => Ok(Some(self.positive(suffix, None)?)),
        }
    }

    /// Refuses a key that says something else than what the engine computes anyway.
    pub(super) fn must_be(&self, suffix: &str, same: impl Fn(f64) -> bool, what: f64) -> Result<(), Error> {
        match self.f64(suffix)? {
            Some(value) if !same(value) => Err(Error::Parameter {
                key: self.key(suffix),
                value: value.to_string(),
                expected: format!("this engine computes with {what} only"),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses the first key below the architecture's name that was not read and is not known to be harmless.
    pub(super) fn refuse_unread(&self) -> Result<(), Error> {
        let read = self.read.borrow();
        for (key, value) in self.gguf.metadata() {
            let Some(suffix) = key.strip_prefix(self.architecture).and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            if !read.contains(key) && !harmless::is_harmless(suffix, &value) {
                return Err(Error::UnexpectedKey { key: key.to_owned(), value: value.plain() });
            }
        }
        Ok(())
    }
}

fn bounded(key: String, value: u64, largest: u64, multiple: u64) -> Result<u32, Error> {
    if value == 0 || value > largest || !value.is_multiple_of(multiple) {
        let kind = if multiple > 1 { format!(" and a multiple of {multiple}") } else { String::new() };
        let expected = format!("expected between 1 and {largest}{kind}");
        return Err(Error::Parameter { key, value: value.to_string(), expected });
    }
    Ok(value as u32)
}

fn wrong_type(key: &str, gguf: &Gguf<'_>, expected: &'static str) -> Error {
    let found = gguf.get(key).map_or(String::new(), |value| value.describe());
    gguf::Error::WrongType { key: key.to_owned(), found, expected }.into()
}
