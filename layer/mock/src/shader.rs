//! A compute shader with as many storage buffers as one likes, so that the number of bindings can be a row.

use anyhow::{Context, Result};
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, Operand};
use rspirv::spirv::{
    AddressingModel, Capability, Decoration, ExecutionMode, ExecutionModel, FunctionControl, MemoryAccess,
    MemoryModel, MemorySemantics, Scope, StorageClass, Word,
};

/// [`words`] of two bindings, whose read is volatile and whose accesses a memory barrier for the whole device orders: a shader
/// that may talk to others while it runs.
///
/// # Errors
///
/// None that can happen.
pub fn synchronising() -> Result<Vec<u32>> {
    build(2, true)
}

/// The words of a shader that reads the first word of each of its `bindings` buffers in set 0 (at least two) but the
/// last, and writes their sum to the last.
///
/// # Errors
///
/// With fewer than two bindings.
pub fn words(bindings: u32) -> Result<Vec<u32>> {
    build(bindings, false)
}

fn build(bindings: u32, synchronises: bool) -> Result<Vec<u32>> {
    let mut b = Builder::new();
    b.set_version(1, 3);
    b.capability(Capability::Shader);
    b.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
    let void = b.type_void();
    let float = b.type_float(32, None);
    let uint = b.type_int(32, 0);
    let array = b.type_runtime_array(float);
    let block = b.type_struct([array]);
    b.decorate(array, Decoration::ArrayStride, [Operand::LiteralBit32(4)]);
    b.decorate(block, Decoration::Block, []);
    b.member_decorate(block, 0, Decoration::Offset, [Operand::LiteralBit32(0)]);
    let block_pointer = b.type_pointer(None, StorageClass::StorageBuffer, block);
    let float_pointer = b.type_pointer(None, StorageClass::StorageBuffer, float);
    let zero = b.constant_bit32(uint, 0);
    let buffers: Vec<Word> = (0..bindings)
        .map(|binding| {
            let buffer = b.variable(block_pointer, None, StorageClass::StorageBuffer, None);
            b.decorate(buffer, Decoration::DescriptorSet, [Operand::LiteralBit32(0)]);
            b.decorate(buffer, Decoration::Binding, [Operand::LiteralBit32(binding)]);
            buffer
        })
        .collect();
    let (written, read) = buffers.split_last().context("a shader needs two bindings")?;
    let signature = b.type_function(void, []);
    let main = b.begin_function(void, None, FunctionControl::NONE, signature)?;
    b.begin_block(None)?;
    let mut sum = None;
    for buffer in read {
        let place = b.access_chain(float_pointer, None, *buffer, [zero, zero])?;
        let access = synchronises.then_some(MemoryAccess::VOLATILE);
        let value = b.load(float, None, place, access, [])?;
        sum = Some(match sum {
            None => value,
            Some(sum) => b.f_add(float, None, sum, value)?,
        });
    }
    if synchronises {
        let scope = b.constant_bit32(uint, Scope::Device as u32);
        let semantics = MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::UNIFORM_MEMORY;
        let semantics = b.constant_bit32(uint, semantics.bits());
        b.memory_barrier(scope, semantics)?;
    }
    let place = b.access_chain(float_pointer, None, *written, [zero, zero])?;
    b.store(place, sum.context("a shader needs two bindings")?, None, [])?;
    b.ret()?;
    b.end_function()?;
    b.entry_point(ExecutionModel::GLCompute, main, "main", []);
    b.execution_mode(main, ExecutionMode::LocalSize, [1, 1, 1]);
    Ok(b.module().assemble())
}
