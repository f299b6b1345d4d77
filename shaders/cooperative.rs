//! Turns modules that use `SPV_NV_cooperative_matrix` into ones that use `SPV_KHR_cooperative_matrix`.
//!
//! The kernels are compiled by whatever glslang a distribution has. The one of Debian 12 knows the older, NVIDIA's extension with
//! shapes given by specialization constants, and not the one of Khronos; later ones know both. So the source uses the
//! older, and this translates what the compiler makes of it. The two differ in few places: a matrix type also says what it is
//! used as, and a layout is a number where it was a truth value. Opcodes and operands are those of the two extensions'
//! specifications (SPIR-V registry: SPV_NV_cooperative_matrix, SPV_KHR_cooperative_matrix).

use std::collections::{BTreeMap, BTreeSet};

const OP_EXTENSION: u32 = 10;
const OP_CAPABILITY: u32 = 17;
const OP_TYPE_INT: u32 = 21;
const OP_TYPE_VECTOR: u32 = 23;
const OP_TYPE_POINTER: u32 = 32;
const OP_CONSTANT_TRUE: u32 = 41;
const OP_CONSTANT_FALSE: u32 = 42;
const OP_CONSTANT: u32 = 43;
const OP_LOAD: u32 = 61;
const OP_ACCESS_CHAIN: u32 = 65;
const CAPABILITY_NV: u32 = 5357;
const CAPABILITY_KHR: u32 = 6022;
const TYPE_NV: u32 = 5358;
const LOAD_NV: u32 = 5359;
const STORE_NV: u32 = 5360;
const MULTIPLY_NV: u32 = 5361;
const LENGTH_NV: u32 = 5362;
const TYPE_KHR: u32 = 4456;
const LOAD_KHR: u32 = 4457;
const STORE_KHR: u32 = 4458;
const MULTIPLY_KHR: u32 = 4459;
const EXTENSION_KHR: &str = "SPV_KHR_cooperative_matrix";

/// Words before the first instruction; the fourth is the bound of all ids.
const HEADER: usize = 5;
const BOUND: usize = 3;

/// Opcode and operands of every instruction.
fn instructions(words: &[u32]) -> Result<Vec<(u32, &[u32])>, String> {
    let mut all = Vec::new();
    let mut at = HEADER;
    while at < words.len() {
        let count = (words[at] >> 16) as usize;
        let operands = words.get(at + 1..at + count.max(1)).ok_or("truncated SPIR-V")?;
        all.push((words[at] & 0xffff, operands));
        at += count.max(1);
    }
    Ok(all)
}

/// What each matrix type is used as: 0 and 1 for the two factors, 2 for what they are added to.
fn uses(all: &[(u32, &[u32])]) -> Result<BTreeMap<u32, u32>, String> {
    let typed = |op: u32| matches!(op, OP_LOAD | LOAD_NV | MULTIPLY_NV);
    let types: BTreeMap<u32, u32> = all
        .iter()
        .filter(|(op, operands)| typed(*op) && operands.len() >= 2)
        .map(|(_, operands)| (operands[1], operands[0]))
        .collect();
    let mut uses = BTreeMap::new();
    for (_, operands) in all.iter().filter(|(op, _)| *op == MULTIPLY_NV) {
        for (place, value) in (0..).zip(&operands[2..]) {
            let ty = *types.get(value).ok_or("a factor of a cooperative matrix comes from nowhere")?;
            if *uses.entry(ty).or_insert(place) != place {
                return Err("one type of cooperative matrix is used in two places of a product".to_owned());
            }
        }
    }
    Ok(uses)
}

