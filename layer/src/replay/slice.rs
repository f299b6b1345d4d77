//! `ZINC_BARRIER_SLICE`: how a dispatch is cut.
//!
//! Two dispatches that nothing orders overlap in part on a device that runs them side by side, and some programs are wrong
//! only then: whichever goes first as a whole, the result is the same. So a dispatch is cut into a few dispatches with base
//! offsets, and their pieces are issued in turn with those of the neighbours that nothing orders against it.

use super::traits::Traits;
use crate::bindings::Grid;

/// Pieces that a dispatch is cut into, at most.
pub const PIECES: u32 = 4;

/// The pieces of a dispatch, in order; the whole where it can't be cut.
pub fn cut(grid: Grid, traits: Option<Traits>) -> Vec<Grid> {
    let (base, count) = match grid {
        Grid::Plain(count) => ([0; 3], count),
        Grid::Base(base, count) => (base, count),
        Grid::Indirect(..) => return vec![grid],
    };
    if traits.is_none_or(|t| t.counts_groups || !t.takes_a_base) || count.contains(&0) {
        return vec![grid];
    }
    let axis = (0..3).max_by_key(|axis| (count[*axis], std::cmp::Reverse(*axis))).unwrap_or(0);
    let pieces = PIECES.min(count[axis]);
    if pieces < 2 {
        return vec![grid];
    }
    (0..pieces)
        .map(|piece| {
            let edge = |i: u32| (u64::from(count[axis]) * u64::from(i) / u64::from(pieces)) as u32;
            let (mut base, mut count) = (base, count);
            base[axis] += edge(piece);
            count[axis] = edge(piece + 1) - edge(piece);
            Grid::Base(base, count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk;

    fn plain(x: u32, y: u32, z: u32) -> Vec<Grid> {
        cut(Grid::Plain([x, y, z]), Some(Traits::PLAIN))
    }

    #[test]
    fn the_pieces_cover_the_dispatch_once_along_its_longest_side() {
        for count in [[2, 1, 1], [3, 7, 2], [1000, 1000, 1000], [1, 1, 5], [u32::MAX, 1, 1]] {
            let mut next = 0;
            let axis = count.iter().position(|c| c == count.iter().max().unwrap()).unwrap();
            for piece in plain(count[0], count[1], count[2]) {
                let Grid::Base(base, size) = piece else { panic!("{count:?} is not cut") };
                assert_eq!(base[axis], next, "{count:?}");
                next += size[axis];
                assert!(size[axis] > 0);
                let other = (axis + 1) % 3;
                assert_eq!((base[other], size[other]), (0, count[other]));
            }
            assert_eq!(next, count[axis], "{count:?}");
        }
    }

    #[test]
    fn a_base_stays_and_small_empty_indirect_and_counting_dispatches_stay_whole() {
        let based = cut(Grid::Base([5, 1, 0], [8, 1, 1]), Some(Traits::PLAIN));
        assert_eq!(based[0], Grid::Base([5, 1, 0], [2, 1, 1]));
        assert_eq!(based[3], Grid::Base([11, 1, 0], [2, 1, 1]));
        assert_eq!(plain(1, 1, 1).len(), 1);
        assert_eq!(plain(0, 9, 1).len(), 1);
        let counts = Traits { counts_groups: true, ..Traits::PLAIN };
        let baseless = Traits { takes_a_base: false, ..Traits::PLAIN };
        for traits in [counts, baseless] {
            assert_eq!(cut(Grid::Plain([9, 1, 1]), Some(traits)).len(), 1);
        }
        assert_eq!(cut(Grid::Plain([9, 1, 1]), None).len(), 1, "a shader of which nothing is known");
        assert_eq!(cut(Grid::Indirect(vk::Buffer::null(), 0), Some(Traits::PLAIN)).len(), 1);
    }
}
