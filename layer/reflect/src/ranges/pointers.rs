//! Pointers while a program is built: chains become byte offsets, loads and stores become accesses or values.

use rspirv::spirv::StorageClass;

use super::build::{Builder, Frame, Val};
use super::layout::{MatrixLayout, Shape, is_physical};
use super::program::{Access, Binary, Block, Input, Offset, Span, Target, Unary, Value};
use super::ssa::NONE;
use crate::words::Inst;

/// Where a pointer points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Root {
    /// A descriptor's memory; whether the first index is still to pick the descriptor of an array.
    Variable {
        variable: u32,
        array: bool,
    },
    /// An address.
    Address {
        base: Value,
    },
    Push,
    /// A local variable, from a leaf on.
    Local {
        local: u32,
        leaf: usize,
    },
    /// Some part, not known which, of that many leaves of a local variable.
    LocalAny {
        local: u32,
        leaf: usize,
        count: usize,
    },
    /// A built-in input; which component, once that is known.
    BuiltIn {
        built_in: u32,
        component: Option<u64>,
    },
    /// Memory that isn't followed and that no descriptor reaches: shared memory, other inputs.
    Elsewhere,
    /// A pointer whose origin isn't followed here.
    Lost,
}

/// A pointer value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pointer {
    pub root: Root,
    pub offset: Offset,
    /// Type of what it points to.
    pub ty: u32,
    /// How the matrices in it lie, where that is known.
    pub matrix: Option<MatrixLayout>,
    /// Distance of a vector's components, where it is a column of a matrix that lies in rows.
    pub component: Option<u64>,
}

impl Pointer {
    pub fn new(root: Root, ty: u32) -> Pointer {
        Pointer { root, offset: Offset::default(), ty, matrix: None, component: None }
    }
}

impl Builder<'_, '_> {
    /// The pointer that a variable's id is.
    pub fn variable_pointer(&mut self, id: u32) -> Pointer {
        let Some(variable) = self.parsed.variables.get(&id) else { return Pointer::new(Root::Lost, 0) };
        let Some(ty) = variable.holds else { return Pointer::new(Root::Lost, 0) };
        let root = match StorageClass::from_u32(variable.class) {
            Some(StorageClass::StorageBuffer | StorageClass::Uniform) => Root::Variable {
                variable: id,
                array: matches!(self.layout.shape(ty), Shape::Array { .. } | Shape::Runtime { .. }),
            },
            Some(StorageClass::PushConstant) => Root::Push,
            Some(StorageClass::Input) => match self.built_ins.get(&id) {
                Some(built_in) => Root::BuiltIn { built_in: *built_in, component: None },
                None => Root::Elsewhere,
            },
            Some(StorageClass::Private) => match self.private.get(&id) {
                Some(local) => Root::Local { local: *local, leaf: 0 },
                None => Root::Elsewhere,
            },
            Some(StorageClass::Workgroup | StorageClass::Output) => Root::Elsewhere,
            _ => Root::Lost,
        };
        Pointer::new(root, ty)
    }

    /// Follows the indices of an access chain.
    pub fn chain(&mut self, frame: &Frame, block: Block, mut pointer: Pointer, indices: &[u32]) -> Pointer {
        for index in indices {
            let value = self.scalar(frame, block, *index);
            self.step(&mut pointer, value);
            if pointer.root == Root::Lost {
                break;
            }
        }
        pointer
    }

