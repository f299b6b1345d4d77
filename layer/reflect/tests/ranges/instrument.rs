//! A copy of a shader that writes down where it reads and writes.
//!
//! Before each access to a buffer the copy computes the byte offset from the access chain's own indices, in the shader,
//! with the numbers that the invocation really has, and puts it into a log by atomic minimum and maximum. Nothing of
//! the crate's analysis is used: the copy knows types, strides and offsets from the module and no more.
//!
//! Of an access through a buffer device address it logs the address itself, as the driver works it out, counted from where
//! the memory begins that such shaders are given here: the log's atomics have 32 bits.

use std::collections::{BTreeMap, HashMap};

/// A shader that logs.
pub struct Logged {
    /// The copy.
    pub words: Vec<u32>,
    /// Descriptor set of the log, which is its binding 0.
    pub set: u32,
    /// What each slot is of, and whether it is of writes; a slot is two words of the log: the least offset, and the end of the
    /// largest.
    pub slots: Vec<(Through, bool)>,
}

/// What an access goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Through {
    /// The descriptor at this set and binding.
    Binding(u32, u32),
    /// A pointer to physical memory, which is the result of this id.
    Pointer(u32),
}

#[derive(Clone, Debug)]
enum Type {
    Number(u32),
    Int(u32, u32),
    Vector(u32, u32),
    Matrix(u32, u32),
    Array(u32, u32),
    Runtime(u32),
    Struct(Vec<u32>),
    Pointer(u32, u32),
}

const UNIFORM: u32 = 2;
const STORAGE_BUFFER: u32 = 12;
const PHYSICAL: u32 = 5349;

#[derive(Default)]
struct Module {
    types: HashMap<u32, Type>,
    constants: HashMap<u32, u64>,
    type_of: HashMap<u32, u32>,
    offsets: HashMap<(u32, u32), u32>,
    matrix_strides: HashMap<(u32, u32), u32>,
    row_major: HashMap<(u32, u32), bool>,
    strides: HashMap<u32, u32>,
    sets: HashMap<u32, u32>,
    bindings: HashMap<u32, u32>,
    /// Variables in memory behind descriptors, by id: the type that they hold.
    buffers: HashMap<u32, u32>,
    uint: Option<u32>,
    ulong: Option<u32>,
    int64: bool,
}

fn split(words: &[u32]) -> Vec<&[u32]> {
    let (mut rest, mut all) = (&words[5..], Vec::new());
    while let Some(first) = rest.first() {
        let (inst, tail) = rest.split_at((first >> 16) as usize);
        all.push(inst);
        rest = tail;
    }
    all
}

fn op(inst: &[u32]) -> u32 {
    inst[0] & 0xffff
}

impl Module {
    fn read(instructions: &[&[u32]]) -> Module {
        let mut m = Module::default();
        for i in instructions {
            match op(i) {
                17 => m.int64 |= i[1] == 11,
                21 => {
                    m.types.insert(i[1], Type::Int(i[2], i[3]));
                    match (i[2], i[3]) {
                        (32, 0) => m.uint = Some(i[1]),
                        (64, 0) => m.ulong = Some(i[1]),
                        _ => {}
                    }
                }
                22 => drop(m.types.insert(i[1], Type::Number(i[2] / 8))),
                23 => drop(m.types.insert(i[1], Type::Vector(i[2], i[3]))),
                24 => drop(m.types.insert(i[1], Type::Matrix(i[2], i[3]))),
                28 => drop(m.types.insert(i[1], Type::Array(i[2], i[3]))),
                29 => drop(m.types.insert(i[1], Type::Runtime(i[2]))),
                30 => drop(m.types.insert(i[1], Type::Struct(i[2..].to_vec()))),
                32 => drop(m.types.insert(i[1], Type::Pointer(i[2], i[3]))),
                43 | 50 => {
                    let high = i.get(4).copied().unwrap_or(0);
                    m.constants.insert(i[2], u64::from(i[3]) | u64::from(high) << 32);
                    m.type_of.insert(i[2], i[1]);
                }
                59 => {
                    m.type_of.insert(i[2], i[1]);
                    if let Some(Type::Pointer(UNIFORM | STORAGE_BUFFER, holds)) = m.types.get(&i[1]) {
                        m.buffers.insert(i[2], *holds);
                    }
                }
                71 => match i[2] {
                    6 => drop(m.strides.insert(i[1], i[3])),
                    33 => drop(m.bindings.insert(i[1], i[3])),
                    34 => drop(m.sets.insert(i[1], i[3])),
                    _ => {}
                },
                72 => match i[3] {
                    35 => drop(m.offsets.insert((i[1], i[2]), i[4])),
                    7 => drop(m.matrix_strides.insert((i[1], i[2]), i[4])),
                    4 => drop(m.row_major.insert((i[1], i[2]), true)),
                    _ => {}
                },
                // Results with a type, as far as an index or an object could be one.
                _ if i.len() > 2 && m.types.contains_key(&i[1]) => {
                    m.type_of.entry(i[2]).or_insert(i[1]);
                }
                _ => {}
            }
        }
        m
    }

