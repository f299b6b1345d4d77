//! The reader: header, metadata, tensor table.

use std::collections::{BTreeMap, HashMap};

use super::Error;
use super::cursor::Cursor;
use super::split::{self, Place};
use super::types::TensorType;
use super::value::{Array, Value};

/// Versions that are laid out alike: what 3 added are big-endian files, which are refused.
const VERSIONS: [u32; 2] = [2, 3];
/// Longest key: the format's own limit.
const LONGEST_KEY: usize = 65535;
/// Longest tensor name: `GGML_MAX_NAME` is 64 with its terminator; some writers use more.
const LONGEST_NAME: usize = 256;
/// Most dimensions: `GGML_MAX_DIMS`.
const MOST_DIMS: u32 = 4;
/// Largest alignment that makes any sense (a huge page).
const LARGEST_ALIGNMENT: u64 = 2 << 20;
/// Alignment where the file names none.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A parsed file. Everything borrows from its bytes.
#[derive(Debug)]
pub struct Gguf<'a> {
    metadata: BTreeMap<&'a str, Value<'a>>,
    /// Keys in the file's order, so that a rewritten file keeps it.
    order: Vec<&'a str>,
    tensors: Vec<TensorInfo<'a>>,
    by_name: HashMap<&'a str, usize>,
    alignment: u64,
}

/// One tensor: checked to lie within the file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo<'a> {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: &'a str,
    /// Number of elements along each dimension, the fastest first (ggml's `ne`): a matrix is `[columns, rows]`.
    pub dims: Vec<u64>,
    /// Element type.
    pub ty: TensorType,
    /// The elements, in blocks of the type.
    pub data: &'a [u8],
}

impl TensorInfo<'_> {
    /// Number of elements; it was checked not to overflow.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Elements along the fastest dimension: the columns of a matrix.
    pub fn columns(&self) -> u64 {
        self.dims.first().copied().unwrap_or(1)
    }

    /// Everything but the fastest dimension: the rows of a matrix.
    pub fn rows(&self) -> u64 {
        self.dims.iter().skip(1).product()
    }
}

