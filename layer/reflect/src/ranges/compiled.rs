//! From a program as it was built to one that can be evaluated quickly: without what no access needs, and with the
//! order, the dominators and the loops of its blocks.

use std::collections::{HashMap, HashSet};

use super::program::{Binary, Block, End, Input, Node, Program, Span, Target, Value};

/// Deepest nest of dominated blocks that is evaluated.
const MOST_DEPTH: usize = 1200;

/// A loop: its header is its index in [`Compiled::loops`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Loop {
    /// All blocks in it, inner loops' too.
    pub blocks: HashSet<Block>,
}

/// How a loop header's phi changes from one round to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// By the sum of these values, which are the same everywhere, each added or subtracted.
    Steps(Vec<(Value, bool)>),
    /// In a way that isn't known.
    Free,
}

/// A program with what its evaluation needs to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compiled {
    pub program: Program,
    /// Position in reverse post-order.
    pub position: Vec<u32>,
    /// Blocks that a block dominates directly, in that order.
    pub children: Vec<Vec<Block>>,
    pub dominator: Vec<Option<Block>>,
    /// Edges into each block that aren't a loop's way back.
    pub entering: Vec<Vec<Block>>,
    pub loops: HashMap<Block, Loop>,
    /// For each phi of a loop header.
    pub changes: HashMap<Value, Change>,
    /// Whether a value decides where control goes or what a loop carries on, or is part of what does.
    pub steers: Vec<bool>,
}

/// The graph of a program's blocks.
struct Graph {
    order: Vec<Block>,
    position: Vec<u32>,
    dominator: Vec<Option<Block>>,
    entering: Vec<Vec<Block>>,
    loops: HashMap<Block, Loop>,
}

/// Makes a program ready.
///
/// # Errors
///
/// For jumps that make no structured loops, and nests that are too deep.
pub(crate) fn compile(mut program: Program) -> Result<Compiled, String> {
    resolve(&mut program);
    recognise_division(&mut program);
    drop_idle_loops(&mut program)?;
    let Graph { order, position, dominator, entering, loops } = graph(&program)?;
    let mut children = vec![Vec::new(); program.blocks.len()];
    let mut depth = vec![0usize; program.blocks.len()];
    for block in &order {
        if let Some(up) = dominator[*block as usize] {
            children[up as usize].push(*block);
            depth[*block as usize] = depth[up as usize] + 1;
            if depth[*block as usize] > MOST_DEPTH {
                return Err("blocks that are nested too deeply to follow".to_owned());
            }
        }
    }
    let mut compiled =
        Compiled { program, position, children, dominator, entering, loops, ..Compiled::default() };
    compiled.hoist(&order);
    compiled.slice();
    compiled.find_changes();
    compiled.find_steering();
    Ok(compiled)
}

/// Orders the blocks and finds dominators and loops.
fn graph(program: &Program) -> Result<Graph, String> {
    let order = reverse_post_order(program);
    let mut position = vec![u32::MAX; program.blocks.len()];
    order.iter().enumerate().for_each(|(at, block)| position[*block as usize] = at as u32);
    let mut predecessors: Vec<Vec<Block>> = vec![Vec::new(); program.blocks.len()];
    for block in &order {
        for to in program.blocks[*block as usize].end.targets() {
            if !predecessors[to as usize].contains(block) {
                predecessors[to as usize].push(*block);
            }
        }
    }
    let dominator = dominators(&order, &position, &predecessors);
    let dominates = |a: Block, mut b: Block| loop {
        if a == b {
            return true;
        }
        match dominator[b as usize] {
            Some(up) if position[b as usize] > position[a as usize] => b = up,
            _ => return false,
        }
    };
    let mut loops: HashMap<Block, Loop> = HashMap::new();
    let mut entering = vec![Vec::new(); program.blocks.len()];
    for block in &order {
        for from in &predecessors[*block as usize] {
            if position[*from as usize] < position[*block as usize] {
                entering[*block as usize].push(*from);
                continue;
            }
            if !dominates(*block, *from) {
                return Err("jumps that make no loop with one head".to_owned());
            }
            let found = loops.entry(*block).or_default();
            found.blocks.insert(*block);
            let mut open = vec![*from];
            while let Some(inside) = open.pop() {
                if found.blocks.insert(inside) {
                    open.extend(&predecessors[inside as usize]);
                }
            }
        }
    }
    Ok(Graph { order, position, dominator, entering, loops })
}