    /// How the matrices in a structure's member lie.
    fn lies(&self, ty: u32, member: u32) -> Lies {
        let at = (ty, member);
        let stride = self.matrix_strides.get(&at).copied().unwrap_or(0);
        Lies { stride, by_rows: self.row_major.contains_key(&at) }
    }

    /// Bytes from the first to the last of a type's.
    fn size(&self, ty: u32, lies: Lies) -> u32 {
        match &self.types[&ty] {
            Type::Number(bytes) => *bytes,
            Type::Int(bits, _) => bits / 8,
            Type::Vector(of, count) => self.size(*of, Lies::default()) * count,
            Type::Matrix(column, count) => match (lies.by_rows, &self.types[column]) {
                (true, Type::Vector(of, rows)) => {
                    lies.stride * (rows - 1) + self.size(*of, Lies::default()) * count
                }
                _ => lies.stride * (count - 1) + self.size(*column, Lies::default()),
            },
            Type::Array(of, count) => {
                self.strides[&ty] * (self.constants[count] as u32 - 1) + self.size(*of, lies)
            }
            Type::Struct(members) => (0..members.len() as u32)
                .map(|m| self.offsets[&(ty, m)] + self.size(members[m as usize], self.lies(ty, m)))
                .max()
                .unwrap_or(0),
            Type::Runtime(_) => 0,
            Type::Pointer(..) => 8,
        }
    }
}

/// How matrices lie: from one column to the next, or from one row to the next.
#[derive(Clone, Copy, Default)]
struct Lies {
    stride: u32,
    by_rows: bool,
}

/// Where a pointer in the shader points.
#[derive(Clone, Copy)]
struct Chain {
    variable: u32,
    /// Id of the byte offset, a `uint` of the shader.
    offset: u32,
    ty: u32,
    lies: Lies,
    /// Distance of a vector's components, where it is a column of a matrix that lies in rows.
    component: Option<u32>,
    /// The first index is still to pick a descriptor.
    array: bool,
}

struct Writer {
    module: Module,
    next: u32,
    uint: u32,
    globals: Vec<u32>,
    numbers: HashMap<u32, u32>,
    log: u32,
    to_uint: u32,
    scope: u32,
    slots: BTreeMap<(Through, bool), u32>,
    /// Where physical memory begins for the log, and the id of that number.
    arena: (u64, Option<u32>),
}

fn put(out: &mut Vec<u32>, op: u32, operands: &[u32]) {
    out.push((operands.len() as u32 + 1) << 16 | op);
    out.extend_from_slice(operands);
}

impl Writer {
    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn number(&mut self, value: u32) -> u32 {
        if let Some(id) = self.numbers.get(&value) {
            return *id;
        }
        let id = self.id();
        let uint = self.uint;
        put(&mut self.globals, 43, &[uint, id, value]);
        self.numbers.insert(value, id);
        id
    }

    fn value(&mut self, out: &mut Vec<u32>, op: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        let uint = self.uint;
        put(out, op, &[&[uint, id], operands].concat());
        id
    }

    fn as_uint(&mut self, out: &mut Vec<u32>, id: u32) -> u32 {
        let ty =
            self.module.type_of.get(&id).copied().unwrap_or_else(|| panic!("an index %{id} without a type"));
        match self.module.types[&ty] {
            Type::Int(32, 0) => id,
            Type::Int(32, _) => self.value(out, 124, &[id]),
            Type::Int(..) => self.value(out, 113, &[id]),
            ref other => panic!("an index of type {other:?}"),
        }
    }

