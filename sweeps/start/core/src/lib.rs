//! Which command line starts a program on a driver's own C library.
//!
//! A driver that was unpacked into a folder comes with the C library that it needs, and only that library's dynamic
//! loader can start a program on it. Where the user names the program, the sweep starts it so. Where a script starts
//! it, or where the program is started through a dynamic loader that it brought along, `libzinc_start.so` finds itself
//! in a process that was started otherwise, and executes in its place what [`restart`] says.
//!
//! Of two C libraries the newer one is taken, with its loader and with the libraries next to it: a C library runs what
//! was built for an older one, never the reverse.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The variable that says on what programs are to be started; `libzinc_start.so` does nothing without it.
pub const VARIABLE: &str = "ZINC_BARRIER_SHIM";

/// The version of a C library: 2.41 is `(2, 41)`.
pub type Version = (u32, u32);

/// On what programs are to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The dynamic loader of the driver's folder.
    pub loader: OsString,
    /// Where it looks for libraries: folders with colons between them.
    pub libraries: OsString,
    /// What it loads before the program: libraries with colons between them.
    pub preload: OsString,
    /// The version of the C library in those folders.
    pub libc: Version,
}

impl Place {
    /// The value of [`VARIABLE`]: a line for each field.
    pub fn to_value(&self) -> OsString {
        let version = format!("{}.{}", self.libc.0, self.libc.1);
        let fields: [&OsStr; 4] = [&self.loader, &self.libraries, &self.preload, version.as_ref()];
        fields.join(OsStr::new("\n"))
    }

    /// The place in a value of [`VARIABLE`], or none where it is not one.
    pub fn from_value(value: &OsStr) -> Option<Place> {
        let fields: Vec<&[u8]> = value.as_bytes().split(|b| *b == b'\n').collect();
        let [loader, libraries, preload, libc] = fields[..] else { return None };
        let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let libc = version(libc)?;
        Some(Place { loader: owned(loader), libraries: owned(libraries), preload: owned(preload), libc })
    }
}

/// A process that was just started, before its `main`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its command line, as the kernel keeps it.
    pub words: Vec<OsString>,
    /// The file that the kernel executed: the program, or a dynamic loader that was started like a program.
    pub executable: OsString,
    /// The dynamic loader that loaded it.
    pub loader: OsString,
    /// Whether that loader was started like a program, so that options of its own stand before the program's name.
    pub by_loader: bool,
    /// The folder of its C library.
    pub libc_folder: OsString,
    /// The version of its C library.
    pub libc: Version,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
}

/// What a dynamic loader that was started like a program was asked for.
#[derive(Debug, Default)]
struct Loading<'a> {
    library_path: Option<&'a OsStr>,
    preload: Option<&'a OsStr>,
    argv0: Option<&'a OsStr>,
    /// Options that are passed on as they are.
    others: Vec<&'a OsStr>,
    /// The program and its arguments.
    command: &'a [OsString],
}

/// The options of glibc's loader that take a value (elf/rtld.c).
const WITH_VALUE: [&str; 4] = ["--audit", "--glibc-hwcaps-mask", "--glibc-hwcaps-prepend", "--inhibit-rpath"];

