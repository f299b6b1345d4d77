//! What one command touches: from a pipeline and the sets bound to it, or from a copy's regions, to accesses.
//!
//! Direction comes from the shader, never from the descriptor's type (rule 6); place comes from the descriptors as
//! they are when the command is recorded (rule 12). Whatever can't be resolved makes the whole dispatch unknown.
//!
//! With tight ranges (rule 16) the shader says which part of what is bound it reaches with this dispatch's push constants
//! and workgroups. That part counts only where all of it lies within what is bound: beyond, robustness may redirect an
//! access to anywhere in the range, or in the buffer (rule 11), and what is bound counts as without it. So it is with what is
//! reached by address (rule 8): what lies within a buffer is that part of it, what comes from an address that is known when
//! the dispatch is recorded lies in the buffers around that, and anything else is anywhere.

use crate::addresses::Reached;
use crate::descriptors::{Set, Slot};
use crate::memory::Buffer;
use crate::pipelines::Pipeline;
use crate::tight::{Part, Pointed, Reach};
use ash::vk;
use smallvec::SmallVec;
use std::sync::Arc;
use zinc_hazard::{Access, Flags, Key, Kind, Range, Stages};
use zinc_reflect::{Binding, Class, Direction, Dispatch, Elements, EntryPoint};

/// A descriptor set as a command buffer has it bound: handles, which are looked up when a dispatch needs them.
#[derive(Clone, Debug)]
pub struct BoundSet {
    /// The set; null for one that was pushed.
    pub handle: vk::DescriptorSet,
    /// The set that was pushed.
    pub pushed: Option<Arc<Set>>,
    /// Its own dynamic offsets, in bytes.
    pub dynamic_offsets: SmallVec<[u32; 4]>,
    /// Which of the dynamic offsets of its bind are its own is not known.
    pub lost: bool,
}

impl BoundSet {
    /// No set.
    pub fn nothing() -> BoundSet {
        BoundSet {
            handle: vk::DescriptorSet::null(),
            pushed: None,
            dynamic_offsets: SmallVec::new(),
            lost: false,
        }
    }

    /// A set that was pushed.
    pub fn pushed(set: Arc<Set>) -> BoundSet {
        BoundSet { pushed: Some(set), ..BoundSet::nothing() }
    }
}

/// The settings that decide how far a range reaches.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Ranges are rounded outwards to multiples of it, in bytes.
    pub granule: u64,
    /// Writes stay within their descriptors even where plain robustness would let a driver put them elsewhere.
    pub trust_out_of_bounds: bool,
}

/// Why it can't be known what a dispatch touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// No pipeline is bound that the layer knows: shader objects, or a bind that it does not follow.
    NoPipeline,
    /// The pipeline's shader was not seen, or something in it was not understood.
    Shader,
    /// A set that the shader uses is not bound, or was not seen.
    Set,
    /// The set lacks the binding.
    Binding,
    /// A descriptor was not written that the layer saw, or refers to something that it has no record of.
    Descriptor,
    /// A descriptor of a kind that the layer has no model of.
    Kind,
}

impl Unresolved {
    /// All of them, each at its own number.
    pub const ALL: [Unresolved; 6] = [
        Unresolved::NoPipeline,
        Unresolved::Shader,
        Unresolved::Set,
        Unresolved::Binding,
        Unresolved::Descriptor,
        Unresolved::Kind,
    ];

    /// The reason in words, for the report.
    pub fn reason(self) -> &'static str {
        match self {
            Unresolved::NoPipeline => "no pipeline bound that the layer follows (shader objects?)",
            Unresolved::Shader => "a shader that was not seen or not understood",
            Unresolved::Set => {
                "a descriptor set that is not bound, or not seen (descriptor buffers or heaps?)"
            }
            Unresolved::Binding => "a binding that its set does not have",
            Unresolved::Descriptor => "a descriptor whose write was not seen",
            Unresolved::Kind => {
                "a descriptor of a kind without a model (acceleration structures, input attachments)"
            }
        }
    }
}

/// The accesses of a dispatch that nothing is known about: everything, at the stages a dispatch has.
pub fn unknown_dispatch() -> [Access; 2] {
    Access::unknown().map(|a| Access { stages: Stages::COMPUTE_SHADER | Stages::DRAW_INDIRECT, ..a })
}

