//! The part of the loader-layer interface that Vulkan's own headers leave to `vk_layer.h`.
//!
//! The structures are those of the Khronos loader's "LoaderLayerInterface" document, interface version 2: the loader
//! hands a layer the next link of the chain in the `pNext` list of the create info, and every layer moves the link
//! on by one before it calls down.

use crate::entry;
use ash::vk;
use std::ffi::{c_char, c_void};

/// `VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO`.
const LOADER_INSTANCE_CREATE_INFO: i32 = 47;
/// `VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO`.
const LOADER_DEVICE_CREATE_INFO: i32 = 48;
/// `VK_LAYER_LINK_INFO`.
const LAYER_LINK_INFO: i32 = 0;

/// `PFN_GetPhysicalDeviceProcAddr`.
pub type GetPhysicalDeviceProcAddr =
    unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub struct NegotiateLayerInterface {
    /// `LAYER_NEGOTIATE_INTERFACE_STRUCT`, 1.
    pub s_type: i32,
    /// Unused.
    pub p_next: *mut c_void,
    /// In: the newest version that the loader speaks; out: the one that the layer speaks.
    pub loader_layer_interface_version: u32,
    /// Out.
    pub get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    /// Out.
    pub get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    /// Out; this layer adds no physical-device command.
    pub get_physical_device_proc_addr: Option<GetPhysicalDeviceProcAddr>,
}

/// `VkLayerInstanceLink`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InstanceLink {
    next: *mut InstanceLink,
    /// The next layer's, or the loader's, `vkGetInstanceProcAddr`.
    pub get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    get_physical_device_proc_addr: Option<GetPhysicalDeviceProcAddr>,
}

