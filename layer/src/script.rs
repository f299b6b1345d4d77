//! A recording as a list of things to do, so that `replay` can do them again, differently, when it is submitted.
//!
//! Which operations were issued, in which order, with which barriers between them, stands in the journal. What is
//! missing there is how to issue one: that is here, one entry for each operation of the journal and in its order. Some
//! recordings can't be replayed: those with a command that the layer has no model of, and those that bind something that
//! can't be bound again (pushed descriptors, sets that were not seen). A script knows that of itself.

use crate::bindings::{Bindings, Grid, Transfer};
use crate::replay::traits::Traits;
use std::sync::Arc;

/// How to issue one operation.
#[derive(Clone, Debug)]
pub enum Action {
    /// What is bound, how many workgroups, and what the shader is like where that is known.
    Dispatch(Arc<Bindings>, Grid, Option<Traits>),
    /// A transfer.
    Transfer(Transfer),
}

/// The operations of a recording.
#[derive(Clone, Debug, Default)]
pub struct Script {
    actions: Vec<Action>,
    broken: bool,
}

impl Script {
    /// An operation is recorded; `None` for one that can't be issued from elsewhere.
    pub fn operation(&mut self, action: Option<Action>) {
        match action {
            Some(action) if !self.broken => self.actions.push(action),
            _ => self.breaks(),
        }
    }

    /// Something is recorded that can't be issued from elsewhere.
    pub fn breaks(&mut self) {
        self.broken = true;
        self.actions = Vec::new();
    }

    /// A secondary command buffer with this script is executed.
    pub fn executes(&mut self, secondary: Option<&Script>) {
        match secondary.filter(|s| !s.broken && !self.broken) {
            Some(secondary) => self.actions.extend(secondary.actions.iter().cloned()),
            None => self.breaks(),
        }
    }

    /// All operations, where all of them can be issued again.
    pub fn actions(&self) -> Option<&[Action]> {
        (!self.broken).then_some(&self.actions[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk;

    fn fill() -> Option<Action> {
        Some(Action::Transfer(Transfer::Fill(vk::Buffer::null(), 0, 4, 0)))
    }

    #[test]
    fn one_operation_that_cannot_be_issued_again_is_enough_to_break_a_script() {
        let mut script = Script::default();
        script.operation(fill());
        assert_eq!(script.actions().map(<[_]>::len), Some(1));
        script.operation(None);
        script.operation(fill());
        assert!(script.actions().is_none());
    }

    #[test]
    fn a_primary_is_as_broken_as_what_it_executes() {
        let mut whole = Script::default();
        whole.operation(fill());
        let mut primary = whole.clone();
        primary.executes(Some(&whole));
        assert_eq!(primary.actions().map(<[_]>::len), Some(2));
        whole.breaks();
        primary.executes(Some(&whole));
        assert!(primary.actions().is_none());
        let mut other = Script::default();
        other.executes(None);
        assert!(other.actions().is_none(), "a secondary of which nothing is known");
    }
}
