//! How large things are and where their parts lie, in memory and as scalars.
//!
//! Two views of a type are needed. In memory with an explicit layout (buffers, push constants) a part has an offset
//! in bytes, given by decorations. In a function's own variables there is no layout: there a type is the row of its
//! scalars, called *leaves* here, and a part is a range of leaves.

use std::collections::HashMap;

use rspirv::spirv::{Decoration, Op};

use crate::decorations::Decorations;
use crate::module::Parsed;

/// A declared type, as far as sizes need it. Ids refer to other types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    Int { bits: u8 },
    Float { bits: u32 },
    Vector { of: u32, count: u64 },
    Matrix { column: u32, count: u64 },
    Array { of: u32, count: Option<u64> },
    Runtime { of: u32 },
    Struct { members: Vec<u32> },
    Pointer { class: u32, pointee: u32 },
    CoopMatrix { component: u32, rows: u32, columns: u32, usage: u32 },
    Other,
}

/// How the matrices inside a member lie in memory: there is none where the decorations don't say it, or say it twice.
/// Nothing is known then of where the parts of a matrix are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixLayout {
    pub stride: u64,
    pub row_major: bool,
}

/// All types of a module with their layout decorations.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    shapes: HashMap<u32, Shape>,
    decorations: &'a Decorations,
}

/// Most leaves that a type may have before it isn't followed.
pub(crate) const MOST_LEAVES: usize = 1024;

