//! Which part of what is bound a dispatch reaches (docs/semantics.md, rule 16).
//!
//! `zinc-reflect` follows a shader's index arithmetic and remembers what came out; here it is cut down to what a
//! recording asks for: two intervals for each binding, in the order in which the bindings are gone through.

use zinc_reflect::{Cache, Dispatch, EntryPoint, Extent, Footprint};

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

/// A pipeline's reach.
#[derive(Debug)]
pub struct Tight {
    cache: Cache<Box<[Part]>>,
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

    /// What `dispatch` reaches through each binding; `None` when it is new and too many were remembered already.
    pub fn parts(&self, dispatch: &Dispatch<'_>) -> Option<&[Part]> {
        let parts = self.cache.get(dispatch, |extents| {
            let part = |(set, binding): &(u32, u32)| {
                let found = extents.binding(*set, *binding);
                found.map_or(Part::WHOLE, |b| Part { read: b.read.into(), write: b.write.into() })
            };
            self.places.iter().map(part).collect()
        });
        parts.map(|parts| &parts[..])
    }
}
