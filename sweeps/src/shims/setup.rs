//! `sweep setup-shims`: fetches the drivers and their shims.
//!
//! The work is that of apt and dpkg-deb, so it is done by a script (`fetch.sh`, which is part of this program and says
//! there how it stays away from the system). This module decides what to fetch and where to, and answers questions
//! about what is there.

use std::io::Write;
use std::process::Command;
use std::str::FromStr;

use clap::Args;

use super::ShimDriver;
use super::folders::{ALL, Cache, FolderSpec, LLAMA, PATCHED};
use crate::error::SweepError;

/// What finds a mirror is shared with tests/oracles.
const SCRIPT: &str = concat!(include_str!("mirrors.sh"), include_str!("fetch.sh"));

const ABOUT: &str = "\
Fetches about 120 MB from a Debian mirror into ${XDG_CACHE_HOME:-~/.cache}/zinc-barrier/shims, once, and unpacks it there \
(about 550 MB). Needs no root and changes nothing else. An interrupted set-up is resumed by running it again. llama.cpp, \
a program to start on them with all its libraries, is fetched only where it is named (about 23 MB, unpacked 110).

Needs apt-get, dpkg-deb and Debian's archive keys, so: Debian or Ubuntu, x86-64. Where the system's package sources name \
no Debian mirror (Ubuntu), the one that debootstrap names is taken, if that is installed (tests/setup does it); \
ZINC_BARRIER_MIRROR names another, such as http://HOST/debian.

Exit status: 0 there; 1 could not be fetched, or (--where, --versions) not there; 2 usage error; 3 something that this \
needs is missing.";

/// The arguments of `sweep setup-shims`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = ABOUT)]
pub struct SetupArgs {
    /// Fetch only what these drivers need: honeykrisp-shim, radv-shim:CHIP [default: all drivers]; llama.cpp, to have a
    /// program for them
    #[arg(value_name = "DRIVER")]
    pub wanted: Vec<Wanted>,

    /// Print the folders, one a line, and fetch nothing
    #[arg(long = "where", conflicts_with_all = ["versions", "refresh"])]
    pub place: bool,

    /// Print the names of the drivers that are there, one a line, and fetch nothing
    #[arg(long, conflicts_with_all = ["versions", "refresh", "place"])]
    pub list: bool,

    /// Print folder, package, version and SHA-256 of what counts, one package a line, and fetch nothing
    #[arg(long, conflicts_with = "refresh")]
    pub versions: bool,

    /// Fetch again, as the suites move on
    #[arg(long)]
    pub refresh: bool,
}

/// What is to be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A driver and its shim.
    Driver(ShimDriver),
    /// llama.cpp, to start on them.
    Llama,
}

impl Wanted {
    fn folder(self) -> &'static FolderSpec {
        match self {
            Wanted::Driver(driver) => driver.folder,
            Wanted::Llama => &LLAMA,
        }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        match text == LLAMA.name {
            true => Ok(Wanted::Llama),
            false => {
                text.parse().map(Wanted::Driver).map_err(|e| format!("{e}; llama.cpp can be fetched too"))
            }
        }
    }
}

/// The folders that `args` speaks of, each once.
fn folders(args: &SetupArgs) -> impl Iterator<Item = &'static FolderSpec> {
    let wanted: Vec<&FolderSpec> = args.wanted.iter().map(|wanted| wanted.folder()).collect();
    let all = ALL.into_iter().filter({
        let wanted = wanted.clone();
        move |folder| wanted.is_empty() || wanted.contains(folder)
    });
    all.chain(wanted.contains(&&LLAMA).then_some(&LLAMA))
}

