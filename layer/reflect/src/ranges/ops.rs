//! What each instruction does to the program under construction.
//!
//! Integer and boolean instructions become nodes, leaf by leaf; what isn't listed here is taken as the `meaning`
//! module has it, and its result as any value.

use rspirv::spirv::{CooperativeMatrixLayout, GlslStd450Op as GL, GroupOperation, Op};

use super::build::{Builder, Frame, Val};
use super::layout::{Shape, is_physical};
use super::pointers::{Pointer, Root};
use super::program::{Binary as B, Block, Node, Span, Unary as U, Value};
use super::ssa::NONE;
use crate::meaning::{Meaning, meaning};
use crate::module::ExtendedSet;
use crate::words::Inst;

impl Builder<'_, '_> {
    /// Translates one instruction; returns the block in which the next one stands.
    pub fn instruction(&mut self, frame: &mut Frame, block: Block, inst: &Inst<'_>) -> Result<Block, String> {
        let Some(op) = inst.op() else {
            self.other(frame, block, inst);
            return Ok(block);
        };
        let (ty, id) = (inst.word(1), inst.word(2));
        let val = match op {
            Op::FunctionCall => return self.call(frame, block, inst),
            Op::Variable => {
                let local = self.local(id);
                let root = local.map_or(Root::Elsewhere, |local| Root::Local { local, leaf: 0 });
                let holds = self.parsed.variables.get(&id).and_then(|variable| variable.holds).unwrap_or(0);
                let pointer = Pointer::new(root, holds);
                if let Some(local) = local {
                    let reason = self.because(inst);
                    match inst.word(4) {
                        0 => self.havoc(block, local, 0, self.locals[local as usize].len(), reason),
                        initializer => {
                            let val = self.val(frame, block, initializer);
                            self.store(block, inst, id, &pointer, &val);
                        }
                    }
                }
                Val::Pointer(pointer)
            }
            Op::Load => {
                let pointer = self.pointer(frame, block, inst.word(3));
                self.load(block, inst, inst.word(3), &pointer, ty)
            }
            Op::Store => {
                let pointer = self.pointer(frame, block, inst.word(1));
                let val = self.val(frame, block, inst.word(2));
                self.store(block, inst, inst.word(1), &pointer, &val);
                return Ok(block);
            }
            Op::CopyMemory => {
                let from = self.pointer(frame, block, inst.word(2));
                let to = self.pointer(frame, block, inst.word(1));
                let val = self.load(block, inst, inst.word(2), &from, from.ty);
                self.store(block, inst, inst.word(1), &to, &val);
                return Ok(block);
            }
            Op::AccessChain | Op::InBoundsAccessChain => {
                let base = self.pointer(frame, block, inst.word(3));
                let mut pointer = self.chain(frame, block, base, inst.from(4));
                self.settle(&mut pointer, ty);
                Val::Pointer(pointer)
            }
            Op::PtrAccessChain | Op::InBoundsPtrAccessChain => {
                let mut pointer = self.pointer(frame, block, inst.word(3));
                match self.layout.stride(self.parsed.type_of(inst.word(3))) {
                    Some(stride) if !matches!(pointer.root, Root::Variable { array: true, .. }) => {
                        let element = self.scalar(frame, block, inst.word(4));
                        match pointer.root {
                            Root::Variable { .. } | Root::Address { .. } => {
                                self.advance(&mut pointer, element, stride)
                            }
                            _ => pointer.root = Root::Lost,
                        }
                    }
                    _ => pointer.root = Root::Lost,
                }
                let mut pointer = self.chain(frame, block, pointer, inst.from(5));
                self.settle(&mut pointer, ty);
                Val::Pointer(pointer)
            }
            Op::CooperativeMatrixLoadKHR => {
                self.matrix(frame, block, inst, (3, 4, 5), ty, (true, false));
                self.opaque_because(ty, inst)
            }
            Op::CooperativeMatrixStoreKHR => {
                let ty = self.parsed.type_of(inst.word(2));
                self.matrix(frame, block, inst, (1, 3, 4), ty, (false, true));
                return Ok(block);
            }
            Op::CompositeConstruct => self.compose(frame, block, inst, ty),
            Op::CompositeExtract => self.extract(frame, block, inst),
            Op::CompositeInsert => self.insert(frame, block, inst),
            Op::VectorShuffle => self.shuffle(frame, block, inst),
            Op::CopyObject | Op::CopyLogical | Op::ExpectKHR => self.val(frame, block, inst.word(3)),
            Op::Undef => self.opaque_because(ty, inst),
            Op::ConvertPtrToU | Op::ConvertUToPtr | Op::Bitcast => self.reinterpret(frame, block, inst),
            Op::Phi => self.opaque_because(ty, inst),
            Op::AtomicLoad
            | Op::AtomicExchange
            | Op::AtomicIIncrement
            | Op::AtomicIDecrement
            | Op::AtomicIAdd
            | Op::AtomicISub
            | Op::AtomicSMin
            | Op::AtomicUMin
            | Op::AtomicSMax
            | Op::AtomicUMax
            | Op::AtomicAnd
            | Op::AtomicOr
            | Op::AtomicXor
            | Op::AtomicFAddEXT
            | Op::AtomicFMinEXT
            | Op::AtomicFMaxEXT
            | Op::AtomicCompareExchange => {
                let pointer = self.pointer(frame, block, inst.word(3));
                let write = op != Op::AtomicLoad;
                self.access(block, inst, inst.word(3), &pointer, None, (true, write));
                if write && matches!(pointer.root, Root::Local { .. } | Root::LocalAny { .. }) {
                    self.lose(block, inst, inst.word(3), false, true);
                }
                self.opaque_because(ty, inst)
            }
            Op::AtomicStore => {
                let pointer = self.pointer(frame, block, inst.word(1));
                self.access(block, inst, inst.word(1), &pointer, None, (false, true));
                return Ok(block);
            }
            Op::Select => self.select(frame, block, inst),
            Op::ExtInst => match self.extended(frame, block, inst) {
                Some(val) => val,
                None => {
                    self.other(frame, block, inst);
                    return Ok(block);
                }
            },
            _ => match self.arithmetic(frame, block, inst, op) {
                Some(val) => val,
                None => {
                    self.other(frame, block, inst);
                    return Ok(block);
                }
            },
        };
        frame.ids.insert(id, val);
        Ok(block)
    }