impl<'a> Layout<'a> {
    pub fn new(parsed: &'a Parsed<'_>) -> Layout<'a> {
        let mut layout = Layout { shapes: HashMap::new(), decorations: &parsed.decorations };
        for index in &parsed.outside {
            let inst = &parsed.instructions[*index];
            let id = inst.word(1);
            let shape = match inst.op() {
                Some(Op::TypeBool) => Shape::Bool,
                Some(Op::TypeInt) if inst.word(2) <= 64 => Shape::Int { bits: inst.word(2) as u8 },
                Some(Op::TypeFloat) => Shape::Float { bits: inst.word(2) },
                Some(Op::TypeVector) => Shape::Vector { of: inst.word(2), count: u64::from(inst.word(3)) },
                Some(Op::TypeMatrix) => {
                    Shape::Matrix { column: inst.word(2), count: u64::from(inst.word(3)) }
                }
                Some(Op::TypeArray) => {
                    Shape::Array { of: inst.word(2), count: parsed.constants.get(&inst.word(3)).copied() }
                }
                Some(Op::TypeRuntimeArray) => Shape::Runtime { of: inst.word(2) },
                Some(Op::TypeStruct) => Shape::Struct { members: inst.from(2).to_vec() },
                Some(Op::TypePointer) => Shape::Pointer { class: inst.word(2), pointee: inst.word(3) },
                Some(Op::TypeCooperativeMatrixKHR) => Shape::CoopMatrix {
                    component: inst.word(2),
                    rows: inst.word(4),
                    columns: inst.word(5),
                    usage: inst.word(6),
                },
                Some(op) if op.is_type() => Shape::Other,
                _ => continue,
            };
            layout.shapes.insert(id, shape);
        }
        layout
    }

    /// The shape of a type.
    pub fn shape(&self, ty: u32) -> &Shape {
        self.shapes.get(&ty).unwrap_or(&Shape::Other)
    }

    /// Width of an integer (or of a boolean, which is 1, or of an address, which is 64).
    pub fn bits(&self, ty: u32) -> Option<u8> {
        match self.shape(ty) {
            Shape::Bool => Some(1),
            Shape::Int { bits } => Some(*bits),
            Shape::Pointer { class, .. } if is_physical(*class) => Some(64),
            _ => None,
        }
    }

    /// Byte offset of a member; nothing where no decoration says it.
    pub fn member(&self, ty: u32, member: u32) -> Option<u64> {
        self.decorations.of_member(ty, member, Decoration::Offset).map(u64::from)
    }

    /// How the matrices in a member lie.
    pub fn matrix(&self, ty: u32, member: u32) -> Option<MatrixLayout> {
        let of = |decoration| self.decorations.of_member(ty, member, decoration);
        let stride = u64::from(of(Decoration::MatrixStride)?);
        let row_major = match (of(Decoration::RowMajor), of(Decoration::ColMajor)) {
            (Some(_), None) => true,
            (None, Some(_)) => false,
            _ => return None,
        };
        Some(MatrixLayout { stride, row_major })
    }

    /// Bytes from one element of an array, or one target of a pointer with `ArrayStride`, to the next.
    pub fn stride(&self, ty: u32) -> Option<u64> {
        self.decorations.of(ty, Decoration::ArrayStride).map(u64::from)
    }

    /// Bytes that a value of the type covers in memory, from its first byte to its last.
    pub fn size(&self, ty: u32, matrix: Option<MatrixLayout>) -> Option<u64> {
        self.size_within(ty, matrix, 0)
    }

    fn size_within(&self, ty: u32, matrix: Option<MatrixLayout>, depth: usize) -> Option<u64> {
        if depth > 32 {
            return None;
        }
        let size = |ty, matrix| self.size_within(ty, matrix, depth + 1);
        match self.shape(ty) {
            Shape::Int { bits } => Some(u64::from(*bits).div_ceil(8)),
            // Smaller ones may share a byte.
            Shape::Float { bits } => bits.is_multiple_of(8).then(|| u64::from(*bits) / 8),
            Shape::Vector { of, count } => size(*of, matrix)?.checked_mul(*count),
            Shape::Matrix { column, count } => {
                let Shape::Vector { of, count: rows } = self.shape(*column) else { return None };
                let lies = matrix?;
                let (outer, inner) = if lies.row_major { (*rows, *count) } else { (*count, *rows) };
                let last = size(*of, matrix)?.checked_mul(inner)?;
                lies.stride.checked_mul(outer.checked_sub(1)?)?.checked_add(last)
            }
            Shape::Array { of, count } => {
                let last = size(*of, matrix)?;
                self.stride(ty)?.checked_mul((*count)?.checked_sub(1)?)?.checked_add(last)
            }
            Shape::Struct { members } => {
                let mut end = 0;
                for (index, member) in members.iter().enumerate() {
                    let index = index as u32;
                    let size = size(*member, self.matrix(ty, index))?;
                    end = end.max(self.member(ty, index)?.checked_add(size)?);
                }
                Some(end)
            }
            Shape::Pointer { class, .. } if is_physical(*class) => Some(8),
            Shape::Bool
            | Shape::Runtime { .. }
            | Shape::Pointer { .. }
            | Shape::CoopMatrix { .. }
            | Shape::Other => None,
        }
    }

    /// The number of leaves of a type; nothing for one that has too many, or holds what has no leaves.
    pub fn leaves(&self, ty: u32) -> Option<usize> {
        self.leaves_within(ty, 0)
    }

    fn leaves_within(&self, ty: u32, depth: usize) -> Option<usize> {
        if depth > 32 {
            return None;
        }
        let leaves = |ty| self.leaves_within(ty, depth + 1);
        let times = |of: Option<usize>, count: u64| of?.checked_mul(usize::try_from(count).ok()?);
        let count = match self.shape(ty) {
            Shape::Bool | Shape::Int { .. } | Shape::Float { .. } => 1,
            Shape::Pointer { class, .. } if is_physical(*class) => 1,
            Shape::Vector { of, count } => times(leaves(*of), *count)?,
            Shape::Matrix { column, count } => times(leaves(*column), *count)?,
            Shape::Array { of, count } => times(leaves(*of), (*count)?)?,
            Shape::Struct { members } => {
                let mut sum = 0usize;
                for member in members {
                    sum = sum.checked_add(leaves(*member)?)?;
                }
                sum
            }
            _ => return None,
        };
        (count <= MOST_LEAVES).then_some(count)
    }

    /// The type of a part and the leaf at which it begins; the index must be constant and inside.
    pub fn part(&self, ty: u32, index: u64) -> Option<(u32, usize)> {
        let (of, count) = match self.shape(ty) {
            Shape::Vector { of, count } => (*of, *count),
            Shape::Matrix { column, count } => (*column, *count),
            Shape::Array { of, count } => (*of, (*count)?),
            Shape::Struct { members } => {
                let index = usize::try_from(index).ok()?;
                let mut start = 0;
                for member in members.get(..index)? {
                    start += self.leaves(*member)?;
                }
                return Some((*members.get(index)?, start));
            }
            _ => return None,
        };
        (index < count).then_some(())?;
        Some((of, self.leaves(of)?.checked_mul(usize::try_from(index).ok()?)?))
    }

    /// The type of the elements of a vector, matrix or array.
    pub fn element(&self, ty: u32) -> Option<u32> {
        match self.shape(ty) {
            Shape::Vector { of, .. } | Shape::Array { of, .. } | Shape::Runtime { of } => Some(*of),
            Shape::Matrix { column, .. } => Some(*column),
            _ => None,
        }
    }

    /// The width of each leaf, in order; 0 for what isn't followed (floats).
    pub fn leaf_bits(&self, ty: u32) -> Option<Vec<u8>> {
        self.leaves(ty)?;
        let mut out = Vec::new();
        self.push_leaf_bits(ty, &mut out);
        Some(out)
    }

    fn push_leaf_bits(&self, ty: u32, out: &mut Vec<u8>) {
        match self.shape(ty) {
            Shape::Float { .. } => out.push(0),
            Shape::Struct { members } => members.iter().for_each(|member| self.push_leaf_bits(*member, out)),
            Shape::Vector { of, count } | Shape::Array { of, count: Some(count) } => {
                (0..*count).for_each(|_| self.push_leaf_bits(*of, out));
            }
            Shape::Matrix { column, count } => (0..*count).for_each(|_| self.push_leaf_bits(*column, out)),
            _ => out.extend(self.bits(ty)),
        }
    }
}

/// Whether pointers of a storage class are numbers.
pub(crate) fn is_physical(class: u32) -> bool {
    class == rspirv::spirv::StorageClass::PhysicalStorageBuffer as u32
}
