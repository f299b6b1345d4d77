//! Where in its bindings one dispatch can land: byte intervals, for given push constants and workgroup counts.
//!
//! Applications bind "to the end of the buffer", or one arena for everything with offsets in push constants. What is
//! bound then says little about what is touched; the shader's own index arithmetic says it exactly. A pipeline is
//! compiled once ([`Footprint::compile`]) to what decides addresses; each dispatch is evaluated over intervals with
//! its concrete push constants and workgroup counts ([`Footprint::evaluate`]).
//!
//! The rule of the crate holds here, too: **wrong may only cost speed**. An interval contains every byte that any
//! invocation could touch through the binding, in whatever order and with whatever memory contents. What can't be
//! followed is [`Extent::Whole`] and says why. How it works, from front to back: `specialize` (one level up) makes
//! specialization constants plain; `build`, `ops`, `pointers` and `ssa` translate to the form in `program`; `compiled`
//! cuts it down; `walk`, `transfer` and `refine` evaluate it over the sums of `form` and the bounds of `state`.

mod build;
mod cache;
mod compiled;
mod form;
mod layout;
mod ops;
mod pointers;
mod program;
mod refine;
mod semantics;
mod ssa;
mod state;
mod text;
mod transfer;
mod walk;

pub use cache::Cache;

use std::collections::BTreeMap;

use crate::api::{Direction, EntryPoint, Stage};
use crate::effects;
use crate::error::ReflectError;
use crate::flow::Flow;
use crate::module;
use crate::specialization::Specialization;
use crate::specialize::specialize;
use compiled::Compiled;
use program::{Access, Block, Node, Target};
use walk::Walk;

/// What one dispatch brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch<'a> {
    /// The push constants as they are when it is recorded, from offset 0 on, in bytes.
    pub push_constants: &'a [u8],
    /// Workgroups in x, y and z.
    pub groups: [u32; 3],
    /// The first workgroup's numbers (`vkCmdDispatchBase`), otherwise zeros.
    pub base: [u32; 3],
}

/// Why an extent isn't tighter: [`Footprint::text`] gives the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Because(u32);

/// The part of a binding that is touched, in bytes from the start of what the descriptor binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// No byte.
    Nothing,
    /// `start ≤ byte < end`. It may reach past the binding's end, and does where the shader's arithmetic alone doesn't
    /// keep it inside: the caller compares. `because` names what made it wide, where something did.
    Bytes {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
        /// What isn't known better.
        because: Option<Because>,
    },
    /// Any byte of the binding.
    Whole {
        /// What isn't followed.
        because: Because,
    },
}

impl Extent {
    /// Both together.
    fn and(self, other: Extent) -> Extent {
        match (self, other) {
            (Extent::Nothing, extent) | (extent, Extent::Nothing) => extent,
            (whole @ Extent::Whole { .. }, _) | (_, whole @ Extent::Whole { .. }) => whole,
            (Extent::Bytes { start, end, because }, Extent::Bytes { start: s, end: e, because: b }) => {
                // The reason of whichever reaches further.
                let because = if e > end { b.or(because) } else { because.or(b) };
                Extent::Bytes { start: start.min(s), end: end.max(e), because }
            }
        }
    }
}

/// What is touched through one binding. For an array of descriptors: through each of those that are touched at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BindingExtent {
    /// `DescriptorSet` decoration.
    pub set: u32,
    /// `Binding` decoration.
    pub binding: u32,
    /// Bytes that could be read.
    pub read: Extent,
    /// Bytes that could be written.
    pub write: Extent,
}

/// What is touched through addresses (`PhysicalStorageBuffer` pointers) of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressExtent {
    /// The push constant, by its offset in bytes, that the address comes from unaltered.
    pub push_constant: Option<u32>,
    /// Addresses that could be read; [`Extent::Whole`] is all memory.
    pub read: Extent,
    /// Addresses that could be written.
    pub write: Extent,
}