    /// The declared type of a chain's result wins over what was walked to; they agree in a valid module.
    fn settle(&self, pointer: &mut Pointer, ty: u32) {
        match self.layout.shape(ty) {
            Shape::Pointer { pointee, .. } if *pointee == pointer.ty => {}
            _ => pointer.root = Root::Lost,
        }
    }

    /// Anything that isn't followed.
    fn other(&mut self, frame: &mut Frame, block: Block, inst: &Inst<'_>) {
        match meaning(self.parsed, inst) {
            Meaning::Touch(touch) => self.lose_touch(frame, block, inst, &touch),
            Meaning::Unlisted => self.lose_unlisted(block, inst),
            _ => {}
        }
        let result = inst.result().or_else(|| {
            let (ty, id) = (inst.word(1), inst.word(2));
            (!inst.in_grammar() && self.parsed.type_of.get(&id) == Some(&ty)).then_some((ty, id))
        });
        if let Some((ty, id)) = result.filter(|(ty, _)| *ty != 0) {
            let val = self.opaque_because(ty, inst);
            frame.ids.insert(id, val);
        }
    }

    /// A cooperative matrix load or store; positions of pointer, layout and stride.
    fn matrix(
        &mut self,
        frame: &Frame,
        block: Block,
        inst: &Inst<'_>,
        (pointer_at, layout_at, stride_at): (usize, usize, usize),
        ty: u32,
        direction: (bool, bool),
    ) {
        let id = inst.word(pointer_at);
        let pointer = self.pointer(frame, block, id);
        let number = |id: u32| self.parsed.constants.get(&id).copied();
        let span = match self.layout.shape(ty) {
            Shape::CoopMatrix { component, rows, columns, .. } => {
                let row_major = CooperativeMatrixLayout::RowMajorKHR as u64;
                let column_major = CooperativeMatrixLayout::ColumnMajorKHR as u64;
                let lines = match number(inst.word(layout_at)) {
                    Some(layout) if layout == row_major => number(*rows).zip(number(*columns)),
                    Some(layout) if layout == column_major => number(*columns).zip(number(*rows)),
                    _ => None,
                };
                let size = self.layout.size(*component, None);
                // The stride counts what the pointer points to; where that is a vector, taking the whole vector for
                // the unit covers the reading in which its components are counted.
                let unit = self.layout.size(pointer.ty, None);
                lines
                    .zip(size)
                    .zip(unit)
                    .and_then(|(((lines, along), size), unit)| Some((lines, along.checked_mul(size)?, unit)))
            }
            _ => None,
        };
        let span = match (span, inst.word(stride_at)) {
            (Some((lines, line, unit)), stride) if stride != 0 => {
                let stride = self.scalar(frame, block, stride);
                Some(Span::Matrix { lines, line, stride, unit })
            }
            _ => None,
        };
        match span {
            Some(span) => self.access(block, inst, id, &pointer, Some(span), direction),
            None => self.lose(block, inst, id, direction.0, direction.1),
        }
    }

