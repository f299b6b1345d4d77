//! What goes away with an interrupt: files that are not whole yet, and programs that work for this one.
//!
//! A process has one handler, so all of it is registered here. It runs on an interrupt and on a request to terminate, and
//! ends the process with the shell's status for an interrupt.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Status of a process that an interrupt ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// What is registered.
struct Registered {
    /// Files, and folders with what is in them.
    paths: Vec<PathBuf>,
    /// Process groups of programs that were started.
    groups: Vec<rustix::process::Pid>,
    /// Whether the handler is there.
    handled: bool,
}

static REGISTERED: Mutex<Registered> =
    Mutex::new(Registered { paths: Vec::new(), groups: Vec::new(), handled: false });

/// Makes an interrupt take this file or folder along. The error says why an interrupt would leave it behind.
pub(crate) fn removes(path: &Path) -> Result<(), ctrlc::Error> {
    register(|registered| registered.paths.push(path.to_owned()))
}

/// Makes an interrupt end the process group of a program that was started as the leader of one, until the guard goes.
pub(crate) fn ends(child: &std::process::Child) -> Result<Ending, ctrlc::Error> {
    let group = rustix::process::Pid::from_child(child);
    register(|registered| registered.groups.push(group))?;
    Ok(Ending { group })
}

/// While it is there, an interrupt ends the program.
pub(crate) struct Ending {
    group: rustix::process::Pid,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        registered.groups.retain(|group| *group != self.group);
    }
}

fn register(add: impl FnOnce(&mut Registered)) -> Result<(), ctrlc::Error> {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    add(&mut registered);
    if !registered.handled {
        registered.handled = true;
        ctrlc::set_handler(handle)?;
    }
    Ok(())
}

fn handle() {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    for group in &registered.groups {
        // One that has ended is no reason to stay.
        let _ = rustix::process::kill_process_group(*group, rustix::process::Signal::TERM);
    }
    for path in &registered.paths {
        // What got its final name meanwhile has no longer this one, and nothing is lost.
        let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
    std::process::exit(INTERRUPTED);
}
