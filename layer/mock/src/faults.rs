//! What goes wrong in a driver: allocations that fail, a device that is lost, handles that come back.
//!
//! All of it is a thread's own, so that tests beside each other don't disturb each other.

use crate::CommandBuffer;
use ash::vk::{self, Handle};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;

thread_local! {
    static FAIL: Cell<Option<(u64, vk::Result)>> = const { Cell::new(None) };
    static LOST: Cell<bool> = const { Cell::new(false) };
    static FREE: RefCell<Option<Vec<u64>>> = const { RefCell::new(None) };
}

/// What was allocated from each command pool and not freed, for pools are destroyed with all that they have.
static POOLS: Mutex<BTreeMap<u64, Vec<u64>>> = Mutex::new(BTreeMap::new());

/// After `calls` more calls of this thread that can fail (`vkCreate*`, allocations, `vkBind*Memory`,
/// `vkBeginCommandBuffer`), one fails with `result`. `None` takes that back.
pub fn fail_after(calls: Option<(u64, vk::Result)>) {
    FAIL.set(calls);
}

/// From now on this thread's device is lost, or not any more: ends of recordings, submissions and waits return
/// `VK_ERROR_DEVICE_LOST`.
pub fn lose_device(lost: bool) {
    LOST.set(lost);
}

/// From now on objects of this thread get the handles of those that it destroyed last, as real drivers do it; `false`
/// ends that.
pub fn recycle_handles(recycle: bool) {
    FREE.set(recycle.then(Vec::new));
}

pub(crate) fn recycled() -> Option<u64> {
    FREE.with_borrow_mut(|free| free.as_mut()?.pop())
}

/// The error with which this call fails, if it does.
pub(crate) fn failed() -> Option<vk::Result> {
    let (left, result) = FAIL.get()?;
    FAIL.set(left.checked_sub(1).map(|left| (left, result)));
    (left == 0).then_some(result)
}

/// For calls whose only output is whether they succeeded.
pub(crate) unsafe extern "system" fn bind() -> vk::Result {
    failed().unwrap_or(vk::Result::SUCCESS)
}

/// For calls that notice that the device is lost.
pub(crate) unsafe extern "system" fn status() -> vk::Result {
    if LOST.get() { vk::Result::ERROR_DEVICE_LOST } else { vk::Result::SUCCESS }
}

pub(crate) unsafe extern "system" fn destroy(_: vk::Device, object: u64, _: *const c_void) {
    if object != 0 {
        FREE.with_borrow_mut(|free| free.as_mut().map(|free| free.push(object)));
    }
}

pub(crate) unsafe extern "system" fn destroy_command_pool(
    device: vk::Device,
    pool: u64,
    allocator: *const c_void,
) {
    for buffer in POOLS.lock().remove(&pool).unwrap_or_default() {
        // SAFETY: made in `allocate_buffers`, and not freed since: it would be in no list then.
        drop(unsafe { Box::from_raw(buffer as *mut CommandBuffer) });
    }
    // SAFETY: by the caller.
    unsafe { destroy(device, pool, allocator) }
}

/// A command buffer is allocated from a pool.
pub(crate) fn belongs(pool: vk::CommandPool, buffer: vk::CommandBuffer) {
    POOLS.lock().entry(pool.as_raw()).or_default().push(buffer.as_raw());
}

/// A command buffer is freed.
pub(crate) fn freed(pool: vk::CommandPool, buffer: vk::CommandBuffer) {
    if let Some(buffers) = POOLS.lock().get_mut(&pool.as_raw()) {
        buffers.retain(|one| *one != buffer.as_raw());
    }
}
