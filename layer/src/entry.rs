//! Where the loader comes in: negotiation, the two proc-addr functions, instances and devices.

use crate::abi::{self, DispatchKey, NegotiateLayerInterface};
use crate::application;
use crate::context::catch;
use crate::device::{Device, registry};
use crate::in_force::InForce;
use crate::next::Next;
use crate::registry;
use crate::stubs::Effect;
use crate::{hooks, reporting, stubs, tooling};
use ash::vk;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, OnceLock};
use zinc_settings::Settings;

/// The interface version this layer speaks: the first one with negotiation.
const INTERFACE_VERSION: u32 = 2;

/// One `VkInstance`.
///
/// What the layer itself calls is fetched while the instance is being made. Later the loader answers with the top of
/// the chain, and a call would come back here without end.
struct Instance {
    handle: vk::Instance,
    get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    destroy: Option<vk::PFN_vkDestroyInstance>,
    properties: reporting::PropertyFunctions,
    settings: Asked,
}

impl Instance {
    /// # Safety
    ///
    /// `get_instance_proc_addr` must be the next link's, and `handle` an instance that it is just making.
    unsafe fn new(
        handle: vk::Instance,
        get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
        settings: Asked,
    ) -> Instance {
        // SAFETY: by the caller; names and types go together.
        unsafe {
            let fetch = |name: &CStr| get_instance_proc_addr(handle, name.as_ptr());
            let destroy = fetch(c"vkDestroyInstance")
                .map(|f| std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyInstance>(f));
            let properties = reporting::PropertyFunctions::fetch(&fetch);
            Instance { handle, get_instance_proc_addr, destroy, properties, settings }
        }
    }
}

type Instances = RwLock<HashMap<DispatchKey, Arc<Instance>>>;

fn instances() -> &'static Instances {
    static INSTANCES: OnceLock<Instances> = OnceLock::new();
    INSTANCES.get_or_init(Instances::default)
}

/// The settings of an instance, and what of them could not be honoured.
type Asked = (Arc<InForce>, Arc<[String]>);

/// The settings of an instance that is made with this list. What can't be honoured is said once a process.
///
/// # Safety
///
/// The list must be null or valid.
unsafe fn settings(p_next: *const c_void) -> Asked {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    // SAFETY: by the caller.
    let (settings, warnings) = InForce::here(|| unsafe { application::elsewhere(p_next) });
    let mut said = SAID.lock();
    for warning in &warnings {
        if !said.contains(warning) {
            settings.warn([warning.clone()]);
            said.push(warning.clone());
        }
    }
    (Arc::new(settings), warnings.into())
}

/// The next link's function called `name`, for the instance with this key.
pub(crate) fn instance_function(key: DispatchKey, name: &CStr) -> vk::PFN_vkVoidFunction {
    let known = instances().read().get(&key).cloned()?;
    // SAFETY: the next link's function, with its own instance.
    unsafe { (known.get_instance_proc_addr)(known.handle, name.as_ptr()) }
}

