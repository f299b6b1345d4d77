//! The values that a pipeline gives to specialization constants.

use std::collections::BTreeMap;

/// What is given for one constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// The bits, zero-extended, and how many bytes there are of them, where that was said.
    Bits { bits: u64, size: Option<usize> },
    /// Something that no valid application gives: what a driver makes of it isn't known.
    Unclear,
}

/// The values of a pipeline's specialization constants.
///
/// Keys are `SpecId`s, values the bits that `VkSpecializationInfo` gives for them, zero-extended to 64 bits; booleans
/// are true if they are 1 and false if they are 0. A constant that isn't listed keeps its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Specialization {
    values: BTreeMap<u32, Given>,
}

impl Specialization {
    /// No constant is changed.
    pub fn none() -> Specialization {
        Specialization::default()
    }

    /// Sets one constant; `bits` is its value, zero-extended.
    pub fn set(&mut self, id: u32, bits: u64) {
        self.values.insert(id, Given::Bits { bits, size: None });
    }

    /// The value of one constant, where it is set.
    pub fn get(&self, id: u32) -> Option<u64> {
        match self.values.get(&id)? {
            Given::Bits { bits, .. } => Some(*bits),
            Given::Unclear => None,
        }
    }

    /// What was given for a constant.
    pub(crate) fn given(&self, id: u32) -> Option<Given> {
        self.values.get(&id).copied()
    }

    /// All constants that are set, by their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.keys().filter_map(|id| Some((*id, self.get(*id)?)))
    }

    /// From the fields of `VkSpecializationInfo`: (`constantID`, `offset`, `size`) of each map entry, and the data.
    ///
    /// A valid application gives each constant once, from within the data, in the size of its type (four bytes for a
    /// boolean). The value of a constant that is given in any other way is not known: neither what was given nor its
    /// default.
    pub fn from_entries(
        entries: impl IntoIterator<Item = (u32, usize, usize)>,
        data: &[u8],
    ) -> Specialization {
        let mut specialization = Specialization::default();
        for (id, offset, size) in entries {
            let bytes = offset.checked_add(size).and_then(|end| data.get(offset..end));
            let given = match bytes.filter(|bytes| (1..=8).contains(&bytes.len())) {
                Some(bytes) => {
                    let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                    Given::Bits { bits, size: Some(size) }
                }
                None => Given::Unclear,
            };
            let before = specialization.values.insert(id, given);
            if before.is_some_and(|before| before != given) {
                specialization.values.insert(id, Given::Unclear);
            }
        }
        specialization
    }
}

impl FromIterator<(u32, u64)> for Specialization {
    fn from_iter<I: IntoIterator<Item = (u32, u64)>>(values: I) -> Specialization {
        let mut specialization = Specialization::default();
        values.into_iter().for_each(|(id, bits)| specialization.set(id, bits));
        specialization
    }
}