/// Does what `args` asks for; returns the exit status.
///
/// # Errors
///
/// [`SweepError`] when there is no place for the folders or the script cannot be started.
pub fn run(args: &SetupArgs) -> Result<u8, SweepError> {
    let cache = Cache::here()?;
    if args.place || args.versions || args.list {
        let (text, code) = answer(args, &cache);
        // A standard output that was closed, as by `| head`, is not worth a word.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(code);
    }
    let drivers = args.wanted.iter().filter_map(|wanted| match wanted {
        Wanted::Driver(driver) => Some(driver),
        Wanted::Llama => None,
    });
    if let Some(built) = drivers.into_iter().find(|driver| *driver.folder == PATCHED) {
        return Err(SweepError::Usage(format!(
            "'{built}' is built and not fetched: run `mesa-patches/build`"
        )));
    }
    // One suite that is not to be had must not keep the others away; the first error is the one to report.
    let mut code = 0;
    for spec in folders(args) {
        if cache.is_complete(spec) && !args.refresh {
            eprintln!("setup-shims: {}: already there: {}", spec.name, cache.folder(spec).display());
            continue;
        }
        let status = script(&cache, spec).status().map_err(|source| SweepError::System {
            what: "cannot start bash to fetch packages".into(),
            source,
        })?;
        let ended = status.code().map_or(1, |code| code.clamp(0, 255) as u8);
        code = if code == 0 { ended } else { code };
        if ended == 0 && !cache.is_complete(spec) {
            eprintln!("setup-shims: error: {} is still not complete", cache.folder(spec).display());
            code = code.max(1);
        }
    }
    if code == 0 {
        eprintln!(
            "setup-shims: done; try: {}",
            match args.wanted.contains(&Wanted::Llama) {
                true => "sweep on honeykrisp-shim -- llama-bench -m MODEL.gguf -n 16",
                false => "sweep on radv-shim:gfx1201 -- vulkaninfo --summary",
            }
        );
    }
    Ok(code)
}

/// What `--where` and `--versions` print, and the exit status.
fn answer(args: &SetupArgs, cache: &Cache) -> (String, u8) {
    let (mut text, mut code) = (String::new(), 0);
    for spec in folders(args) {
        if !cache.is_complete(spec) {
            eprintln!("setup-shims: {} is not there: run `sweep setup-shims`", spec.name);
            code = 1;
        } else if args.list {
            ShimDriver::all().filter(|d| d.folder == spec).for_each(|d| text.push_str(&format!("{d}\n")));
        } else if args.place {
            text.push_str(&format!("{}\n", cache.folder(spec).display()));
        } else {
            for [package, version, sha256] in cache.versions(spec) {
                text.push_str(&format!("{} {package} {version} {sha256}\n", spec.name));
            }
        }
    }
    (text, code)
}

