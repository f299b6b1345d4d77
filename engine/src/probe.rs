//! Whether a device computes at all.
//!
//! Drivers that record commands and execute none (the shims of `sweep setup-shims`, a null driver) have a GPU's name and
//! kind. What they are shows only in what they leave undone.

use std::rc::Rc;

use zinc_shaders::begin_chain;

use crate::decode::Error;
use crate::plan::{Plan, Space, Span, Step, Work, kernels};
use crate::vk::{Device, Levers, Program};

/// Returns true if a dispatch that writes a few words has written them.
pub fn computes(device: &Rc<Device>) -> Result<bool, Error> {
    const WORDS: u32 = 64;
    let bytes = 4 * u64::from(WORDS);
    let words = Span { space: Space::Arena, offset: 0, bytes };
    let readback = Span { space: Space::Readback, offset: 0, bytes };
    // One workgroup of as many invocations as there are words, each of which writes four, or nothing.
    let push = begin_chain::Push { count: WORDS / 4 };
    let dispatch = kernels::dispatch((), WORDS, 1, push, begin_chain::Bindings { words });
    let plan = Plan {
        steps: vec![
            Step { layer: None, name: "begin_chain", work: Work::Dispatch(dispatch) },
            Step { layer: None, name: "read_words", work: Work::Copy { from: words, to: readback } },
        ],
        buffers: vec![(Space::Step, 8), (Space::Arena, bytes), (Space::Readback, bytes)],
        uploads: Vec::new(),
        failed: None,
    };
    let mut program = Program::new(device, plan, &[], Levers::default())?;
    program.submit(1, 1, true)?;
    program.wait()?;
    let mut found = [0u32; WORDS as usize];
    program.read(Space::Readback, 0, 0, bytemuck::cast_slice_mut(&mut found));
    Ok(found == [u32::MAX; WORDS as usize])
}

/// Returns true if logits are all one number, as no model's are: what a device that computes nothing leaves.
pub fn is_blank(logits: &[f32]) -> bool {
    logits.iter().all(|logit| logit.to_bits() == logits[0].to_bits())
}
