//! What a shader is like, as far as cutting its dispatches and delaying its writes goes.
//!
//! Both are read off the words of the module, for all its entry points together: a trait too many costs a check, one too
//! few breaks an application.
//!
//! - A shader that reads NumWorkgroups sees another number in a piece than in the whole: it is not cut.
//! - Atomics of two dispatches may meet in one word without any barrier, and both must count. Their writes are not
//!   delayed.

/// What matters of a shader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It reads how many workgroups there are.
    pub counts_groups: bool,
    /// It has atomic instructions.
    pub atomics: bool,
    /// It writes images, whose bytes are the driver's business.
    pub writes_images: bool,
    /// Its pipeline was made for dispatches that begin elsewhere than at the first workgroup.
    pub takes_a_base: bool,
}

impl Traits {
    /// Those of a shader without anything special, in a pipeline whose dispatches may be cut.
    pub const PLAIN: Traits =
        Traits { counts_groups: false, atomics: false, writes_images: false, takes_a_base: true };
}

const OP_DECORATE: u32 = 71;
const OP_MEMBER_DECORATE: u32 = 72;
const DECORATION_BUILT_IN: u32 = 11;
const BUILT_IN_NUM_WORKGROUPS: u32 = 24;

/// `OpAtomicLoad` to `OpAtomicXor`, the flags, and the floating-point ones of extensions.
fn is_atomic(opcode: u32) -> bool {
    matches!(opcode, 227..=242 | 318 | 319 | 5614 | 5615 | 6035)
}

impl Traits {
    /// From the words of a module; `None` where they are no module.
    pub fn of(words: &[u32]) -> Option<Traits> {
        const HEADER: usize = 5;
        let mut traits = Traits::default();
        let mut rest = words.get(HEADER..)?;
        while let [first, ..] = rest {
            let (length, opcode) = ((first >> 16) as usize, first & 0xffff);
            let instruction = rest.get(..length).filter(|i| !i.is_empty())?;
            traits.atomics |= is_atomic(opcode);
            traits.counts_groups |= match opcode {
                OP_DECORATE => instruction.get(2..4) == Some(&[DECORATION_BUILT_IN, BUILT_IN_NUM_WORKGROUPS]),
                OP_MEMBER_DECORATE => {
                    instruction.get(3..5) == Some(&[DECORATION_BUILT_IN, BUILT_IN_NUM_WORKGROUPS])
                }
                _ => false,
            };
            rest = &rest[length..];
        }
        Some(traits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(instructions: &[&[u32]]) -> Vec<u32> {
        let mut words = vec![0x0723_0203, 0x1_0300, 0, 10, 0];
        for instruction in instructions {
            words.push((instruction.len() as u32) << 16 | instruction[0]);
            words.extend(&instruction[1..]);
        }
        words
    }

    #[test]
    fn the_number_of_workgroups_and_atomics_are_seen() {
        let plain = [OP_DECORATE, 7, DECORATION_BUILT_IN, 28];
        assert_eq!(Traits::of(&module(&[&plain])), Some(Traits::default()));
        let counts = [OP_DECORATE, 7, DECORATION_BUILT_IN, BUILT_IN_NUM_WORKGROUPS];
        assert!(Traits::of(&module(&[&plain, &counts])).unwrap().counts_groups);
        assert!(Traits::of(&module(&[&[234, 1, 2, 3, 4, 5, 6]])).unwrap().atomics);
    }

    #[test]
    fn words_that_are_no_module_are_nothing_at_all() {
        assert_eq!(Traits::of(&[1, 2, 3]), None);
        assert_eq!(Traits::of(&module(&[&plain_zero()])[..6]), None);
        let mut torn = module(&[&[OP_DECORATE, 7, 11, 24]]);
        torn.pop();
        assert_eq!(Traits::of(&torn), None);
    }

    fn plain_zero() -> [u32; 2] {
        [0, 0]
    }
}