/// Where the shader takes an address from that it reads or writes through, and which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressSource {
    /// Offset of the push constant that holds it, in bytes, where nothing but access chains came between the two: the
    /// access then stays within the buffer that contains the address. Nothing for any other origin: memory, arithmetic.
    pub push_constant: Option<u32>,
    /// What is done through it, in any dispatch.
    pub direction: Direction,
}

/// What one dispatch touches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extents {
    /// One for each of the entry point's bindings, in their order.
    pub bindings: Vec<BindingExtent>,
    /// Through addresses.
    pub addresses: Vec<AddressExtent>,
}

impl Extents {
    /// The extent of the binding at (set, binding), where the entry point has one.
    pub fn binding(&self, set: u32, binding: u32) -> Option<&BindingExtent> {
        self.bindings.iter().find(|found| (found.set, found.binding) == (set, binding))
    }
}

/// An interval that an access covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hull {
    pub start: u64,
    pub end: u64,
    pub reason: u32,
}

/// What the walk found out about one access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    read: bool,
    write: bool,
    extent: Extent,
}

impl Place {
    pub(crate) fn hull(access: &Access, hull: Hull) -> Place {
        let because = (hull.reason != 0).then_some(Because(hull.reason));
        let extent = Extent::Bytes { start: hull.start, end: hull.end, because };
        Place { read: access.read, write: access.write, extent }
    }

    pub(crate) fn lost(access: &Access, reason: u32) -> Place {
        Place { read: access.read, write: access.write, extent: Extent::Whole { because: Because(reason) } }
    }
}

/// The footprint of one entry point of one pipeline, waiting for its dispatches.
#[derive(Debug, Clone)]
pub struct Footprint {
    entry: EntryPoint,
    compiled: Option<Compiled>,
    /// The block in which each phi stands.
    block_of: Vec<Block>,
    /// (set, binding) of the program's variables.
    places: Vec<Option<(u32, u32)>>,
    /// Whatever can't be followed, whatever the dispatch: by place, or through addresses.
    lost: Vec<(Option<(u32, u32)>, Place)>,
    reasons: Vec<String>,
    /// The ranges of push constants that matter, in bytes: offset and length.
    pushes: Vec<(u32, u32)>,
    fault: Fault,
}

/// A deliberate fault of the analysis, for tests of the tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// None.
    #[default]
    None,
    /// Loops are taken to have one round less than they may have.
    LoopsEndEarly,
    /// `a < b` is taken for `a + 1 < b`.
    StrictIsStricter,
    /// The remainder of a division by n is taken to be less than n - 1.
    RestsAreSmaller,
    /// The instruction before the next label is taken for a block's terminator.
    LastIsTerminator,
    /// Of what comes through decoration groups only sets and bindings are seen.
    GroupsIgnored,
    /// Constants are not cut to the width of their type.
    WidthsIgnored,
}

/// Numbers of reasons that every footprint has.
const WRAP: u32 = 1;
const MISSING_PUSH: u32 = 2;
const NOT_FOLLOWED: u32 = 3;

impl Footprint {
    /// Compiles the compute entry point `name` of a module for a pipeline with these specialization constants.
    ///
    /// # Errors
    ///
    /// When the words are no well-formed module, or have no such entry point. A shader that can't be followed is no
    /// error: all its extents are [`Extent::Whole`].
    pub fn compile(
        words: &[u32],
        name: &str,
        specialization: &Specialization,
    ) -> Result<Footprint, ReflectError> {
        Footprint::compile_with(words, name, specialization, Fault::None)
    }