/// `VkLayerDeviceLink`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DeviceLink {
    next: *mut DeviceLink,
    /// The next layer's, or the loader's, `vkGetInstanceProcAddr`.
    pub get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// The next layer's, or the driver's, `vkGetDeviceProcAddr`.
    pub get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr,
}

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`, as far as both agree.
#[repr(C)]
struct LayerCreateInfo<L> {
    s_type: i32,
    p_next: *const c_void,
    function: i32,
    /// The union's member for `VK_LAYER_LINK_INFO`.
    link: *mut L,
}

/// A link of either chain.
trait Link: Copy {
    /// What the next layer will find; null for what stands at the chain's end.
    fn next(&self) -> *mut Self;
    /// The `vkGetInstanceProcAddr` of what it leads to.
    fn get_instance_proc_addr(&self) -> vk::PFN_vkGetInstanceProcAddr;
    /// Returns true if it leads to this layer.
    fn is_ours(&self) -> bool {
        std::ptr::fn_addr_eq(self.get_instance_proc_addr(), entry::instance_proc_addr())
    }
}

impl Link for InstanceLink {
    fn next(&self) -> *mut InstanceLink {
        self.next
    }

    fn get_instance_proc_addr(&self) -> vk::PFN_vkGetInstanceProcAddr {
        self.get_instance_proc_addr
    }
}

impl Link for DeviceLink {
    fn next(&self) -> *mut DeviceLink {
        self.next
    }

    fn get_instance_proc_addr(&self) -> vk::PFN_vkGetInstanceProcAddr {
        self.get_instance_proc_addr
    }
}

/// Takes this layer out of the rest of the chain: where it was inserted twice, under its two names, the first one is enough,
/// and two would each take the other's functions for the next layer's. A link that leads here gets what the link behind it has.
///
/// # Safety
///
/// `link` must be the loader's chain from this layer on, which the loader has made for the call.
unsafe fn take_out<L: Link>(mut link: *mut L) {
    while !link.is_null() {
        // SAFETY: by the caller; each link but the last leads to another, and the last to the loader's or the driver's own
        // functions.
        unsafe {
            let next = (*link).next();
            if (*link).is_ours() && !next.is_null() {
                *link = *next;
            } else {
                link = next;
            }
        }
    }
}

/// Finds the chain's link in a `pNext` list and takes it off, so that the next layer finds its own.
///
/// # Safety
///
/// `p_next` must be null or a valid `pNext` list that the loader prepared for this layer.
unsafe fn take_link<L: Link>(mut p_next: *const c_void, s_type: i32) -> Option<*const L> {
    while !p_next.is_null() {
        let info = p_next.cast_mut().cast::<LayerCreateInfo<L>>();
        // SAFETY: every structure in a pNext list begins with sType and pNext; the rest is read only once sType says
        // that it is the loader's.
        unsafe {
            if (*info).s_type == s_type && (*info).function == LAYER_LINK_INFO {
                let link = (*info).link;
                if link.is_null() {
                    return None;
                }
                take_out(link);
                // The loader documents that layers advance this pointer in place.
                (*info).link = (*link).next();
                return Some(link);
            }
            p_next = (*info).p_next;
        }
    }
    None
}

/// Takes this layer's link off an instance's create info.
///
/// # Safety
///
/// `info` must be what the loader passed to `vkCreateInstance`.
pub unsafe fn take_instance_link(info: &vk::InstanceCreateInfo<'_>) -> Option<*const InstanceLink> {
    // SAFETY: by the caller.
    unsafe { take_link(info.p_next, LOADER_INSTANCE_CREATE_INFO) }
}

/// Takes this layer's link off a device's create info.
///
/// # Safety
///
/// `info` must be what the loader passed to `vkCreateDevice`.
pub unsafe fn take_device_link(info: &vk::DeviceCreateInfo<'_>) -> Option<*const DeviceLink> {
    // SAFETY: by the caller.
    unsafe { take_link(info.p_next, LOADER_DEVICE_CREATE_INFO) }
}

/// What all dispatchable handles of one instance or device have in common: the loader's dispatch table, to which the
/// first word of the object points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DispatchKey(usize);

impl DispatchKey {
    /// The key of a dispatchable handle.
    ///
    /// # Safety
    ///
    /// The handle must be a live `VkInstance`, `VkPhysicalDevice`, `VkDevice`, `VkQueue` or `VkCommandBuffer`.
    pub unsafe fn of<H: vk::Handle>(handle: H) -> DispatchKey {
        let object = handle.as_raw() as usize as *const usize;
        // SAFETY: the loader interface requires the first word of each dispatchable object to be that pointer.
        DispatchKey(unsafe { object.read() })
    }
}

impl crate::handles::Key for DispatchKey {
    fn raw(self) -> u64 {
        self.0 as u64
    }
}

/// One structure of a `pNext` list.
#[derive(Clone, Copy)]
pub struct Chained(*const vk::BaseInStructure<'static>);

impl Chained {
    /// Its type.
    pub fn s_type(&self) -> vk::StructureType {
        // SAFETY: `chain` only yields non-null members of a valid list.
        unsafe { (*self.0).s_type }
    }

    /// The structure itself, when it is of `T`'s type.
    pub fn get<T: vk::TaggedStructure>(&self) -> Option<&T> {
        // SAFETY: a structure with T's sType is a T.
        (self.s_type() == T::STRUCTURE_TYPE).then(|| unsafe { &*self.0.cast::<T>() })
    }
}

/// The members of a `pNext` list, first to last.
///
/// # Safety
///
/// `p_next` must be null or a valid list that outlives what is made of it.
pub unsafe fn chain(p_next: *const c_void) -> impl Iterator<Item = Chained> {
    let first = p_next.cast::<vk::BaseInStructure<'static>>();
    std::iter::successors((!first.is_null()).then_some(Chained(first)), |c| {
        // SAFETY: a non-null member of a valid list.
        let next = unsafe { (*c.0).p_next };
        (!next.is_null()).then_some(Chained(next))
    })
}

/// A slice from a pointer and a count, as the API passes them; null counts as empty.
///
/// # Safety
///
/// `data` must be null or point to `len` elements that live as long as the slice is used.
pub unsafe fn slice<'a, T>(data: *const T, len: u32) -> &'a [T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(data, len as usize) }
}