/// `vkNegotiateLoaderLayerInterfaceVersion`: the one symbol that the loader looks up.
///
/// # Safety
///
/// Called by the Vulkan loader.
#[unsafe(export_name = "vkNegotiateLoaderLayerInterfaceVersion")]
pub unsafe extern "system" fn negotiate(interface: *mut NegotiateLayerInterface) -> vk::Result {
    // SAFETY: the loader passes its own structure, or null when it is broken.
    let Some(interface) = (unsafe { interface.as_mut() }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if interface.loader_layer_interface_version < INTERFACE_VERSION {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    interface.loader_layer_interface_version = INTERFACE_VERSION;
    interface.get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.get_device_proc_addr = Some(get_device_proc_addr);
    interface.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}

/// A function of ours as the API's untyped function pointer.
macro_rules! void {
    ($function:expr => $ty:ty) => {{
        let function: $ty = $function;
        // SAFETY: function pointers have one representation; callers cast back by name.
        Some(unsafe { std::mem::transmute::<$ty, unsafe extern "system" fn()>(function) })
    }};
}
pub(crate) use void;

/// The layer's own `vkGetInstanceProcAddr`, by which it is known in a chain.
pub(crate) fn instance_proc_addr() -> vk::PFN_vkGetInstanceProcAddr {
    get_instance_proc_addr
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    catch(|| {
        if name.is_null() {
            return None;
        }
        // SAFETY: the caller passes a C string.
        let name = unsafe { CStr::from_ptr(name) };
        let ours = match name.to_bytes() {
            b"vkGetInstanceProcAddr" => void!(get_instance_proc_addr => vk::PFN_vkGetInstanceProcAddr),
            b"vkCreateInstance" => void!(create_instance => vk::PFN_vkCreateInstance),
            b"vkDestroyInstance" => void!(destroy_instance => vk::PFN_vkDestroyInstance),
            b"vkCreateDevice" => void!(create_device => vk::PFN_vkCreateDevice),
            _ => None,
        };
        if ours.is_some() {
            return ours;
        }
        if instance == vk::Instance::null() {
            return None;
        }
        if matches!(
            name.to_bytes(),
            b"vkGetPhysicalDeviceToolProperties" | b"vkGetPhysicalDeviceToolPropertiesEXT"
        ) {
            return void!(tooling::get_tool_properties => vk::PFN_vkGetPhysicalDeviceToolProperties);
        }
        // SAFETY: a live instance, by the caller.
        let known = instances().read().get(&unsafe { DispatchKey::of(instance) }).cloned()?;
        // SAFETY: the next link's function, with its own instance.
        let next = unsafe { (known.get_instance_proc_addr)(instance, name.as_ptr()) }?;
        Some(replacement(name, next, None))
    })
}

/// `vkGetDeviceProcAddr`.
///
/// # Safety
///
/// Called by the loader or an application, with a live device and a C string.
pub(crate) unsafe extern "system" fn get_device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    catch(|| {
        if name.is_null() || device == vk::Device::null() {
            return None;
        }
        // SAFETY: a C string and a live device, by the caller.
        let (name, key) = unsafe { (CStr::from_ptr(name), DispatchKey::of(device)) };
        // SAFETY: the device is alive, by the caller.
        let device_record = unsafe { registry().device(key) }?;
        // SAFETY: the next link's function, with its own device.
        let next = unsafe { (device_record.next.get_device_proc_addr)(device, name.as_ptr()) }?;
        Some(replacement(name, next, Some(device_record)))
    })
}

/// What an application gets for a device command: ours, a stub, or the next link's own.
fn replacement(
    name: &CStr,
    next: unsafe extern "system" fn(),
    device: Option<&Device>,
) -> unsafe extern "system" fn() {
    if let Some(hook) = hooks::find(name) {
        // Constants matter only where operations are issued elsewhere than they were recorded, where shaders are followed
        // to the bytes that they touch, and where dispatches are written down. Otherwise an application that asks for the device's own function gets
        // it, and pays nothing.
        let constants = matches!(
            name.to_bytes(),
            b"vkCmdPushConstants" | b"vkCmdPushConstants2" | b"vkCmdPushConstants2KHR"
        );
        let needless = constants && device.is_some_and(|d| !d.keeps_bindings() && !d.keeps_push_constants());
        return if needless { next } else { hook };
    }
    let Ok(text) = name.to_str() else { return next };
    let effect = match text.starts_with("vkCmd") {
        true => registry::effect(text),
        // Only what a device answers for is sure to be a device's.
        false => (device.is_some() && registry::is_unheard(text)).then_some(Effect::UnheardOfDevice),
    };
    let Some(effect) = effect else { return next };
    match stubs::stub(name, effect) {
        Some((index, stub)) => {
            if let Some(device) = device {
                device.stub_targets.set(index, next);
            }
            stub
        }
        // More unmodelled commands than anybody has ever defined: without a stub nothing can be flushed before this
        // one, so nothing may be held back any more.
        None => {
            registry().all().iter().for_each(|d| d.fail());
            next
        }
    }
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    let failed = vk::Result::ERROR_INITIALIZATION_FAILED;
    // SAFETY: called by the loader with its own create info.
    let Some(link) = (unsafe { info.as_ref().and_then(|info| abi::take_instance_link(info)) }) else {
        return failed;
    };
    // SAFETY: the link is the loader's; the next link's vkCreateInstance has this type.
    unsafe {
        let get_instance_proc_addr = (*link).get_instance_proc_addr;
        let Some(create) = get_instance_proc_addr(vk::Instance::null(), c"vkCreateInstance".as_ptr()) else {
            return failed;
        };
        let create = std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateInstance>(create);
        let result = create(info, allocator, instance);
        if result == vk::Result::SUCCESS {
            catch(|| {
                let settings = settings((*info).p_next);
                let handle = *instance;
                let key = DispatchKey::of(handle);
                instances()
                    .write()
                    .insert(key, Arc::new(Instance::new(handle, get_instance_proc_addr, settings)));
                Some(())
            });
        }
        result
    }
}

unsafe extern "system" fn destroy_instance(
    instance: vk::Instance,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    if instance == vk::Instance::null() {
        return;
    }
    // SAFETY: a live instance, by the caller.
    let known = catch(|| instances().write().remove(&unsafe { DispatchKey::of(instance) }));
    let Some(known) = known else { return };
    if let Some(destroy) = known.destroy {
        // SAFETY: the next link's function, with its own instance.
        unsafe { destroy(instance, allocator) };
    }
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    let failed = vk::Result::ERROR_INITIALIZATION_FAILED;
    // SAFETY: called by the loader with its own create info.
    let Some(link) = (unsafe { info.as_ref().and_then(|info| abi::take_device_link(info)) }) else {
        return failed;
    };
    // SAFETY: a live physical device; physical devices share their instance's dispatch table.
    let instance = catch(|| instances().read().get(&unsafe { DispatchKey::of(physical) }).cloned());
    // SAFETY: the link is the loader's; the next link's vkCreateDevice has this type.
    unsafe {
        let (next_instance, next_device) = ((*link).get_instance_proc_addr, (*link).get_device_proc_addr);
        let parent = instance.as_ref().map_or(vk::Instance::null(), |i| i.handle);
        let Some(create) = next_instance(parent, c"vkCreateDevice".as_ptr()) else { return failed };
        let create = std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateDevice>(create);
        let result = create(physical, info, allocator, device);
        if result == vk::Result::SUCCESS {
            catch(|| {
                let handle = *device;
                let next = Next::load(next_device, handle);
                // An instance that was not seen may have been made with anything: hands off.
                let inert = || (Arc::new(InForce::from(Settings::inert())), Arc::default());
                let in_force = instance.as_ref().map_or_else(inert, |i| i.settings.clone());
                let functions = instance.as_ref().map(|i| i.properties).unwrap_or_default();
                let description = reporting::describe(physical, functions);
                let memory =
                    (reporting::has_robust_writes(&*info), reporting::host_types(physical, functions));
                let record =
                    Device::new(DispatchKey::of(handle), handle, next, in_force, description, memory);
                registry().add(record);
                reporting::at_exit();
                Some(())
            });
        }
        result
    }
}