    fn chain(&mut self, out: &mut Vec<u32>, base: Chain, indices: &[u32]) -> Chain {
        let mut at = base;
        for index in indices {
            let (ty, times) = match self.module.types[&at.ty].clone() {
                Type::Array(of, _) | Type::Runtime(of) if at.array => {
                    at.array = false;
                    (of, 0)
                }
                Type::Struct(members) => {
                    let member = self.module.constants[index] as u32;
                    let offset = self.module.offsets[&(at.ty, member)];
                    at.lies = self.module.lies(at.ty, member);
                    let offset = self.number(offset);
                    at.offset = self.value(out, 128, &[at.offset, offset]);
                    at.ty = members[member as usize];
                    continue;
                }
                Type::Array(of, _) | Type::Runtime(of) => (of, self.module.strides[&at.ty]),
                Type::Vector(of, _) => {
                    (of, at.component.take().unwrap_or_else(|| self.module.size(of, Lies::default())))
                }
                Type::Matrix(column, _) if at.lies.by_rows => {
                    let Type::Vector(of, _) = self.module.types[&column] else { panic!("a column") };
                    at.component = Some(at.lies.stride);
                    (column, self.module.size(of, Lies::default()))
                }
                Type::Matrix(column, _) => (column, at.lies.stride),
                other => panic!("an index into {other:?}"),
            };
            if times != 0 {
                let index = self.as_uint(out, *index);
                let times = self.number(times);
                let product = self.value(out, 132, &[index, times]);
                at.offset = self.value(out, 128, &[at.offset, product]);
            }
            at.ty = ty;
        }
        at
    }

    fn log(&mut self, out: &mut Vec<u32>, chain: Chain, write: bool) {
        let (set, binding) = (self.module.sets[&chain.variable], self.module.bindings[&chain.variable]);
        let size = match (chain.component, &self.module.types[&chain.ty]) {
            (Some(apart), Type::Vector(of, count)) => {
                apart * (count - 1) + self.module.size(*of, Lies::default())
            }
            _ => self.module.size(chain.ty, chain.lies),
        };
        self.bytes(out, Through::Binding(set, binding), (chain.offset, size), write);
    }

    /// The type behind a pointer to physical memory; `None` for any other value.
    fn behind(&self, id: u32) -> Option<u32> {
        let ty = self.module.type_of.get(&id).and_then(|ty| self.module.types.get(ty));
        if let Some(Type::Pointer(PHYSICAL, holds)) = ty { Some(*holds) } else { None }
    }

    fn log_pointer(&mut self, out: &mut Vec<u32>, pointer: u32, holds: u32, write: bool) {
        let (begin, known) = self.arena;
        let ulong = match self.module.ulong {
            Some(ulong) => ulong,
            None => {
                let ulong = self.id();
                put(&mut self.globals, 21, &[ulong, 64, 0]);
                *self.module.ulong.insert(ulong)
            }
        };
        let base = match known {
            Some(base) => base,
            None => {
                let base = self.id();
                put(&mut self.globals, 43, &[ulong, base, begin as u32, (begin >> 32) as u32]);
                self.arena.1 = Some(base);
                base
            }
        };
        let (address, distance) = (self.id(), self.id());
        // OpConvertPtrToU, OpISub, OpUConvert
        put(out, 117, &[ulong, address, pointer]);
        put(out, 130, &[ulong, distance, address, base]);
        let offset = self.value(out, 113, &[distance]);
        let size = self.module.size(holds, Lies::default());
        self.bytes(out, Through::Pointer(pointer), (offset, size), write);
    }

    fn bytes(&mut self, out: &mut Vec<u32>, through: Through, (offset, size): (u32, u32), write: bool) {
        let next = self.slots.len() as u32;
        let slot = *self.slots.entry((through, write)).or_insert(next);
        let size = self.number(size);
        let end = self.value(out, 128, &[offset, size]);
        let (zero, scope) = (self.number(0), self.number(self.scope));
        // OpAtomicUMin, OpAtomicUMax
        for (place, op, value) in [(2 * slot, 237, offset), (2 * slot + 1, 239, end)] {
            let place = self.number(place);
            let (id, to_uint, log) = (self.id(), self.to_uint, self.log);
            put(out, 65, &[to_uint, id, log, zero, place]);
            self.value(out, op, &[id, scope, zero, value]);
        }
    }
}

