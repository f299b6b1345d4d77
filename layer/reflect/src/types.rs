//! Types, as far as they decide whether a value can denote memory.
//!
//! A value can denote a descriptor only if its type holds a pointer, an image or another handle. Numbers can't: the
//! one way from a number to memory that Vulkan has is a physical address, and that is a class of its own. A type
//! that is not understood holds handles.

use std::collections::{HashMap, HashSet};
use std::ops::BitOr;

use rspirv::spirv::{Dim, Op, StorageClass};

use crate::words::Inst;

/// A declared type; ids refer to other types.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    /// Integers; constants of them can be indices, scopes and semantics.
    Integer {
        /// In bits.
        width: u32,
    },
    /// Anything else that holds numbers only, and function types.
    Plain,
    /// A pointer that knows what it points to.
    Pointer { class: u32, pointee: u32 },
    /// A pointer that doesn't.
    Untyped { class: u32 },
    /// An array; the id of its length.
    Array { element: u32, length: u32 },
    /// An array whose length the descriptor knows.
    RuntimeArray { element: u32 },
    /// A structure.
    Struct { members: Vec<u32> },
    /// An image: whether its dimension is `Buffer` or `SubpassData`, and its `Sampled` operand.
    Image { buffer: bool, subpass: bool, sampled: u32 },
    /// `OpTypeSampler`.
    Sampler,
    /// `OpTypeSampledImage`.
    SampledImage { image: u32 },
    /// `OpTypeAccelerationStructureKHR`.
    AccelerationStructure,
    /// Any other declaration.
    Opaque,
}

/// What a value of a type can denote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Carries {
    /// Logical pointers, images, samplers and whatever isn't understood.
    pub handles: bool,
    /// `PhysicalStorageBuffer` pointers.
    pub addresses: bool,
}

impl Carries {
    pub fn nothing(self) -> bool {
        self == Carries::default()
    }
}

impl BitOr for Carries {
    type Output = Carries;

    fn bitor(self, other: Carries) -> Carries {
        Carries { handles: self.handles || other.handles, addresses: self.addresses || other.addresses }
    }
}

const HANDLES: Carries = Carries { handles: true, addresses: false };
const ADDRESSES: Carries = Carries { handles: false, addresses: true };

/// All declared types of a module.
#[derive(Debug, Default)]
pub(crate) struct Types {
    declared: HashMap<u32, Type>,
    carries: HashMap<u32, Carries>,
    /// Storage classes of `OpTypeForwardPointer`.
    forward: HashMap<u32, u32>,
}

impl Types {
    /// Takes in an instruction if it declares a type; says whether it does.
    ///
    /// Types are declared before they are used, forward pointers aside, so what a type carries is known at once. A
    /// module that breaks this gets "handles" for what is not known yet.
    pub fn take(&mut self, inst: &Inst<'_>) -> bool {
        let id = inst.word(1);
        let ty = match inst.op() {
            Some(Op::TypeForwardPointer) => {
                self.forward.insert(id, inst.word(2));
                return true;
            }
            Some(Op::TypeInt) => Type::Integer { width: inst.word(2) },
            Some(
                Op::TypeVoid
                | Op::TypeBool
                | Op::TypeFloat
                | Op::TypeVector
                | Op::TypeVectorIdEXT
                | Op::TypeMatrix
                | Op::TypeFunction
                | Op::TypeCooperativeMatrixKHR
                | Op::TypeCooperativeMatrixNV
                | Op::TypeTensorLayoutNV
                | Op::TypeTensorViewNV,
            ) => Type::Plain,
            Some(Op::TypePointer) => Type::Pointer { class: inst.word(2), pointee: inst.word(3) },
            Some(Op::TypeUntypedPointerKHR) => Type::Untyped { class: inst.word(2) },
            Some(Op::TypeArray) => Type::Array { element: inst.word(2), length: inst.word(3) },
            Some(Op::TypeRuntimeArray) => Type::RuntimeArray { element: inst.word(2) },
            Some(Op::TypeStruct) => Type::Struct { members: inst.from(2).to_vec() },
            Some(Op::TypeImage) => Type::Image {
                buffer: inst.word(3) == Dim::DimBuffer as u32,
                subpass: inst.word(3) == Dim::DimSubpassData as u32,
                sampled: inst.word(7),
            },
            Some(Op::TypeSampler) => Type::Sampler,
            Some(Op::TypeSampledImage) => Type::SampledImage { image: inst.word(2) },
            Some(Op::TypeAccelerationStructureKHR) => Type::AccelerationStructure,
            Some(op) if op.is_type() => Type::Opaque,
            _ => return false,
        };
        let carries = match &ty {
            Type::Integer { .. } | Type::Plain => Carries::default(),
            Type::Pointer { class, .. } | Type::Untyped { class } => through(*class),
            Type::Array { element, .. } | Type::RuntimeArray { element } => self.carries(*element),
            Type::Struct { members } => {
                members.iter().fold(Carries::default(), |sum, member| sum | self.carries(*member))
            }
            _ => HANDLES,
        };
        self.carries.insert(id, carries);
        self.declared.insert(id, ty);
        true
    }

    /// The declaration of a type.
    pub fn get(&self, id: u32) -> Option<&Type> {
        self.declared.get(&id)
    }

    /// What values of a type can denote; handles for a type that isn't known.
    pub fn carries(&self, id: u32) -> Carries {
        match (self.carries.get(&id), self.forward.get(&id)) {
            (Some(carries), _) => *carries,
            (None, Some(class)) => through(*class),
            (None, None) => HANDLES,
        }
    }

    /// A pointer type of another storage class than was announced, or none at all: what holds such pointers was taken to
    /// hold others.
    pub fn other_than_announced(&self) -> Option<u32> {
        let mut announced = self.forward.iter();
        let other = |(id, class): &(&u32, &u32)| match self.declared.get(*id) {
            Some(Type::Pointer { class: declared, .. }) => declared != *class,
            _ => true,
        };
        announced.find(other).map(|(id, _)| *id)
    }

    /// Whether values of this type are physical addresses and nothing else.
    pub fn is_address(&self, id: u32) -> bool {
        self.carries(id) == ADDRESSES
    }

    /// Whether a type is, or holds without a pointer in between, one of `wanted`.
    pub fn holds(&self, id: u32, wanted: &HashSet<u32>) -> bool {
        if wanted.is_empty() {
            return false;
        }
        let (mut seen, mut open) = (HashSet::new(), vec![id]);
        while let Some(id) = open.pop() {
            if wanted.contains(&id) {
                return true;
            }
            if !seen.insert(id) {
                continue;
            }
            match self.get(id) {
                Some(Type::Array { element, .. } | Type::RuntimeArray { element }) => open.push(*element),
                Some(Type::Struct { members }) => open.extend(members),
                _ => {}
            }
        }
        false
    }
}

fn through(class: u32) -> Carries {
    if class == StorageClass::PhysicalStorageBuffer as u32 { ADDRESSES } else { HANDLES }
}
