//! Presenting: a picture is drawn into an image of a swapchain, and the window is looked at until it shows it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ash::{khr, vk};

use crate::gpu::{Gpu, SIZE};
use crate::pipeline::{Drawing, FULL, graphics};
use crate::record::{DRAWN, FROM, NEW, SAMPLED, SHOWN};
use crate::stage::{Bind, Image, Stage};
use crate::window::Window;

/// How long a presented picture may take to the screen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The images of a window.
pub struct Swapchain<'g> {
    gpu: &'g Gpu,
    functions: khr::swapchain::Device,
    handle: vk::SwapchainKHR,
    images: Vec<vk::Image>,
    format: vk::Format,
}

impl<'g> Swapchain<'g> {
    /// A swapchain for the surface with which the device was opened.
    ///
    /// # Errors
    /// When the device was opened without a window, or its surface has no format of eight plain bits a channel.
    pub fn new(gpu: &'g Gpu) -> Result<Swapchain<'g>> {
        let (surface_functions, surface) =
            gpu.surface.as_ref().context("the device was opened without a window")?;
        // SAFETY: the surface is the device's, the structures live through the calls.
        unsafe {
            let formats = surface_functions.get_physical_device_surface_formats(gpu.physical, *surface)?;
            let plain = [vk::Format::B8G8R8A8_UNORM, vk::Format::R8G8B8A8_UNORM];
            let format = formats.iter().find(|f| plain.contains(&f.format));
            let format = format.context("the window's surface has no format B8G8R8A8_UNORM")?;
            let can = surface_functions.get_physical_device_surface_capabilities(gpu.physical, *surface)?;
            let most = if can.max_image_count == 0 { u32::MAX } else { can.max_image_count };
            let info = vk::SwapchainCreateInfoKHR::default()
                .surface(*surface)
                .min_image_count((can.min_image_count + 1).min(most))
                .image_format(format.format)
                .image_color_space(format.color_space)
                .image_extent(SIZE)
                .image_array_layers(1)
                .image_usage(vk::ImageUsageFlags::COLOR_ATTACHMENT)
                .pre_transform(can.current_transform)
                .composite_alpha(vk::CompositeAlphaFlagsKHR::OPAQUE)
                .present_mode(vk::PresentModeKHR::FIFO)
                .clipped(false);
            let functions = khr::swapchain::Device::new(&gpu.instance, &gpu.device);
            let handle = functions.create_swapchain(&info, None).context("vkCreateSwapchainKHR")?;
            let images = functions.get_swapchain_images(handle).context("vkGetSwapchainImagesKHR")?;
            Ok(Swapchain { gpu, functions, handle, images, format: format.format })
        }
    }

    /// Shows a picture that is in the use `FROM`, and returns what the window then shows.
    ///
    /// # Errors
    /// When the window does not come to show the picture, texel for texel.
    pub fn show(&self, window: &Window, picture: &Image, expected: &[u8]) -> Result<Vec<u8>> {
        let stage = Stage::new(self.gpu);
        let (acquired, drawn) = (stage.semaphore()?, stage.semaphore()?);
        // SAFETY: the swapchain is used by this thread only, the semaphore is not signalled.
        let (index, _) =
            unsafe { self.functions.acquire_next_image(self.handle, u64::MAX, acquired, vk::Fence::null()) }
                .context("vkAcquireNextImageKHR")?;
        let shown = stage.view_of(self.images[index as usize], self.format, SIZE)?;
        let drawing = Drawing { fragment: "sampled.frag", format: self.format, ..FULL };
        let pipeline = graphics(&stage, drawing)?;
        let set = stage.set(&[(3, Bind::Sampled(picture))])?;
        let commands = stage.record(|c| {
            c.turn(picture, FROM, SAMPLED);
            c.turn(&shown, NEW, DRAWN);
            c.render(&shown, Some([1.0, 0.0, 1.0, 1.0]), |c| {
                c.use_to_draw(pipeline, Some(set), SIZE, [[1.0, 0.0, 0.0, 0.0], [0.0; 4]]);
                c.draw(3);
            });
            c.turn(&shown, DRAWN, SHOWN);
            c.turn(picture, SAMPLED, FROM);
        })?;
        stage.submit(&[commands], &[acquired], &[drawn])?;
        let (swapchains, indices, wait) = ([self.handle], [index], [drawn]);
        let info = vk::PresentInfoKHR::default()
            .swapchains(&swapchains)
            .image_indices(&indices)
            .wait_semaphores(&wait);
        // SAFETY: the queue is used by this thread only, the structures live through the call.
        unsafe { self.functions.queue_present(self.gpu.queue, &info) }.context("vkQueuePresentKHR")?;
        stage.wait()?;
        let started = Instant::now();
        loop {
            let seen = window.screenshot()?;
            let same = seen.as_chunks::<4>().0.iter().zip(expected.as_chunks::<4>().0);
            let wrong = same.filter(|(seen, expected)| seen[..3] != expected[..3]).count();
            if wrong == 0 {
                return Ok(seen);
            }
            if started.elapsed() > PATIENCE {
                bail!("{wrong} texels of the window differ from the picture that was presented");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Swapchain<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the images once the device is idle; the handle is destroyed once.
        unsafe {
            // An error here leaves nothing better to do than to go on.
            let _ = self.gpu.device.device_wait_idle();
            self.functions.destroy_swapchain(self.handle, None);
        }
    }
}