/// Refuses matrices that are loaded from or stored to anything but arrays of vectors of sixteen bytes. Khronos asks for rows that
/// begin at multiples of sixteen bytes, and only the type of an array in shared memory says where it begins: from one of eight-byte
/// vectors an NVIDIA H200 loaded garbage, depending on what else was shared.
fn check_alignment(all: &[(u32, &[u32])]) -> Result<(), String> {
    let quads: BTreeSet<u32> = all
        .iter()
        .filter(|(op, operands)| *op == OP_TYPE_VECTOR && operands.get(2) == Some(&4))
        .map(|(_, operands)| operands[0])
        .collect();
    let to_quads: BTreeSet<u32> = all
        .iter()
        .filter(|(op, operands)| *op == OP_TYPE_POINTER && quads.contains(&operands[2]))
        .map(|(_, operands)| operands[0])
        .collect();
    let aligned: BTreeSet<u32> = all
        .iter()
        .filter(|(op, operands)| *op == OP_ACCESS_CHAIN && to_quads.contains(&operands[0]))
        .map(|(_, operands)| operands[1])
        .collect();
    let pointers = all.iter().filter_map(|(op, operands)| match *op {
        LOAD_NV => operands.get(2),
        STORE_NV => operands.first(),
        _ => None,
    });
    for pointer in pointers {
        if !aligned.contains(pointer) {
            return Err("a cooperative matrix lies in an array whose elements are not uvec4".to_owned());
        }
    }
    Ok(())
}

/// The module in the words of Khronos; one without cooperative matrices comes back as it was.
pub fn translate(words: Vec<u32>) -> Result<Vec<u32>, String> {
    let all = instructions(&words)?;
    if !all.contains(&(OP_CAPABILITY, &[CAPABILITY_NV])) {
        return Ok(words);
    }
    check_alignment(&all)?;
    let uses = uses(&all)?;
    let constants = |op: u32| all.iter().filter(move |(o, _)| *o == op).map(|(_, operands)| operands[1]);
    let (yes, no): (Vec<u32>, Vec<u32>) =
        (constants(OP_CONSTANT_TRUE).collect(), constants(OP_CONSTANT_FALSE).collect());
    // Three constants of this module's own: 0, 1 and 2.
    let own = words[BOUND];
    let layout = |column_major: &u32| match column_major {
        id if no.contains(id) => Ok(own),
        id if yes.contains(id) => Ok(own + 1),
        _ => Err("a layout of a cooperative matrix is not constant".to_owned()),
    };
    let mut out = words[..HEADER].to_vec();
    out[BOUND] = own + 3;
    let mut emit = |op: u32, operands: &[u32]| {
        out.push((operands.len() as u32 + 1) << 16 | op);
        out.extend_from_slice(operands);
    };
    for &(op, operands) in &all {
        match (op, operands) {
            (OP_CAPABILITY, [CAPABILITY_NV]) => emit(op, &[CAPABILITY_KHR]),
            (OP_EXTENSION, text) if is_extension_nv(text) => emit(op, &string(EXTENSION_KHR)),
            (OP_TYPE_INT, [id, 32, 0]) => {
                emit(op, operands);
                (0..3).for_each(|value| emit(OP_CONSTANT, &[*id, own + value, value]));
            }
            (TYPE_NV, [id, ..]) => {
                let place = uses.get(id).ok_or("a type of cooperative matrix is in no product")?;
                emit(TYPE_KHR, &[operands, &[own + place]].concat());
            }
            (LOAD_NV, [ty, id, pointer, stride, column_major, access @ ..]) => {
                emit(LOAD_KHR, &[&[*ty, *id, *pointer, layout(column_major)?, *stride], access].concat());
            }
            (STORE_NV, [pointer, object, stride, column_major, access @ ..]) => {
                emit(STORE_KHR, &[&[*pointer, *object, layout(column_major)?, *stride], access].concat());
            }
            (MULTIPLY_NV, _) => emit(MULTIPLY_KHR, operands),
            (LENGTH_NV, _) => return Err("the length of a cooperative matrix is not translated".to_owned()),
            _ => emit(op, operands),
        }
    }
    Ok(out)
}

/// A string as SPIR-V has it: bytes in words, the lowest first, with a zero at the end.
fn string(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() / 4 + 1) * 4, 0);
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn is_extension_nv(words: &[u32]) -> bool {
    words == string("SPV_NV_cooperative_matrix")
}
