//! How a program is started on a shim.
//!
//! Through the folder's own dynamic loader, which takes the search path and the libraries to preload as options. As
//! variables they would reach every process that the program starts, and processes started the usual way have the
//! system's C library, into which those libraries do not fit. What reaches them is `libzinc_start.so`, which fits into
//! any and starts each anew through the folder's loader (`start`). Where that library is not there, a child sees the
//! driver's manifest, but not the shim, and fails to open a device. It never falls back to another.
//!
//! The driver is named by a manifest with an absolute path, and everything that could make the Vulkan loader pick,
//! filter or reorder drivers is taken out, along with Mesa's layer for that purpose.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use zinc_engine::results::Info;

use zinc_start_core::{Place, VARIABLE, version_of_loader};

use super::ShimDriver;
use super::folders::Cache;
use super::start::{self, Kind};
use crate::drivers::Chosen;
use crate::environment::{get, remove, set};
use crate::error::SweepError;

/// What would have the loader choose among drivers otherwise than by the manifest that is named.
const CHOOSERS: [&str; 4] =
    ["VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE", "MESA_VK_DEVICE_SELECT"];

/// Where Debian's libraries lie in a folder.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The system's own dynamic loader, whose place is a part of the ABI of x86-64.
const SYSTEM_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A shim that is set up, with everything in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    /// The driver.
    pub driver: ShimDriver,
    folder: PathBuf,
    /// A newer distribution, whose loader and libraries come before the driver's.
    root: Option<PathBuf>,
}

impl Shim {
    /// Finds the driver's folder in the cache.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] naming `sweep setup-shims` when it is not set up or something in it is gone.
    pub fn find(driver: ShimDriver, cache: &Cache) -> Result<Shim, SweepError> {
        if !cache.is_complete(driver.folder) && driver.is_patched() {
            return Err(SweepError::Missing(format!(
                "not-run: driver '{driver}' is not built: run `mesa-patches/build`"
            )));
        }
        if !cache.is_complete(driver.folder) {
            return Err(SweepError::Missing(format!(
                "not-run: driver '{driver}' is not set up in {}: run `sweep setup-shims`, which fetches it from Debian's \
                 packages without root",
                cache.path().display()
            )));
        }
        let shim = Shim { driver, folder: cache.folder(driver.folder), root: None };
        let needed = driver.libraries().map(|name| shim.library_path().join(name));
        let missing = needed.into_iter().chain([shim.loader(), shim.manifest()]).find(|path| !path.is_file());
        match missing {
            None => Ok(shim),
            Some(path) => Err(SweepError::Missing(format!(
                "not-run: driver '{driver}': {} is gone: {}",
                path.display(),
                match driver.is_patched() {
                    true => "delete the folder that it was in and run `mesa-patches/build`",
                    false => "run `sweep setup-shims --refresh`",
                }
            ))),
        }
    }

    /// The same with the dynamic loader and the libraries of another folder, laid out as tests/oracles does it, before
    /// the driver's own: an older driver runs on a newer C library, where a newer program would not on an older one.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] when there is no such loader, or its path holds what loaders take to separate paths.
    pub fn rooted(self, root: Option<&Path>) -> Result<Shim, SweepError> {
        let Some(root) = root else { return Ok(self) };
        let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
        if !root.join("start/ld.so").is_file()
            || root.as_os_str().as_encoded_bytes().iter().any(|b| b" :;".contains(b))
        {
            return Err(SweepError::Missing(format!(
                "--root {}: there is no start/ld.so, or a space or colon in the path; `tests/oracles --where` names such \
                 a folder",
                root.display()
            )));
        }
        Ok(Shim { root: Some(root), ..self })
    }

    /// `program` on this shim, with `counter` preloaded before it if there is one, since the shim answers the driver's
    /// calls itself; the program's arguments go behind. Libraries that `env`, its environment, names for the dynamic
    /// loader are looked for behind the shim's. What is no program with shared libraries is executed as it is: the
    /// environment of [`Shim::apply`] puts onto the shim what it starts.
    pub fn command(&self, program: &Path, counter: Option<&Path>, env: &[(OsString, OsString)]) -> Command {
        if self.place(counter).is_some() && start::kind(program, true) == Ok(Kind::Starter) {
            return Command::new(program);
        }
        let mut command = Command::new(self.loader());
        let mut libraries = self.search_path();
        if let Some(own) = get(env, "LD_LIBRARY_PATH").filter(|own| !own.is_empty()) {
            libraries.push(":");
            libraries.push(own);
        }
        command.arg("--library-path").arg(libraries).arg("--preload").arg(self.preload(counter)).arg(program);
        command
    }

