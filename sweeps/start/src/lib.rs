//! `libzinc_start.so`: preloaded into a process, it starts the process's program anew where `ZINC_BARRIER_SHIM` says.
//!
//! A shim's driver needs the C library that it came with, and a program gets another C library only by being started
//! through that library's dynamic loader. `LD_PRELOAD` with this library goes along to every process that a script
//! starts, whoever executes it and however; what it does there, before the program's `main`, is to look whether the
//! program was started as it should be, and if not, to execute it so ([`zinc_start_core::restart`]). The process keeps
//! its number, its files and its environment.
//!
//! A program that was started through a dynamic loader finds that loader where it asks for its own file, and with it
//! the wrong folder for what it brings along (llama.cpp its backends). So in a program that is on the shim, what reads
//! links answers for `/proc/self/exe` with the program (`exe`).
//!
//! It must load into any C library, so it uses nothing of a new one. Where it can't find out how it was started, it says so and lets the program go on, which then finds no device: the
//! manifest that the environment names is of a driver that cannot be loaded there.

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!("zinc-start is for Linux with glibc; build the other crates with -p or --exclude");

use std::ffi::{CStr, CString, OsStr, OsString, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use zinc_start_core::{Place, Process, VARIABLE, program, restart, version};

mod exe;

/// Run by the dynamic loader when it has loaded this library and all that it needs.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // A panic must not go through the dynamic loader.
    let result = std::panic::catch_unwind(begin);
    if let Ok(Err(why)) = result {
        eprintln!("sweep: a program is not started on the shim: {why}");
    }
}

/// Executes the program where it belongs; returns where there is nothing to do.
fn begin() -> Result<(), String> {
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let place = Place::from_value(&value).ok_or_else(|| format!("{VARIABLE} holds no place"))?;
    let process = process()?;
    let Some(words) = restart(&place, &process) else {
        exe::answer_with(program(&place, &process));
        return Ok(());
    };
    Err(format!("'{}': {}", process.executable.display(), execute(&words)))
}

/// How this process was started.
fn process() -> Result<Process, String> {
    let read = |e: std::io::Error| format!("/proc cannot be read: {e}");
    let line = std::fs::read("/proc/self/cmdline").map_err(read)?;
    let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|b| *b == 0);
    let words = words.map(|word| OsString::from_vec(word.to_vec())).collect();
    let executable = std::fs::read_link("/proc/self/exe").map_err(read)?.into_os_string();
    // SAFETY: it reads the vector that the kernel gave the process.
    let base = unsafe { libc::getauxval(libc::AT_BASE) };
    let by_loader = base == 0;
    let loader = match by_loader {
        true => executable.clone(),
        false => file_of(base as *const c_void).ok_or("the dynamic loader's file is not known")?,
    };
    // SAFETY: it has no preconditions and returns a string of the library's own.
    let own_version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    let libc = version(own_version.to_bytes()).ok_or("the C library does not tell its version")?;
    let libc_file =
        file_of(libc::gnu_get_libc_version as *const c_void).ok_or("the C library's file is not known")?;
    let libc_folder = Path::new(&libc_file).parent().unwrap_or(Path::new("/")).as_os_str().to_owned();
    let library_path = std::env::var_os("LD_LIBRARY_PATH");
    Ok(Process { words, executable, loader, by_loader, libc_folder, libc, library_path })
}

/// The file that an address was loaded from.
fn file_of(address: *const c_void) -> Option<OsString> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr takes any address and fills the structure if it returns other than 0.
    let name = unsafe {
        if libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        (*info.as_ptr()).dli_fname
    };
    if name.is_null() {
        return None;
    }
    // SAFETY: it is a string that lives as long as the object stays loaded, and it is copied at once.
    let name = unsafe { CStr::from_ptr(name) };
    Some(OsStr::from_bytes(name.to_bytes()).to_owned())
}

/// Becomes the command, with this process's environment; returns why it could not.
fn execute(words: &[OsString]) -> String {
    let words: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(word.as_bytes())).collect();
    let Ok(words) = words else { return "a zero byte in its command line".into() };
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the list is ended by a null pointer and lives until the call returns, as do its strings; `environ` is
    // the process's own, and no other thread runs before main.
    unsafe { libc::execve(pointers[0], pointers.as_ptr(), environ.cast()) };
    std::io::Error::last_os_error().to_string()
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}
