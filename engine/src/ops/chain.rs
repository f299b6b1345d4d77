//! Cases of what only a chain of steps has: words that are emptied, and a wait for one that never comes.

use zinc_shaders as k;

use super::cases::{FLIP, Maker, bytes};
use super::fused::Product;
use super::{Case, Expected};
use crate::plan::{EMPTY, Shape};
use crate::quant::WeightType;

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    cases.extend([48, 4, 1000].map(|words| maker.emptied(words)));
}

impl Maker {
    fn emptied(&mut self, words: u32) -> Case {
        let workgroup = self.tuning.reduce;
        Case {
            kernel: &k::BEGIN_CHAIN,
            shape: Shape { workgroup, rows: 1 },
            label: format!("words={words}"),
            step: vec![0, 0],
            inputs: Vec::new(),
            push: vec![words / 4],
            grid: [(words / 4).div_ceil(workgroup), 1],
            expected: vec![Some(Expected::Bits(EMPTY)); words as usize],
            control: (0, 0, 4),
            constants: Vec::new(),
            output: None,
        }
    }

    /// Steps with weights of this format of which no word, an activation, or what a result is added to never comes: they say that they
    /// gave up, or nothing.
    pub(super) fn given_up(&mut self, ty: WeightType, native: bool) -> Vec<Case> {
        [None, Some(2), Some(4)].into_iter().filter_map(|missing| self.without(ty, native, missing)).collect()
    }

    fn without(&mut self, ty: WeightType, native: bool, missing: Option<usize>) -> Option<Case> {
        let mut case = self.product(&Product {
            ty,
            native,
            columns: 256,
            rows: 5,
            norm: false,
            epilogue: 1,
            bias: false,
            chained: true,
        })?;
        let rows = case.expected.len();
        let chain = case.kernel.bindings.len() - 1;
        // The result's place, in which nobody looks, for that of the word that is compared.
        case.inputs[chain - 1] = bytes(&vec![0.0; rows]);
        if let Some(input) = missing {
            case.inputs[input][8..12].copy_from_slice(&EMPTY.to_ne_bytes());
        }
        case.label = format!(
            "a wait in vain for {}",
            missing.map_or("nothing".to_owned(), |i| format!("binding {i}"))
        );
        case.output = Some(chain);
        // Fewer looks than after which it would see that others gave up.
        case.constants.push((31, 50));
        case.expected = vec![missing.map(|_| Expected::Bits(1))];
        case.control = (0, 0, FLIP);
        Some(case)
    }
}