    /// The same, with a fault built in.
    #[doc(hidden)]
    pub fn compile_with(
        words: &[u32],
        name: &str,
        specialization: &Specialization,
        fault: Fault,
    ) -> Result<Footprint, ReflectError> {
        let specialized = specialize(words, specialization, fault)?;
        let mut parsed = module::parse(&specialized.words, fault)?;
        parsed.objection = specialized.objection.or(parsed.objection);
        let compute = Stage::Compute;
        let entry =
            parsed.entries.iter().find(|entry| entry.name == name && effects::stage(entry.model) == compute);
        let entry = entry.ok_or_else(|| ReflectError::NoEntryPoint { name: name.to_owned() })?;
        let reflected = effects::entry_point(&parsed, entry);
        let mut reasons = vec![
            String::new(),
            "arithmetic that could wrap around".to_owned(),
            "push constants that were not given".to_owned(),
            String::new(),
        ];
        let built = match parsed.objection {
            Some(ref objection) => Err(objection.clone()),
            None => {
                let flow = Flow::analyse(&parsed, entry.function);
                build::build(&parsed, &flow, entry).and_then(compiled::compile)
            }
        };
        let place = |variable: &u32| parsed.decorations.place(*variable);
        let mut footprint = Footprint {
            entry: reflected,
            compiled: None,
            block_of: Vec::new(),
            places: Vec::new(),
            lost: Vec::new(),
            reasons: Vec::new(),
            pushes: Vec::new(),
            fault,
        };
        match built {
            Ok(mut compiled) => {
                footprint.take(&mut compiled, &mut reasons, place);
                footprint.compiled = Some(compiled);
            }
            Err(reason) => reasons[NOT_FOLLOWED as usize] = reason,
        }
        footprint.reasons = reasons;
        Ok(footprint)
    }

    fn take(
        &mut self,
        compiled: &mut Compiled,
        reasons: &mut Vec<String>,
        place: impl Fn(&u32) -> Option<(u32, u32)>,
    ) {
        // The program's reasons come after the common ones; its number 0 stays "none".
        let shift = reasons.len() as u32 - 1;
        reasons[NOT_FOLLOWED as usize] = "an evaluation that takes too long".to_owned();
        reasons.extend(compiled.program.reasons.drain(..).skip(1));
        for typed in &mut compiled.program.nodes {
            if let Node::Unknown(reason) = &mut typed.node {
                *reason += shift;
            }
        }
        self.places = compiled.program.variables.iter().map(&place).collect();
        for lost in &compiled.program.lost {
            let extent = Extent::Whole { because: Because(lost.reason + shift) };
            let found = Place { read: lost.read, write: lost.write, extent };
            match lost.variable {
                Some(variable) => {
                    if let Some(place) = place(&variable) {
                        self.lost.push((Some(place), found));
                    }
                }
                None => self.lost.push((None, found)),
            }
        }
        self.block_of = vec![Block::MAX; compiled.program.nodes.len()];
        for (index, block) in compiled.program.blocks.iter().enumerate() {
            for value in &block.nodes {
                self.block_of[*value as usize] = index as Block;
            }
        }
        for typed in &compiled.program.nodes {
            if let Node::Push(offset) = typed.node {
                self.pushes.push((offset, u32::from(typed.bits.div_ceil(8))));
            }
        }
        self.pushes.sort_unstable();
        self.pushes.dedup();
    }

    /// The same footprint, with a fault built in.
    #[doc(hidden)]
    pub fn with_fault(self, fault: Fault) -> Footprint {
        Footprint { fault, ..self }
    }

    /// What the entry point does, with the specialization constants folded.
    pub fn entry_point(&self) -> &EntryPoint {
        &self.entry
    }

    /// The instruction or circumstance behind a reason.
    pub fn text(&self, because: Because) -> &str {
        self.reasons.get(because.0 as usize).map_or("", String::as_str)
    }

    /// Why nothing at all can be followed, if so.
    pub fn not_followed(&self) -> Option<&str> {
        self.compiled.is_none().then(|| self.text(Because(NOT_FOLLOWED)))
    }

    /// The push constants that decide something: offset and length in bytes, sorted.
    pub fn push_constants_used(&self) -> &[(u32, u32)] {
        &self.pushes
    }

