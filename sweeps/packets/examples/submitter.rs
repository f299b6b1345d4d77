//! An application as far as the kernel can tell: opens a device, makes buffers, binds and maps them, writes packets
//! and submits them, from several threads. `submitter HOW THREADS SUBMITS`, where HOW is how it behaves or ends.
//! Prints what it saw of its calls, which must not depend on whether anybody counts.

use libc::{c_int, c_void};
use std::ptr::null_mut;

const PACKETS: [u32; 16] = [
    0xc003_1502,
    1,
    1,
    1,
    1, // DISPATCH_DIRECT
    0xc000_4600,
    0x407, // EVENT_WRITE CS_PARTIAL_FLUSH
    0xc006_5800,
    0,
    u32::MAX,
    0x1ff_ffff,
    0,
    0,
    10,
    0xc180,      // ACQUIRE_MEM
    0xffff_1000, // NOP
];

fn call(fd: c_int, number: u64, argument: *mut c_void, size: u64) -> c_int {
    // SAFETY: `argument` points to as many bytes as the call has.
    unsafe { libc::ioctl(fd, 3 << 30 | size << 16 | 0x64 << 8 | number, argument) }
}

fn drm<const N: usize>(fd: c_int, number: u64, argument: &mut [u64; N]) -> c_int {
    call(fd, number, argument.as_mut_ptr().cast(), N as u64 * 8)
}

/// One thread's life: a buffer on a duplicate of the descriptor, and submissions of it. The number that failed.
fn submit(device: c_int, submits: usize) -> usize {
    // SAFETY: plain system calls; the mapping is written within its length and ended once.
    unsafe {
        let fd = libc::fcntl(device, libc::F_DUPFD_CLOEXEC, 0);
        let mut create = [4096, 4096, 2, 0];
        drm(fd, 0x40, &mut create);
        let handle = create[0];
        let mut offset = [handle];
        drm(fd, 0x41, &mut offset);
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let memory = libc::mmap(null_mut(), 4096, prot, flags, fd, offset[0] as libc::off_t);
        assert!(memory != libc::MAP_FAILED);
        memory.cast::<u32>().copy_from_nonoverlapping(PACKETS.as_ptr(), PACKETS.len());
        let va = handle << 20;
        drm(fd, 0x48, &mut [handle, 1, va, 0, 4096]);
        let ib = [0, va, (PACKETS.len() as u64 * 4) | (1 << 32), handle << 32];
        let chunk = [1 | (8 << 32), ib.as_ptr() as u64];
        let list = [chunk.as_ptr() as u64];
        let failed = (0..submits).filter(|_| drm(fd, 0x44, &mut [1, 1, list.as_ptr() as u64]) != 0).count();
        libc::munmap(memory, 4096);
        drm(fd, 0x09, &mut [handle]);
        libc::close(fd);
        failed
    }
}

extern "C" fn end(_: c_int) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(9) }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let (how, threads, submits) = (arguments[1].as_str(), number(2), number(3));
    // SAFETY: plain system calls with a C string.
    let device = unsafe {
        let fd = libc::memfd_create(c"device".as_ptr(), 0);
        assert!(fd >= 0 && libc::ftruncate(fd, 1 << 20) == 0);
        fd
    };
    let mut answer = 0u32;
    drm(device, 0x45, &mut [&raw mut answer as u64, 4 | (2 << 32), 0]);
    let failed: usize = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| submit(device, submits))).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    // SAFETY: errno's address is valid; the wild call passes addresses that nothing may dereference.
    let (wild, errno) = unsafe {
        *libc::__errno_location() = 0;
        let wild = drm(device, 0x44, &mut [1, 3, 0x10]);
        (wild, *libc::__errno_location())
    };
    println!("failed {failed} wild {wild} errno {errno} generation {answer}");
    match how {
        "return" => {}
        // SAFETY: ends the process, which is what is asked.
        "_exit" => unsafe { libc::_exit(7) },
        "handler" => {
            // SAFETY: the handler only ends the process; the signal interrupts this thread, mostly in the allocator.
            unsafe {
                libc::signal(libc::SIGALRM, libc::SIG_IGN);
                libc::signal(libc::SIGUSR1, end as *const () as libc::sighandler_t);
                let main = libc::pthread_self();
                std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    libc::pthread_kill(main, libc::SIGUSR1);
                });
            }
            let mut kept: Vec<Vec<u8>> = Vec::new();
            for size in (2000..100_000).step_by(1777).cycle() {
                kept.push(std::hint::black_box(Vec::with_capacity(size)));
                if kept.len() > 50 {
                    kept.clear();
                }
            }
        }
        "fork" => {
            // SAFETY: the threads have ended; the child submits and returns like its parent.
            let child = unsafe { libc::fork() };
            submit(device, submits);
            if child != 0 {
                // SAFETY: waits for the child just made.
                unsafe { libc::waitpid(child, null_mut(), 0) };
            }
        }
        other => panic!("no such way: {other}"),
    }
}
