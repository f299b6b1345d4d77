//! Which part of what is bound a dispatch reaches (docs/semantics.md, rule 16).
//!
//! `zinc-reflect` follows a shader's index arithmetic and remembers what came out; here it is cut down to what a
//! recording asks for: two intervals for each binding, in the order in which the bindings are gone through, and for each
//! address that the shader reaches memory by (rule 8), where it leads.

use crate::addresses::Reached;
use zinc_reflect::{AddressExtent, Cache, Dispatch, EntryPoint, Extent, Footprint};

/// Which bytes are reached, counted from where the bound range begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// None.
    Nothing,
    /// Those from the first up to the second, if all of them are bound.
    Bytes(u64, u64),
    /// Any that is bound.
    Whole,
}

impl From<Extent> for Reach {
    fn from(extent: Extent) -> Reach {
        match extent {
            Extent::Nothing => Reach::Nothing,
            Extent::Bytes { start, end, .. } => Reach::Bytes(start, end),
            Extent::Whole { .. } => Reach::Whole,
        }
    }
}

/// What a dispatch reaches through one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Reading.
    pub read: Reach,
    /// Writing.
    pub write: Reach,
}

impl Part {
    /// What holds where nothing is known.
    pub const WHOLE: Part = Part { read: Reach::Whole, write: Reach::Whole };
}

/// What a dispatch reaches by addresses of one origin. `None` in place of an answer: anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointed {
    /// Reading, if it does.
    pub read: Option<Option<Reached>>,
    /// Writing, if it does.
    pub write: Option<Option<Reached>>,
    /// What to fall back on where the bytes are in no single buffer: the address that all of them come from, by access chains
    /// alone, so that they stay in its buffer.
    pub from: Option<Reached>,
}

/// What a dispatch reaches.
#[derive(Debug)]
pub struct Touched {
    /// By binding.
    pub parts: Box<[Part]>,
    /// By addresses.
    pub pointed: Box<[Pointed]>,
}

/// A pipeline's reach.
#[derive(Debug)]
pub struct Tight {
    cache: Cache<Touched>,
    /// (set, binding) in the order in which the layer goes through them.
    places: Box<[(u32, u32)]>,
}

impl Tight {
    /// The reach of a pipeline whose bindings are gone through in the order of `entry`; `None` when nothing of its shader
    /// can be followed.
    pub fn new(footprint: Footprint, entry: &EntryPoint) -> Option<Tight> {
        if footprint.not_followed().is_some() {
            return None;
        }
        let places = entry.bindings.iter().map(|b| (b.set, b.binding)).collect();
        Some(Tight { cache: Cache::new(footprint), places })
    }

    /// What `dispatch` reaches; `None` when it is new and too many were remembered already.
    pub fn touched(&self, dispatch: &Dispatch<'_>) -> Option<&Touched> {
        self.cache.get(dispatch, |extents| {
            let part = |(set, binding): &(u32, u32)| {
                let found = extents.binding(*set, *binding);
                found.map_or(Part::WHOLE, |b| Part { read: b.read.into(), write: b.write.into() })
            };
            let parts = self.places.iter().map(part).collect();
            let pointed = extents.addresses.iter().map(|a| pointed(a, dispatch.push_constants)).collect();
            Touched { parts, pointed }
        })
    }
}

fn pointed(extent: &AddressExtent, push_constants: &[u8]) -> Pointed {
    let at = |offset: u32| push_constants.get(offset as usize..)?.first_chunk().copied();
    let from = extent.push_constant.and_then(at).map(|bytes| Reached::Around(u64::from_le_bytes(bytes)));
    let reached = |extent| match extent {
        Extent::Nothing => None,
        Extent::Bytes { start, end, .. } if start < end => Some(Some(Reached::Bytes(start, end))),
        Extent::Bytes { .. } | Extent::Whole { .. } => Some(from),
    };
    Pointed { read: reached(extent.read), write: reached(extent.write), from }
}
