//! The form in which a shader waits for its dispatches: only what decides where memory is touched.
//!
//! A pipeline is compiled once to this form: calls inlined, local variables turned into values, floating point and
//! everything else that no address depends on left out. What remains is a graph of blocks with integer and boolean
//! values in single assignment, and the accesses. Each dispatch evaluates it over intervals.

/// Index of a value in [`Program::nodes`].
pub(crate) type Value = u32;
/// Index of a block in [`Program::blocks`].
pub(crate) type Block = u32;
/// Index of a text in [`Program::reasons`]; 0 is "no reason".
pub(crate) type Reason = u32;

/// Numbers that the dispatch brings, other than push constants. The component is 0, 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    WorkgroupId(u8),
    LocalId(u8),
    GroupCount(u8),
}

/// Operations on one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Negate,
    /// All bits, or a boolean's truth, inverted.
    Not,
    /// To the node's width, with zeros.
    ZeroExtend,
    /// To the node's width, with the sign.
    SignExtend,
    /// To the node's width, the upper bits lost.
    Truncate,
    /// A value that lies where the operand's values lie, although it may be another invocation's.
    Among,
}

/// Operations on two values. Shifts by the width or more, and divisions by zero, have any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    /// Upper half of the unsigned product.
    MulHigh,
    UDiv,
    UMod,
    SDiv,
    SRem,
    SMod,
    Shl,
    Shr,
    Sar,
    And,
    Or,
    Xor,
    UMin,
    UMax,
    SMin,
    SMax,
    Eq,
    Ne,
    ULt,
    ULe,
    SLt,
    SLe,
}

/// How a value is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// Zero-extended.
    Const(u64),
    /// Bytes of the push constants, as many as the width needs.
    Push(u32),
    Input(Input),
    /// Any value from the first to the second, both included.
    Range(u64, u64),
    /// Any value.
    Unknown(Reason),
    Un(Unary, Value),
    Bin(Binary, Value, Value),
    /// `(((n * magic) >> 32) + n) >> shift`, the division by a constant that has been turned into a product.
    FastDiv {
        n: Value,
        magic: Value,
        shift: Value,
        sum: Value,
    },
    Select(Value, Value, Value),
    /// One operand for each edge into the block, by the block that it comes from.
    Phi(Vec<(Block, Value)>),
}

/// A value and its width: 1 for booleans, otherwise 8, 16, 32 or 64.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Typed {
    pub bits: u8,
    pub node: Node,
}

/// How a block ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The invocation ends, or comes back to nothing that matters.
    Stop,
    Goto(Block),
    If(Value, Block, Block),
    Switch(Value, Vec<(u64, Block)>, Block),
}

impl End {
    /// Where it may go; a block may appear twice.
    pub fn targets(&self) -> Vec<Block> {
        match self {
            End::Stop => Vec::new(),
            End::Goto(to) => vec![*to],
            End::If(_, yes, no) => vec![*yes, *no],
            End::Switch(_, cases, default) => cases.iter().map(|(_, to)| *to).chain([*default]).collect(),
        }
    }
}

/// What an access touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    /// Memory behind a descriptor: index in [`Program::variables`].
    Variable(u32),
    /// Memory at an address; the value is 64 bits wide. The offset of the push constant that the pointer comes from,
    /// where nothing but chains happened to it.
    Address { base: Value, push: Option<u32> },
}

/// A byte offset: a constant and values times strides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Offset {
    pub constant: i64,
    pub terms: Vec<(Value, i64)>,
}

/// What is touched from the offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    /// That many bytes.
    Bytes(u64),
    /// `lines` runs of `line` bytes, `stride` units of `unit` bytes apart (a cooperative matrix).
    Matrix { lines: u64, line: u64, stride: Value, unit: u64 },
}

/// One access.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub target: Target,
    pub offset: Offset,
    pub span: Span,
    pub read: bool,
    pub write: bool,
}

/// A run of values and accesses without a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BasicBlock {
    /// Phis first.
    pub nodes: Vec<Value>,
    pub accesses: Vec<Access>,
    pub end: End,
}

/// Whatever couldn't be followed: a whole variable, or all addresses, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Nothing: physical addresses.
    pub variable: Option<u32>,
    pub read: bool,
    pub write: bool,
    pub reason: Reason,
}

/// A compiled entry point.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    /// Ids of the descriptor variables that accesses refer to.
    pub variables: Vec<u32>,
    pub nodes: Vec<Typed>,
    /// Values that depend on nothing but the dispatch, in order.
    pub pool: Vec<Value>,
    /// The first one is where execution begins.
    pub blocks: Vec<BasicBlock>,
    pub lost: Vec<Lost>,
    pub reasons: Vec<String>,
    /// Invocations of a workgroup in each dimension.
    pub local_size: [u32; 3],
}
