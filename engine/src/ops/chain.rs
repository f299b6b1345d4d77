//! Cases of what only a chain of steps has: words that are emptied, and a wait for one that never comes.

use zinc_shaders::begin_chain;

use super::cases::{Maker, input};
use super::fused::Product;
use super::{Case, Expected, Input};
use crate::plan::EMPTY;
use crate::plan::kernels::{self, Waiting};
use crate::quant::WeightType;

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    cases.extend([48, 4, 1000].map(|words| maker.emptied(words)));
}

impl Maker {
    fn emptied(&mut self, words: u32) -> Case {
        let bindings = begin_chain::Bindings { words: Input::Result };
        let dispatch = kernels::begin_chain(self.tuning.reduce, words / 4, bindings);
        let expected = vec![Some(Expected::Bits(EMPTY)); words as usize];
        Case { push_flip: 4, ..Case::new(format!("words={words}"), dispatch, expected) }
    }

    /// Steps with weights of this format of which no word, an activation, or what a result is added to never comes: they say that they
    /// gave up, or nothing.
    pub(super) fn given_up(&mut self, ty: WeightType, native: bool) -> Vec<Case> {
        let missing = [None, Some(Missing::Activation), Some(Missing::Residual)];
        missing.into_iter().filter_map(|missing| self.without(ty, native, missing)).collect()
    }

    fn without(&mut self, ty: WeightType, native: bool, missing: Option<Missing>) -> Option<Case> {
        let mut parts = self.product_parts(&Product {
            ty,
            native,
            columns: 256,
            rows: 5,
            norm: false,
            epilogue: 1,
            bias: false,
            chained: true,
        })?;
        let bindings = &mut parts.bindings;
        // The result's place, in which no one looks, for that of the word that is compared.
        bindings.result = input(&vec![0.0; parts.expected.len()]);
        bindings.chain = Some(Input::Result);
        let of = match missing {
            None => "nothing",
            Some(Missing::Activation) => "binding 2",
            Some(Missing::Residual) => "binding 4",
        };
        let never = match missing {
            None => None,
            Some(Missing::Activation) => Some(&mut bindings.x),
            Some(Missing::Residual) => Some(&mut bindings.residual),
        };
        if let Some(Input::Bytes(bytes, _)) = never {
            bytes[8..12].copy_from_slice(&EMPTY.to_ne_bytes());
        }
        bindings.weights.flip(0);
        parts.expected = vec![missing.map(|_| Expected::Bits(1))];
        parts.label = format!("a wait in vain for {of}");
        // Fewer looks than after which it would see that others gave up.
        Some(parts.case(Some(Waiting { waits: true, spins: 50 })))
    }
}

/// What never comes.
#[derive(Clone, Copy)]
enum Missing {
    Activation,
    Residual,
}
