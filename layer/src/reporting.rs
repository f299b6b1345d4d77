//! The report of a device: made when the device is destroyed and, failing that, when the process ends.
//!
//! A process may end without either: by a signal, by `_exit`, by `abort`. So a report that goes to a file is also written
//! while the process runs, at submissions, as often as a hundredth of the time allows.

use crate::abi::chain;
use crate::context::catch;
use crate::device::{Device, registry};
use ash::vk;
use parking_lot::Mutex;
use std::ffi::{CStr, c_char};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zinc_report::{DeviceType, Report, WrittenAt, api_version_text};

/// The functions that tell what a physical device is; one of the first two is always there.
#[derive(Clone, Copy, Default)]
pub struct PropertyFunctions {
    plain: Option<vk::PFN_vkGetPhysicalDeviceProperties>,
    chained: Option<vk::PFN_vkGetPhysicalDeviceProperties2>,
    memory: Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties>,
}

/// The memory types of a physical device that the host sees without further ado, as bits; none where that can't be asked.
///
/// # Safety
///
/// `physical` must be live and of the instance that `functions` belong to.
pub unsafe fn host_types(physical: vk::PhysicalDevice, functions: PropertyFunctions) -> u32 {
    let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let Some(get) = functions.memory else { return 0 };
    let mut memory = vk::PhysicalDeviceMemoryProperties::default();
    // SAFETY: by the caller; the structure is ours.
    unsafe { get(physical, &raw mut memory) };
    let types = memory.memory_types_as_slice().iter().enumerate();
    types.filter(|(_, t)| t.property_flags.contains(wanted)).map(|(number, _)| 1 << number).sum()
}

impl PropertyFunctions {
    /// Fetches them.
    ///
    /// # Safety
    ///
    /// `fetch` must find functions of one instance by their names.
    pub unsafe fn fetch(fetch: &dyn Fn(&CStr) -> vk::PFN_vkVoidFunction) -> PropertyFunctions {
        type Void = unsafe extern "system" fn();
        let chained =
            fetch(c"vkGetPhysicalDeviceProperties2").or_else(|| fetch(c"vkGetPhysicalDeviceProperties2KHR"));
        // SAFETY: by the caller; names and types go together.
        unsafe {
            PropertyFunctions {
                plain: fetch(c"vkGetPhysicalDeviceProperties")
                    .map(|f| std::mem::transmute::<Void, vk::PFN_vkGetPhysicalDeviceProperties>(f)),
                memory: fetch(c"vkGetPhysicalDeviceMemoryProperties")
                    .map(|f| std::mem::transmute::<Void, vk::PFN_vkGetPhysicalDeviceMemoryProperties>(f)),
                chained: chained
                    .map(|f| std::mem::transmute::<Void, vk::PFN_vkGetPhysicalDeviceProperties2>(f)),
            }
        }
    }
}

/// The number of the next device that `process` makes, from 0, and the state after that. One that was forked begins anew. A
/// state has the process in its upper half and the number that comes next in its lower.
fn numbered(state: u64, process: u32) -> (u32, u64) {
    let number = if (state >> 32) as u32 == process { state as u32 } else { 0 };
    (number, u64::from(process) << 32 | u64::from(number.wrapping_add(1)))
}

/// Takes the number of the next device of this process.
fn next_number() -> u32 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let next = |state| Some(numbered(state, process).1);
    STATE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
        .map_or(0, |before| numbered(before, process).0)
}

/// What a physical device calls itself.
///
/// # Safety
///
/// `physical` must be live and of the instance that `functions` belong to.
pub unsafe fn describe(physical: vk::PhysicalDevice, functions: PropertyFunctions) -> zinc_report::Device {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // A driver without the driver structure leaves it as it is: empty.
    // SAFETY: by the caller; the structures are ours.
    unsafe {
        match (functions.chained, functions.plain) {
            (Some(get), _) => get(physical, &raw mut properties),
            (None, Some(get)) => get(physical, &raw mut properties.properties),
            (None, None) => {}
        }
    }
    let of = properties.properties;
    let info = text(&driver.driver_info);
    zinc_report::Device {
        name: text(&of.device_name),
        driver: text(&driver.driver_name),
        driver_version: if info.is_empty() { driver_version(of.vendor_id, of.driver_version) } else { info },
        api_version: api_version_text(of.api_version),
        device_type: DeviceType::from_vulkan(of.device_type.as_raw()),
        number: next_number(),
    }
}

/// A driver's version as its vendor writes it.
fn driver_version(vendor: u32, version: u32) -> String {
    const NVIDIA: u32 = 0x10de;
    match vendor {
        NVIDIA => format!("{}.{}.{}", version >> 22, version >> 14 & 0xff, version >> 6 & 0xff),
        _ => api_version_text(version),
    }
}

fn text(chars: &[c_char]) -> String {
    // SAFETY: c_char and u8 have one layout.
    let bytes = unsafe { std::slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) };
    let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// Whether a device made with `info` may put writes out of bounds elsewhere in the buffer: `robustBufferAccess`
/// without `robustBufferAccess2` (docs/semantics.md, rule 11).
///
/// # Safety
///
/// `info` must be valid, with its `pNext` list.
pub unsafe fn has_robust_writes(info: &vk::DeviceCreateInfo<'_>) -> bool {
    // SAFETY: by the caller.
    let (mut robust, mut robust2) = unsafe {
        (info.p_enabled_features.as_ref().is_some_and(|f| f.robust_buffer_access == vk::TRUE), false)
    };
    // SAFETY: by the caller.
    for member in unsafe { chain(info.p_next) } {
        if let Some(features) = member.get::<vk::PhysicalDeviceFeatures2<'_>>() {
            robust |= features.features.robust_buffer_access == vk::TRUE;
        }
        if let Some(features) = member.get::<vk::PhysicalDeviceRobustness2FeaturesEXT<'_>>() {
            robust2 |= features.robust_buffer_access2 == vk::TRUE;
        }
    }
    robust && !robust2
}

