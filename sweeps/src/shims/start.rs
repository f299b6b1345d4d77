//! How the program of a process gets onto a shim.
//!
//! A program with shared libraries is started through the dynamic loader of the shim's folder. What the kernel starts
//! otherwise (a script, a program that brought its own dynamic loader, a launcher without shared libraries) starts the
//! program in the end, and there `libzinc_start.so` puts it onto the shim: it is preloaded into all that follows and
//! executes each program anew where it belongs.

use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

/// The library's file name.
const NAME: &str = "libzinc_start.so";

/// How a file can be started on a shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program with shared libraries.
    Program,
    /// It is executed as it is, and what it starts is put onto the shim.
    Starter,
}

/// How `program` can be started on a shim, where `follows` says that `libzinc_start.so` is there for what it starts.
///
/// # Errors
///
/// Why it can't, in words, with the remedy.
pub fn kind(program: &Path, follows: bool) -> Result<Kind, String> {
    let data = std::fs::read(program).map_err(|error| error.to_string())?;
    let what = match data.starts_with(b"#!") {
        true => "it is a script",
        false => match has_interpreter(&data) {
            None => return Err("it is no program for x86-64, nor a script that begins with #!".into()),
            Some(true) => return Ok(Kind::Program),
            Some(false) => "it is a dynamic loader, or has no shared libraries",
        },
    };
    match follows {
        true => Ok(Kind::Starter),
        false => Err(format!(
            "{what}, and what it starts is put onto the shim by {NAME}, which is not next to this program in a path \
             without spaces and colons: build it with `cargo build --release -p zinc-start`, or name the program that is \
             started in the end"
        )),
    }
}

/// Whether the program names a dynamic loader; none where it is no program for x86-64.
fn has_interpreter(data: &[u8]) -> Option<bool> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let fits = header.is_class_64() && header.is_little_endian() && header.e_machine(endian) == EM_X86_64;
    let parts = header.program_headers(endian, data).ok().filter(|_| fits)?;
    Some(parts.iter().any(|part| part.p_type(endian) == PT_INTERP))
}

/// `libzinc_start.so`, if it lies next to this program where dynamic loaders can be told to look.
pub fn library() -> Option<PathBuf> {
    let next = std::env::current_exe().ok()?.parent()?.join(NAME);
    let separates = next.as_os_str().as_encoded_bytes().iter().any(|b| b" :\n".contains(b));
    (!separates && next.is_file()).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], follows: bool) -> Result<Kind, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        kind(file.path(), follows)
    }

    #[test]
    fn a_program_of_this_machine_is_started_by_the_shims_loader() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(kind(&own, false).ok(), cfg!(target_arch = "x86_64").then_some(Kind::Program));
    }

    #[test]
    fn what_starts_a_program_is_executed_as_it_is_where_it_can_be_followed() {
        let script = b"#!/bin/sh\nexec app\n";
        // The head of a dynamic loader: ELF, 64 bits, little-endian, ET_DYN for x86-64, with no program headers.
        let mut loader = b"\x7fELF\x02\x01\x01".to_vec();
        loader.resize(64, 0);
        loader[16] = 3;
        loader[18] = 62;
        loader[52] = 64;
        for (bytes, word) in [(&script[..], "script"), (&loader[..], "dynamic loader")] {
            assert_eq!(of(bytes, true), Ok(Kind::Starter));
            let why = of(bytes, false).unwrap_err();
            assert!(why.contains(word) && why.contains("-p zinc-start"), "{why}");
        }
        loader[18] = 183;
        assert!(of(&loader, true).unwrap_err().contains("no program for x86-64"), "it is for Arm");
        assert!(of(b"", true).unwrap_err().contains("no program"));
        assert!(kind(Path::new("/nonexistent"), true).is_err());
    }
}
