//! The blocks of a function as the module has them, in the order in which they are translated.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::Op;

use crate::words::Inst;

/// One block of a function's text.
pub(crate) struct TextBlock<'t> {
    pub body: Vec<&'t Inst<'t>>,
    pub end: &'t Inst<'t>,
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
    pub fn new(body: &'t [Inst<'t>]) -> Result<FunctionText<'t>, String> {
        let (mut blocks, mut first) = (HashMap::new(), None);
        let mut current: Option<(u32, Vec<&Inst<'_>>)> = None;
        for inst in body {
            match (inst.op(), &mut current) {
                (Some(Op::Label), _) => {
                    first.get_or_insert(inst.word(1));
                    current = Some((inst.word(1), Vec::new()));
                }
                (_, Some((label, lines))) => {
                    if let Some(targets) = targets(inst) {
                        let block = TextBlock { body: std::mem::take(lines), end: inst, targets };
                        blocks.insert(*label, block);
                        current = None;
                    } else {
                        lines.push(inst);
                    }
                }
                _ => {}
            }
        }
        let first = first.ok_or("a function without a body")?;
        // Depth first, without recursion.
        let (mut order, mut seen) = (Vec::new(), HashSet::from([first]));
        let mut open = vec![(first, 0usize)];
        while let Some((label, next)) = open.pop() {
            let block: &TextBlock<'_> =
                blocks.get(&label).ok_or_else(|| format!("a jump to %{label}, which has no end"))?;
            match block.targets.get(next) {
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
        if predecessors.contains_key(&first) {
            return Err("a jump to a function's first block".to_owned());
        }
        Ok(FunctionText { blocks, order, predecessors })
    }
}

/// Where an instruction that ends a block may go, each label once; nothing for any other instruction.
fn targets(inst: &Inst<'_>) -> Option<Vec<u32>> {
    let mut targets = match inst.op()? {
        Op::Branch => vec![inst.word(1)],
        Op::BranchConditional => vec![inst.word(2), inst.word(3)],
        Op::Switch => {
            // Selectors of 64 bits have been turned away.
            let words = inst.from(3);
            let mut targets = vec![inst.word(2)];
            targets.extend(words.chunks_exact(2).map(|case| case[1]));
            targets
        }
        Op::Return
        | Op::ReturnValue
        | Op::Kill
        | Op::Unreachable
        | Op::TerminateInvocation
        | Op::IgnoreIntersectionKHR
        | Op::TerminateRayKHR
        | Op::EmitMeshTasksEXT => Vec::new(),
        _ => return None,
    };
    let mut seen = HashSet::new();
    targets.retain(|target| seen.insert(*target));
    Some(targets)
}
