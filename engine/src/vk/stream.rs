//! Command buffers and one fence: record, submit, wait.

use std::rc::Rc;

use ash::vk;

use super::error::During;
use super::{Device, Error};

/// What a recording will be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// Submitted once before it is recorded again.
    Once,
    /// Submitted again and again, each time after the last has finished.
    Again,
    /// Submitted again while it is still pending.
    Overlapping,
}

/// Command buffers that are recorded, submitted, and waited for before they are touched again.
pub(super) struct Stream {
    device: Rc<Device>,
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
    fence: vk::Fence,
}

impl Stream {
    /// A stream with one command buffer.
    pub(super) fn new(device: &Rc<Device>) -> Result<Self, Error> {
        let mut stream = Self {
            device: Rc::clone(device),
            pool: vk::CommandPool::null(),
            commands: Vec::new(),
            fence: vk::Fence::null(),
        };
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(device.family);
        // SAFETY: the device is alive in this and the following calls; structures live until the calls return.
        stream.pool = unsafe { device.raw.create_command_pool(&info, None) }.during("vkCreateCommandPool")?;
        // SAFETY: as above.
        let fence = unsafe { device.raw.create_fence(&vk::FenceCreateInfo::default(), None) };
        stream.fence = fence.during("vkCreateFence")?;
        stream.allocate(1)?;
        Ok(stream)
    }

    /// Frees all command buffers and allocates `count` new ones. Nothing may be pending.
    pub(super) fn allocate(&mut self, count: u32) -> Result<(), Error> {
        if !self.commands.is_empty() {
            // SAFETY: every submission was waited for, so none of them is pending; they are of this pool.
            unsafe { self.device.raw.free_command_buffers(self.pool, &self.commands) };
            self.commands.clear();
        }
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(count.max(1));
        // SAFETY: the pool is of this device, and alive.
        let buffers = unsafe { self.device.raw.allocate_command_buffers(&info) };
        self.commands = buffers.during("vkAllocateCommandBuffers")?;
        Ok(())
    }

    /// Number of command buffers.
    pub(super) fn len(&self) -> u32 {
        self.commands.len() as u32
    }

    /// The command buffer of this number.
    pub(super) fn commands(&self, index: u32) -> vk::CommandBuffer {
        self.commands[index as usize]
    }

    /// Begins recording a command buffer afresh.
    pub(super) fn begin(&mut self, index: u32, promise: Promise) -> Result<(), Error> {
        let flags = match promise {
            Promise::Once => vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT,
            Promise::Again => vk::CommandBufferUsageFlags::empty(),
            Promise::Overlapping => vk::CommandBufferUsageFlags::SIMULTANEOUS_USE,
        };
        let info = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: `wait` follows each submission, so the command buffer is not pending; its pool allows resetting it by
        // beginning.
        unsafe { self.device.raw.begin_command_buffer(self.commands(index), &info) }
            .during("vkBeginCommandBuffer")
    }

    /// Ends recording.
    pub(super) fn end(&mut self, index: u32) -> Result<(), Error> {
        // SAFETY: `begin` came before.
        unsafe { self.device.raw.end_command_buffer(self.commands(index)) }.during("vkEndCommandBuffer")
    }

    /// Hands the recorded commands to the queue, all of them `times` times, each command buffer in a submission of its
    /// own or all in one. [`Stream::wait`] must follow. Returns the number of submissions.
    pub(super) fn submit(&mut self, times: u32, apart: bool) -> Result<u64, Error> {
        let list = self.commands.repeat(times as usize);
        let size = if apart { 1 } else { list.len() };
        let batches: Vec<&[vk::CommandBuffer]> = list.chunks(size).collect();
        for (index, batch) in batches.iter().enumerate() {
            let submits = [vk::SubmitInfo::default().command_buffers(batch)];
            let fence = if index + 1 == batches.len() { self.fence } else { vk::Fence::null() };
            // SAFETY: recorded, and pending at most where recorded for that; the fence is unsignalled and not in use,
            // since each wait resets it.
            let result = unsafe { self.device.raw.queue_submit(self.device.queue, &submits, fence) };
            if result.is_err() && index > 0 {
                // Earlier batches may be running, and no fence will say when they are done.
                self.device.abandon();
            }
            result.during("vkQueueSubmit")?;
        }
        Ok(batches.len() as u64)
    }

    /// Waits for the last submission, not for ever.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let fences = [self.fence];
        // SAFETY: the fence is alive and was given to the last submission.
        let waited = unsafe { self.device.raw.wait_for_fences(&fences, true, self.device.patience_ns()) };
        if let Err(result) = waited {
            self.device.abandon();
            return Err(match result {
                vk::Result::TIMEOUT => Error::Timeout { seconds: self.device.patience().as_secs() },
                result => Error::from_result("vkWaitForFences", result),
            });
        }
        // SAFETY: signalled, so no longer in use.
        unsafe { self.device.raw.reset_fences(&fences) }.during("vkResetFences")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.idle() {
            // SAFETY: nothing is pending; null handles are ignored; destroying the pool frees its command buffers.
            unsafe {
                self.device.raw.destroy_fence(self.fence, None);
                self.device.raw.destroy_command_pool(self.pool, None);
            }
        }
    }
}
