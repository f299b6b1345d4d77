//! Cases of what only a chain of steps has: words that are emptied, and a wait for one that never comes.

use zinc_shaders::begin_chain;

use super::cases::Maker;
use super::fused::Product;
use super::{Case, Expected, Input, input};
use crate::plan::EMPTY;
use crate::plan::kernels::{self, Waiting};
use crate::quant::WeightType;

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    cases.extend([48, 4, 1000].map(|words| maker.emptied(words)));
}

impl Maker {
    fn emptied(&mut self, words: u32) -> Case {
        let bindings = begin_chain::Bindings { words: Input::Result };
        let push = begin_chain::Push { count: words / 4 };
        let dispatch = kernels::dispatch((), self.tuning.reduce, 1, push, bindings);
        let expected = vec![Some(Expected::Bits(EMPTY)); words as usize];
        Case { push_flip: 4, ..Case::new(format!("words={words}"), dispatch, expected) }
    }

    /// Steps with weights of this format of which no word, an activation, or what a result is added to never comes: they say that they
    /// gave up, or nothing.
    pub(super) fn given_up(&mut self, ty: WeightType, native: bool) -> Vec<Case> {
        ["nothing", "binding 2", "binding 4"]
            .into_iter()
            .filter_map(|of| self.without(ty, native, of))
            .collect()
    }

    fn without(&mut self, ty: WeightType, native: bool, of: &str) -> Option<Case> {
        let (norm, bias) = (false, false);
        let product = Product { ty, native, columns: 256, rows: 5, norm, epilogue: 1, bias, chained: true };
        let mut parts = self.product_parts(&product)?;
        let bindings = &mut parts.bindings;
        let never = match of {
            "binding 2" => Some(&mut bindings.x),
            "binding 4" => Some(&mut bindings.residual),
            _ => None,
        };
        parts.expected = vec![never.as_ref().map(|_| Expected::Bits(1))];
        if let Some(Input::Bytes(bytes, _)) = never {
            bytes[8..12].copy_from_slice(&EMPTY.to_ne_bytes());
        }
        // The result's place, in which no one looks, for that of the word that is compared.
        bindings.result = input(&[0u32; 5]);
        bindings.chain = Some(Input::Result);
        bindings.weights = std::mem::replace(&mut bindings.weights, Input::Result).flipped(0);
        parts.label = format!("a wait in vain for {of}");
        // Fewer looks than after which it would see that others gave up.
        Some(parts.case(Some(Waiting { waits: true, spins: 50 })))
    }
}