/// Appends the accesses of a dispatch to `out`; `dispatch` is what tight ranges are worked out with, where they are wanted
/// and its workgroups are known, and `place` finds what it reaches by address.
///
/// # Errors
///
/// [`Unresolved`] when the pipeline's shader is not known, when one of its bindings is not in a bound set that the
/// layer knows, or when a descriptor refers to something that is not modelled. `out` is then of no use.
pub fn of_dispatch<'a>(
    pipeline: &Pipeline,
    bound: &[Option<BoundSet>],
    find: impl Fn(vk::DescriptorSet) -> Option<&'a Set>,
    rules: Rules,
    dispatch: Option<&Dispatch<'_>>,
    mut place: impl FnMut(Reached) -> Range,
    out: &mut Vec<Access>,
) -> Result<(), Unresolved> {
    let touched = dispatch.zip(pipeline.tight.as_ref()).and_then(|(dispatch, tight)| tight.touched(dispatch));
    let shader = pipeline.shader.as_ref().ok_or(Unresolved::Shader)?;
    let whole_writes = pipeline.robust_writes && !rules.trust_out_of_bounds;
    let plain = touched.is_none() && !whole_writes;
    out.reserve(2 * shader.bindings.len());
    let mut last: Option<(u32, &Set, &[u32])> = None;
    for (number, binding) in shader.bindings.iter().enumerate() {
        if !binding.direction.read && !binding.direction.write {
            continue;
        }
        let (set, offsets) = match last {
            Some((number, set, offsets)) if number == binding.set => (set, offsets),
            _ => {
                let bound = bound.get(binding.set as usize).and_then(Option::as_ref).filter(|b| !b.lost);
                let bound = bound.ok_or(Unresolved::Set)?;
                let set = match &bound.pushed {
                    Some(set) => set,
                    None => find(bound.handle).ok_or(Unresolved::Set)?,
                };
                (set, &bound.dynamic_offsets[..])
            }
        };
        last = Some((binding.set, set, offsets));
        // By far the most bindings are one buffer of ordinary memory, of which all that is bound counts.
        if plain
            && let Some(Some(flag)) = pipeline.single.get(number).copied()
            && !set.layout.update_after_bind
            && let Some(range) = set.single(binding.binding, rules.granule)
        {
            push(out, binding.direction, flag, range, range);
            continue;
        }
        let part = touched.and_then(|t| t.parts.get(number)).unwrap_or(&Part::WHOLE);
        of_binding(binding, (set, offsets), part, (rules.granule, whole_writes), out)?;
    }
    match touched {
        // What is not followed is anywhere, in the direction that the shader has (rule 8).
        None => push(out, shader.addresses, Flags::SHADER_STORAGE_READ, Range::Anywhere, Range::Anywhere),
        Some(touched) => touched.pointed.iter().for_each(|p| of_address(p, &mut place, out)),
    }
    Ok(())
}

/// With which flag a binding is read that is one buffer and no array; `None` for any other.
pub fn single(binding: &Binding) -> Option<Flags> {
    let Elements::These(elements) = &binding.elements else { return None };
    if elements.len() != 1 || !elements.contains(&0) {
        return None;
    }
    match binding.class {
        Class::UniformBuffer => Some(Flags::UNIFORM_READ),
        Class::StorageBuffer => Some(Flags::SHADER_STORAGE_READ),
        _ => None,
    }
}

/// The set that all bindings are in which the shader reads or writes; `None` where there are several, or none.
pub fn only_set(shader: &EntryPoint) -> Option<u32> {
    let mut used = shader.bindings.iter().filter(|b| b.direction.read || b.direction.write).map(|b| b.set);
    let first = used.next()?;
    used.all(|set| set == first).then_some(first)
}

/// What the accesses of a dispatch follow from, where the pipeline and the contents of one set are all of it. Nothing of
/// that is derived here, so it says what it does even if they can't be resolved.
#[inline]
pub fn key<'a>(
    pipeline: &Pipeline,
    bound: &[Option<BoundSet>],
    find: impl Fn(vk::DescriptorSet) -> Option<&'a Set>,
) -> Option<Key> {
    let set = bound.get(pipeline.only_set? as usize)?.as_ref()?;
    if set.lost || set.pushed.is_some() || !set.dynamic_offsets.is_empty() {
        return None;
    }
    let [number, changes] = find(set.handle)?.contents();
    Some(Key([pipeline.number, number, changes]))
}

/// Appends what is reached by addresses of one origin.
fn of_address(pointed: &Pointed, place: &mut impl FnMut(Reached) -> Range, out: &mut Vec<Access>) {
    let mut range = |reached: Option<Reached>| {
        let found = reached.map_or(Range::Anywhere, &mut *place);
        match pointed.from {
            Some(from) if found == Range::Anywhere && reached != Some(from) => place(from),
            _ => found,
        }
    };
    let (read, written) = (pointed.read.map(&mut range), pointed.write.map(&mut range));
    let direction = Direction { read: read.is_some(), write: written.is_some() };
    let otherwise = Range::Anywhere;
    push(out, direction, Flags::SHADER_STORAGE_READ, read.unwrap_or(otherwise), written.unwrap_or(otherwise));
}