impl<'a> Loading<'a> {
    /// Takes a loader's command line apart; none where it does not start a program.
    fn of(words: &'a [OsString]) -> Option<Loading<'a>> {
        let mut loading = Loading::default();
        let mut rest = words.get(1..)?;
        while let [option, behind @ ..] = rest
            && option.as_bytes().starts_with(b"--")
        {
            let value = behind.first().map(OsString::as_os_str);
            let takes_value = match option.to_str()? {
                "--library-path" => {
                    loading.library_path = Some(value?);
                    true
                }
                "--preload" => {
                    loading.preload = Some(value?);
                    true
                }
                "--argv0" => {
                    loading.argv0 = Some(value?);
                    true
                }
                "--inhibit-cache" => {
                    loading.others.push(option);
                    false
                }
                known if WITH_VALUE.contains(&known) => {
                    loading.others.extend([option.as_os_str(), value?]);
                    true
                }
                // It prints something instead: --list, --verify, --help and their like.
                _ => return None,
            };
            rest = &behind[usize::from(takes_value)..];
        }
        loading.command = rest;
        (!rest.is_empty()).then_some(loading)
    }
}

/// The command line to execute in the place of `process`, the file to execute first, so that its program starts at
/// `place`; none where it is there already, or where no program is being started.
pub fn restart(place: &Place, process: &Process) -> Option<Vec<OsString>> {
    let loading = match process.by_loader {
        true => Loading::of(&process.words)?,
        false => Loading {
            argv0: process.words.first().map(OsString::as_os_str),
            command: &process.words,
            ..Loading::default()
        },
    };
    if loading.preload.is_some_and(|given| holds(place, given)) {
        return None;
    }
    let program = match process.by_loader {
        true => loading.command.first()?.as_os_str(),
        false => &process.executable,
    };
    let own =
        [loading.library_path, process.library_path.as_deref().filter(|_| loading.library_path.is_none())];
    let own: Vec<&OsStr> = own.into_iter().flatten().filter(|path| !path.is_empty()).collect();
    let newer = process.libc > place.libc;
    let loader = if newer { &process.loader } else { &place.loader };
    let libraries = match newer {
        true => [&own[..], &[&process.libc_folder, &place.libraries]].concat(),
        false => [&[place.libraries.as_os_str()], &own[..]].concat(),
    };
    let preload = [&[place.preload.as_os_str()], loading.preload.as_slice()].concat();
    let mut words: Vec<OsString> = vec![loader.clone()];
    words.extend(loading.others.iter().map(|word| word.to_os_string()));
    words.extend(["--library-path".into(), libraries.join(OsStr::new(":"))]);
    words.extend(["--preload".into(), preload.join(OsStr::new(":"))]);
    if let Some(argv0) = loading.argv0 {
        words.extend(["--argv0".into(), argv0.to_os_string()]);
    }
    words.push(program.to_os_string());
    words.extend(loading.command.iter().skip(1).cloned());
    Some(words)
}

/// The program of a process that was started at `place`, by the name that its command line has; none where it was
/// started otherwise.
pub fn program<'a>(place: &Place, process: &'a Process) -> Option<&'a OsStr> {
    let loading = Loading::of(&process.words).filter(|_| process.by_loader)?;
    holds(place, loading.preload?).then(|| loading.command.first().map(OsString::as_os_str))?
}

/// Whether a list of libraries to preload has one of the place's.
fn holds(place: &Place, given: &OsStr) -> bool {
    list(given).any(|one| list(&place.preload).any(|ours| one == ours))
}

/// The entries of a list with colons between them.
fn list(text: &OsStr) -> impl Iterator<Item = &[u8]> {
    text.as_bytes().split(|b| *b == b':')
}

/// `2.41`, or what begins so, as a version.
pub fn version(text: &[u8]) -> Option<Version> {
    let number = |digits: &[u8]| -> Option<(u32, usize)> {
        let length = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        Some((std::str::from_utf8(&digits[..length]).ok()?.parse().ok()?, length))
    };
    let (major, length) = number(text)?;
    let (minor, _) = number(text.get(length..)?.strip_prefix(b".")?)?;
    Some((major, minor))
}

/// The version of the C library that a dynamic loader belongs to, by the line that it prints when it is asked for its
/// version; none where `file`, the loader's bytes, holds no such line.
pub fn version_of_loader(file: &[u8]) -> Option<Version> {
    const BEFORE: &[u8] = b" release version ";
    let at = file.windows(BEFORE.len()).position(|window| window == BEFORE)?;
    version(&file[at + BEFORE.len()..])
}

#[cfg(test)]
mod tests;