impl<'a> Gguf<'a> {
    /// Parses and checks everything except the weights themselves. A part of a split model is refused.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let gguf = Self::parse_part(bytes)?;
        match Place::of(&gguf)? {
            None => Ok(gguf),
            Some(Place { number, count, .. }) => {
                Err(Error::Malformed(format!("it is part {} of {count} of a split model", number + 1)))
            }
        }
    }

    /// Parses the parts of a split model, each with its name, in their order: the metadata of the first and the tensors of
    /// all.
    pub(super) fn join<'n>(parts: impl Iterator<Item = (&'n str, &'a [u8])>) -> Result<Self, Error> {
        let parse = |(name, bytes): (&'n str, &'a [u8])| {
            let fail = |source| Error::Part { path: name.to_owned(), source: Box::new(source) };
            Ok((name, Self::parse_part(bytes).map_err(fail)?))
        };
        let parts = parts.map(parse).collect::<Result<Vec<_>, Error>>()?;
        split::check(&parts)?;
        let mut parts = parts.into_iter().map(|(_, gguf)| gguf);
        let mut joined = parts.next().ok_or_else(|| Error::Malformed("it has no parts".to_owned()))?;
        joined.tensors.extend(parts.flat_map(|part| part.tensors));
        joined.index()?;
        Ok(joined)
    }

    fn parse_part(bytes: &'a [u8]) -> Result<Self, Error> {
        let (mut gguf, mut cursor, tensor_count) = Self::header(bytes)?;
        gguf.tensors = read_tensors(&mut cursor, tensor_count, gguf.alignment, bytes)?;
        gguf.index()?;
        refuse_overlaps(&gguf.tensors)?;
        Ok(gguf)
    }

    fn index(&mut self) -> Result<(), Error> {
        self.by_name.clear();
        for (index, tensor) in self.tensors.iter().enumerate() {
            if self.by_name.insert(tensor.name, index).is_some() {
                return Err(Error::Malformed(format!("two tensors are named {}", tensor.name)));
            }
        }
        Ok(())
    }

    /// Parses the metadata alone, as if the file had no tensors: what is known of a file whose tensors cannot be read.
    pub fn metadata_of(bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self::header(bytes)?.0)
    }

    /// What stands before the table of tensors, where that table begins, and how many tensors it has.
    fn header(bytes: &'a [u8]) -> Result<(Self, Cursor<'a>, u64), Error> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.take(4, "the magic number")?;
        if magic != b"GGUF" {
            return Err(Error::Magic { found: format!("{:?}", String::from_utf8_lossy(magic)) });
        }
        let version = cursor.u32("the version")?;
        if !VERSIONS.contains(&version) {
            return Err(Error::Version(version));
        }
        // Least sizes: a tensor is name length, one-byte name, dimension count, one dimension, type, offset; a key is
        // its length, one byte, a type and a one-byte value.
        let tensor_count = cursor.count(8 + 1 + 4 + 8 + 4 + 8, "the tensor count")?;
        let key_count = cursor.count(8 + 1 + 4 + 1, "the metadata count")?;

        let (metadata, order) = read_metadata(&mut cursor, key_count)?;
        let alignment = match metadata.get("general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some(value) => match value.as_u64() {
                Some(a) if a.is_power_of_two() && (8..=LARGEST_ALIGNMENT).contains(&a) => a,
                _ => {
                    return Err(Error::Malformed(format!(
                        "general.alignment is {}, not a power of two between 8 and {LARGEST_ALIGNMENT}",
                        value.describe()
                    )));
                }
            },
        };
        let gguf = Self { metadata, order, tensors: Vec::new(), by_name: HashMap::new(), alignment };
        Ok((gguf, cursor, tensor_count))
    }

    /// All metadata, in the file's order.
    pub fn metadata(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + '_ {
        self.order.iter().map(|key| (*key, self.metadata[key]))
    }

    /// All tensors, in the file's order.
    pub fn tensors(&self) -> &[TensorInfo<'a>] {
        &self.tensors
    }

    /// Alignment of tensor data in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo<'a>> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.metadata.get(key).copied()
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        cast: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => cast(value).map(Some).ok_or_else(|| Error::WrongType {
                key: key.to_owned(),
                found: value.describe(),
                expected,
            }),
        }
    }

    /// An unsigned integer, if the key is there.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, Error> {
        self.typed(key, "an unsigned integer", |v| v.as_u64())
    }

    /// A number, if the key is there.
    pub fn f64(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a number", |v| v.as_f64())
    }

    /// A string, if the key is there.
    pub fn string(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.typed(key, "a string", |v| if let Value::String(s) = v { Some(s) } else { None })
    }

    /// A boolean, if the key is there.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "a boolean", |v| if let Value::Bool(b) = v { Some(b) } else { None })
    }

    /// An array, if the key is there.
    pub fn array(&self, key: &str) -> Result<Option<Array<'a>>, Error> {
        self.typed(key, "an array", |v| if let Value::Array(a) = v { Some(a) } else { None })
    }
}

/// Turns "not there" into an error that names the key.
pub(crate) fn required<T>(value: Option<T>, key: &str) -> Result<T, Error> {
    value.ok_or_else(|| Error::MissingKey(key.to_owned()))
}

type Metadata<'a> = (BTreeMap<&'a str, Value<'a>>, Vec<&'a str>);

fn read_metadata<'a>(cursor: &mut Cursor<'a>, count: u64) -> Result<Metadata<'a>, Error> {
    let mut metadata = BTreeMap::new();
    let mut order = Vec::new();
    for index in 0..count {
        let key = text(cursor.string(&format!("metadata key {index}"))?, "a metadata key", LONGEST_KEY)?;
        let value = Value::read(cursor, key)?;
        if metadata.insert(key, value).is_some() {
            return Err(Error::Malformed(format!("the metadata key {key} appears twice")));
        }
        order.push(key);
    }
    Ok((metadata, order))
}