    fn extract(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Val {
        let (ty, from) = (inst.word(1), inst.word(3));
        let found = self.part(self.parsed.type_of(from), inst.from(4));
        let val = self.val(frame, block, from);
        match (found, val, self.layout.leaves(ty)) {
            (Some((_, start)), Val::Leaves(leaves), Some(count)) if start + count <= leaves.len() => {
                Val::leaves(leaves[start..start + count].to_vec())
            }
            (_, Val::Opaque(reason), _) => self.opaque(ty, reason),
            _ => self.opaque_because(ty, inst),
        }
    }

    /// Follows literal indices through a composite type.
    fn part(&self, mut ty: u32, indices: &[u32]) -> Option<(u32, usize)> {
        let mut start = 0;
        for index in indices {
            let (part, at) = self.layout.part(ty, u64::from(*index))?;
            (ty, start) = (part, start + at);
        }
        Some((ty, start))
    }

    fn insert(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Val {
        let ty = inst.word(1);
        let reason = self.because(inst);
        let (Some(bits), Some((part, start))) = (self.layout.leaf_bits(ty), self.part(ty, inst.from(5)))
        else {
            return self.opaque(ty, reason);
        };
        let (object, whole) = (self.val(frame, block, inst.word(3)), self.val(frame, block, inst.word(4)));
        let count = self.layout.leaves(part).unwrap_or(0);
        let leaves = bits.iter().enumerate().map(|(index, bits)| match bits {
            0 => NONE,
            bits if (start..start + count).contains(&index) => {
                self.leaf_of(block, &object, index - start, *bits, reason)
            }
            bits => self.leaf_of(block, &whole, index, *bits, reason),
        });
        Val::leaves(leaves.collect())
    }

    fn shuffle(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Val {
        let (ty, reason) = (inst.word(1), self.because(inst));
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let (a, b) = (self.val(frame, block, inst.word(3)), self.val(frame, block, inst.word(4)));
        let first = self.layout.leaves(self.parsed.type_of(inst.word(3))).unwrap_or(0);
        let leaves = bits.iter().zip(inst.from(5)).map(|(bits, index)| match (bits, *index as usize) {
            (0, _) => NONE,
            (bits, index) if index < first => self.leaf_of(block, &a, index, *bits, reason),
            (bits, index) => self.leaf_of(block, &b, index.wrapping_sub(first), *bits, reason),
        });
        Val::leaves(leaves.collect())
    }

    /// Changes between pointers and numbers, and between numbers of the same size.
    fn reinterpret(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Val {
        let (ty, from, reason) = (inst.word(1), inst.word(3), self.because(inst));
        let from_ty = self.parsed.type_of(from);
        let logical =
            |ty: u32| matches!(self.layout.shape(ty), Shape::Pointer { class, .. } if !is_physical(*class));
        if logical(ty) || logical(from_ty) {
            return self.opaque(ty, reason);
        }
        let (Some(to_bits), Some(from_bits)) = (self.layout.leaf_bits(ty), self.layout.leaf_bits(from_ty))
        else {
            return self.opaque(ty, reason);
        };
        let val = self.val(frame, block, from);
        let mut source = Vec::new();
        for (index, bits) in from_bits.iter().enumerate() {
            source.push(if *bits == 0 { NONE } else { self.leaf_of(block, &val, index, *bits, reason) });
        }
        if to_bits.len() == source.len() {
            return Val::leaves(source);
        }
        // Two halves become a whole, or the other way round; least significant first.
        let whole = |bits: &[u8]| matches!(bits, [64 | 32 | 16]);
        match (from_bits.as_slice(), to_bits.as_slice()) {
            ([low, high], to) if whole(to) && low == high && *low != 0 && 2 * *low == to[0] => {
                let (bits, half) = (to[0], u64::from(*low));
                let low = self.ssa.unary(block, bits, U::ZeroExtend, source[0]);
                let high = self.ssa.unary(block, bits, U::ZeroExtend, source[1]);
                let half = self.ssa.constant(bits, half);
                let high = self.ssa.binary(block, bits, B::Shl, high, half);
                Val::leaves(vec![self.ssa.binary(block, bits, B::Add, low, high)])
            }
            (from, [low, high]) if whole(from) && low == high && 2 * *low == from[0] => {
                let half = self.ssa.constant(from[0], u64::from(*low));
                let upper = self.ssa.binary(block, from[0], B::Shr, source[0], half);
                let low_value = self.ssa.unary(block, *low, U::Truncate, source[0]);
                let high_value = self.ssa.unary(block, *high, U::Truncate, upper);
                Val::leaves(vec![low_value, high_value])
            }
            _ => self.opaque(ty, reason),
        }
    }

    fn select(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Val {
        let (ty, reason) = (inst.word(1), self.because(inst));
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let condition_ty = self.parsed.type_of(inst.word(3));
        let per_leaf = self.layout.leaves(condition_ty).unwrap_or(1) == bits.len();
        let condition = self.val(frame, block, inst.word(3));
        let (a, b) = (self.val(frame, block, inst.word(4)), self.val(frame, block, inst.word(5)));
        let leaves = bits.iter().enumerate().map(|(index, bits)| {
            if *bits == 0 {
                return NONE;
            }
            let c = self.leaf_of(block, &condition, if per_leaf { index } else { 0 }, 1, reason);
            let a = self.leaf_of(block, &a, index, *bits, reason);
            let b = self.leaf_of(block, &b, index, *bits, reason);
            match self.ssa.known(c) {
                Some(c) => [b, a][(c != 0) as usize],
                None => self.ssa.node(block, *bits, Node::Select(c, a, b)),
            }
        });
        Val::leaves(leaves.collect())
    }

    /// Applies an operation to each leaf of its operands.
    fn each(
        &mut self,
        frame: &Frame,
        block: Block,
        inst: &Inst<'_>,
        operands: &[u32],
        mut make: impl FnMut(&mut Self, u8, &[Value]) -> Value,
    ) -> Val {
        let (ty, reason) = (inst.word(1), self.because(inst));
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let mut sources = Vec::new();
        for id in operands {
            let val = self.val(frame, block, *id);
            sources.push((val, self.layout.leaf_bits(self.parsed.type_of(*id)).unwrap_or_default()));
        }
        let mut leaves = Vec::with_capacity(bits.len());
        for (index, bits) in bits.iter().enumerate() {
            let mut values = Vec::with_capacity(sources.len());
            for (val, widths) in &sources {
                match widths.get(index) {
                    Some(width) if *width != 0 => {
                        values.push(self.leaf_of(block, val, index, *width, reason))
                    }
                    _ => values.push(NONE),
                }
            }
            leaves.push(match bits {
                0 => NONE,
                bits if values.contains(&NONE) => self.ssa.unknown(block, *bits, reason),
                bits => make(self, *bits, &values),
            });
        }
        Val::leaves(leaves)
    }

    fn binary(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>, op: B, swap: bool) -> Val {
        let operands = if swap { [inst.word(4), inst.word(3)] } else { [inst.word(3), inst.word(4)] };
        self.each(frame, block, inst, &operands, |this, bits, v| this.ssa.binary(block, bits, op, v[0], v[1]))
    }

    /// Integer and boolean instructions; nothing for others.
    #[rustfmt::skip]
    fn arithmetic(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>, op: Op) -> Option<Val> {
        let binary = match op {
            Op::IAdd => (B::Add, false),
            Op::ISub => (B::Sub, false),
            Op::IMul => (B::Mul, false),
            Op::UDiv => (B::UDiv, false),
            Op::UMod => (B::UMod, false),
            Op::SDiv => (B::SDiv, false),
            Op::SRem => (B::SRem, false),
            Op::SMod => (B::SMod, false),
            Op::BitwiseAnd | Op::LogicalAnd => (B::And, false),
            Op::BitwiseOr | Op::LogicalOr => (B::Or, false),
            Op::BitwiseXor => (B::Xor, false),
            Op::IEqual | Op::LogicalEqual => (B::Eq, false),
            Op::INotEqual | Op::LogicalNotEqual => (B::Ne, false),
            Op::ULessThan => (B::ULt, false),
            Op::ULessThanEqual => (B::ULe, false),
            Op::UGreaterThan => (B::ULt, true),
            Op::UGreaterThanEqual => (B::ULe, true),
            Op::SLessThan => (B::SLt, false),
            Op::SLessThanEqual => (B::SLe, false),
            Op::SGreaterThan => (B::SLt, true),
            Op::SGreaterThanEqual => (B::SLe, true),
            Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic => {
                let op = match op {
                    Op::ShiftLeftLogical => B::Shl,
                    Op::ShiftRightLogical => B::Shr,
                    _ => B::Sar,
                };
                // The shift's own width may differ from the base's.
                let operands = [inst.word(3), inst.word(4)];
                return Some(self.each(frame, block, inst, &operands, |this, bits, v| {
                    let from = this.ssa.bits(v[1]);
                    let by = if from <= bits {
                        this.ssa.unary(block, bits, U::ZeroExtend, v[1])
                    } else {
                        match this.ssa.known(v[1]) {
                            Some(by) if by < u64::from(bits) => this.ssa.constant(bits, by),
                            _ => this.ssa.range(block, bits, 0, super::semantics::mask(bits)),
                        }
                    };
                    this.ssa.binary(block, bits, op, v[0], by)
                }));
            }
            _ => {
                let operand = [inst.word(3)];
                let unary = match op {
                    Op::SNegate => U::Negate,
                    Op::Not | Op::LogicalNot => U::Not,
                    Op::UConvert => U::ZeroExtend,
                    Op::SConvert => U::SignExtend,
                    Op::GroupNonUniformSMin | Op::GroupNonUniformUMin | Op::GroupNonUniformSMax
                    | Op::GroupNonUniformUMax if gives_one_of_the_values(inst.word(4)) => {
                        return Some(self.each(frame, block, inst, &[inst.word(5)], |this, bits, v| {
                            this.ssa.node(block, bits, Node::Un(U::Among, v[0]))
                        }));
                    }
                    Op::GroupNonUniformBroadcast | Op::GroupNonUniformBroadcastFirst => {
                        return Some(self.each(frame, block, inst, &[inst.word(4)], |this, bits, v| {
                            this.ssa.node(block, bits, Node::Un(U::Among, v[0]))
                        }));
                    }
                    Op::BitCount => {
                        return Some(self.each(frame, block, inst, &operand, |this, bits, v| {
                            let from = this.ssa.bits(v[0]);
                            this.ssa.range(block, bits, 0, u64::from(from))
                        }));
                    }
                    Op::BitFieldUExtract => {
                        let operands = [inst.word(3)];
                        let (offset, count) = (self.scalar(frame, block, inst.word(4)), self.scalar(frame, block, inst.word(5)));
                        let known = self.ssa.known(offset).zip(self.ssa.known(count));
                        return Some(self.each(frame, block, inst, &operands, |this, bits, v| match known {
                            Some((offset, count)) if offset <= 64 && count < 64 && offset + count <= u64::from(bits) => {
                                let offset = this.ssa.constant(bits, offset);
                                let mask = this.ssa.constant(bits, (1 << count) - 1);
                                let shifted = this.ssa.binary(block, bits, B::Shr, v[0], offset);
                                this.ssa.binary(block, bits, B::And, shifted, mask)
                            }
                            _ => this.ssa.range(block, bits, 0, super::semantics::mask(bits)),
                        }));
                    }
                    Op::UMulExtended => return Some(self.multiply_extended(frame, block, inst)),
                    Op::IAddCarry | Op::ISubBorrow => return Some(self.with_carry(frame, block, inst, op)),
                    _ => return None,
                };
                return Some(self.each(frame, block, inst, &operand, |this, bits, v| {
                    let from = this.ssa.bits(v[0]);
                    let unary = match unary {
                        U::ZeroExtend | U::SignExtend if from > bits => U::Truncate,
                        unary => unary,
                    };
                    this.ssa.unary(block, bits, unary, v[0])
                }));
            }
        };
        Some(self.binary(frame, block, inst, binary.0, binary.1))
    }

    /// A structure of the lower and the upper half of products.
    fn multiply_extended(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Val {
        let (ty, reason) = (inst.word(1), self.because(inst));
        let (a, b) = (self.val(frame, block, inst.word(3)), self.val(frame, block, inst.word(4)));
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let half = bits.len() / 2;
        let mut leaves = Vec::with_capacity(bits.len());
        for (index, bits) in bits.iter().enumerate() {
            let x = self.leaf_of(block, &a, index % half.max(1), *bits, reason);
            let y = self.leaf_of(block, &b, index % half.max(1), *bits, reason);
            let op = if index < half { B::Mul } else { B::MulHigh };
            leaves.push(self.ssa.binary(block, *bits, op, x, y));
        }
        Val::leaves(leaves)
    }

    /// A structure of sums or differences and their carries.
    fn with_carry(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>, op: Op) -> Val {
        let (ty, reason) = (inst.word(1), self.because(inst));
        let (a, b) = (self.val(frame, block, inst.word(3)), self.val(frame, block, inst.word(4)));
        let Some(bits) = self.layout.leaf_bits(ty) else { return self.opaque(ty, reason) };
        let half = bits.len() / 2;
        let op = if op == Op::IAddCarry { B::Add } else { B::Sub };
        let mut leaves = Vec::with_capacity(bits.len());
        for (index, bits) in bits.iter().enumerate() {
            leaves.push(if index < half {
                let x = self.leaf_of(block, &a, index, *bits, reason);
                let y = self.leaf_of(block, &b, index, *bits, reason);
                self.ssa.binary(block, *bits, op, x, y)
            } else {
                self.ssa.range(block, *bits, 0, 1)
            });
        }
        Val::leaves(leaves)
    }

    /// `GLSL.std.450`: minima, maxima and clamps of integers.
    fn extended(&mut self, frame: &Frame, block: Block, inst: &Inst<'_>) -> Option<Val> {
        if self.parsed.extended_sets.get(&inst.word(3)) != Some(&ExtendedSet::Glsl) {
            return None;
        }
        let (low, high) = match GL::from_u32(inst.word(4))? {
            GL::UMin => (None, Some(B::UMin)),
            GL::UMax => (Some(B::UMax), None),
            GL::SMin => (None, Some(B::SMin)),
            GL::SMax => (Some(B::SMax), None),
            GL::UClamp => (Some(B::UMax), Some(B::UMin)),
            GL::SClamp => (Some(B::SMax), Some(B::SMin)),
            GL::SAbs => {
                return Some(self.each(frame, block, inst, &[inst.word(5)], |this, bits, v| {
                    let minus = this.ssa.unary(block, bits, U::Negate, v[0]);
                    this.ssa.binary(block, bits, B::SMax, v[0], minus)
                }));
            }
            _ => return None,
        };
        let operands = inst.from(5);
        Some(self.each(frame, block, inst, operands, |this, bits, v| match (low, high, v) {
            (Some(low), Some(high), [x, min, max]) => {
                let raised = this.ssa.binary(block, bits, low, *x, *min);
                this.ssa.binary(block, bits, high, raised, *max)
            }
            (Some(op), None, [x, y]) | (None, Some(op), [x, y]) => this.ssa.binary(block, bits, op, *x, *y),
            _ => this.ssa.range(block, bits, 0, super::semantics::mask(bits)),
        }))
    }
}

/// Whether the result of a minimum or maximum over invocations is one of their values: an exclusive scan has none to give to
/// the first invocation, and what isn't listed may have none either.
fn gives_one_of_the_values(operation: u32) -> bool {
    let listed = [GroupOperation::Reduce, GroupOperation::InclusiveScan, GroupOperation::ClusteredReduce];
    listed.iter().any(|listed| *listed as u32 == operation)
}