    fn step(&mut self, pointer: &mut Pointer, index: Value) {
        let known = self.ssa.known(index);
        let lost = |pointer: &mut Pointer| pointer.root = Root::Lost;
        match &mut pointer.root {
            Root::Variable { array: array @ true, .. } => {
                *array = false;
                match self.layout.element(pointer.ty) {
                    Some(element) => pointer.ty = element,
                    None => lost(pointer),
                }
            }
            Root::Variable { .. } | Root::Address { .. } | Root::Push => {
                match self.layout.shape(pointer.ty) {
                    Shape::Struct { members } => {
                        let member = known.and_then(|index| u32::try_from(index).ok());
                        let found = member.and_then(|m| {
                            Some((m, *members.get(m as usize)?, self.layout.member(pointer.ty, m)?))
                        });
                        match found {
                            Some((member, ty, offset)) => {
                                pointer.matrix = self.layout.matrix(pointer.ty, member);
                                pointer.offset.constant += offset as i64;
                                pointer.ty = ty;
                            }
                            None => lost(pointer),
                        }
                    }
                    Shape::Array { of, .. } | Shape::Runtime { of } => match self.layout.stride(pointer.ty) {
                        Some(stride) => {
                            let of = *of;
                            self.advance(pointer, index, stride);
                            pointer.ty = of;
                        }
                        None => lost(pointer),
                    },
                    Shape::Matrix { column, .. } => {
                        let column = *column;
                        let scalar = self.layout.element(column);
                        let size = scalar.and_then(|ty| self.layout.size(ty, None));
                        match (size, pointer.matrix) {
                            (Some(size), Some(lies)) if lies.row_major => {
                                self.advance(pointer, index, size);
                                pointer.component = Some(lies.stride);
                                pointer.ty = column;
                            }
                            (Some(_), Some(lies)) => {
                                self.advance(pointer, index, lies.stride);
                                pointer.ty = column;
                            }
                            _ => lost(pointer),
                        }
                    }
                    Shape::Vector { of, .. } => {
                        let of = *of;
                        match pointer.component.take().or(self.layout.size(of, None)) {
                            Some(size) => {
                                self.advance(pointer, index, size);
                                pointer.ty = of;
                            }
                            None => lost(pointer),
                        }
                    }
                    _ => lost(pointer),
                }
            }
            Root::Local { local, leaf } => {
                match known.and_then(|index| self.layout.part(pointer.ty, index)) {
                    Some((ty, start)) => {
                        *leaf += start;
                        pointer.ty = ty;
                    }
                    None => match (self.layout.leaves(pointer.ty), self.layout.element(pointer.ty)) {
                        (Some(count), Some(element)) => {
                            pointer.root = Root::LocalAny { local: *local, leaf: *leaf, count };
                            pointer.ty = element;
                        }
                        _ => lost(pointer),
                    },
                }
            }
            Root::LocalAny { .. } => {
                let part = known.and_then(|index| self.layout.part(pointer.ty, index)).map(|part| part.0);
                match part.or(self.layout.element(pointer.ty)) {
                    Some(ty) => pointer.ty = ty,
                    None => lost(pointer),
                }
            }
            Root::BuiltIn { component, .. } => match (self.layout.element(pointer.ty), known) {
                (Some(element), Some(index)) => {
                    *component = Some(index);
                    pointer.ty = element;
                }
                _ => pointer.root = Root::Elsewhere,
            },
            Root::Elsewhere | Root::Lost => {}
        }
    }

    /// Adds an index times a stride to a pointer's offset.
    pub fn advance(&mut self, pointer: &mut Pointer, index: Value, stride: u64) {
        let Ok(stride) = i64::try_from(stride) else {
            pointer.root = Root::Lost;
            return;
        };
        if let Some(index_value) = self.ssa.known(index) {
            let index_value = super::semantics::signed(index_value, self.ssa.bits(index));
            match index_value.checked_mul(stride).and_then(|by| pointer.offset.constant.checked_add(by)) {
                Some(constant) => pointer.offset.constant = constant,
                None => pointer.root = Root::Lost,
            }
            return;
        }
        pointer.offset.terms.push((index, stride));
    }

    /// The pointer as a number, where it is an address.
    pub fn address(&mut self, block: Block, pointer: &Pointer) -> Option<Value> {
        let Root::Address { base } = pointer.root else { return None };
        let mut sum = base;
        for (index, stride) in &pointer.offset.terms {
            let index = self.ssa.unary(block, 64, Unary::SignExtend, *index);
            let stride = self.ssa.constant(64, *stride as u64);
            let by = self.ssa.binary(block, 64, Binary::Mul, index, stride);
            sum = self.ssa.binary(block, 64, Binary::Add, sum, by);
        }
        let constant = self.ssa.constant(64, pointer.offset.constant as u64);
        Some(self.ssa.binary(block, 64, Binary::Add, sum, constant))
    }