fn read_tensors<'a>(
    cursor: &mut Cursor<'a>,
    count: u64,
    alignment: u64,
    bytes: &'a [u8],
) -> Result<Vec<TensorInfo<'a>>, Error> {
    // The table comes first and the data after it, so offsets can only be resolved once the table has been read.
    let mut found = Vec::new();
    for index in 0..count {
        let name =
            text(cursor.string(&format!("the name of tensor {index}"))?, "a tensor name", LONGEST_NAME)?;
        let n_dims = cursor.u32(name)?;
        if n_dims == 0 || n_dims > MOST_DIMS {
            return Err(Error::Malformed(format!(
                "tensor {name} has {n_dims} dimensions, expected 1 to {MOST_DIMS}"
            )));
        }
        let dims = (0..n_dims).map(|_| cursor.u64(name)).collect::<Result<Vec<_>, _>>()?;
        let id = cursor.u32(name)?;
        let ty = TensorType::from_id(id).ok_or_else(|| Error::UnknownType { tensor: name.to_owned(), id })?;
        let size = tensor_bytes(name, &dims, ty)?;
        let offset = cursor.u64(name)?;
        if !offset.is_multiple_of(alignment) {
            return Err(Error::Malformed(format!(
                "the data of tensor {name} begins at offset {offset}, not a multiple of the alignment {alignment}"
            )));
        }
        found.push((name, dims, ty, offset, size));
    }
    let data_start = cursor.offset().next_multiple_of(alignment);
    let data_bytes = (bytes.len() as u64).saturating_sub(data_start);
    let data = bytes.get(data_start.min(bytes.len() as u64) as usize..).unwrap_or(&[]);
    found
        .into_iter()
        .map(|(name, dims, ty, offset, size)| {
            let end = offset.checked_add(size).filter(|&end| end <= data_bytes);
            let end = end.ok_or_else(|| Error::Truncated {
                what: format!("the data of tensor {name}"),
                offset: data_start.saturating_add(offset),
                needed: size,
                available: data_bytes.saturating_sub(offset),
            })?;
            Ok(TensorInfo { name, dims, ty, data: &data[offset as usize..end as usize] })
        })
        .collect()
}

fn tensor_bytes(name: &str, dims: &[u64], ty: TensorType) -> Result<u64, Error> {
    if dims.contains(&0) {
        return Err(Error::Malformed(format!("tensor {name} has a dimension of zero: {dims:?}")));
    }
    let elements = dims
        .iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim))
        .filter(|&elements| elements <= i64::MAX as u64)
        .ok_or_else(|| Error::Malformed(format!("tensor {name} has absurd dimensions {dims:?}")))?;
    if !dims[0].is_multiple_of(ty.block_elements()) {
        return Err(Error::Malformed(format!(
            "tensor {name} has rows of {} elements, not whole blocks of {} ({ty})",
            dims[0],
            ty.block_elements()
        )));
    }
    ty.bytes_for(elements)
        .ok_or_else(|| Error::Malformed(format!("tensor {name} has absurd dimensions {dims:?}")))
}

fn text<'a>(bytes: &'a [u8], what: &str, longest: usize) -> Result<&'a str, Error> {
    if bytes.is_empty() || bytes.len() > longest {
        return Err(Error::Malformed(format!("{what} has {} bytes, expected 1 to {longest}", bytes.len())));
    }
    std::str::from_utf8(bytes).map_err(|_| Error::Malformed(format!("{what} is not UTF-8")))
}

fn refuse_overlaps(tensors: &[TensorInfo<'_>]) -> Result<(), Error> {
    let mut ranges: Vec<_> =
        tensors.iter().map(|t| (t.data.as_ptr() as usize, t.data.len(), t.name)).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if pair[0].0 + pair[0].1 > pair[1].0 {
            return Err(Error::Malformed(format!(
                "tensors {} and {} overlap in the file",
                pair[0].2, pair[1].2
            )));
        }
    }
    Ok(())
}
