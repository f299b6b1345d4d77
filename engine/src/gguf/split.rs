//! Models in several files, as `llama-gguf-split` makes them.
//!
//! The first part has the metadata, each part its share of the tensors and three keys: which part it is, of how many, and
//! how many tensors all have together. Their names end in `-00002-of-00005.gguf`; nothing else says which files belong
//! together. One part alone may look like a whole model, with the embedding for its output head, and computes nonsense.

use std::path::{Path, PathBuf};

use super::{Error, Gguf};

/// What a part says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the part, from 0.
    pub(super) number: u64,
    /// Number of parts.
    pub(super) count: u64,
    /// Tensors of all parts together, where the part says so.
    pub(super) tensors: Option<u64>,
}

/// Most parts: their names have five digits.
const MOST_PARTS: u64 = 99_999;

impl Place {
    /// `None` for a file that is whole.
    pub(super) fn of(gguf: &Gguf<'_>) -> Result<Option<Self>, Error> {
        let Some(count) = gguf.u64("split.count")?.filter(|count| *count > 1) else { return Ok(None) };
        let number = gguf.u64("split.no")?.ok_or_else(|| Error::MissingKey("split.no".to_owned()))?;
        if count > MOST_PARTS || number >= count {
            return Err(Error::Malformed(format!("split.no is {number} and split.count {count}")));
        }
        Ok(Some(Self { number, count, tensors: gguf.u64("split.tensors.count")? }))
    }
}

/// The name of a part: what stands before its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartName<'n> {
    prefix: &'n str,
    /// From 1.
    number: u64,
    /// Number of parts.
    pub(crate) count: u64,
}

impl<'n> PartName<'n> {
    /// Takes `PREFIX-00002-of-00005.gguf` apart; `None` for other names.
    pub(crate) fn parse(name: &'n str) -> Option<Self> {
        let stem = name.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| -> Option<u64> {
            (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
        };
        let (number, count) = (digits(number)?, digits(count)?);
        (number >= 1 && number <= count).then_some(Self { prefix, number, count })
    }

    /// The name of part `number`, from 0.
    pub(crate) fn sibling(&self, number: u64) -> String {
        format!("{}-{:05}-of-{:05}.gguf", self.prefix, number + 1, self.count)
    }
}

/// The paths of all parts of the model of which the file at `path` is this part.
pub(super) fn paths(path: &Path, place: Place) -> Result<Vec<PathBuf>, Error> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let part = PartName::parse(name).filter(|p| (p.number, p.count) == (place.number + 1, place.count));
    let part = part.ok_or_else(|| Error::PartName {
        number: place.number + 1,
        count: place.count,
        ending: format!("-{:05}-of-{:05}.gguf", place.number + 1, place.count),
    })?;
    Ok((0..place.count).map(|number| path.with_file_name(part.sibling(number))).collect())
}

/// Checks that parsed parts, in their order, are those of one model.
pub(super) fn check(parts: &[(&str, Gguf<'_>)]) -> Result<(), Error> {
    let mut expected = None;
    for (number, (name, gguf)) in (0..).zip(parts) {
        let wrong = |why: String| Error::Part {
            path: (*name).to_owned(),
            source: Box::new(Error::Malformed(format!("{why}; it belongs to another model, or was renamed"))),
        };
        let place = Place::of(gguf)?.ok_or_else(|| wrong("it is no part of a split model".to_owned()))?;
        if (place.number, place.count) != (number, parts.len() as u64) {
            let (is, of) = (place.number + 1, place.count);
            return Err(wrong(format!("it is part {is} of {of}, not {} of {}", number + 1, parts.len())));
        }
        expected = expected.or(place.tensors);
        if place.tensors != expected {
            return Err(wrong("it counts other tensors than the first part".to_owned()));
        }
    }
    let found: u64 = parts.iter().map(|(_, gguf)| gguf.tensors().len() as u64).sum();
    match expected {
        Some(expected) if expected != found => Err(Error::Malformed(format!(
            "its parts have {found} tensors together, and split.tensors.count is {expected}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_part_gives_those_of_the_others() {
        let part = PartName::parse("a-of-b-00002-of-00012.gguf").unwrap();
        assert_eq!((part.number, part.count), (2, 12));
        assert_eq!(part.sibling(11), "a-of-b-00012-of-00012.gguf");
        for other in
            ["a.gguf", "a-2-of-12.gguf", "a-00013-of-00012.gguf", "a-00000-of-00002.gguf", "a-00001-of-00002"]
        {
            assert_eq!(PartName::parse(other), None, "{other}");
        }
    }
}
