//! Debug labels: the regions that captures and profilers show.
//!
//! A label touches nothing, so where operations go to the driver as they are recorded, labels do, too. Where operations are
//! held, a label that went on at once would stand before all of them. So each held operation keeps the regions that it
//! was recorded in, and when it is issued, those that are open and not its own are closed, and its own are opened. An operation
//! that moves takes its regions along: one region of the application may so become several of the same name. Whatever is
//! issued, each region holds operations of its own only, and when all is issued, those are open that the application left open.

use crate::context::{Context, context};
use crate::next::Next;
use ash::vk;
use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

/// Which extension a label is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// `VK_EXT_debug_utils`.
    Utils,
    /// `VK_EXT_debug_marker`.
    Marker,
}

/// A label, copied.
#[derive(Debug)]
pub struct Label {
    source: Source,
    name: CString,
    color: [f32; 4],
}

impl Label {
    /// # Safety
    ///
    /// `name` must be null or a C string.
    unsafe fn new(source: Source, name: *const c_char, color: [f32; 4]) -> Arc<Label> {
        let name = match name.is_null() {
            true => CString::default(),
            // SAFETY: by the caller.
            false => unsafe { CStr::from_ptr(name) }.to_owned(),
        };
        Arc::new(Label { source, name, color })
    }

