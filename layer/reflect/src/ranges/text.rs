//! The blocks of a function as the module has them, in the order in which they are translated.

use std::collections::{HashMap, HashSet};

use crate::blocks::{self, Context, Terminator};
use crate::words::Inst;

/// One block of a function's text.
pub(crate) struct TextBlock<'t> {
    /// Without the label and the terminator.
    pub body: &'t [Inst<'t>],
    /// The terminator's instruction.
    pub end: &'t Inst<'t>,
    pub terminator: Terminator,
    /// Labels that it may go to, each once.
    pub targets: Vec<u32>,
}

/// A function's blocks in reverse post-order, as far as they can be reached.
pub(crate) struct FunctionText<'t> {
    pub blocks: HashMap<u32, TextBlock<'t>>,
    pub order: Vec<u32>,
    pub predecessors: HashMap<u32, Vec<u32>>,
}

impl<'t> FunctionText<'t> {
    pub fn new(context: &Context, body: &'t [Inst<'t>]) -> Result<FunctionText<'t>, String> {
        let found = blocks::blocks(context, body)?;
        let first = found.first().map(|block| block.label).ok_or("a function without a body")?;
        let blocks: HashMap<u32, TextBlock<'_>> = found
            .into_iter()
            .map(|block| {
                let text = TextBlock {
                    body: &body[block.start + 1..block.end],
                    end: &body[block.end],
                    targets: block.terminator.targets(),
                    terminator: block.terminator,
                };
                (block.label, text)
            })
            .collect();
        // Depth first, without recursion.
        let (mut order, mut seen) = (Vec::new(), HashSet::from([first]));
        let mut open = vec![(first, 0usize)];
        while let Some((label, next)) = open.pop() {
            match blocks[&label].targets.get(next) {
                Some(to) => {
                    open.push((label, next + 1));
                    if seen.insert(*to) {
                        open.push((*to, 0));
                    }
                }
                None => order.push(label),
            }
        }
        order.reverse();
        let mut predecessors: HashMap<u32, Vec<u32>> = HashMap::new();
        for label in &order {
            for to in &blocks[label].targets {
                predecessors.entry(*to).or_default().push(*label);
            }
        }
        Ok(FunctionText { blocks, order, predecessors })
    }
}
