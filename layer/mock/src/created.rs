//! What devices were created with, as it reached the driver: a layer must change none of it.

use ash::vk;
use std::cell::RefCell;
use std::ffi::CStr;

/// One call of `vkCreateDevice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// The names of the extensions, in order.
    pub extensions: Vec<String>,
    /// The structures of the list: the type of each, and where it lies.
    pub list: Vec<(i32, usize)>,
    /// Where `pEnabledFeatures` points.
    pub features: usize,
    /// Where `pQueueCreateInfos` points, and how many there are.
    pub queues: (usize, u32),
}

thread_local! {
    static LAST: RefCell<Created> = RefCell::default();
}

/// The last device that this thread created.
pub fn created_with() -> Created {
    LAST.with_borrow(Clone::clone)
}

/// Notes what a device is created with.
///
/// # Safety
///
/// `info` must be valid, with all that it points to.
pub(crate) unsafe fn note(info: *const vk::DeviceCreateInfo<'_>) {
    // SAFETY: by the caller.
    let created = unsafe {
        let Some(info) = info.as_ref() else { return };
        let names = (0..info.enabled_extension_count as usize)
            .map(|i| CStr::from_ptr(*info.pp_enabled_extension_names.add(i)).to_string_lossy().into_owned());
        let mut list = Vec::new();
        let mut at = info.p_next.cast::<vk::BaseInStructure<'_>>();
        while let Some(one) = at.as_ref() {
            list.push((one.s_type.as_raw(), at as usize));
            at = one.p_next;
        }
        Created {
            extensions: names.collect(),
            list,
            features: info.p_enabled_features as usize,
            queues: (info.p_queue_create_infos as usize, info.queue_create_info_count),
        }
    };
    LAST.set(created);
}