    /// Bytes that a load or store through a pointer covers.
    fn span(&self, pointer: &Pointer) -> Option<u64> {
        match (pointer.component, self.layout.shape(pointer.ty)) {
            (Some(distance), Shape::Vector { of, count }) => {
                let last = self.layout.size(*of, None)?;
                distance.checked_mul(count.checked_sub(1)?)?.checked_add(last)
            }
            _ => self.layout.size(pointer.ty, pointer.matrix),
        }
    }

    /// Notes an access to memory, if the pointer leads to any.
    pub fn access(
        &mut self,
        block: Block,
        inst: &Inst<'_>,
        id: u32,
        pointer: &Pointer,
        span: Option<Span>,
        (read, write): (bool, bool),
    ) {
        let target = match pointer.root {
            Root::Variable { variable, array: false } => {
                let variables = &mut self.ssa.program.variables;
                let index = variables.iter().position(|v| *v == variable).unwrap_or_else(|| {
                    variables.push(variable);
                    variables.len() - 1
                });
                Target::Variable(index as u32)
            }
            Root::Address { base } => Target::Address { base, push: None },
            Root::Variable { .. } | Root::Lost => return self.lose(block, inst, id, read, write),
            _ => return,
        };
        match span.or_else(|| self.span(pointer).map(Span::Bytes)) {
            Some(span) => {
                let access = Access { target, offset: pointer.offset.clone(), span, read, write };
                self.ssa.program.blocks[block as usize].accesses.push(access);
            }
            None => self.lose(block, inst, id, read, write),
        }
    }

    /// What a load through a pointer gives.
    pub fn load(&mut self, block: Block, inst: &Inst<'_>, id: u32, pointer: &Pointer, ty: u32) -> Val {
        self.access(block, inst, id, pointer, None, (true, false));
        let reason = self.because(inst);
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let leaves = match &pointer.root {
            Root::Local { local, leaf } => {
                let (local, leaf) = (*local, *leaf);
                let one = |(i, bits): (usize, &u8)| match bits {
                    0 => NONE,
                    bits => self.ssa.read(block, (local, (leaf + i) as u32), *bits),
                };
                bits.iter().enumerate().map(one).collect()
            }
            Root::Push if pointer.offset.terms.is_empty() => {
                let mut at = Vec::new();
                self.leaf_offsets(pointer, &mut at);
                if at.len() != bits.len() {
                    return self.opaque(ty, reason);
                }
                let one = |(bits, at): (&u8, &u64)| match (bits, u32::try_from(*at)) {
                    (0, _) => NONE,
                    (bits, Ok(at)) => self.ssa.push_constant(*bits, at),
                    (bits, Err(_)) => self.ssa.unknown(block, *bits, reason),
                };
                bits.iter().zip(&at).map(one).collect()
            }
            Root::BuiltIn { built_in, component } => {
                let (built_in, component) = (*built_in, *component);
                let first = component.unwrap_or(0);
                (0..bits.len() as u64).map(|i| self.built_in(block, built_in, first + i, reason)).collect()
            }
            _ => return self.opaque(ty, reason),
        };
        Val::leaves(leaves)
    }

    /// Byte offset of each leaf behind a pointer into push constants.
    fn leaf_offsets(&self, pointer: &Pointer, out: &mut Vec<u64>) {
        let Ok(start) = u64::try_from(pointer.offset.constant) else { return };
        if let (Some(distance), Shape::Vector { count, .. }) =
            (pointer.component, self.layout.shape(pointer.ty))
        {
            return out.extend((0..*count).map(|i| start + i * distance));
        }
        self.offsets_within(pointer.ty, start, out);
    }

    fn offsets_within(&self, ty: u32, start: u64, out: &mut Vec<u64>) {
        match self.layout.shape(ty) {
            Shape::Struct { members } => {
                for (index, member) in members.iter().enumerate() {
                    let index = index as u32;
                    let Some(offset) = self.layout.member(ty, index) else { return };
                    self.offsets_within(*member, start + offset, out);
                }
            }
            Shape::Array { of, count: Some(count) } => {
                let Some(stride) = self.layout.stride(ty) else { return };
                (0..*count).for_each(|i| self.offsets_within(*of, start + i * stride, out));
            }
            Shape::Vector { of, count } => {
                let Some(size) = self.layout.size(*of, None) else { return };
                out.extend((0..*count).map(|i| start + i * size));
            }
            Shape::Matrix { column, count } => {
                // Matrices hold floats, which are not followed: any offset will do.
                let rows = self.layout.leaves(*column).unwrap_or(0) as u64;
                out.extend((0..*count * rows).map(|_| start));
            }
            _ => out.push(start),
        }
    }

