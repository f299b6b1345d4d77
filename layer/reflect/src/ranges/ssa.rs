//! Values and local variables while a program is built.
//!
//! Function and Private variables become values on the fly, after Braun et al., "Simple and Efficient Construction of
//! Static Single Assignment Form" (2013): reading a variable looks for its last store along the blocks' predecessors
//! and makes a phi where several meet; a loop header, whose last predecessor is not there yet, gets phis that are
//! completed later. Only integer, boolean and address leaves are followed.

use std::collections::HashMap;

use super::program::{BasicBlock, Binary, Block, End, Input, Node, Program, Reason, Typed, Unary, Value};
use super::semantics::{fold_binary, fold_unary};

/// A leaf that isn't followed.
pub(crate) const NONE: Value = u32::MAX;
/// Most values before a shader is given up on.
const MOST_NODES: usize = 400_000;
/// Most merges that a read may look through, one behind the other.
const MOST_DEPTH: usize = 1500;

/// One leaf of one local variable.
pub(crate) type Cell = (u32, u32);

/// The state of a block while it is built.
#[derive(Debug, Default)]
struct Building {
    defined: HashMap<Cell, Value>,
    predecessors: Vec<Block>,
    /// Predecessors that are still to come.
    missing: usize,
    /// Phis that wait for them.
    incomplete: Vec<(Cell, Value)>,
}

/// The program under construction.
#[derive(Debug, Default)]
pub(crate) struct Ssa {
    pub program: Program,
    building: Vec<Building>,
    pooled: HashMap<Typed, Value>,
    in_pool: Vec<bool>,
    reasons: HashMap<String, Reason>,
    /// Set once the program has become too large.
    pub overflow: bool,
    /// How many reads are under way, one inside the other.
    depth: usize,
}

impl Ssa {
    pub fn new(local_size: [u32; 3]) -> Ssa {
        let program = Program { local_size, reasons: vec![String::new()], ..Program::default() };
        Ssa { program, ..Ssa::default() }
    }

    /// The number of a text.
    pub fn reason(&mut self, text: String) -> Reason {
        if let Some(reason) = self.reasons.get(&text) {
            return *reason;
        }
        let reason = self.program.reasons.len() as Reason;
        self.program.reasons.push(text.clone());
        self.reasons.insert(text, reason);
        reason
    }

    /// A new block into which `missing` edges will lead.
    pub fn block(&mut self, missing: usize) -> Block {
        self.program.blocks.push(BasicBlock { nodes: Vec::new(), accesses: Vec::new(), end: End::Stop });
        self.building.push(Building { missing, ..Building::default() });
        self.program.blocks.len() as Block - 1
    }

    /// Ends a block, without edges.
    pub fn end(&mut self, block: Block, end: End) {
        self.program.blocks[block as usize].end = end;
    }

    /// Adds an edge, and completes the phis of `to` if it was the last one.
    pub fn edge(&mut self, from: Block, to: Block, bits: impl Fn(Cell) -> u8) {
        let building = &mut self.building[to as usize];
        building.predecessors.push(from);
        building.missing = building.missing.saturating_sub(1);
        if building.missing == 0 {
            for (cell, phi) in std::mem::take(&mut building.incomplete) {
                self.complete(to, cell, phi, bits(cell));
            }
        }
    }

    fn push(&mut self, typed: Typed, pool: bool) -> Value {
        if self.program.nodes.len() >= MOST_NODES {
            self.overflow = true;
        }
        self.program.nodes.push(typed);
        self.in_pool.push(pool);
        let value = self.program.nodes.len() as Value - 1;
        if pool {
            self.program.pool.push(value);
        }
        value
    }

    fn pooled(&mut self, bits: u8, node: Node) -> Value {
        let typed = Typed { bits, node };
        if let Some(value) = self.pooled.get(&typed) {
            return *value;
        }
        let value = self.push(typed.clone(), true);
        self.pooled.insert(typed, value);
        value
    }

    /// A constant.
    pub fn constant(&mut self, bits: u8, value: u64) -> Value {
        self.pooled(bits, Node::Const(value & super::semantics::mask(bits)))
    }

    /// Push constants from a byte offset on.
    pub fn push_constant(&mut self, bits: u8, offset: u32) -> Value {
        self.pooled(bits, Node::Push(offset))
    }

    /// A number that the dispatch brings.
    pub fn input(&mut self, input: Input) -> Value {
        self.pooled(32, Node::Input(input))
    }

