//! From words to instructions: framing, where the result stands, strings.
//!
//! rspirv brings the grammar, the enumerations and the decoder, and its parser is left aside for one measured
//! reason: it refuses a whole module for one enumerant, opcode or number format that is newer than its grammar, and 277
//! of the 1,569 modules in llama.cpp's Vulkan backend (ggml 0.27) have one: see `newer`. What this crate asks of an
//! instruction is little: where it ends, whether it has a result, and the words in between; an instruction that
//! nobody has listed is then judged by *all* its words, which needs no grammar at all and can't be fooled by a
//! wrong one.

use std::sync::LazyLock;

use rspirv::binary::Decoder;
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind, OperandQuantifier};
use rspirv::spirv::{MAGIC_NUMBER, Op};

use crate::error::ReflectError;
use crate::newer;

/// Number of words of the module header.
const HEADER: usize = 5;

/// Where an opcode keeps its result, from the grammar.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    known: bool,
    result_type: bool,
    result: bool,
    /// Fewest words, the first one (length and opcode) included.
    least: usize,
}

/// The grammar as an array: rspirv's own lookup walks its table from the start for every instruction.
static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let mut layouts = vec![Layout::default(); usize::from(u16::MAX) + 1];
    for entry in INSTRUCTION_TABLE.iter() {
        let has = |kind: OperandKind| entry.operands.iter().any(|operand| operand.kind == kind);
        layouts[entry.opcode as usize & 0xffff] = Layout {
            known: true,
            result_type: has(OperandKind::IdResultType),
            result: has(OperandKind::IdResult),
            least: 1 + entry.operands.iter().filter(|o| o.quantifier == OperandQuantifier::One).count(),
        };
    }
    for (opcode, _) in newer::VALUE_OPS {
        layouts[usize::from(*opcode)] = Layout { known: true, result_type: true, result: true, least: 4 };
    }
    layouts
});

/// One instruction: its words, and where they stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inst<'w> {
    /// The opcode as a number: it may be one that no enumeration holds.
    pub opcode: u16,
    /// Offset of the first word in the module.
    pub at: usize,
    words: &'w [u32],
}

impl<'w> Inst<'w> {
    /// The opcode, where the grammar knows it.
    pub fn op(&self) -> Option<Op> {
        Op::from_u32(u32::from(self.opcode))
    }

    /// Word `index`, counted from the instruction's first word; 0, which is no id, where there are fewer.
    pub fn word(&self, index: usize) -> u32 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// All words from `index` on; empty where there are fewer.
    pub fn from(&self, index: usize) -> &'w [u32] {
        self.words.get(index..).unwrap_or(&[])
    }

    /// Whether rspirv's grammar or this crate's additions hold the opcode.
    pub fn in_grammar(&self) -> bool {
        LAYOUTS[usize::from(self.opcode)].known
    }

    /// The result's (type, id) as the grammar says; the type is 0 for results without one (types, labels, ...).
    pub fn result(&self) -> Option<(u32, u32)> {
        let layout = LAYOUTS[usize::from(self.opcode)];
        match (layout.result_type, layout.result) {
            (true, true) => Some((self.word(1), self.word(2))),
            (false, true) => Some((0, self.word(1))),
            _ => None,
        }
    }

    /// The literal string that begins at word `index`, and the index of the word after it.
    pub fn string(&self, index: usize) -> Result<(String, usize), ReflectError> {
        let bytes: Vec<u8> = self.from(index).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut decoder = Decoder::new(&bytes);
        let string = decoder
            .string()
            .map_err(|error| ReflectError::malformed(self.at, format!("a string can't be read ({error})")))?;
        Ok((string, index + decoder.offset() / 4))
    }

    /// `OpLoad`, or `opcode 7000` for one that nobody has named.
    pub fn name(&self) -> String {
        match (self.op(), newer::value_op(self.opcode)) {
            (Some(op), _) => format!("Op{op:?}"),
            (None, Some(name)) => format!("Op{name}"),
            (None, None) => format!("opcode {}", self.opcode),
        }
    }
}

/// The fields of the header that matter here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Major and minor version.
    pub version: (u8, u8),
    /// All ids are below it.
    pub bound: u32,
}

/// Splits a module into its header and instructions.
///
/// # Errors
///
/// No header, a wrong magic number, an instruction of length zero, one that reaches past the end, or one with fewer
/// words than its opcode needs.
pub(crate) fn split(words: &[u32]) -> Result<(Header, Vec<Inst<'_>>), ReflectError> {
    let Some((&[magic, version, _generator, bound, _schema], mut rest)) = words.split_first_chunk::<HEADER>()
    else {
        return Err(ReflectError::NoHeader { words: words.len() });
    };
    if magic == MAGIC_NUMBER.swap_bytes() {
        return Err(ReflectError::ByteSwapped);
    }
    if magic != MAGIC_NUMBER {
        return Err(ReflectError::BadMagic(magic));
    }
    let mut instructions = Vec::new();
    while let Some(&first) = rest.first() {
        let at = words.len() - rest.len();
        let (length, opcode) = ((first >> 16) as usize, (first & 0xffff) as u16);
        if length == 0 {
            return Err(ReflectError::malformed(at, "an instruction of length zero"));
        }
        let Some((inst, tail)) = rest.split_at_checked(length) else {
            let what =
                format!("an instruction of {length} words, of which {} are there: cut off?", rest.len());
            return Err(ReflectError::malformed(at, what));
        };
        let inst = Inst { opcode, at, words: inst };
        let least = LAYOUTS[usize::from(opcode)].least;
        if length < least {
            let what = format!("{} has {length} words and needs {least}", inst.name());
            return Err(ReflectError::malformed(at, what));
        }
        instructions.push(inst);
        rest = tail;
    }
    let [_, major, minor, _] = version.to_be_bytes();
    Ok((Header { version: (major, minor), bound }, instructions))
}