/// Takes out loops that touch nothing and whose values nobody else needs: sums in registers and in shared memory.
///
/// Control may always go on behind such a loop, so a jump from its header to where all its exits lead stands for it.
fn drop_idle_loops(program: &mut Program) -> Result<(), String> {
    loop {
        let graph = graph(program)?;
        let quiet = |found: &Loop| {
            found.blocks.iter().all(|block| program.blocks[*block as usize].accesses.is_empty())
        };
        let mut idle: HashMap<Block, Block> = HashMap::new();
        for (header, found) in graph.loops.iter().filter(|(_, found)| quiet(found)) {
            let targets = found.blocks.iter().flat_map(|block| program.blocks[*block as usize].end.targets());
            let exits: HashSet<Block> = targets.filter(|to| !found.blocks.contains(to)).collect();
            if let (1, Some(exit)) = (exits.len(), exits.iter().next()) {
                idle.insert(*header, *exit);
            }
        }
        // What is needed elsewhere keeps a loop alive, and then what steers that loop is needed, too.
        loop {
            let within: HashSet<Block> =
                idle.keys().flat_map(|header| graph.loops[header].blocks.iter().copied()).collect();
            let mut needed = vec![false; program.nodes.len()];
            let mut open = Vec::new();
            for block in &graph.order {
                let (block, inside) = (&program.blocks[*block as usize], within.contains(block));
                block
                    .accesses
                    .iter()
                    .for_each(|access| operands_of_access(access, &mut |value| open.push(value)));
                if let (End::If(value, ..) | End::Switch(value, ..), false) = (&block.end, inside) {
                    open.push(*value);
                }
            }
            while let Some(value) = open.pop() {
                if !std::mem::replace(&mut needed[value as usize], true) {
                    visit_operands(&mut program.nodes[value as usize].node, &mut |operand| {
                        open.push(*operand)
                    });
                }
            }
            let before = idle.len();
            idle.retain(|header, _| {
                let nodes =
                    graph.loops[header].blocks.iter().flat_map(|b| &program.blocks[*b as usize].nodes);
                !nodes.into_iter().any(|value| needed[*value as usize])
            });
            if idle.len() == before {
                break;
            }
        }
        if idle.is_empty() {
            return Ok(());
        }
        // Outermost first: an inner one may be gone with it, or lead to a block of it.
        let outermost = idle.iter().filter(|(header, _)| {
            !idle.keys().any(|other| other != *header && graph.loops[other].blocks.contains(header))
        });
        for (header, exit) in outermost {
            let block = &mut program.blocks[*header as usize];
            (block.nodes, block.end) = (Vec::new(), End::Goto(*exit));
        }
    }
}

/// The values that an access depends on.
fn operands_of_access(access: &super::program::Access, visit: &mut impl FnMut(Value)) {
    access.offset.terms.iter().for_each(|(value, _)| visit(*value));
    if let Target::Address { base, .. } = access.target {
        visit(base);
    }
    if let Span::Matrix { stride, .. } = access.span {
        visit(stride);
    }
}

