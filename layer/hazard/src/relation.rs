//! A set of (stage, access flag) pairs, as barriers build it up.
//!
//! A second scope makes writes visible to every one of its flags at every one of its stages: a rectangle. Several
//! barriers make a union of rectangles, which is not a rectangle: visible to reads at COPY and to indirect reads at
//! DRAW_INDIRECT does not mean visible to indirect reads at COPY. The union is kept exactly, and in one canonical
//! form (stages grouped by equal flags, groups disjoint and sorted), so that equal sets compare equal: the tracker
//! merges what is in an equal state.

use crate::scope::{Flags, Stages};
use smallvec::SmallVec;

/// A set of (stage, flag) pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relation {
    /// Disjoint, non-empty stage masks, each with its flags; no two entries have equal flags; sorted by stages.
    groups: SmallVec<[(Stages, Flags); 2]>,
}

impl Relation {
    /// Adds every pair of `stages` x `flags`.
    pub fn add(&mut self, stages: Stages, flags: Flags) {
        if stages.is_empty() || flags.is_empty() || self.covers(stages, flags) {
            return;
        }
        if self.groups.is_empty() {
            self.groups.push((stages, flags));
            return;
        }
        let mut fresh = stages;
        let mut groups: SmallVec<[(Stages, Flags); 2]> = SmallVec::new();
        let mut put = |stages: Stages, flags: Flags| {
            if stages.is_empty() {
                return;
            }
            match groups.iter_mut().find(|g| g.1 == flags) {
                Some(group) => group.0 |= stages,
                None => groups.push((stages, flags)),
            }
        };
        for (group, known) in self.groups.drain(..) {
            put(group & !stages, known);
            put(group & stages, known | flags);
            fresh &= !group;
        }
        put(fresh, flags);
        groups.sort_unstable();
        self.groups = groups;
    }

    /// Whether every pair of `stages` x `flags` is in the set.
    pub fn covers(&self, stages: Stages, flags: Flags) -> bool {
        if flags.is_empty() {
            return true;
        }
        let mut missing = stages;
        for (group, known) in &self.groups {
            if known.contains(flags) {
                missing &= !*group;
            }
        }
        missing.is_empty()
    }

    /// Whether some pair of `stages` x `flags` is in `self` and not in `other`.
    pub fn exceeds(&self, other: &Relation, stages: Stages, flags: Flags) -> bool {
        self.groups.iter().any(|(s, f)| !other.covers(*s & stages, *f & flags))
    }

    /// Whether every pair is in `other` too.
    pub fn within(&self, other: &Relation) -> bool {
        !self.exceeds(other, Stages::all(), Flags::all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const A: Stages = Stages::COMPUTE_SHADER;
    const B: Stages = Stages::COPY;
    const X: Flags = Flags::SHADER_STORAGE_READ;
    const Y: Flags = Flags::TRANSFER_READ;

    #[test]
    fn a_union_of_rectangles_is_not_their_hull() {
        let mut r = Relation::default();
        r.add(A, X);
        r.add(B, Y);
        assert!(r.covers(A, X) && r.covers(B, Y));
        assert!(!r.covers(A, Y) && !r.covers(A | B, X));
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_pairs_in_canonical_form(
            one in proptest::collection::vec((0u64..16, 0u64..16), 0..6),
            two in proptest::collection::vec((0u64..16, 0u64..16), 0..6),
        ) {
            let build = |rects: &[(u64, u64)]| {
                let mut r = Relation::default();
                let mut set = BTreeSet::new();
                for (s, f) in rects {
                    r.add(Stages::from_bits_retain(*s), Flags::from_bits_retain(*f));
                    for i in 0..4 { for j in 0..4 {
                        if s >> i & 1 == 1 && f >> j & 1 == 1 { set.insert((i, j)); }
                    } }
                }
                (r, set)
            };
            let ((r1, s1), (r2, s2)) = (build(&one), build(&two));
            prop_assert_eq!(r1 == r2, s1 == s2, "equal sets must be equal values");
            prop_assert_eq!(r1.within(&r2), s1.is_subset(&s2));
            for s in 0..16u64 { for f in 0..16u64 {
                let rect: BTreeSet<_> = (0..4).flat_map(|i| (0..4).map(move |j| (i, j)))
                    .filter(|(i, j)| s >> i & 1 == 1 && f >> j & 1 == 1).collect();
                let (stages, flags) = (Stages::from_bits_retain(s), Flags::from_bits_retain(f));
                prop_assert_eq!(r1.covers(stages, flags), rect.is_subset(&s1));
                prop_assert_eq!(
                    r1.exceeds(&r2, stages, flags),
                    s1.intersection(&rect).any(|p| !s2.contains(p)));
            } }
        }
    }
}