    /// Where the addresses come from that the shader accesses memory through; one for each origin. Everything that can't
    /// be followed is the origin without a push constant.
    pub fn address_sources(&self) -> Vec<AddressSource> {
        let Some(compiled) = &self.compiled else {
            let direction = self.entry.addresses;
            let unknown = AddressSource { push_constant: None, direction };
            return if direction == Direction::NONE { Vec::new() } else { vec![unknown] };
        };
        let mut found: BTreeMap<Option<u32>, Direction> = BTreeMap::new();
        for access in compiled.program.blocks.iter().flat_map(|block| &block.accesses) {
            if let Target::Address { push, .. } = access.target {
                *found.entry(push).or_default() |= Direction { read: access.read, write: access.write };
            }
        }
        for (_, place) in self.lost.iter().filter(|(at, _)| at.is_none()) {
            *found.entry(None).or_default() |= Direction { read: place.read, write: place.write };
        }
        let source = |(push_constant, direction)| AddressSource { push_constant, direction };
        found.into_iter().map(source).collect()
    }

    /// What a dispatch touches. Pure; the time is that of a walk over the shader's index arithmetic, tens of
    /// microseconds: keep the result (see [`Cache`]).
    pub fn evaluate(&self, dispatch: &Dispatch<'_>) -> Extents {
        let Some(compiled) = &self.compiled else { return self.everything() };
        let mut walk = Walk::new(compiled, &self.block_of, *dispatch, (WRAP, MISSING_PUSH), self.fault);
        walk.run();
        if walk.failed {
            return self.everything();
        }
        let mut bindings: BTreeMap<(u32, u32), (Extent, Extent)> = BTreeMap::new();
        let mut addresses: BTreeMap<(u32, Option<u32>), (Extent, Extent)> = BTreeMap::new();
        let both = |extents: &mut (Extent, Extent), place: &Place| {
            if place.read {
                extents.0 = extents.0.and(place.extent);
            }
            if place.write {
                extents.1 = extents.1.and(place.extent);
            }
        };
        let nothing = (Extent::Nothing, Extent::Nothing);
        for (target, place) in &walk.found {
            match target {
                Target::Variable(variable) => {
                    if let Some(Some(at)) = self.places.get(*variable as usize) {
                        both(bindings.entry(*at).or_insert(nothing), place);
                    }
                }
                Target::Address { base, push } => {
                    both(addresses.entry((*base, *push)).or_insert(nothing), place);
                }
            }
        }
        let nobody = u32::MAX;
        for (at, place) in &self.lost {
            match at {
                Some(at) => both(bindings.entry(*at).or_insert(nothing), place),
                None => both(addresses.entry((nobody, None)).or_insert(nothing), place),
            }
        }
        let as_far = |direction: bool, extent: Extent| if direction { extent } else { Extent::Nothing };
        let extents = self.entry.bindings.iter().map(|binding| {
            let (read, write) = bindings.get(&(binding.set, binding.binding)).copied().unwrap_or(nothing);
            BindingExtent {
                set: binding.set,
                binding: binding.binding,
                read: as_far(binding.direction.read, read),
                write: as_far(binding.direction.write, write),
            }
        });
        Extents {
            bindings: extents.collect(),
            addresses: addresses
                .into_iter()
                .map(|((_, push_constant), (read, write))| AddressExtent { push_constant, read, write })
                .collect(),
        }
    }

    /// Everything that the shader could touch if nothing were known of its arithmetic.
    fn everything(&self) -> Extents {
        let because = Because(NOT_FOLLOWED);
        let extent = |touched: bool| if touched { Extent::Whole { because } } else { Extent::Nothing };
        let bindings = self.entry.bindings.iter().map(|binding| BindingExtent {
            set: binding.set,
            binding: binding.binding,
            read: extent(binding.direction.read),
            write: extent(binding.direction.write),
        });
        let Direction { read, write } = self.entry.addresses;
        let address = AddressExtent { push_constant: None, read: extent(read), write: extent(write) };
        Extents {
            bindings: bindings.collect(),
            addresses: if read || write { vec![address] } else { Vec::new() },
        }
    }
}