fn build(device: &Device, written_at: WrittenAt) -> Report {
    let settings = &device.settings;
    let sums = device.sums.lock().clone();
    let policy = settings.policy;
    let correct = policy.is_correct() && settings.mutate.is_none();
    let mut report =
        Report::new(env!("CARGO_PKG_VERSION"), device.description.clone(), policy.name(), correct);
    report.shuffle = settings.shuffle.to_string();
    report.mutate = settings.mutate;
    report.out_of_bounds = settings.out_of_bounds;
    report.ranges = settings.ranges;
    report.granule = settings.granule;
    report.written_at = written_at;
    report.totals = sums.totals;
    report.recorded = sums.recorded;
    report.kept_by = sums.kept_by;
    report.unknown_because = sums.unknown_because;
    if settings.would_emit {
        report.would_emit = Some(
            sums.would_emit.iter().map(|(policy, counts)| (policy.name().to_string(), *counts)).collect(),
        );
    }
    if settings.trace.is_some() {
        let names = device.names.lock();
        report.witnesses = Some(crate::trace::most_frequent(&device.witnesses.lock(), &names, 10));
    }
    report.audit = settings.audit.then(|| device.audit.lock().found);
    report.replayed = device.replay.counts();
    if settings.names {
        report.process = std::env::current_exe()
            .ok()
            .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    if device.robust_writes {
        report.notes.push(match settings.out_of_bounds {
            zinc_report::OutOfBounds::Trust => {
                "robustBufferAccess is on; writes were trusted to stay within their descriptors.".into()
            }
            zinc_report::OutOfBounds::WholeBuffer => {
                "robustBufferAccess is on, so each write counts as one to the whole buffer; \
                 ZINC_BARRIER_OUT_OF_BOUNDS=trust believes the descriptors."
                    .into()
            }
        });
    }
    if settings.mutate.is_some() && settings.mutate_once {
        report
            .notes
            .push("The mutation was counted from the device's creation: one barrier was lost in all.".into());
    }
    let unheard = device.unheard_names();
    if !unheard.is_empty() {
        report.notes.push(format!(
            "Called, and not known to this version of the layer: {}. After a command of these the rest of its command buffer, \
             and after any other function of them every descriptor set, counts as unknown.",
            unheard.join(", ")
        ));
    }
    report.notes.extend(device.warnings.iter().cloned());
    report.notes.extend(device.replay.refused_slices());
    report.layer_failed = device.has_failed();
    report
}

/// The least time between two reports that are written while the process runs.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// How much longer than the writing of a report the pause after it is.
const PAUSE: u32 = 100;

/// When the report of a device that is in use is to be written next.
#[derive(Debug, Default)]
pub struct Next(Mutex<When>);

#[derive(Debug, Default)]
enum When {
    /// At the next submission.
    #[default]
    Now,
    At(Instant),
    /// It can't be written, or is not wanted.
    Never,
}

impl Next {
    /// Runs `write` if it is time, and never again once it has failed. Not where another thread is here.
    fn at(&self, write: impl FnOnce() -> bool) {
        let Some(mut next) = self.0.try_lock() else { return };
        let begun = match *next {
            When::Never => return,
            When::Now => Instant::now(),
            When::At(then) => {
                let now = Instant::now();
                if now < then {
                    return;
                }
                now
            }
        };
        *next = match write() {
            true => When::At(Instant::now() + LEAST_PAUSE.max(begun.elapsed() * PAUSE)),
            false => When::Never,
        };
    }
}

/// Something was submitted on `device`: it is in the report's file soon, and at once if the last reports of the process have
/// been written already.
pub fn submitted(device: &Device) {
    let write = |written_at| {
        device.process == std::process::id()
            && device.settings.deliver_early(
                || build(device, written_at),
                device.process,
                device.description.number,
            )
    };
    match device.reported.load(Ordering::Relaxed) {
        true => _ = write(WrittenAt::ProcessExit),
        false => device.next_report.at(|| write(WrittenAt::Running)),
    }
}

/// Writes the report of `device`: once on stderr; into a file at the end of the process, and once more if the device is
/// destroyed even later. A forked process writes none for what it has inherited.
pub fn write(device: &Device, written_at: WrittenAt) {
    if device.process != std::process::id() {
        return;
    }
    let again = written_at == WrittenAt::DeviceDestruction && device.settings.report.is_file();
    if !device.reported.swap(true, Ordering::Relaxed) || again {
        device.settings.deliver(&build(device, written_at), device.process);
    }
}

/// From now on, devices that are alive when the process ends are reported then.
pub fn at_exit() {
    extern "C" fn last() {
        catch(|| {
            for device in registry().all() {
                write(&device, WrittenAt::ProcessExit);
            }
            Some(())
        });
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler never unwinds. A handler registered from a shared library runs before the library is
        // unloaded (Itanium C++ ABI, 3.3.5).
        unsafe { libc::atexit(last) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_numbers_its_devices_from_0() {
        let mut state = 0;
        let mut next = |process| {
            let (number, after) = numbered(state, process);
            state = after;
            number
        };
        assert_eq!([7, 7, 7, 8, 8].map(&mut next), [0, 1, 2, 0, 1]);
    }
}