/// Makes the copy; of addresses it logs how far behind `arena` they are. Panics on what it can't log: then the shader is not
/// one for this test.
pub fn instrument(words: &[u32], arena: u64) -> Logged {
    let instructions = split(words);
    let module = Module::read(&instructions);
    let set = module.sets.values().max().map_or(0, |set| set + 1);
    let memory_model = instructions.iter().find(|i| op(i) == 14).map_or(1, |i| i[2]);
    let mut w = Writer {
        next: words[3],
        uint: module.uint.unwrap_or(0),
        module,
        globals: Vec::new(),
        numbers: HashMap::new(),
        log: 0,
        to_uint: 0,
        // Device; under the Vulkan memory model the queue family, which needs no capability.
        scope: if memory_model == 3 { 5 } else { 1 },
        slots: BTreeMap::new(),
        arena: (arena, None),
    };
    if w.uint == 0 {
        w.uint = w.id();
        let uint = w.uint;
        put(&mut w.globals, 21, &[uint, 32, 0]);
    }
    let (array, block, to_block) = (w.id(), w.id(), w.id());
    (w.to_uint, w.log) = (w.id(), w.id());
    let (uint, to_uint, log) = (w.uint, w.to_uint, w.log);
    put(&mut w.globals, 29, &[array, uint]);
    put(&mut w.globals, 30, &[block, array]);
    put(&mut w.globals, 32, &[to_block, STORAGE_BUFFER, block]);
    put(&mut w.globals, 32, &[to_uint, STORAGE_BUFFER, uint]);
    put(&mut w.globals, 59, &[to_block, log, STORAGE_BUFFER]);
    let mut annotations = Vec::new();
    put(&mut annotations, 71, &[array, 6, 4]);
    put(&mut annotations, 71, &[block, 2]);
    put(&mut annotations, 72, &[block, 0, 35, 0]);
    put(&mut annotations, 71, &[log, 34, set]);
    put(&mut annotations, 71, &[log, 33, 0]);

    let mut chains: HashMap<u32, Chain> = HashMap::new();
    let (mut head, mut body) = (words[..5].to_vec(), Vec::new());
    let physical = w.module.types.values().any(|ty| matches!(ty, Type::Pointer(PHYSICAL, _)));
    if physical && !w.module.int64 {
        put(&mut head, 17, &[11]);
    }
    let zero = w.number(0);
    let start = |w: &Writer, id: u32| {
        let holds = *w.module.buffers.get(&id)?;
        let array = matches!(w.module.types[&holds], Type::Array(..) | Type::Runtime(..));
        Some(Chain { variable: id, offset: zero, ty: holds, lies: Lies::default(), component: None, array })
    };
    let (mut in_functions, mut in_types, mut extension) = (false, false, words[1] < 0x0001_0300);
    for i in &instructions {
        if extension && !matches!(op(i), 17 | 10) {
            let name = b"SPV_KHR_storage_buffer_storage_class\0\0\0\0";
            let text: Vec<u32> =
                name.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            put(&mut head, 10, &text);
            extension = false;
        }
        if !in_types && (19..=39).contains(&op(i)) {
            in_types = true;
            head.extend(&annotations);
        }
        in_functions |= op(i) == 54;
        if !in_functions {
            if op(i) == 15 && words[1] >= 0x0001_0400 {
                let mut entry = i.to_vec();
                entry.push(w.log);
                entry[0] = (entry.len() as u32) << 16 | 15;
                head.extend(entry);
            } else {
                head.extend_from_slice(i);
            }
            continue;
        }
        let known = |w: &Writer, chains: &HashMap<u32, Chain>, id: u32| {
            chains.get(&id).copied().or_else(|| start(w, id))
        };
        let in_buffer = |w: &Writer, id: u32| {
            let ty = w.module.type_of.get(&id).and_then(|ty| w.module.types.get(ty));
            matches!(ty, Some(Type::Pointer(STORAGE_BUFFER, _)))
        };
        match op(i) {
            // OpAccessChain, OpInBoundsAccessChain
            65 | 66 => {
                body.extend_from_slice(i);
                if let Some(base) = known(&w, &chains, i[3]) {
                    let chain = w.chain(&mut body, base, &i[4..]);
                    chains.insert(i[2], chain);
                }
            }
            // OpLoad, OpStore, atomics; OpAtomicLoad and OpAtomicStore are the first.
            61 | 62 | 227..=242 | 6035 => {
                let stores = matches!(op(i), 62 | 228);
                let pointer = if stores { i[1] } else { i[3] };
                let (reads, writes) = (!stores, !matches!(op(i), 61 | 227));
                for write in [false, true].into_iter().filter(|write| if *write { writes } else { reads }) {
                    match (known(&w, &chains, pointer), w.behind(pointer)) {
                        (Some(chain), _) => w.log(&mut body, chain, write),
                        (None, Some(holds)) => w.log_pointer(&mut body, pointer, holds, write),
                        (None, None) => assert!(!in_buffer(&w, pointer), "an access through %{pointer}"),
                    }
                }
                body.extend_from_slice(i);
            }
            63 => panic!("an instruction that the log doesn't know: {}", op(i)),
            _ => body.extend_from_slice(i),
        }
    }
    let mut slots: Vec<(u32, (Through, bool))> = w.slots.iter().map(|(of, slot)| (*slot, *of)).collect();
    slots.sort_by_key(|(slot, _)| *slot);
    let mut out = head;
    out.extend(&w.globals);
    out.extend(&body);
    out[3] = w.next;
    Logged { words: out, set, slots: slots.into_iter().map(|(_, of)| of).collect() }
}
