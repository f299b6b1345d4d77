//! A module written as opcodes and words, for what the installed assembler doesn't know.

use rspirv::spirv::{
    AddressingModel, Capability, Decoration, ExecutionModel, FunctionControl, MAGIC_NUMBER, MemoryModel, Op,
    StorageClass,
};

/// A module under construction; ids are handed out by [`Raw::id`].
#[derive(Debug, Clone)]
pub struct Raw {
    words: Vec<u32>,
    next: u32,
}

/// Ids of the declarations that every raw module begins with.
#[derive(Debug, Clone, Copy)]
pub struct Common {
    pub void: u32,
    pub procedure: u32,
    pub uint: u32,
    pub float: u32,
    pub block: u32,
    pub to_block: u32,
    pub to_float: u32,
    /// The constant 0.0.
    pub zero: u32,
}

impl Raw {
    /// Header, capabilities, memory model and the entry point `main`.
    pub fn new(capabilities: &[Capability], addressing: AddressingModel, main: u32) -> Raw {
        let mut raw = Raw { words: vec![MAGIC_NUMBER, 0x0001_0300, 0, 0, 0], next: main + 1 };
        for capability in capabilities {
            raw.op(Op::Capability, &[*capability as u32]);
        }
        raw.op(Op::MemoryModel, &[addressing as u32, MemoryModel::GLSL450 as u32]);
        raw.op(Op::EntryPoint, &[ExecutionModel::GLCompute as u32, main, u32::from_le_bytes(*b"main"), 0]);
        raw
    }

    /// A new id.
    pub fn id(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Appends an instruction.
    pub fn op(&mut self, op: Op, operands: &[u32]) {
        self.number(op as u32, operands);
    }

    /// Appends an instruction by the number of its opcode.
    pub fn number(&mut self, opcode: u32, operands: &[u32]) {
        self.words.push((operands.len() as u32 + 1) << 16 | opcode);
        self.words.extend(operands);
    }

    /// Appends an instruction with a type and a new result.
    pub fn value(&mut self, op: Op, ty: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        self.op(op, &[&[ty, id], operands].concat());
        id
    }

    /// Appends a declaration whose only id is its new result.
    pub fn declare(&mut self, op: Op, operands: &[u32]) -> u32 {
        let id = self.id();
        self.op(op, &[&[id], operands].concat());
        id
    }

    /// Decorates `variable` with a set and a binding.
    pub fn bind(&mut self, variable: u32, set: u32, binding: u32) {
        self.op(Op::Decorate, &[variable, Decoration::DescriptorSet as u32, set]);
        self.op(Op::Decorate, &[variable, Decoration::Binding as u32, binding]);
    }

    /// The types that most modules need: a block with a runtime array of floats, and pointers to it.
    pub fn common(&mut self) -> Common {
        let storage = StorageClass::StorageBuffer as u32;
        let void = self.declare(Op::TypeVoid, &[]);
        let procedure = self.declare(Op::TypeFunction, &[void]);
        let uint = self.declare(Op::TypeInt, &[32, 0]);
        let float = self.declare(Op::TypeFloat, &[32]);
        let floats = self.declare(Op::TypeRuntimeArray, &[float]);
        let block = self.declare(Op::TypeStruct, &[floats]);
        let to_block = self.declare(Op::TypePointer, &[storage, block]);
        let to_float = self.declare(Op::TypePointer, &[storage, float]);
        let zero = self.value(Op::Constant, float, &[0]);
        Common { void, procedure, uint, float, block, to_block, to_float, zero }
    }

    /// An integer constant.
    pub fn constant(&mut self, uint: u32, value: u32) -> u32 {
        self.value(Op::Constant, uint, &[value])
    }

    /// A storage buffer of the common block.
    pub fn buffer(&mut self, common: &Common, binding: u32) -> u32 {
        let variable = self.value(Op::Variable, common.to_block, &[StorageClass::StorageBuffer as u32]);
        self.bind(variable, 0, binding);
        variable
    }

    /// Begins a function and its only block.
    pub fn begin(&mut self, id: u32, returns: u32, ty: u32, parameters: &[(u32, u32)]) {
        self.op(Op::Function, &[returns, id, FunctionControl::NONE.bits(), ty]);
        for (ty, parameter) in parameters {
            self.op(Op::FunctionParameter, &[*ty, *parameter]);
        }
        self.declare(Op::Label, &[]);
    }

    /// Ends a function.
    pub fn end(&mut self) {
        self.op(Op::Return, &[]);
        self.op(Op::FunctionEnd, &[]);
    }

    /// The finished words. Decorations stand where they were made: the crate must not mind their place.
    pub fn finish(mut self) -> Vec<u32> {
        self.words[3] = self.next;
        self.words
    }
}