    /// A store through a pointer.
    pub fn store(&mut self, block: Block, inst: &Inst<'_>, id: u32, pointer: &Pointer, val: &Val) {
        self.access(block, inst, id, pointer, None, (false, true));
        let reason = self.because(inst);
        match pointer.root {
            Root::Local { local, leaf } => {
                let Some(bits) = self.layout.leaf_bits(pointer.ty) else { return };
                for (i, bits) in bits.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                    let value = self.leaf_of(block, val, i, *bits, reason);
                    self.ssa.write(block, (local, (leaf + i) as u32), value);
                }
            }
            Root::LocalAny { local, leaf, count } => self.havoc(block, local, leaf, count, reason),
            _ => {}
        }
    }

    /// Part of a local variable may hold anything from here on.
    pub fn havoc(&mut self, block: Block, local: u32, leaf: usize, count: usize, reason: u32) {
        for at in leaf..leaf + count {
            let bits = self.locals[local as usize].get(at).copied().unwrap_or(0);
            if bits != 0 {
                let value = self.ssa.unknown(block, bits, reason);
                self.ssa.write(block, (local, at as u32), value);
            }
        }
    }

    /// One component of a built-in input.
    fn built_in(&mut self, block: Block, built_in: u32, component: u64, reason: u32) -> Value {
        use rspirv::spirv::BuiltIn as B;
        let size = self.ssa.program.local_size;
        let total = size.iter().fold(1u32, |total, size| total.saturating_mul(*size));
        let axis = component.min(2) as u8;
        match B::from_u32(built_in) {
            Some(B::WorkgroupId) => self.ssa.input(Input::WorkgroupId(axis)),
            Some(B::LocalInvocationId) => self.ssa.input(Input::LocalId(axis)),
            Some(B::NumWorkgroups) => self.ssa.input(Input::GroupCount(axis)),
            Some(B::WorkgroupSize) => self.ssa.constant(32, u64::from(size[axis as usize])),
            Some(B::GlobalInvocationId) => {
                let (group, local) =
                    (self.ssa.input(Input::WorkgroupId(axis)), self.ssa.input(Input::LocalId(axis)));
                let size = self.ssa.constant(32, u64::from(size[axis as usize]));
                let first = self.ssa.binary(block, 32, Binary::Mul, group, size);
                self.ssa.binary(block, 32, Binary::Add, first, local)
            }
            Some(B::LocalInvocationIndex) => {
                let [x, y, z] = [0, 1, 2].map(|axis| self.ssa.input(Input::LocalId(axis)));
                let width = self.ssa.constant(32, u64::from(size[0]));
                let plane = self.ssa.constant(32, u64::from(size[0].saturating_mul(size[1])));
                let row = self.ssa.binary(block, 32, Binary::Mul, y, width);
                let slice = self.ssa.binary(block, 32, Binary::Mul, z, plane);
                let sum = self.ssa.binary(block, 32, Binary::Add, slice, row);
                self.ssa.binary(block, 32, Binary::Add, sum, x)
            }
            Some(B::SubgroupLocalInvocationId) => self.ssa.range(block, 32, 0, 127),
            Some(B::SubgroupSize) => self.ssa.range(block, 32, 1, 128),
            Some(B::SubgroupId) => self.ssa.range(block, 32, 0, u64::from(total.saturating_sub(1))),
            Some(B::NumSubgroups) => self.ssa.range(block, 32, 1, u64::from(total.max(1))),
            _ => self.ssa.unknown(block, 32, reason),
        }
    }

    /// A pointer to what an address points to, where the type is one of addresses.
    pub fn address_pointer(&self, ty: u32, base: Value) -> Option<Pointer> {
        match self.layout.shape(ty) {
            Shape::Pointer { class, pointee } if is_physical(*class) => {
                Some(Pointer::new(Root::Address { base }, *pointee))
            }
            _ => None,
        }
    }
}
