//! Filling device buffers through a staging buffer.

use std::rc::Rc;

use ash::vk;

use super::stream::{Promise, Stream};
use super::{Buffer, Device, Error, Use};

/// Bytes staged at once.
const STAGING: u64 = 16 << 20;

/// Copies host bytes into device buffers, piece by piece, each waited for.
pub struct Uploader {
    device: Rc<Device>,
    staging: Buffer,
    stream: Stream,
}

impl Uploader {
    /// Makes the staging buffer; `largest` is the most that will be uploaded at once, if that is little.
    pub fn new(device: &Rc<Device>, largest: u64) -> Result<Self, Error> {
        let staging = Buffer::new(device, largest.min(STAGING), Use::HostWrites)?;
        Ok(Self { device: Rc::clone(device), staging, stream: Stream::new(device)? })
    }

    /// Copies `bytes` (a multiple of 4) to `offset` of `to`.
    ///
    /// # Panics
    ///
    /// If they do not fit: a mistake of the caller.
    pub fn upload(&mut self, to: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        assert!(offset + bytes.len() as u64 <= to.bytes(), "outside the buffer");
        let mut at = offset;
        for piece in bytes.chunks(self.staging.bytes() as usize) {
            self.staging.write(0, piece);
            let regions = [vk::BufferCopy { src_offset: 0, dst_offset: at, size: piece.len() as u64 }];
            self.stream.begin(0, Promise::Once)?;
            // SAFETY: recording; both buffers are alive and large enough; the copy ends before `wait` returns. The
            // fence orders it before everything submitted later only on the host's side, so a barrier to all later
            // reads closes the recording.
            unsafe {
                let commands = self.stream.commands(0);
                self.device.raw.cmd_copy_buffer(commands, self.staging.raw, to.raw, &regions);
                let barrier = [vk::MemoryBarrier::default()
                    .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .dst_access_mask(
                        vk::AccessFlags::SHADER_READ
                            | vk::AccessFlags::SHADER_WRITE
                            | vk::AccessFlags::TRANSFER_READ
                            | vk::AccessFlags::TRANSFER_WRITE,
                    )];
                self.device.raw.cmd_pipeline_barrier(
                    commands,
                    vk::PipelineStageFlags::TRANSFER,
                    vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER,
                    vk::DependencyFlags::empty(),
                    &barrier,
                    &[],
                    &[],
                );
            }
            self.stream.end(0)?;
            self.stream.submit(1, false)?;
            self.stream.wait()?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}