fn of_binding(
    binding: &Binding,
    (set, dynamic_offsets): (&Set, &[u32]),
    part: &Part,
    (granule, whole_writes): (u64, bool),
    out: &mut Vec<Access>,
) -> Result<(), Unresolved> {
    let read_flag = match binding.class {
        Class::UniformBuffer => Flags::UNIFORM_READ,
        Class::StorageBuffer | Class::StorageTexelBuffer | Class::StorageImage => Flags::SHADER_STORAGE_READ,
        Class::UniformTexelBuffer | Class::SampledImage | Class::CombinedImageSampler => {
            Flags::SHADER_SAMPLED_READ
        }
        Class::Sampler => return Ok(()),
        Class::InputAttachment | Class::AccelerationStructure | Class::Unknown => {
            return Err(Unresolved::Kind);
        }
    };
    let elements = match &binding.elements {
        Elements::These(elements) => Some(elements),
        Elements::All => None,
    };
    if set.layout.update_after_bind {
        push(out, binding.direction, read_flag, Range::Anywhere, Range::Anywhere);
        return Ok(());
    }
    let mut resolved = Ok(());
    let exists = set.visit(binding.binding, elements, dynamic_offsets, |slot, dynamic| match slot {
        // No invocation reaches what was never written in a partially bound binding; elsewhere such a slot is unknown.
        Slot::Empty | Slot::Nothing => {}
        Slot::Bytes(extent) => {
            let range = extent.range(dynamic, granule);
            if *part == Part::WHOLE {
                let written = if whole_writes { extent.whole(granule) } else { range };
                push(out, binding.direction, read_flag, range, written);
                return;
            }
            let of = |reach, otherwise: Range| match reach {
                Reach::Nothing => None,
                // Within what is bound, so that nothing is redirected; the rest may be.
                Reach::Bytes(first, end) => {
                    Some(extent.part(dynamic, (first, end), granule).unwrap_or(otherwise))
                }
                Reach::Whole => Some(otherwise),
            };
            let written = if whole_writes { extent.whole(granule) } else { range };
            let (read, written) = (of(part.read, range), of(part.write, written));
            let direction = Direction {
                read: binding.direction.read && read.is_some(),
                write: binding.direction.write && written.is_some(),
            };
            push(out, direction, read_flag, read.unwrap_or(range), written.unwrap_or(range));
        }
        Slot::Unknown => resolved = Err(Unresolved::Descriptor),
    });
    if !exists {
        return Err(Unresolved::Binding);
    }
    resolved
}

#[inline]
fn push(out: &mut Vec<Access>, direction: Direction, read_flag: Flags, read: Range, written: Range) {
    if direction.read {
        out.push(Access { flags: read_flag, ..Access::shader_read(read) });
    }
    if direction.write {
        out.push(Access::shader_write(written));
    }
}

/// The arguments that an indirect dispatch reads.
pub fn indirect_arguments(buffer: Option<&Buffer>, offset: u64, granule: u64) -> Access {
    let size = size_of::<vk::DispatchIndirectCommand>() as u64;
    Access {
        range: buffer.map_or(Range::Anywhere, |b| b.range(offset, Some(size), granule)),
        kind: Kind::Read,
        stages: Stages::DRAW_INDIRECT,
        flags: Flags::INDIRECT_COMMAND_READ,
    }
}

/// The predicate that a dispatch under conditional rendering reads. Where it is, the layer does not follow.
pub fn predicate() -> Access {
    Access {
        range: Range::Anywhere,
        kind: Kind::Read,
        stages: Stages::CONDITIONAL_RENDERING,
        flags: Flags::CONDITIONAL_RENDERING_READ,
    }
}

/// One end of a transfer: `stages` is `COPY` for copies and `CLEAR` for fills and updates (rule 9).
pub fn transfer(
    kind: Kind,
    stages: Stages,
    buffer: Option<&Buffer>,
    offset: u64,
    size: Option<u64>,
    granule: u64,
) -> Access {
    Access {
        range: buffer.map_or(Range::Anywhere, |b| b.range(offset, size, granule)),
        kind,
        stages,
        flags: match kind {
            Kind::Read => Flags::TRANSFER_READ,
            Kind::Write => Flags::TRANSFER_WRITE,
        },
    }
}