/// The script for one folder.
fn script(cache: &Cache, spec: &FolderSpec) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT, "setup-shims"]);
    command.arg(cache.folder(spec)).arg(cache.recipe(spec)).arg(spec.suites.join(" ")).args(spec.packages);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(top: &tempfile::TempDir) -> Cache {
        Cache::of(|name| (name == "XDG_CACHE_HOME").then(|| top.path().into())).unwrap()
    }

    fn names(drivers: &[&str]) -> Vec<&'static str> {
        let wanted = drivers.iter().map(|d| d.parse().unwrap()).collect();
        folders(&SetupArgs { wanted, ..SetupArgs::default() }).map(|f| f.name).collect()
    }

    #[test]
    fn only_what_the_named_drivers_need_is_fetched() {
        assert_eq!(names(&[]), ["trixie-backports", "bookworm-backports"]);
        assert_eq!(names(&["honeykrisp-shim", "radv-shim:gfx1201"]), ["trixie-backports"]);
        assert_eq!(names(&["radv-shim:navi31", "radv-shim:gfx1150"]), ["bookworm-backports"]);
        assert_eq!(names(&["llama.cpp"]), ["llama.cpp"]);
        assert_eq!(names(&["llama.cpp", "honeykrisp-shim"]), ["trixie-backports", "llama.cpp"]);
        assert!("llama".parse::<Wanted>().unwrap_err().contains("llama.cpp"));
    }

    #[test]
    fn what_is_not_there_has_no_place_and_no_version() {
        let top = tempfile::tempdir().unwrap();
        let cache = place(&top);
        let ask = SetupArgs { place: true, ..SetupArgs::default() };
        assert_eq!(answer(&ask, &cache), (String::new(), 1));
        for spec in ALL {
            std::fs::create_dir_all(cache.folder(spec)).unwrap();
            std::fs::write(cache.folder(spec).join("recipe"), cache.recipe(spec)).unwrap();
            std::fs::write(cache.folder(spec).join("versions.txt"), "libc6 2.41 amd64 ab\n").unwrap();
        }
        let (text, code) = answer(&ask, &cache);
        assert_eq!((text.lines().count(), code), (2, 0));
        let (text, code) = answer(&SetupArgs { list: true, ..SetupArgs::default() }, &cache);
        let listed: Vec<String> = text.lines().map(String::from).collect();
        assert_eq!((listed.len(), code), (22, 0), "21 chips, and Honeykrisp");
        assert!(listed.contains(&"honeykrisp-shim".into()) && listed.contains(&"radv-shim:navi31".into()));
        let (text, code) = answer(&SetupArgs { versions: true, ..SetupArgs::default() }, &cache);
        assert_eq!(
            (text.as_str(), code),
            ("trixie-backports libc6 2.41 ab\nbookworm-backports libc6 2.41 ab\n", 0)
        );
    }

    /// The script in an environment where it must give up: exit status and what it said. It gets a `PATH` of its own
    /// with links to a few programs, so that nothing of what it would fetch with is found unless named.
    fn give_up(programs: &[&str], env: &[(&str, &str)]) -> (i32, String) {
        let top = tempfile::tempdir().unwrap();
        let bin = top.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for program in programs {
            let path = ["/bin", "/usr/bin"].map(|f| format!("{f}/{program}"));
            let path = path.iter().find(|p| std::path::Path::new(p).exists()).unwrap();
            std::os::unix::fs::symlink(path, bin.join(program)).unwrap();
        }
        let mut command = script(&place(&top), ALL[0]);
        command.env("PATH", &bin).envs(env.iter().copied());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!place(&top).is_complete(ALL[0]));
        (output.status.code().unwrap(), said)
    }

    #[test]
    fn a_distribution_without_apt_is_told_so() {
        let (code, said) = give_up(&["bash", "dirname", "basename", "uname"], &[]);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("apt-get is missing") || said.contains("made for x86-64"), "{said}");
    }

    /// What `debian_mirrors` prints, with these files in the place of the system's.
    fn mirrors(sources: &[(&str, &str)], debootstrap: &str, variable: Option<&str>) -> Vec<String> {
        let top = tempfile::tempdir().unwrap();
        let etc = top.path().join("apt");
        std::fs::create_dir_all(etc.join("sources.list.d")).unwrap();
        for (name, text) in sources {
            std::fs::write(etc.join(name), text).unwrap();
        }
        std::fs::write(top.path().join("debootstrap"), debootstrap).unwrap();
        let script = format!("set -euo pipefail\n{}\ndebian_mirrors \"$@\"", include_str!("mirrors.sh"));
        let mut command = Command::new("bash");
        command.args(["-c", &script, "mirrors"]).arg(etc).arg(top.path().join("debootstrap"));
        command.env_remove("ZINC_BARRIER_MIRROR").envs(variable.map(|v| ("ZINC_BARRIER_MIRROR", v)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect()
    }

    #[test]
    fn a_mirror_is_taken_from_the_variable_or_the_sources_or_else_from_debootstrap() {
        let debian =
            ("sources.list.d/debian.sources", "Types: deb\nURIs: http://one/debian http://two/debian\n");
        let security = ("sources.list.d/s.sources", "URIs: http://one/debian-security\n");
        let list = (
            "sources.list",
            "deb [signed-by=/k] http://three/debian bookworm main\n# deb http://no/debian x\n",
        );
        let ubuntu = ("sources.list.d/ubuntu.sources", "URIs: http://archive/ubuntu/\n");
        let debootstrap = "DEF_MIRROR=\"http://four/debian\"\nDEF_HTTPS_MIRROR=\"https://five\"\n";
        assert_eq!(
            mirrors(&[debian, security, list], debootstrap, None),
            ["http://one/debian", "http://two/debian", "http://three/debian"]
        );
        assert_eq!(mirrors(&[ubuntu], debootstrap, None), ["http://four/debian"], "as on Ubuntu");
        assert_eq!(mirrors(&[debian], debootstrap, Some("http://six/debian")), ["http://six/debian"]);
        assert!(mirrors(&[ubuntu], "", None).is_empty(), "then the script says what to set");
    }

    #[test]
    fn arguments_that_are_missing_are_a_usage_error() {
        let status = Command::new("bash").args(["-c", SCRIPT, "setup-shims", "/x"]).output().unwrap();
        assert_eq!(status.status.code(), Some(2));
    }
}