    /// The value of a constant.
    pub fn known(&self, value: Value) -> Option<u64> {
        match self.program.nodes.get(value as usize)?.node {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    pub fn bits(&self, value: Value) -> u8 {
        self.program.nodes.get(value as usize).map_or(0, |typed| typed.bits)
    }

    /// A value that is made in a block.
    pub fn node(&mut self, block: Block, bits: u8, node: Node) -> Value {
        // What depends on nothing but constants and the dispatch's own numbers is the same everywhere.
        let uniform = |value: Value| {
            let pooled = self.in_pool.get(value as usize).copied().unwrap_or(false);
            let varies = |value: Value| match &self.program.nodes[value as usize].node {
                Node::Input(Input::GroupCount(_)) => false,
                Node::Input(_) | Node::Range(..) | Node::Unknown(_) => true,
                _ => false,
            };
            pooled && !varies(value)
        };
        let pool = match &node {
            Node::Un(Unary::Among, _) => false,
            Node::Un(_, a) => uniform(*a),
            Node::Bin(_, a, b) => uniform(*a) && uniform(*b),
            Node::Select(a, b, c) => uniform(*a) && uniform(*b) && uniform(*c),
            _ => false,
        };
        if pool {
            return self.pooled(bits, node);
        }
        let value = self.push(Typed { bits, node }, false);
        self.program.blocks[block as usize].nodes.push(value);
        value
    }

    pub fn unknown(&mut self, block: Block, bits: u8, reason: Reason) -> Value {
        self.node(block, bits, Node::Unknown(reason))
    }

    /// A value between two, both included.
    pub fn range(&mut self, block: Block, bits: u8, low: u64, high: u64) -> Value {
        self.node(block, bits, Node::Range(low, high))
    }

    pub fn unary(&mut self, block: Block, bits: u8, op: Unary, a: Value) -> Value {
        if let Some(known) = self.known(a) {
            let value = fold_unary(op, known, self.bits(a), bits);
            return self.constant(bits, value);
        }
        if matches!(op, Unary::ZeroExtend | Unary::SignExtend | Unary::Truncate) && self.bits(a) == bits {
            return a;
        }
        self.node(block, bits, Node::Un(op, a))
    }

    pub fn binary(&mut self, block: Block, bits: u8, op: Binary, a: Value, b: Value) -> Value {
        let (known_a, known_b) = (self.known(a), self.known(b));
        if let (Some(x), Some(y)) = (known_a, known_b)
            && let Some(value) = fold_binary(op, x, y, self.bits(a))
        {
            return self.constant(bits, value);
        }
        match (op, known_a, known_b) {
            (Binary::Add | Binary::Or | Binary::Xor, Some(0), _) => return b,
            (
                Binary::Add | Binary::Sub | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr,
                _,
                Some(0),
            ) => {
                return a;
            }
            (Binary::Mul, Some(1), _) => return b,
            (Binary::Mul | Binary::UDiv | Binary::SDiv, _, Some(1)) => return a,
            _ => {}
        }
        self.node(block, bits, Node::Bin(op, a, b))
    }

    /// A phi without operands, at the head of a block.
    pub fn phi(&mut self, block: Block, bits: u8) -> Value {
        let value = self.push(Typed { bits, node: Node::Phi(Vec::new()) }, false);
        let nodes = &mut self.program.blocks[block as usize].nodes;
        let after = nodes.iter().position(|v| !matches!(self.program.nodes[*v as usize].node, Node::Phi(_)));
        nodes.insert(after.unwrap_or(nodes.len()), value);
        value
    }

    pub fn operand(&mut self, phi: Value, from: Block, value: Value) {
        if let Node::Phi(operands) = &mut self.program.nodes[phi as usize].node {
            operands.push((from, value));
        }
    }

    pub fn write(&mut self, block: Block, cell: Cell, value: Value) {
        self.building[block as usize].defined.insert(cell, value);
    }

    /// The value of a cell at the end of a block as it stands.
    pub fn read(&mut self, block: Block, cell: Cell, bits: u8) -> Value {
        // Straight lines are walked and not recursed into: a shader may have thousands of blocks.
        let (mut at, mut passed) = (block, Vec::new());
        let value = loop {
            let building = &self.building[at as usize];
            if let Some(value) = building.defined.get(&cell) {
                break *value;
            }
            passed.push(at);
            if building.missing == 0
                && let [only] = building.predecessors[..]
            {
                at = only;
                continue;
            }
            if building.missing == 0 && building.predecessors.is_empty() {
                let reason = self.reason("a variable that is read before it is written".to_owned());
                break self.unknown(at, bits, reason);
            }
            let sealed = building.missing == 0;
            let phi = self.phi(at, bits);
            self.write(at, cell, phi);
            if sealed {
                self.complete(at, cell, phi, bits);
            } else {
                self.building[at as usize].incomplete.push((cell, phi));
            }
            break phi;
        };
        for at in passed {
            self.write(at, cell, value);
        }
        value
    }

    fn complete(&mut self, block: Block, cell: Cell, phi: Value, bits: u8) {
        if self.depth >= MOST_DEPTH {
            self.overflow = true;
            return;
        }
        self.depth += 1;
        for from in self.building[block as usize].predecessors.clone() {
            let value = self.read(from, cell, bits);
            self.operand(phi, from, value);
        }
        self.depth -= 1;
    }
}
