//! Queries: timestamps, resets, and copies of results.
//!
//! None of these orders memory that anything else touches. A timestamp waits for what its own stage says, and nothing waits for
//! it; a reset and the queries that follow are ordered by themselves ("Query Operation"). So none of them is a reason to
//! emit what waits, and each only keeps its place. There are two exceptions:
//!
//! - A barrier whose second scope is all commands orders the write of the timestamp, too. Where the timestamp's own stage does
//!   not wait for what that barrier's first scope names, the barrier goes out before it, so that a profile keeps its meaning.
//! - A copy of results writes a buffer, as any copy does. Without `VK_QUERY_RESULT_WAIT_BIT` it waits for no timestamp, so that a
//!   barrier may be all that orders the two: it counts as a command without a model.
//!
//! What a timestamp shows is when that was done which was really issued: operations whose barrier is gone may overlap, and
//! the stamps between them say so.

use crate::commands;
use crate::context::{Context, context};
use crate::footprint;
use crate::next::Next;
use crate::stubs::Effect;
use ash::vk;
use zinc_hazard::{Kind, Stages};

/// A command on queries that can be issued later than it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// `vkCmdResetQueryPool`: pool, first, count.
    Reset(vk::QueryPool, u32, u32),
    /// `vkCmdWriteTimestamp`.
    Timestamp(vk::PipelineStageFlags, vk::QueryPool, u32),
    /// `vkCmdWriteTimestamp2`.
    Timestamp2(vk::PipelineStageFlags2, vk::QueryPool, u32),
}

impl Query {
    /// The stages of earlier commands that it waits for by itself.
    fn waits_for(self) -> Stages {
        match self {
            // What it resets it waits for; nothing else can tell when it happens.
            Query::Reset(..) => Stages::ALL_COMMANDS,
            Query::Timestamp(stage, ..) => Stages::from_bits_retain(u64::from(stage.as_raw())),
            Query::Timestamp2(stage, ..) => Stages::from_bits_retain(stage.as_raw()),
        }
    }
}

/// Issues it.
///
/// # Safety
///
/// The command buffer must be recording, `next` its device's functions, and the pool alive.
pub unsafe fn issue(next: &Next, buffer: vk::CommandBuffer, query: Query) {
    // SAFETY: by the caller.
    unsafe {
        match query {
            Query::Reset(pool, first, count) => {
                if let Some(f) = next.cmd_reset_query_pool {
                    f(buffer, pool, first, count);
                }
            }
            Query::Timestamp(stage, pool, number) => {
                if let Some(f) = next.cmd_write_timestamp {
                    f(buffer, stage, pool, number);
                }
            }
            Query::Timestamp2(stage, pool, number) => {
                if let Some(f) = next.cmd_write_timestamp2 {
                    f(buffer, stage, pool, number);
                }
            }
        }
    }
}

/// Records one that keeps its place.
///
/// # Safety
///
/// The arguments are the application's own.
unsafe fn keep_place(buffer: vk::CommandBuffer, query: Query) {
    // SAFETY: by the caller.
    let Some(context) = (unsafe { context(buffer) }) else { return };
    context.operation(
        |state| state.recorder.mark(query.waits_for()),
        |state| {
            state.breaks_script();
            state.segment.as_mut().is_some_and(|segment| segment.query(query))
        },
        // SAFETY: by the caller.
        || unsafe { issue(&context.device.next, buffer, query) },
    );
}

pub unsafe extern "system" fn cmd_reset_query_pool(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
) {
    // SAFETY: the application's own arguments, passed on.
    unsafe { keep_place(buffer, Query::Reset(pool, first, count)) }
}

pub unsafe extern "system" fn cmd_write_timestamp(
    buffer: vk::CommandBuffer,
    stage: vk::PipelineStageFlags,
    pool: vk::QueryPool,
    query: u32,
) {
    // SAFETY: as above.
    unsafe { keep_place(buffer, Query::Timestamp(stage, pool, query)) }
}

pub unsafe extern "system" fn cmd_write_timestamp2(
    buffer: vk::CommandBuffer,
    stage: vk::PipelineStageFlags2,
    pool: vk::QueryPool,
    query: u32,
) {
    // SAFETY: as above.
    unsafe { keep_place(buffer, Query::Timestamp2(stage, pool, query)) }
}

/// A query begins or ends here. What lies between the two is counted, so nothing may be moved into it or out of it, and some
/// queries must be the first command of their command buffer: they are never held back.
fn begins_or_ends(context: &Context<'_>) {
    context.with(|state| {
        state.breaks_script();
        if state.recorder.holds() {
            context.stop_holding(state);
        }
        context.release(state);
    });
}

macro_rules! begin_or_end {
    ($name:ident, $next:ident, ($( $argument:ident: $type:ty ),*)) => {
        pub unsafe extern "system" fn $name(buffer: vk::CommandBuffer, $( $argument: $type ),*) {
            // SAFETY: the application's own arguments, passed on.
            unsafe {
                let Some(context) = context(buffer) else { return };
                begins_or_ends(&context);
                if let Some(f) = context.device.next.$next {
                    f(buffer, $( $argument ),*);
                }
            }
        }
    };
}

begin_or_end!(cmd_begin_query, cmd_begin_query, (pool: vk::QueryPool, query: u32, flags: vk::QueryControlFlags));
begin_or_end!(cmd_end_query, cmd_end_query, (pool: vk::QueryPool, query: u32));
begin_or_end!(cmd_begin_query_indexed, cmd_begin_query_indexed,
    (pool: vk::QueryPool, query: u32, flags: vk::QueryControlFlags, index: u32));
begin_or_end!(cmd_end_query_indexed, cmd_end_query_indexed, (pool: vk::QueryPool, query: u32, index: u32));

pub unsafe extern "system" fn cmd_copy_query_pool_results(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
    to: vk::Buffer,
    offset: vk::DeviceSize,
    stride: vk::DeviceSize,
    flags: vk::QueryResultFlags,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        if !flags.contains(vk::QueryResultFlags::WAIT) {
            let name = || "vkCmdCopyQueryPoolResults without VK_QUERY_RESULT_WAIT_BIT".into();
            commands::before_unmodelled(buffer, Effect::Flush, name);
        }
        let Some(context) = context(buffer) else { return };
        let forward = || {
            if let Some(f) = context.device.next.cmd_copy_query_pool_results {
                f(buffer, pool, first, count, to, offset, stride, flags);
            }
        };
        if !flags.contains(vk::QueryResultFlags::WAIT) {
            return forward();
        }
        context.operation(
            |state| {
                state.recorder.transfer(|granule, out| {
                    // How many values a query has, only its pool knows: the whole rest of the buffer.
                    let buffer = context.device.buffers.get(to);
                    out.push(footprint::transfer(Kind::Write, Stages::COPY, buffer, offset, None, granule));
                })
            },
            |state| {
                state.breaks_script();
                false
            },
            forward,
        );
    }
}