    /// Hands the label to the begin or the insert function of its extension.
    ///
    /// # Safety
    ///
    /// As for [`Labels::place`].
    unsafe fn put(&self, next: &Next, buffer: vk::CommandBuffer, inserted: bool) {
        // SAFETY: by the caller; the structures live while they are read.
        unsafe {
            match self.source {
                Source::Utils => {
                    let info = vk::DebugUtilsLabelEXT::default().label_name(&self.name).color(self.color);
                    let function = if inserted { next.cmd_insert_label } else { next.cmd_begin_label };
                    if let Some(f) = function {
                        f(buffer, &raw const info);
                    }
                }
                Source::Marker => {
                    let info =
                        vk::DebugMarkerMarkerInfoEXT::default().marker_name(&self.name).color(self.color);
                    let function = if inserted { next.cmd_marker_insert } else { next.cmd_marker_begin };
                    if let Some(f) = function {
                        f(buffer, &raw const info);
                    }
                }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Labels::place`].
    unsafe fn end(&self, next: &Next, buffer: vk::CommandBuffer) {
        let function = match self.source {
            Source::Utils => next.cmd_end_label,
            Source::Marker => next.cmd_marker_end,
        };
        if let Some(f) = function {
            // SAFETY: by the caller.
            unsafe { f(buffer) };
        }
    }
}

/// What is inserted between two operations.
#[derive(Clone, Debug)]
enum Loose {
    Inserted(Arc<Label>),
    /// A region without an operation.
    Empty(Arc<Label>),
}

/// A region that is open where the application is.
#[derive(Clone, Debug)]
struct Open {
    label: Arc<Label>,
    /// An operation was recorded in it, or it went to the driver.
    used: bool,
}

/// Where an operation was recorded.
#[derive(Clone, Debug, Default)]
pub struct Place {
    regions: Arc<[Arc<Label>]>,
    before: Vec<Loose>,
}

/// The regions of a command buffer whose operations may be held back.
#[derive(Debug, Default)]
pub struct Labels {
    open: Vec<Open>,
    /// The labels of `open` as a held operation keeps it, while it does not change.
    shared: Option<Arc<[Arc<Label>]>>,
    loose: Vec<Loose>,
    /// What is open for the driver.
    issued: Vec<Arc<Label>>,
}

impl Labels {
    fn begin(&mut self, label: Arc<Label>) {
        self.shared = None;
        self.open.push(Open { label, used: false });
    }

    /// Returns false where no region of this command buffer is open: it was opened in an earlier one.
    fn end(&mut self) -> bool {
        self.shared = None;
        let Some(ended) = self.open.pop() else { return false };
        if !ended.used {
            self.loose.push(Loose::Empty(ended.label));
        }
        true
    }

    /// A region begins where nothing is held.
    fn begin_now(&mut self, label: Arc<Label>) {
        self.shared = None;
        self.issued.push(label.clone());
        self.open.push(Open { label, used: true });
    }

    /// A region ends where nothing is held.
    fn end_now(&mut self) {
        self.shared = None;
        self.open.pop();
        self.issued.pop();
    }

    fn insert(&mut self, label: Arc<Label>) {
        self.loose.push(Loose::Inserted(label));
    }

    /// Where the next operation is recorded.
    pub fn here(&mut self) -> Place {
        let open = &mut self.open;
        let regions = self.shared.get_or_insert_with(|| {
            open.iter_mut().for_each(|region| region.used = true);
            open.iter().map(|region| region.label.clone()).collect()
        });
        Place { regions: regions.clone(), before: std::mem::take(&mut self.loose) }
    }

    /// Opens and closes regions so that what is issued next is where it was recorded.
    ///
    /// # Safety
    ///
    /// The command buffer must be recording, and `next` its device's functions.
    pub unsafe fn place(&mut self, place: &Place, next: &Next, buffer: vk::CommandBuffer) {
        let same = self.issued.iter().zip(&*place.regions).take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
        // SAFETY: by the caller, here and below.
        unsafe {
            for region in self.issued.drain(same..).rev() {
                region.end(next, buffer);
            }
            for region in &place.regions[same..] {
                region.put(next, buffer, false);
                self.issued.push(region.clone());
            }
            for loose in &place.before {
                match loose {
                    Loose::Inserted(label) => label.put(next, buffer, true),
                    Loose::Empty(label) => {
                        label.put(next, buffer, false);
                        label.end(next, buffer);
                    }
                }
            }
        }
    }

    /// All is issued: from here on the driver is where the application is.
    ///
    /// # Safety
    ///
    /// As for [`Labels::place`].
    pub unsafe fn catch_up(&mut self, next: &Next, buffer: vk::CommandBuffer) {
        let here = self.here();
        // SAFETY: by the caller.
        unsafe { self.place(&here, next, buffer) };
    }
}

/// What an application does with a label.
enum Change {
    Begin(Arc<Label>),
    Insert(Arc<Label>),
    End,
}

/// Keeps a change until the operations before it are issued. Returns false where it must go on at once.
fn keep(context: &Context<'_>, change: impl FnOnce() -> Change) -> bool {
    let kept = context.with(|state| {
        let Some(segment) = state.segment.as_mut() else { return false };
        if !segment.holds_any() {
            match change() {
                Change::Begin(label) => segment.labels.begin_now(label),
                Change::End => segment.labels.end_now(),
                Change::Insert(_) => {}
            }
            return false;
        }
        match change() {
            Change::Begin(label) => segment.labels.begin(label),
            Change::Insert(label) => segment.labels.insert(label),
            Change::End if !segment.labels.end() => {
                // It ends a region of an earlier command buffer, and all that is held belongs into that.
                context.stop_holding(state);
                return false;
            }
            Change::End => {}
        }
        true
    });
    kept.unwrap_or(false)
}

/// Hooks of commands that begin or insert a label: the next link's function has the hook's name.
macro_rules! named {
    ($( $hook:ident: $change:ident($source:ident, $info:ty, $name:ident); )*) => {
        $(
            pub unsafe extern "system" fn $hook(buffer: vk::CommandBuffer, info: *const $info) {
                // SAFETY: the application's own arguments, read and passed on.
                unsafe {
                    let Some(context) = context(buffer) else { return };
                    let change = || Change::$change(Label::new(Source::$source, (*info).$name, (*info).color));
                    if !keep(&context, change)
                        && let Some(f) = context.device.next.$hook
                    {
                        f(buffer, info);
                    }
                }
            }
        )*
    };
}

named! {
    cmd_begin_label: Begin(Utils, vk::DebugUtilsLabelEXT<'_>, p_label_name);
    cmd_insert_label: Insert(Utils, vk::DebugUtilsLabelEXT<'_>, p_label_name);
    cmd_marker_begin: Begin(Marker, vk::DebugMarkerMarkerInfoEXT<'_>, p_marker_name);
    cmd_marker_insert: Insert(Marker, vk::DebugMarkerMarkerInfoEXT<'_>, p_marker_name);
}

/// Hooks of commands that end a region.
macro_rules! ending {
    ($( $hook:ident; )*) => {
        $(
            pub unsafe extern "system" fn $hook(buffer: vk::CommandBuffer) {
                // SAFETY: as above.
                unsafe {
                    let Some(context) = context(buffer) else { return };
                    if !keep(&context, || Change::End)
                        && let Some(f) = context.device.next.$hook
                    {
                        f(buffer);
                    }
                }
            }
        )*
    };
}

ending! {
    cmd_end_label;
    cmd_marker_end;
}
