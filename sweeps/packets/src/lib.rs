//! `libzinc_packets.so`: preload it before a Vulkan program, and it counts the packets that the driver submits.
//!
//! How it gets between: the dynamic loader resolves a symbol to the first library that has it, so this one exports the
//! few functions of libc through which a driver reaches the kernel, and each calls the next one of its name, which
//! `dlsym(RTLD_NEXT)` finds. Mesa's drm-shims do the same, and a shim answers the calls on its devices itself: what is
//! behind it never sees them. So this library must come *before* a shim, and the report says if it did not
//! ([`state::first`]).
//!
//! What it costs: each exported function jumps through a pointer. It starts at a resolver; after the first call it is
//! the next function itself when counting is off, and the counting one when `ZINC_BARRIER_PACKETS` is set. So there is
//! no test at all in the way when it is off.
//!
//! What it must never do is change the program. Hence: `errno` is put back as it was; a panic stays inside
//! ([`state::with`]) and ends the counting, not the process; a hook that is entered again while it works (an
//! allocator that calls `mmap`) passes the call on; arguments are copied through the kernel, which reports a bad
//! pointer where a load would fault; and command buffers are read only while the lock is held that `munmap` also takes.
//!
//! And it has an allocator of its own. The program's may call `mmap` while it holds its locks; that call waits here
//! for a thread that is counting; if that thread in turn waited for the allocator, both would wait forever. The same
//! allocator may have been interrupted by a signal in whose handler the program ends, and we write the report.
//!
//! Only 64-bit Linux with glibc: elsewhere a variadic function can't be written as these are.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("zinc-packets interposes glibc on 64-bit Linux; build the other crates with -p or --exclude");

mod hooks;
mod leaving;
mod next;
mod process;
mod state;

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
