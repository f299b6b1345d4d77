//! One command buffer, one fence: record, submit, wait.

use std::rc::Rc;
use std::time::Duration;

use ash::vk;

use super::error::During;
use super::{Device, Error};

/// Longest wait for one submission. No token takes a minute on anything; a hung GPU never answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command buffer that is recorded, submitted, and waited for before it is touched again.
pub(super) struct Stream {
    device: Rc<Device>,
    pool: vk::CommandPool,
    pub(super) commands: vk::CommandBuffer,
    fence: vk::Fence,
}

impl Stream {
    pub(super) fn new(device: &Rc<Device>) -> Result<Self, Error> {
        let mut stream = Self {
            device: Rc::clone(device),
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            fence: vk::Fence::null(),
        };
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(device.family);
        // SAFETY: the device is alive in this and the following calls; structures live until the calls return.
        stream.pool = unsafe { device.raw.create_command_pool(&info, None) }.during("vkCreateCommandPool")?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(stream.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool was just made from this device.
        let buffers = unsafe { device.raw.allocate_command_buffers(&info) };
        stream.commands = buffers.during("vkAllocateCommandBuffers")?[0];
        // SAFETY: as above.
        let fence = unsafe { device.raw.create_fence(&vk::FenceCreateInfo::default(), None) };
        stream.fence = fence.during("vkCreateFence")?;
        Ok(stream)
    }

    /// Begins recording afresh. `once` is a promise to submit only once before the next `begin`.
    pub(super) fn begin(&mut self, once: bool) -> Result<(), Error> {
        let flags = if once {
            vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT
        } else {
            vk::CommandBufferUsageFlags::empty()
        };
        let info = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: `submit` waits, so the command buffer is not pending; its pool allows resetting it by beginning.
        unsafe { self.device.raw.begin_command_buffer(self.commands, &info) }.during("vkBeginCommandBuffer")
    }

    pub(super) fn end(&mut self) -> Result<(), Error> {
        // SAFETY: `begin` came before.
        unsafe { self.device.raw.end_command_buffer(self.commands) }.during("vkEndCommandBuffer")
    }

    /// Hands the recorded commands to the queue. [`Stream::wait`] must follow.
    pub(super) fn submit(&mut self) -> Result<(), Error> {
        let commands = [self.commands];
        let submits = [vk::SubmitInfo::default().command_buffers(&commands)];
        // SAFETY: recorded, not pending, and the fence is unsignalled and not in use, since each wait resets it.
        unsafe { self.device.raw.queue_submit(self.device.queue, &submits, self.fence) }
            .during("vkQueueSubmit")
    }

    /// Waits for the last submission, not for ever.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let fences = [self.fence];
        // SAFETY: the fence is alive and was given to the last submission.
        let waited = unsafe { self.device.raw.wait_for_fences(&fences, true, PATIENCE.as_nanos() as u64) };
        if let Err(result) = waited {
            self.device.abandon();
            return Err(match result {
                vk::Result::TIMEOUT => Error::Timeout { seconds: PATIENCE.as_secs() },
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
            // SAFETY: nothing is pending; null handles are ignored; destroying the pool frees its command buffer.
            unsafe {
                self.device.raw.destroy_fence(self.fence, None);
                self.device.raw.destroy_command_pool(self.pool, None);
            }
        }
    }
}
