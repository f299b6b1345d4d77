//! Where an image's bytes are.
//!
//! An image is the whole of what its memory requirements ask for, at the place where it was bound: which of it a texel
//! is, only the driver knows. That is enough to keep two images apart, and an image from a buffer. What can't be placed
//! (sparse, protected and disjoint images, those of a swapchain, those bound in a way that this layer does not read) is
//! anywhere. Layouts are no concern of this file: a transition passes through, with all that waits before it.

use crate::abi::slice;
use crate::memory::Extent;
use crate::objects::{Allocator, create, destroy};
use ash::vk;
use std::sync::OnceLock;

/// One `VkImage`.
#[derive(Debug)]
pub struct Image {
    placeable: bool,
    place: OnceLock<Extent>,
}

impl Image {
    /// The record of an image made with `info`.
    fn new(info: &vk::ImageCreateInfo<'_>) -> Image {
        use vk::ImageCreateFlags as Flags;
        let odd = Flags::SPARSE_BINDING
            | Flags::SPARSE_RESIDENCY
            | Flags::SPARSE_ALIASED
            | Flags::PROTECTED
            | Flags::DISJOINT;
        Image { placeable: !info.flags.intersects(odd), place: OnceLock::new() }
    }

    fn bind(&self, extent: Option<Extent>) {
        // A second binding of one image is invalid; the first stands.
        let _ = self.place.set(extent.filter(|_| self.placeable).unwrap_or(Extent::Anywhere));
    }
}

/// One `VkImageView`: the bytes of its image, which must be bound when the view is made
/// (VUID-VkImageViewCreateInfo-image-01020).
#[derive(Clone, Copy, Debug)]
pub struct ImageView(pub Extent);

pub unsafe extern "system" fn create_image(
    device: vk::Device,
    info: *const vk::ImageCreateInfo<'_>,
    allocator: Allocator<'_>,
    image: *mut vk::Image,
) -> vk::Result {
    create!(device.create_image(info, allocator, image), |d| {
        d.images.insert(*image, Image::new(&*info));
    })
}

pub unsafe extern "system" fn destroy_image(device: vk::Device, image: vk::Image, allocator: Allocator<'_>) {
    destroy!(device.destroy_image(image, allocator), |d| {
        d.images.remove(image);
    })
}

/// The bytes of `image` when it is bound to `memory` at `offset`.
///
/// # Safety
///
/// The objects must be alive.
unsafe fn placed(
    device: &crate::device::Device,
    image: vk::Image,
    memory: vk::DeviceMemory,
    offset: u64,
) -> Option<Extent> {
    // SAFETY: by the caller.
    unsafe {
        let memory = device.memories.get(memory)?;
        let mut needs = vk::MemoryRequirements::default();
        device.next.get_image_memory_requirements?(device.handle, image, &raw mut needs);
        Some(memory.extent(offset, needs.size))
    }
}

pub unsafe extern "system" fn bind_image_memory(
    device: vk::Device,
    image: vk::Image,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
) -> vk::Result {
    create!(device.bind_image_memory(image, memory, offset), |d| {
        if let Some(record) = d.images.get(image).filter(|r| r.placeable) {
            record.bind(placed(d, image, memory, offset));
        }
    })
}

pub unsafe extern "system" fn bind_image_memory2(
    device: vk::Device,
    count: u32,
    infos: *const vk::BindImageMemoryInfo<'_>,
) -> vk::Result {
    create!(device.bind_image_memory2(count, infos), |d| {
        for info in slice(infos, count) {
            if let Some(record) = d.images.get(info.image).filter(|r| r.placeable) {
                // What the list holds (a swapchain, one plane, device groups) puts the image elsewhere.
                let plain = info.p_next.is_null();
                record.bind(plain.then(|| placed(d, info.image, info.memory, info.memory_offset)).flatten());
            }
        }
    })
}

pub unsafe extern "system" fn create_image_view(
    device: vk::Device,
    info: *const vk::ImageViewCreateInfo<'_>,
    allocator: Allocator<'_>,
    view: *mut vk::ImageView,
) -> vk::Result {
    create!(device.create_image_view(info, allocator, view), |d| {
        let image = d.images.get((*info).image);
        let extent = image.and_then(|i| i.place.get().copied()).unwrap_or(Extent::Anywhere);
        d.image_views.insert(*view, ImageView(extent));
    })
}

pub unsafe extern "system" fn destroy_image_view(
    device: vk::Device,
    view: vk::ImageView,
    allocator: Allocator<'_>,
) {
    destroy!(device.destroy_image_view(view, allocator), |d| {
        d.image_views.remove(view);
    })
}
