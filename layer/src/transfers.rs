//! The transfers that the layer models: copies, fills and updates of buffers.
//!
//! Each hook says what its command touches, and how to keep a copy of it where operations are issued elsewhere than they
//! were recorded.

use crate::abi::slice;
use crate::bindings::Transfer;
use crate::context::{Context, context};
use crate::device::Device;
use crate::footprint;
use ash::vk;
use std::ffi::c_void;
use zinc_hazard::{Access, Kind, Stages};

/// Any transfer: `accesses` says what it touches, given the granule; `keep` copies it for the segment, unless that
/// can't be done.
fn transfer(
    context: &Context<'_>,
    accesses: impl FnOnce(&Device, u64, &mut Vec<Access>),
    keep: impl FnOnce() -> Option<Transfer>,
    forward: impl Fn(),
) {
    context.operation(
        |state| state.recorder.transfer(|granule, out| accesses(context.device, granule, out)),
        |state| state.segment.as_mut().is_some_and(|segment| segment.transfer(keep)),
        forward,
    );
}

/// The accesses of a copy from one buffer to another: `(source offset, target offset, size)` for each region.
///
/// # Safety
///
/// The buffers must be arguments of the command.
unsafe fn copied(
    (device, granule): (&Device, u64),
    (from, to): (vk::Buffer, vk::Buffer),
    regions: impl Iterator<Item = (u64, u64, u64)>,
    out: &mut Vec<Access>,
) {
    // SAFETY: by the caller.
    let (from, to) = unsafe { (device.buffers.get(from), device.buffers.get(to)) };
    let end = |kind, buffer, offset, size| {
        footprint::transfer(kind, Stages::COPY, buffer, offset, Some(size), granule)
    };
    for (read, written, size) in regions {
        out.push(end(Kind::Read, from, read, size));
        out.push(end(Kind::Write, to, written, size));
    }
}

/// The access of a fill or update.
///
/// # Safety
///
/// The buffer must be an argument of the command.
unsafe fn cleared(device: &Device, granule: u64, to: vk::Buffer, offset: u64, size: Option<u64>) -> Access {
    // SAFETY: by the caller.
    let buffer = unsafe { device.buffers.get(to) };
    footprint::transfer(Kind::Write, Stages::CLEAR, buffer, offset, size, granule)
}

pub unsafe extern "system" fn cmd_copy_buffer(
    buffer: vk::CommandBuffer,
    from: vk::Buffer,
    to: vk::Buffer,
    region_count: u32,
    regions: *const vk::BufferCopy,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let list = slice(regions, region_count);
        transfer(
            &context,
            |device, granule, out| {
                let parts = list.iter().map(|r| (r.src_offset, r.dst_offset, r.size));
                copied((device, granule), (from, to), parts, out);
            },
            || Some(Transfer::Copy(from, to, list.to_vec())),
            || {
                if let Some(f) = context.device.next.cmd_copy_buffer {
                    f(buffer, from, to, region_count, regions);
                }
            },
        );
    }
}

pub unsafe extern "system" fn cmd_copy_buffer2(
    buffer: vk::CommandBuffer,
    info: *const vk::CopyBufferInfo2<'_>,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        let copy = &*info;
        let list = slice(copy.p_regions, copy.region_count);
        transfer(
            &context,
            |device, granule, out| {
                let parts = list.iter().map(|r| (r.src_offset, r.dst_offset, r.size));
                copied((device, granule), (copy.src_buffer, copy.dst_buffer), parts, out);
            },
            || {
                let plain = copy.p_next.is_null() && list.iter().all(|r| r.p_next.is_null());
                plain.then(|| {
                    let region = |r: &vk::BufferCopy2<'_>| vk::BufferCopy {
                        src_offset: r.src_offset,
                        dst_offset: r.dst_offset,
                        size: r.size,
                    };
                    Transfer::Copy(copy.src_buffer, copy.dst_buffer, list.iter().map(region).collect())
                })
            },
            || {
                if let Some(f) = context.device.next.cmd_copy_buffer2 {
                    f(buffer, info);
                }
            },
        );
    }
}

pub unsafe extern "system" fn cmd_fill_buffer(
    buffer: vk::CommandBuffer,
    to: vk::Buffer,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    word: u32,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        transfer(
            &context,
            |device, granule, out| {
                out.push(cleared(device, granule, to, offset, crate::memory::size_of_range(size)));
            },
            || Some(Transfer::Fill(to, offset, size, word)),
            || {
                if let Some(f) = context.device.next.cmd_fill_buffer {
                    f(buffer, to, offset, size, word);
                }
            },
        );
    }
}

pub unsafe extern "system" fn cmd_update_buffer(
    buffer: vk::CommandBuffer,
    to: vk::Buffer,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    data: *const c_void,
) {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(context) = context(buffer) else { return };
        transfer(
            &context,
            |device, granule, out| out.push(cleared(device, granule, to, offset, Some(size))),
            || Some(Transfer::Update(to, offset, slice(data.cast(), u32::try_from(size).ok()?).to_vec())),
            || {
                if let Some(f) = context.device.next.cmd_update_buffer {
                    f(buffer, to, offset, size, data);
                }
            },
        );
    }
}
