//! Stubs for commands that the layer does not model, and for functions of devices and queues that the layer has never heard of.
//!
//! An application may record any of some three hundred `vkCmd*` functions, and tomorrow's extensions will bring more.
//! Each may touch memory, so what is pending must be emitted before it (rules 2, 3 and 14). The layer knows none of
//! their signatures and need not: every one takes the command buffer first. A stub saves all argument registers,
//! calls [`before`] with the command buffer and its own number, restores the registers and jumps on to the next
//! link's function with its arguments untouched, wherever they were.
//!
//! Stubs are numbered as names turn up, one number a name for the life of the process; a device's [`Targets`] hold
//! where each number goes on.

use crate::abi::DispatchKey;
use ash::vk;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// How many names have stubs. Vulkan 1.4 with all its extensions has some 330 commands.
pub const COUNT: usize = 768;

/// Bytes from one stub to the next.
const STRIDE: usize = 16;

/// What an unmodelled command does to what the layer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Effect {
    /// It may touch any memory.
    Flush,
    /// As `Flush`, and rendering begins.
    BeginRendering,
    /// As `Flush`, and rendering ends.
    EndRendering,
    /// As `Flush`, and from now on dispatches read a predicate.
    BeginConditional,
    /// As `Flush`, and they read none any more.
    EndConditional,
    /// It binds compute state that the layer does not model. It touches no memory.
    Taint,
    /// Nothing is known of it: as `Flush`, and it may have bound anything and begun anything.
    Unheard,
    /// It is not recorded, but a device's or a queue's, and nothing is known of it.
    UnheardOfDevice,
}

/// Where the stubs of one device go on; 0 is "not asked for yet".
pub struct Targets([AtomicUsize; COUNT]);

impl Default for Targets {
    fn default() -> Self {
        Targets(std::array::from_fn(|_| AtomicUsize::new(0)))
    }
}

impl Targets {
    /// Sets where stub `index` goes on.
    pub fn set(&self, index: usize, next: unsafe extern "system" fn()) {
        self.0[index].store(next as usize, Ordering::Release);
    }

    fn get(&self, index: usize) -> usize {
        self.0[index].load(Ordering::Acquire)
    }
}

#[derive(Default)]
struct Names {
    indices: HashMap<CString, usize>,
    /// By index.
    known: Vec<CString>,
}

/// The effects by index, as numbers. Stubs run once per draw in a graphics application: they take no lock.
static EFFECTS: [AtomicU8; COUNT] = [const { AtomicU8::new(Effect::Flush as u8) }; COUNT];

const EVERY_EFFECT: [Effect; 8] = [
    Effect::Flush,
    Effect::BeginRendering,
    Effect::EndRendering,
    Effect::BeginConditional,
    Effect::EndConditional,
    Effect::Taint,
    Effect::Unheard,
    Effect::UnheardOfDevice,
];

fn effect_of(index: usize) -> Option<Effect> {
    let number = EFFECTS.get(index)?.load(Ordering::Acquire);
    EVERY_EFFECT.into_iter().find(|effect| *effect as u8 == number)
}

fn names() -> &'static Mutex<Names> {
    static NAMES: OnceLock<Mutex<Names>> = OnceLock::new();
    NAMES.get_or_init(Mutex::default)
}

/// The stub for the command called `name`, its number, and the function itself; `None` when all numbers are taken.
pub fn stub(name: &CStr, effect: Effect) -> Option<(usize, unsafe extern "system" fn())> {
    let mut names = names().lock();
    let index = match names.indices.get(name) {
        Some(index) => *index,
        None if names.known.len() == COUNT => return None,
        None => {
            let index = names.known.len();
            names.known.push(name.to_owned());
            EFFECTS[index].store(effect as u8, Ordering::Release);
            names.indices.insert(name.to_owned(), index);
            index
        }
    };
    let address = (&raw const zinc_barrier_stubs) as usize + index * STRIDE;
    // SAFETY: the stub table below has COUNT entries of STRIDE bytes, each a function that keeps the C ABI.
    Some((index, unsafe { std::mem::transmute::<usize, unsafe extern "system" fn()>(address) }))
}