    /// Turns an environment into that of a program on this shim, whose children are started there too, with `counter`
    /// if there is one.
    pub fn apply(&self, env: &mut Vec<(OsString, OsString)>, counter: Option<&Path>) {
        for name in CHOOSERS {
            remove(env, name);
        }
        // Older loaders know only the second name.
        for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
            set(env, name, self.manifest().into());
        }
        set(env, "NODEVICE_SELECT", "1".into());
        if let Some((name, value)) = self.driver.variable() {
            set(env, name, value.into());
        }
        if let (Some(library), Some(place)) = (start::library(), self.place(counter)) {
            let mut preload = library.into_os_string();
            if let Some(own) = get(env, "LD_PRELOAD").filter(|own| !own.is_empty()) {
                preload.push(":");
                preload.push(own);
            }
            set(env, "LD_PRELOAD", preload);
            set(env, VARIABLE, place.to_value());
        }
    }

    /// Says why `program` can't be started here.
    ///
    /// # Errors
    ///
    /// Why, in words, with the remedy.
    pub fn fits(&self, program: &Path) -> Result<(), String> {
        start::kind(program, self.place(None).is_some()).map(drop)
    }

    /// Where the programs that a process starts are to be started; none where there is nothing that could do it, or
    /// where it is not known which C library is the newer one.
    fn place(&self, counter: Option<&Path>) -> Option<Place> {
        start::library()?;
        let libc = version_of_loader(&std::fs::read(self.loader()).ok()?)?;
        let (loader, libraries) = (self.loader().into_os_string(), self.search_path());
        Some(Place { loader, libraries, preload: self.preload(counter), libc })
    }

    /// What is loaded before a program.
    fn preload(&self, counter: Option<&Path>) -> OsString {
        let shim = self.library_path().join(self.driver.libraries()[1]);
        let all: Vec<&OsStr> = counter.into_iter().chain([shim.as_path()]).map(Path::as_os_str).collect();
        all.join(OsStr::new(":"))
    }

    /// The driver's library and the shim's, by the names under which a report lists their digests.
    pub fn binaries(&self) -> [(String, PathBuf); 2] {
        let folder = self.driver.folder.name;
        self.driver.libraries().map(|name| (format!("{folder}: {name}"), self.library_path().join(name)))
    }

    /// A program that came along with the driver, such as `vulkaninfo`.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let folders = self.root.iter().chain([&self.folder]);
        folders.map(|folder| folder.join("usr/bin").join(name)).find(|path| path.is_file())
    }

    /// Where the dynamic loader looks for libraries.
    fn search_path(&self) -> OsString {
        let mut path = OsString::new();
        for folder in
            self.root.iter().flat_map(|root| ["", "llama", "ggml"].map(|f| root.join(LIBRARIES).join(f)))
        {
            path.push(folder);
            path.push(":");
        }
        path.push(self.library_path());
        path
    }

    fn library_path(&self) -> PathBuf {
        self.folder.join(if self.driver.is_patched() { "lib" } else { LIBRARIES })
    }

    fn loader(&self) -> PathBuf {
        match &self.root {
            None if self.driver.is_patched() => SYSTEM_LOADER.into(),
            root => root.as_ref().unwrap_or(&self.folder).join("start/ld.so"),
        }
    }

    fn manifest(&self) -> PathBuf {
        self.folder.join("vulkan").join(self.driver.manifest())
    }
}

/// Whether a device of that name is the one that the shim plays.
pub fn plays(driver: ShimDriver, device: &str) -> bool {
    let wanted = driver.device_name();
    device.match_indices(&wanted).any(|(at, _)| {
        let next = device[at + wanted.len()..].chars().next();
        next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
    })
}

/// The one device that the engine saw on the shim.
///
/// # Errors
///
/// [`SweepError::Missing`] when it saw none, or more than one. A real card of the same maker shows up beside the
/// shim's, and since nothing tells for certain which of them executes, none is taken.
pub fn choose(driver: ShimDriver, info: &Info) -> Result<Chosen, SweepError> {
    let fault = match &info.devices[..] {
        [one] if !plays(driver, &one.device.name) => {
            format!("the device is {} instead of {}", one.device.name, driver.device_name())
        }
        [one] => match &one.unusable {
            Some(why) => format!("the engine cannot use {}: {why}", one.device.name),
            None => {
                let device = one.device.clone();
                let selector = device.name.clone();
                return Ok(Chosen { device, driver: driver.to_string(), selector });
            }
        },
        [] => {
            let error = info.vulkan_error.as_ref().map(|e| format!("; the engine says: {e}"));
            format!("the driver opened no device{}", error.unwrap_or_default())
        }
        several => {
            let names: Vec<&str> = several.iter().map(|d| d.device.name.as_str()).collect();
            format!(
                "it shows several devices ({}), of which one may be real; a shim is of use on a machine without such a \
                 card",
                names.join(", ")
            )
        }
    };
    Err(SweepError::Missing(format!("not-run: driver '{driver}': {fault}")))
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
