//! Metadata values, as views into the file.

use super::Error;
use super::cursor::Cursor;

/// Type of a metadata value: the numbers of `enum gguf_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // each is the Rust type of the same name
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// The type with this number.
    pub fn from_id(id: u32) -> Option<Self> {
        use ValueType::*;
        [U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64]
            .into_iter()
            .find(|t| *t as u32 == id)
    }

    /// Bytes that one element takes, or the least that it can take.
    pub(super) fn least_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }
}

/// One metadata value. Strings and arrays borrow from the file.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // each holds the Rust type of the same name
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a str),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array whose bytes were checked when it was read and are walked when they are needed.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    element: ValueType,
    len: u64,
    bytes: &'a [u8],
}

impl std::fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{:?}; {}]", self.element, self.len)
    }
}

/// Arrays of arrays of arrays have no use; the limit keeps recursion bounded.
const DEEPEST_ARRAY: u32 = 3;

impl<'a> Array<'a> {
    /// An array over bytes that were encoded by [`super::Writer`]'s helpers.
    pub(super) fn from_encoded(element: ValueType, len: u64, bytes: &'a [u8]) -> Self {
        Self { element, len, bytes }
    }

    /// Type of the elements.
    pub fn element(&self) -> ValueType {
        self.element
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as they are in the file.
    pub(super) fn encoded(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements, if they are strings: as bytes, since a vocabulary need not be UTF-8.
    pub fn strings(&self) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let mut cursor = Cursor::new(self.bytes);
        let len = self.len;
        (self.element == ValueType::String)
            .then(|| (0..len).map_while(move |_| cursor.string("an array element").ok()))
    }

    /// The elements, if they are 32-bit integers (of either sign; a negative one wraps).
    pub fn u32s(&self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let bytes = self.bytes;
        matches!(self.element, ValueType::U32 | ValueType::I32)
            .then(|| bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])))
    }
}

impl<'a> Array<'a> {
    /// The elements, if they are 32-bit floats.
    pub fn f32s(&self) -> Option<impl Iterator<Item = f32> + use<'a>> {
        let bytes = self.bytes;
        (self.element == ValueType::F32)
            .then(|| bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
    }
}

impl<'a> Array<'a> {
    /// The elements of any type of fixed size; `None` for strings, for arrays, and for booleans that are neither 0 nor 1.
    pub fn scalars(&self) -> Option<Vec<Value<'a>>> {
        if matches!(self.element, ValueType::String | ValueType::Array) {
            return self.is_empty().then(Vec::new);
        }
        let each = self.element.least_bytes() as usize;
        self.bytes.chunks_exact(each).map(|bytes| Value::scalar(self.element, bytes)).collect()
    }
}

impl<'a> Value<'a> {
    /// Reads a type number and a value of that type.
    pub(super) fn read(cursor: &mut Cursor<'a>, key: &str) -> Result<Self, Error> {
        let ty = read_type(cursor, key)?;
        if ty == ValueType::Array {
            return Ok(Self::Array(read_array(cursor, key, 1)?));
        }
        if ty == ValueType::String {
            let bytes = cursor.string(key)?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Error::Malformed(format!("the string of key {key} is not UTF-8")))?;
            return Ok(Self::String(text));
        }
        let b = cursor.take(ty.least_bytes(), key)?;
        Self::scalar(ty, b).ok_or_else(|| Error::Malformed(format!("key {key} holds the boolean {}", b[0])))
    }

    /// The value of a type of fixed size in its bytes; `None` for a boolean that is neither 0 nor 1.
    fn scalar(ty: ValueType, b: &[u8]) -> Option<Self> {
        let word = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let long = || u64::from(word(0)) | u64::from(word(4)) << 32;
        Some(match ty {
            ValueType::U8 => Self::U8(b[0]),
            ValueType::I8 => Self::I8(b[0] as i8),
            ValueType::U16 => Self::U16(u16::from_le_bytes([b[0], b[1]])),
            ValueType::I16 => Self::I16(i16::from_le_bytes([b[0], b[1]])),
            ValueType::U32 => Self::U32(word(0)),
            ValueType::I32 => Self::I32(word(0) as i32),
            ValueType::F32 => Self::F32(f32::from_bits(word(0))),
            ValueType::Bool if b[0] <= 1 => Self::Bool(b[0] == 1),
            ValueType::U64 => Self::U64(long()),
            ValueType::I64 => Self::I64(long() as i64),
            ValueType::F64 => Self::F64(f64::from_bits(long())),
            ValueType::Bool | ValueType::String | ValueType::Array => return None,
        })
    }

    /// The value as an unsigned integer, whatever integer type the writer chose.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::U64(v) => Some(v),
            Self::I8(v) => v.try_into().ok(),
            Self::I16(v) => v.try_into().ok(),
            Self::I32(v) => v.try_into().ok(),
            Self::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(v) => Some(v.into()),
            Self::F64(v) => Some(v),
            Self::I8(v) => Some(v.into()),
            Self::I16(v) => Some(v.into()),
            Self::I32(v) => Some(v.into()),
            Self::I64(v) => Some(v as f64),
            _ => self.as_u64().map(|v| v as f64),
        }
    }

    /// A short description for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::String(s) => format!("the string {:?}", s.chars().take(40).collect::<String>()),
            Self::Array(a) => format!("an array of {} {:?}", a.len, a.element),
            other => format!("{other:?}"),
        }
    }

    /// The value as a person would write it: `false`, `0.5`, `"linear"`.
    pub fn plain(&self) -> String {
        match self {
            Self::Bool(v) => v.to_string(),
            Self::F32(v) => v.to_string(),
            Self::F64(v) => v.to_string(),
            Self::String(s) => format!("{:?}", s.chars().take(40).collect::<String>()),
            Self::Array(a) => match a.scalars().filter(|all| !all.is_empty() && all.len() <= 8) {
                Some(all) => format!("[{}]", all.iter().map(Self::plain).collect::<Vec<_>>().join(", ")),
                None => self.describe(),
            },
            integer => integer.as_f64().map_or_else(|| self.describe(), |v| v.to_string()),
        }
    }

    pub(super) fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, Error> {
    let id = cursor.u32(key)?;
    ValueType::from_id(id)
        .ok_or_else(|| Error::Malformed(format!("key {key} has the unknown value type {id}")))
}

fn read_array<'a>(cursor: &mut Cursor<'a>, key: &str, depth: u32) -> Result<Array<'a>, Error> {
    if depth > DEEPEST_ARRAY {
        return Err(Error::Malformed(format!("key {key} nests arrays more than {DEEPEST_ARRAY} deep")));
    }
    let element = read_type(cursor, key)?;
    let len = cursor.count(element.least_bytes(), key)?;
    let start = cursor.clone();
    match element {
        ValueType::String => {
            for _ in 0..len {
                cursor.string(key)?;
            }
        }
        ValueType::Array => {
            for _ in 0..len {
                read_array(cursor, key, depth + 1)?;
            }
        }
        plain => {
            cursor.take(len * plain.least_bytes(), key)?;
        }
    }
    let taken = cursor.offset() - start.offset();
    let bytes = start.clone().take(taken, key)?;
    Ok(Array { element, len, bytes })
}