/// Called by every stub before it jumps on; returns where to.
///
/// # Safety
///
/// Called by the stubs only, with the command buffer that an application passed to a `vkCmd*`.
#[unsafe(no_mangle)]
unsafe extern "C" fn zinc_barrier_before_unmodelled(buffer: vk::CommandBuffer, index: usize) -> usize {
    let effect = crate::context::catch(|| {
        let effect = effect_of(index)?;
        if matches!(effect, Effect::Unheard | Effect::UnheardOfDevice) {
            // SAFETY: a device, a queue or a command buffer: each begins with the table of its device.
            let device = unsafe { crate::device::registry().device(DispatchKey::of(buffer)) }?;
            let name = names().lock().known.get(index)?.clone();
            device.unheard(&name.to_string_lossy(), effect == Effect::UnheardOfDevice);
        }
        if effect == Effect::UnheardOfDevice {
            return Some(());
        }
        // SAFETY: the buffer is the application's.
        unsafe { crate::commands::before_unmodelled(buffer, effect, || name_of(index)) };
        Some(())
    });
    if effect.is_none() && effect_of(index) != Some(Effect::UnheardOfDevice) {
        // SAFETY: as above.
        unsafe { crate::commands::give_up(buffer) };
    }
    // SAFETY: as above.
    let target = crate::context::catch(|| unsafe { target(buffer, index) });
    target.unwrap_or(ignored as *const () as usize)
}

