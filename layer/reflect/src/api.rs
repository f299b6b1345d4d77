//! The answer: entry points, their bindings, and what is done to each.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// All entry points of a module, in the order of their `OpEntryPoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// One for each `OpEntryPoint`.
    pub entry_points: Vec<EntryPoint>,
}

impl Module {
    /// The entry point that `VkPipelineShaderStageCreateInfo` names; a missing one means an unknown pipeline.
    pub fn entry_point(&self, name: &str, stage: Stage) -> Option<&EntryPoint> {
        self.entry_points.iter().find(|entry| entry.name == name && entry.stage == stage)
    }
}

/// The execution model of an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// `Vertex`
    Vertex,
    /// `TessellationControl`
    TessellationControl,
    /// `TessellationEvaluation`
    TessellationEvaluation,
    /// `Geometry`
    Geometry,
    /// `Fragment`
    Fragment,
    /// `GLCompute`
    Compute,
    /// Any other execution model, by its number in the SPIR-V specification.
    Other(u32),
}

/// What one entry point, and every function that it could reach, does to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    /// Name as in `OpEntryPoint`.
    pub name: String,
    /// Execution model.
    pub stage: Stage,
    /// One for each (set, binding), sorted; several variables on one binding are merged.
    ///
    /// Holds every descriptor of the interface (before SPIR-V 1.4, which lists none there: of the module), touched or
    /// not.
    pub bindings: Vec<Binding>,
    /// Accesses through `PhysicalStorageBuffer` pointers, wherever they come from.
    pub addresses: Direction,
    /// An atomic, volatile or coherent access to storage memory, together with ordering wider than the workgroup:
    /// such a dispatch may hand data to another queue or to the host, or wait for one.
    pub synchronising: bool,
    /// When set, everything about this entry point is unknown and the text says why: `bindings` may then lack some,
    /// and what is there is marked read and written.
    pub unknown: Option<String>,
}

impl EntryPoint {
    /// The binding at (set, binding), where the entry point has one.
    pub fn binding(&self, set: u32, binding: u32) -> Option<&Binding> {
        self.bindings.iter().find(|found| (found.set, found.binding) == (set, binding))
    }
}

/// One (set, binding) and what is done through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// `DescriptorSet` decoration.
    pub set: u32,
    /// `Binding` decoration.
    pub binding: u32,
    /// What kind of descriptor the shader takes it for. A sampler has no memory of its own and is never `read`.
    pub class: Class,
    /// How many descriptors.
    pub count: Count,
    /// What is done to the memory behind it; both where unknown.
    pub direction: Direction,
    /// Which descriptors of the array could be touched.
    pub elements: Elements,
    /// The first thing that isn't understood and could touch this binding; `direction` is both then.
    pub stopped_by: Option<String>,
}

/// Read, written, both or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Direction {
    /// Some instruction could read.
    pub read: bool,
    /// Some instruction could write.
    pub write: bool,
}

impl Direction {
    /// Not touched.
    pub const NONE: Direction = Direction { read: false, write: false };
    /// Only read.
    pub const READ: Direction = Direction { read: true, write: false };
    /// Only written.
    pub const WRITE: Direction = Direction { read: false, write: true };
    /// Read and written, or unknown.
    pub const BOTH: Direction = Direction { read: true, write: true };

    /// Whether `other` is part of this direction.
    pub fn contains(self, other: Direction) -> bool {
        self | other == self
    }
}

impl BitOr for Direction {
    type Output = Direction;

    fn bitor(self, other: Direction) -> Direction {
        Direction { read: self.read || other.read, write: self.write || other.write }
    }
}

impl BitOrAssign for Direction {
    fn bitor_assign(&mut self, other: Direction) {
        *self = *self | other;
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match (self.read, self.write) {
            (false, false) => "none",
            (true, false) => "read",
            (false, true) => "write",
            (true, true) => "both",
        })
    }
}

/// The kind of descriptor, as the shader's variable shows it.
///
/// The shader can't tell an inline uniform block from a uniform buffer, nor a mutable descriptor from a plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// `Uniform` storage class with `Block`.
    UniformBuffer,
    /// `StorageBuffer` storage class, or `Uniform` with `BufferBlock`.
    StorageBuffer,
    /// An image of dimension `Buffer` that is used with sampling instructions (here: fetched from).
    UniformTexelBuffer,
    /// An image of dimension `Buffer` that is read and written without a sampler.
    StorageTexelBuffer,
    /// An image without a sampler of its own.
    SampledImage,
    /// An image that is read and written without a sampler.
    StorageImage,
    /// `OpTypeSampledImage`.
    CombinedImageSampler,
    /// `OpTypeSampler`.
    Sampler,
    /// An image of dimension `SubpassData`.
    InputAttachment,
    /// `OpTypeAccelerationStructureKHR`.
    AccelerationStructure,
    /// Anything else, and a binding that two variables take for different things.
    Unknown,
}

/// The number of descriptors of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Count {
    /// No array.
    One,
    /// An array of constant length.
    Array(u32),
    /// A runtime array: the set layout knows.
    Runtime,
    /// An array whose length is a specialization constant, or an array of arrays.
    Unknown,
}

/// Which descriptors of a binding could be touched. A binding that is no array has element 0 only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// Only these, found by constant indices; empty where nothing touches the binding.
    These(BTreeSet<u32>),
    /// Any.
    All,
}

impl Elements {
    /// Adds one element.
    pub(crate) fn add(&mut self, element: u32) {
        if let Elements::These(elements) = self {
            elements.insert(element);
        }
    }
}
