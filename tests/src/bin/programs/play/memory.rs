//! Memory and buffers of a program.

use anyhow::{Context, Result, ensure};
use ash::vk;

use super::{Memory, Player};
use crate::program::{BLOCK, Origin, WORDS};

impl Player<'_> {
    pub fn of_store(&self, store: usize) -> &Memory {
        let number =
            self.program.memories.iter().position(|m| m.store == store).expect("a store has a memory");
        &self.memories[number]
    }

    /// What the stores hold.
    pub fn stores(&self) -> Vec<Vec<u32>> {
        let all = self.program.stores.iter().enumerate();
        all.filter(|_| self.memories.len() == self.program.memories.len())
            .map(|(store, blocks)| {
                let at = self.of_store(store).at.cast::<u32>();
                // SAFETY: as in `all`; nothing is executing.
                (0..blocks * WORDS).map(|i| unsafe { at.add(i).read_unaligned() }).collect()
            })
            .collect()
    }

    fn bytes(&self, number: usize) -> u64 {
        self.program.stores[self.program.memories[number].store] as u64 * BLOCK
    }

    pub fn memory(&mut self, number: usize) -> Result<Option<Memory>> {
        let align = self.gpu.host_alignment;
        let size = self.bytes(number).next_multiple_of(align);
        match self.program.memories[number].origin {
            Origin::Own => self.allocate(size + align).map(Some),
            Origin::Host(_) => {
                let store = self.program.memories[number].store;
                let twin = self.program.memories[..number].iter().position(|m| m.store == store);
                let at = match twin {
                    Some(twin) => self.memories[twin].at,
                    None => {
                        let layout = std::alloc::Layout::from_size_align(size as usize, align as usize)?;
                        // SAFETY: the size is not 0.
                        let at = unsafe { std::alloc::alloc_zeroed(layout) };
                        ensure!(!at.is_null(), "no host memory");
                        self.host.push((at, layout));
                        at
                    }
                };
                self.import(at, size)
            }
            Origin::Mapped(other) => self.import(self.memories[other].at, size),
        }
    }

    fn flags(&self) -> vk::MemoryAllocateFlagsInfo<'static> {
        let addressed = self.gpu.abilities.addresses;
        let flag = if addressed { vk::MemoryAllocateFlags::DEVICE_ADDRESS } else { Default::default() };
        vk::MemoryAllocateFlagsInfo::default().flags(flag)
    }

    /// Memory of its own, mapped; its first block is where the host could import it.
    fn allocate(&self, size: u64) -> Result<Memory> {
        let mut flags = self.flags();
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(size)
            .memory_type_index(self.gpu.host_type(u32::MAX)?)
            .push_next(&mut flags);
        // SAFETY: as in `new`; the whole of it is mapped.
        unsafe {
            let handle = self.gpu.device.allocate_memory(&info, None)?;
            let mapped = self.gpu.device.map_memory(handle, 0, vk::WHOLE_SIZE, Default::default())?;
            let align = self.gpu.host_alignment;
            let base = (mapped as u64).next_multiple_of(align) - mapped as u64;
            Ok(Memory { handle, at: mapped.cast::<u8>().add(base as usize), base })
        }
    }

    fn import(&self, at: *mut u8, size: u64) -> Result<Option<Memory>> {
        let Some(host) = &self.gpu.host else { return Ok(None) };
        let ty = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let mut flags = self.flags();
        let mut import =
            vk::ImportMemoryHostPointerInfoEXT::default().handle_type(ty).host_pointer(at.cast());
        // SAFETY: as in `new`; the pointer is to `size` bytes that live as long as the memory.
        unsafe {
            let get = host.fp().get_memory_host_pointer_properties_ext;
            let asked = get(self.gpu.device.handle(), ty, at.cast(), &raw mut properties);
            if asked != vk::Result::SUCCESS {
                return Ok(None);
            }
            let Ok(ty) = self.gpu.host_type(properties.memory_type_bits) else { return Ok(None) };
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(size)
                .memory_type_index(ty)
                .push_next(&mut flags)
                .push_next(&mut import);
            let made = self.gpu.device.allocate_memory(&info, None);
            Ok(made.ok().map(|handle| Memory { handle, at, base: 0 }))
        }
    }

    /// A buffer, bound; `None` where the device wants it elsewhere.
    pub fn buffer(&self, number: usize) -> Result<Option<vk::Buffer>> {
        let of = &self.program.buffers[number];
        let memory = &self.memories[of.memory];
        type Usage = vk::BufferUsageFlags;
        let usage = Usage::STORAGE_BUFFER
            | Usage::TRANSFER_SRC
            | Usage::TRANSFER_DST
            | Usage::INDIRECT_BUFFER
            | if self.gpu.abilities.addresses { Usage::SHADER_DEVICE_ADDRESS } else { Usage::empty() };
        let mut external = vk::ExternalMemoryBufferCreateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let mut info = vk::BufferCreateInfo::default().size(of.blocks as u64 * BLOCK).usage(usage);
        if self.program.memories[of.memory].origin != Origin::Own {
            info = info.push_next(&mut external);
        }
        let offset = memory.base + of.first as u64 * BLOCK;
        // SAFETY: as in `new`.
        unsafe {
            let buffer = self.gpu.device.create_buffer(&info, None)?;
            let needs = self.gpu.device.get_buffer_memory_requirements(buffer);
            if !offset.is_multiple_of(needs.alignment) {
                self.gpu.device.destroy_buffer(buffer, None);
                return Ok(None);
            }
            self.gpu.device.bind_buffer_memory(buffer, memory.handle, offset)?;
            // As applications do it, once: an address is learned when the buffer is made.
            if self.gpu.abilities.addresses {
                let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
                self.gpu.device.get_buffer_device_address(&info);
            }
            Ok(Some(buffer))
        }
    }

    /// Gives an allocation and its buffer up for new ones with the same contents: the memory first, the buffer at the end.
    pub fn renew(&mut self, number: usize) -> Result<bool> {
        let bytes = self.bytes(number) as usize;
        let mut kept = vec![0u8; bytes];
        // SAFETY: nothing is executing; the memory is mapped, and freed once.
        unsafe {
            self.memories[number].at.copy_to_nonoverlapping(kept.as_mut_ptr(), bytes);
            self.gpu.device.free_memory(self.memories[number].handle, None);
        }
        self.memories[number].handle = vk::DeviceMemory::null();
        let align = self.gpu.host_alignment;
        self.memories[number] = self.allocate((bytes as u64).next_multiple_of(align) + align)?;
        // SAFETY: as above.
        unsafe { self.memories[number].at.copy_from_nonoverlapping(kept.as_ptr(), bytes) };
        let buffer = self.program.buffers.iter().position(|b| b.memory == number).context("its buffer")?;
        let Some(new) = self.buffer(buffer)? else { return Ok(false) };
        self.made.dead.push(std::mem::replace(&mut self.buffers[buffer], new));
        Ok(true)
    }
}