/// The name that stub `index` was made for.
fn name_of(index: usize) -> String {
    names().lock().known.get(index).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where stub `index` goes on for the device of `buffer`.
///
/// # Safety
///
/// `buffer` must be a live command buffer.
unsafe fn target(buffer: vk::CommandBuffer, index: usize) -> Option<usize> {
    // SAFETY: by the caller.
    let Some(device) = (unsafe { crate::device::registry().device(DispatchKey::of(buffer)) }) else {
        // Something that a device answered for and that takes another object: it must be called all the same.
        let devices = crate::device::registry().all();
        return devices.iter().map(|device| device.stub_targets.get(index)).find(|target| *target != 0);
    };
    let known = device.stub_targets.get(index);
    if known != 0 {
        return Some(known);
    }
    // The stub was handed out by vkGetInstanceProcAddr, or for another device.
    let name = names().lock().known.get(index).cloned()?;
    // SAFETY: the device is alive and its own.
    let next = unsafe { (device.next.get_device_proc_addr)(device.handle, name.as_ptr()) }?;
    device.stub_targets.set(index, next);
    Some(next as usize)
}

/// Where a stub goes on when the device has no such command at all: an application that calls it anyway gets nothing.
extern "C" fn ignored() {}

unsafe extern "C" {
    /// The first of the stubs. Not a function of one signature, so declared as data.
    static zinc_barrier_stubs: u8;
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".text",
    ".balign 16",
    ".globl zinc_barrier_stubs",
    ".hidden zinc_barrier_stubs",
    "zinc_barrier_stubs:",
    ".set zinc_barrier_index, 0",
    ".rept {count}",
    ".balign 16",
    "endbr64",
    ".byte 0x41, 0xbb", // mov r11d, imm32
    ".long zinc_barrier_index",
    ".byte 0xe9", // jmp rel32
    ".long zinc_barrier_common - (. + 4)",
    ".set zinc_barrier_index, zinc_barrier_index + 1",
    ".endr",
    ".balign 16",
    "zinc_barrier_common:",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 192",
    "mov [rsp], rdi",
    "mov [rsp + 8], rsi",
    "mov [rsp + 16], rdx",
    "mov [rsp + 24], rcx",
    "mov [rsp + 32], r8",
    "mov [rsp + 40], r9",
    "movups [rsp + 48], xmm0",
    "movups [rsp + 64], xmm1",
    "movups [rsp + 80], xmm2",
    "movups [rsp + 96], xmm3",
    "movups [rsp + 112], xmm4",
    "movups [rsp + 128], xmm5",
    "movups [rsp + 144], xmm6",
    "movups [rsp + 160], xmm7",
    "mov esi, r11d",
    "call {before}",
    "mov r11, rax",
    "mov rdi, [rsp]",
    "mov rsi, [rsp + 8]",
    "mov rdx, [rsp + 16]",
    "mov rcx, [rsp + 24]",
    "mov r8, [rsp + 32]",
    "mov r9, [rsp + 40]",
    "movups xmm0, [rsp + 48]",
    "movups xmm1, [rsp + 64]",
    "movups xmm2, [rsp + 80]",
    "movups xmm3, [rsp + 96]",
    "movups xmm4, [rsp + 112]",
    "movups xmm5, [rsp + 128]",
    "movups xmm6, [rsp + 144]",
    "movups xmm7, [rsp + 160]",
    "leave",
    "jmp r11",
    count = const COUNT,
    before = sym zinc_barrier_before_unmodelled,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".text",
    ".balign 16",
    ".globl zinc_barrier_stubs",
    ".hidden zinc_barrier_stubs",
    "zinc_barrier_stubs:",
    ".set zinc_barrier_index, 0",
    ".rept {count}",
    ".balign 16",
    "bti c",
    "mov w16, #zinc_barrier_index",
    "b zinc_barrier_common",
    ".set zinc_barrier_index, zinc_barrier_index + 1",
    ".endr",
    ".balign 16",
    "zinc_barrier_common:",
    "stp x29, x30, [sp, #-224]!",
    "mov x29, sp",
    "stp x0, x1, [sp, #16]",
    "stp x2, x3, [sp, #32]",
    "stp x4, x5, [sp, #48]",
    "stp x6, x7, [sp, #64]",
    "str x8, [sp, #80]",
    "stp q0, q1, [sp, #96]",
    "stp q2, q3, [sp, #128]",
    "stp q4, q5, [sp, #160]",
    "stp q6, q7, [sp, #192]",
    "mov w1, w16",
    "bl {before}",
    "mov x16, x0",
    "ldp x0, x1, [sp, #16]",
    "ldp x2, x3, [sp, #32]",
    "ldp x4, x5, [sp, #48]",
    "ldp x6, x7, [sp, #64]",
    "ldr x8, [sp, #80]",
    "ldp q0, q1, [sp, #96]",
    "ldp q2, q3, [sp, #128]",
    "ldp q4, q5, [sp, #160]",
    "ldp q6, q7, [sp, #192]",
    "ldp x29, x30, [sp], #224",
    "br x16",
    count = const COUNT,
    before = sym zinc_barrier_before_unmodelled,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_one_stub_and_stubs_lie_a_stride_apart() {
        let (i, f) = stub(c"vkCmdTestOne", Effect::Flush).unwrap();
        let (j, g) = stub(c"vkCmdTestTwo", Effect::Flush).unwrap();
        assert_eq!(stub(c"vkCmdTestOne", Effect::Flush).unwrap().0, i);
        let (k, _) = stub(c"vkCmdTestThree", Effect::Taint).unwrap();
        assert_eq!(
            (effect_of(i), effect_of(k), effect_of(COUNT)),
            (Some(Effect::Flush), Some(Effect::Taint), None)
        );
        assert_ne!(i, j);
        assert_eq!((g as usize).wrapping_sub(f as usize), (j.wrapping_sub(i)).wrapping_mul(STRIDE));
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: reads the stub's own code: endbr64, then mov r11d with its number.
            let code = unsafe { std::slice::from_raw_parts(f as *const u8, 10) };
            assert_eq!(&code[..6], [0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb]);
            assert_eq!(u32::from_le_bytes(code[6..10].try_into().unwrap()) as usize, i);
        }
    }
}