/// Replaces phis that stand for one value by it.
fn resolve(program: &mut Program) {
    let mut alias: Vec<Value> = (0..program.nodes.len() as Value).collect();
    fn find(alias: &mut [Value], mut value: Value) -> Value {
        while alias[value as usize] != value {
            let next = alias[alias[value as usize] as usize];
            alias[value as usize] = next;
            value = next;
        }
        value
    }
    loop {
        let mut changed = false;
        for index in 0..program.nodes.len() as Value {
            if alias[index as usize] != index {
                continue;
            }
            let Node::Phi(operands) = &program.nodes[index as usize].node else { continue };
            let mut other = None;
            let mut trivial = true;
            for (_, value) in operands {
                let value = find(&mut alias, *value);
                if value != index && *other.get_or_insert(value) != value {
                    trivial = false;
                    break;
                }
            }
            if let (true, Some(other)) = (trivial, other) {
                alias[index as usize] = other;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut to = |value: &mut Value| *value = find(&mut alias, *value);
    for typed in &mut program.nodes {
        visit_operands(&mut typed.node, &mut to);
    }
    for block in &mut program.blocks {
        for access in &mut block.accesses {
            access.offset.terms.iter_mut().for_each(|(value, _)| to(value));
            if let Target::Address { base, .. } = &mut access.target {
                to(base);
            }
            if let Span::Matrix { stride, .. } = &mut access.span {
                to(stride);
            }
        }
        match &mut block.end {
            End::If(value, ..) | End::Switch(value, ..) => to(value),
            End::Stop | End::Goto(_) => {}
        }
    }
    for block in &mut program.blocks {
        block.nodes.retain(|value| alias[*value as usize] == *value);
        for access in &mut block.accesses {
            if let Target::Address { base, push } = &mut access.target
                && let Node::Push(offset) = program.nodes[*base as usize].node
            {
                *push = Some(offset);
            }
        }
    }
}

fn visit_operands(node: &mut Node, visit: &mut impl FnMut(&mut Value)) {
    match node {
        Node::Const(_) | Node::Push(_) | Node::Input(_) | Node::Range(..) | Node::Unknown(_) => {}
        Node::Un(_, a) => visit(a),
        Node::Bin(_, a, b) => [a, b].into_iter().for_each(visit),
        Node::Select(a, b, c) => [a, b, c].into_iter().for_each(visit),
        Node::FastDiv { n, magic, shift, sum } => [n, magic, shift, sum].into_iter().for_each(visit),
        Node::Phi(operands) => operands.iter_mut().for_each(|(_, value)| visit(value)),
    }
}

/// Finds `(mulhi(n, magic) + n) >> shift`.
fn recognise_division(program: &mut Program) {
    for index in 0..program.nodes.len() {
        let Node::Bin(Binary::Shr, sum, shift) = program.nodes[index].node else { continue };
        let Node::Bin(Binary::Add, a, b) = program.nodes[sum as usize].node else { continue };
        for (high, n) in [(a, b), (b, a)] {
            if let Node::Bin(Binary::MulHigh, x, y) = program.nodes[high as usize].node
                && program.nodes[index].bits == 32
                && (x == n || y == n)
            {
                let magic = if x == n { y } else { x };
                program.nodes[index].node = Node::FastDiv { n, magic, shift, sum };
                break;
            }
        }
    }
}

fn reverse_post_order(program: &Program) -> Vec<Block> {
    let (mut order, mut seen, mut open) = (Vec::new(), HashSet::from([0]), vec![(0, 0)]);
    while let Some((block, next)) = open.pop() {
        match program.blocks[block as usize].end.targets().get(next) {
            Some(to) => {
                open.push((block, next + 1));
                if seen.insert(*to) {
                    open.push((*to, 0));
                }
            }
            None => order.push(block),
        }
    }
    order.reverse();
    order
}

/// Immediate dominators, after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
fn dominators(order: &[Block], position: &[u32], predecessors: &[Vec<Block>]) -> Vec<Option<Block>> {
    let mut found: Vec<Option<Block>> = vec![None; predecessors.len()];
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for block in order.iter().skip(1) {
            let mut new = None;
            for from in &predecessors[*block as usize] {
                if *from != order[0] && found[*from as usize].is_none() {
                    continue;
                }
                new = Some(match new {
                    None => *from,
                    Some(mut a) => {
                        let mut b = *from;
                        while a != b {
                            let later =
                                if position[a as usize] > position[b as usize] { &mut a } else { &mut b };
                            match found[*later as usize] {
                                Some(up) => *later = up,
                                None => break,
                            }
                        }
                        a
                    }
                });
            }
            if new != found[*block as usize] {
                found[*block as usize] = new;
                changed = true;
            }
        }
    }
    found
}

impl Compiled {
    /// Moves what turned out to depend on nothing but constants and the dispatch's own numbers to the pool.
    fn hoist(&mut self, order: &[Block]) {
        let program = &mut self.program;
        let mut uniform: Vec<bool> = vec![false; program.nodes.len()];
        for value in &program.pool {
            uniform[*value as usize] = !matches!(
                program.nodes[*value as usize].node,
                Node::Input(Input::WorkgroupId(_) | Input::LocalId(_)) | Node::Range(..) | Node::Unknown(_)
            );
        }
        for block in order {
            let mut kept = Vec::new();
            for value in std::mem::take(&mut program.blocks[*block as usize].nodes) {
                let node = &mut program.nodes[value as usize].node;
                let mut same =
                    matches!(node, Node::Bin(..) | Node::Select(..) | Node::FastDiv { .. } | Node::Un(..));
                visit_operands(node, &mut |operand| same &= uniform[*operand as usize]);
                if same {
                    uniform[value as usize] = true;
                    program.pool.push(value);
                } else {
                    kept.push(value);
                }
            }
            program.blocks[*block as usize].nodes = kept;
        }
    }

    /// Leaves out what no access and no branch needs.
    fn slice(&mut self) {
        let program = &mut self.program;
        let mut needed = vec![false; program.nodes.len()];
        let mut open: Vec<Value> = Vec::new();
        for (index, block) in program.blocks.iter_mut().enumerate() {
            if self.position[index] == u32::MAX {
                (block.nodes, block.accesses, block.end) = (Vec::new(), Vec::new(), End::Stop);
                continue;
            }
            merge_accesses(&mut block.accesses);
            block
                .accesses
                .iter()
                .for_each(|access| operands_of_access(access, &mut |value| open.push(value)));
            match &block.end {
                End::If(value, ..) | End::Switch(value, ..) => open.push(*value),
                End::Stop | End::Goto(_) => {}
            }
        }
        while let Some(value) = open.pop() {
            if !std::mem::replace(&mut needed[value as usize], true) {
                visit_operands(&mut program.nodes[value as usize].node, &mut |operand| open.push(*operand));
            }
        }
        let mut number = vec![Value::MAX; program.nodes.len()];
        let mut kept = Vec::new();
        for (index, typed) in std::mem::take(&mut program.nodes).into_iter().enumerate() {
            if needed[index] {
                number[index] = kept.len() as Value;
                kept.push(typed);
            }
        }
        program.nodes = kept;
        let mut renumber = |value: &mut Value| *value = number[*value as usize];
        for typed in &mut program.nodes {
            visit_operands(&mut typed.node, &mut renumber);
        }
        let keep = |values: &mut Vec<Value>| {
            values.retain_mut(|value| {
                *value = number[*value as usize];
                *value != Value::MAX
            });
        };
        keep(&mut program.pool);
        for block in &mut program.blocks {
            keep(&mut block.nodes);
            let renumber = |value: &mut Value| *value = number[*value as usize];
            for access in &mut block.accesses {
                access.offset.terms.iter_mut().for_each(|(value, _)| renumber(value));
                if let Target::Address { base, .. } = &mut access.target {
                    renumber(base);
                }
                if let Span::Matrix { stride, .. } = &mut access.span {
                    renumber(stride);
                }
            }
            match &mut block.end {
                End::If(value, ..) | End::Switch(value, ..) => renumber(value),
                End::Stop | End::Goto(_) => {}
            }
        }
    }

    /// Finds what decides where control goes, and what loops carry from round to round: a loop isn't understood without.
    fn find_steering(&mut self) {
        self.steers = vec![false; self.program.nodes.len()];
        let mut open: Vec<Value> = self.changes.keys().copied().collect();
        for block in &self.program.blocks {
            if let End::If(value, ..) | End::Switch(value, ..) = &block.end {
                open.push(*value);
            }
        }
        while let Some(value) = open.pop() {
            if !std::mem::replace(&mut self.steers[value as usize], true) {
                visit_operands(&mut self.program.nodes[value as usize].node, &mut |operand| {
                    open.push(*operand)
                });
            }
        }
    }

    /// Finds out how the phis of loop headers change.
    fn find_changes(&mut self) {
        let pool: HashSet<Value> = self.program.pool.iter().copied().collect();
        for (header, found) in &self.loops {
            for phi in &self.program.blocks[*header as usize].nodes {
                let Node::Phi(operands) = &self.program.nodes[*phi as usize].node else { continue };
                let mut change = None;
                for (_, next) in operands.iter().filter(|(from, _)| found.blocks.contains(from)) {
                    let steps = steps(&self.program, &pool, *phi, *next);
                    change = match (change, steps) {
                        (None, Some(steps)) => Some(Change::Steps(steps)),
                        (Some(Change::Steps(old)), Some(steps)) if old == steps => Some(Change::Steps(old)),
                        _ => Some(Change::Free),
                    };
                }
                self.changes.insert(*phi, change.unwrap_or(Change::Free));
            }
        }
    }
}

/// The summands that lead from a phi to its next value, if all of them are the same everywhere.
fn steps(
    program: &Program,
    pool: &HashSet<Value>,
    phi: Value,
    mut next: Value,
) -> Option<Vec<(Value, bool)>> {
    let mut found = Vec::new();
    while next != phi {
        if found.len() > 16 {
            return None;
        }
        match program.nodes[next as usize].node {
            Node::Bin(Binary::Add, a, b) if pool.contains(&b) => {
                found.push((b, true));
                next = a;
            }
            Node::Bin(Binary::Add, a, b) if pool.contains(&a) => {
                found.push((a, true));
                next = b;
            }
            Node::Bin(Binary::Sub, a, b) if pool.contains(&b) => {
                found.push((b, false));
                next = a;
            }
            _ => return None,
        }
    }
    Some(found)
}

/// Joins accesses that differ in their constant offset only and touch or overlap.
fn merge_accesses(accesses: &mut Vec<super::program::Access>) {
    let mut order: HashMap<super::program::Access, usize> = HashMap::new();
    let mut kept: Vec<super::program::Access> = Vec::new();
    for access in accesses.drain(..) {
        let Span::Bytes(size) = access.span else {
            if order.insert(access.clone(), kept.len()).is_none() {
                kept.push(access);
            }
            continue;
        };
        let mut key = access.clone();
        (key.offset.constant, key.span) = (0, Span::Bytes(0));
        match order.get(&key) {
            // The hull: what lies between is charged too, which costs at most the gaps of one vector or structure.
            Some(at) => {
                let old = &mut kept[*at];
                if let Span::Bytes(length) = old.span {
                    let start = old.offset.constant.min(access.offset.constant);
                    let end = old.offset.constant.saturating_add_unsigned(length);
                    let end = end.max(access.offset.constant.saturating_add_unsigned(size));
                    old.offset.constant = start;
                    old.span = Span::Bytes(end.abs_diff(start));
                }
            }
            None => {
                order.insert(key, kept.len());
                kept.push(access);
            }
        }
    }
    *accesses = kept;
}
