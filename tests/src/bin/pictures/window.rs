//! A window on an X server, and what the server shows in it.
//!
//! The connection is a libxcb one, because a driver's surface wants libxcb's; it is loaded when a window is asked for,
//! so that off-screen pictures need no X library. The screenshot comes from the server and not from Vulkan: it is what
//! somebody in front of the screen would see.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::ptr::NonNull;

use anyhow::{Context, Result, bail, ensure};
use raw_window_handle::{RawDisplayHandle, RawWindowHandle, XcbDisplayHandle, XcbWindowHandle};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{ConnectionExt, CreateWindowAux, EventMask, ImageFormat, WindowClass};
use x11rb::xcb_ffi::{XCBConnection, load_libxcb};

use crate::gpu::SIZE;

/// A window of a picture's size.
pub struct Window {
    connection: XCBConnection,
    screen: usize,
    id: u32,
}

impl Window {
    /// Opens a window on the server that `DISPLAY` names.
    ///
    /// # Errors
    /// When there is no libxcb, no server, or a screen without 24 bits of colour.
    pub fn open() -> Result<Window> {
        load_libxcb().context("cannot load libxcb.so.1: run tests/setup")?;
        let (connection, screen) = XCBConnection::connect(None).context(
            "cannot connect to an X server; start one (Xvfb :7 -screen 0 640x480x24 &) and set DISPLAY=:7",
        )?;
        let root = &connection.setup().roots[screen];
        ensure!(root.root_depth == 24, "the screen has {} bits of colour, not 24", root.root_depth);
        let id = connection.generate_id()?;
        // Without a window manager's help: it might give the window another size.
        let values = CreateWindowAux::new()
            .override_redirect(1)
            .background_pixel(root.black_pixel)
            .event_mask(EventMask::EXPOSURE);
        let (width, height) = (SIZE.width as u16, SIZE.height as u16);
        let class = WindowClass::INPUT_OUTPUT;
        connection
            .create_window(24, id, root.root, 0, 0, width, height, 0, class, root.root_visual, &values)?
            .check()?;
        connection.map_window(id)?.check()?;
        while !matches!(connection.wait_for_event()?, Event::Expose(_)) {}
        Ok(Window { connection, screen, id })
    }

    /// The connection and the window, for a surface. They are valid as long as the window.
    pub fn handles(&self) -> (RawDisplayHandle, RawWindowHandle) {
        let connection = NonNull::new(self.connection.get_raw_xcb_connection().cast::<c_void>());
        let window = NonZeroU32::new(self.id).unwrap_or(NonZeroU32::MIN);
        (
            RawDisplayHandle::Xcb(XcbDisplayHandle::new(connection, self.screen as i32)),
            RawWindowHandle::Xcb(XcbWindowHandle::new(window)),
        )
    }

    /// What the server shows in the window: four bytes a texel, red first, opaque.
    pub fn screenshot(&self) -> Result<Vec<u8>> {
        let (width, height) = (SIZE.width as u16, SIZE.height as u16);
        let image = self
            .connection
            .get_image(ImageFormat::Z_PIXMAP, self.id, 0, 0, width, height, !0)?
            .reply()
            .context("the X server gives no picture of the window")?;
        let little =
            self.connection.setup().image_byte_order == x11rb::protocol::xproto::ImageOrder::LSB_FIRST;
        if !little || image.data.len() != usize::from(width) * usize::from(height) * 4 {
            bail!("the X server's pictures are not 32 bits a texel, blue first");
        }
        Ok(image.data.as_chunks::<4>().0.iter().flat_map(|[b, g, r, _]| [*r, *g, *b, 255]).collect())
    }
}
