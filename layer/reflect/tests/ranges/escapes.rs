//! What a shader that logs has touched, held against what the crate says it can touch.

use zinc_reflect::{Dispatch, Extent, Extents};

use super::gpu::Seen;
use super::instrument::Through;

/// What left its extent, in words; nothing where all stayed inside. `buffers` are those that shaders reach by address: where
/// each begins, and its end.
///
/// A pointer that comes from an address among the push constants, and of which no more is known, may be anywhere in the buffer
/// that holds the address, and nowhere else: that is what the layer takes it for (docs/semantics.md, rule 8).
pub fn escapes(
    seen: &Seen,
    extents: &Extents,
    dispatch: &Dispatch<'_>,
    buffers: &[(u64, u64)],
) -> Vec<String> {
    let address = |at: u32| {
        let bytes = dispatch.push_constants.get(at as usize..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let holds = |extent: Extent, push: Option<Option<u32>>, (low, high): (u64, u64)| match (extent, push) {
        (Extent::Nothing, _) => false,
        (Extent::Bytes { start, end, .. }, _) => start <= low && high <= end,
        (Extent::Whole { .. }, None | Some(None)) => true,
        (Extent::Whole { .. }, Some(Some(at))) => buffers.iter().any(|(start, end)| {
            let leads = address(at).is_some_and(|address| (*start..*end).contains(&address));
            leads && *start <= low && high <= *end
        }),
    };
    let mut found = Vec::new();
    for ((through, write), at) in seen {
        let (inside, said) = match through {
            Through::Binding(set, binding) => {
                let extent = extents.binding(*set, *binding).map(|b| if *write { b.write } else { b.read });
                (extent.is_some_and(|extent| holds(extent, None, *at)), format!("{extent:?}"))
            }
            Through::Pointer(_) => {
                let mut all = extents.addresses.iter();
                let inside =
                    all.any(|a| holds(if *write { a.write } else { a.read }, Some(a.push_constant), *at));
                (inside, format!("{:?}", extents.addresses))
            }
        };
        if !inside {
            let what = if *write { "written" } else { "read" };
            found.push(format!("{through:?}: {what} {}..{}, and said was {said}", at.0, at.1));
        }
    }
    found
}
