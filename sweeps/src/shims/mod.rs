//! Real drivers without their hardware.
//!
//! What a driver emits for a barrier can be read from its command stream, and Mesa brings preloadable stand-ins for the
//! kernel side of its drivers ("drm-shims"). With such a *shim*, the unmodified RADV or Honeykrisp opens a device,
//! records and submits on any x86-64 machine. Nothing executes there: buffers keep their contents and fences signal at
//! once. So an arm on a shim has counts and the CPU's time to record, and no results, no rate and no gates.
//!
//! `radv-shim:CHIP@patched` is RADV as `mesa-patches/build` made it, on its own shim and this system's C library.
//! The others come from Debian's packages, unpacked into folders of the user's cache with all that they need, down to
//! the C library and its dynamic loader. Starting a program through that loader is what makes a driver of one
//! distribution run on another, without root and without a container.
//!
//! - [`folders`]: which packages, and where they lie;
//! - [`setup`]: `sweep setup-shims`, which fetches them;
//! - [`launch`]: the command line and the environment of a program on a shim;
//! - [`start`]: what can be started, and what follows a script to its program;
//! - [`subject`]: llama.cpp, fetched like the drivers;
//! - [`on`]: `sweep on DRIVER -- COMMAND`.

pub mod folders;
pub mod launch;
pub mod on;
pub mod setup;
pub mod start;
pub mod subject;

use std::fmt;
use std::str::FromStr;

use folders::FolderSpec;

/// The beginning of a shim's name for an AMD chip.
const RADV: &str = "radv-shim";
const HONEYKRISP: &str = "honeykrisp-shim";

/// An AMD chip that some shim plays.
#[derive(Debug, PartialEq, Eq)]
struct Chip {
    /// The shim's name for it (`AMDGPU_GPU_ID`).
    name: &'static str,
    /// The folders whose shim knows it, the preferred one first.
    folders: &'static [&'static FolderSpec],
}

const BOTH: &[&FolderSpec] = &[&folders::BOOKWORM, &folders::TRIXIE, &folders::PATCHED];
const OLD: &[&FolderSpec] = &[&folders::BOOKWORM, &folders::PATCHED];
const NEW: &[&FolderSpec] = &[&folders::TRIXIE];
/// A patch adds this chip to the older shim.
const ADDED: &[&FolderSpec] = &[&folders::TRIXIE, &folders::PATCHED];

/// What the shims of the two folders know, newest first: asked of each with `vulkaninfo`. (A name that a shim does not
/// know gives no device at all.)
const CHIPS: [Chip; 21] = [
    Chip { name: "gfx1201", folders: ADDED },
    Chip { name: "gfx1150", folders: OLD },
    Chip { name: "strix1", folders: NEW },
    Chip { name: "phoenix", folders: NEW },
    Chip { name: "navi33", folders: NEW },
    Chip { name: "navi31", folders: BOTH },
    Chip { name: "raphael_mendocino", folders: BOTH },
    Chip { name: "rembrandt", folders: NEW },
    Chip { name: "vangogh", folders: BOTH },
    Chip { name: "navi21", folders: BOTH },
    Chip { name: "navi10", folders: BOTH },
    Chip { name: "renoir", folders: BOTH },
    Chip { name: "vega20", folders: NEW },
    Chip { name: "raven2", folders: BOTH },
    Chip { name: "raven", folders: BOTH },
    Chip { name: "vega10", folders: BOTH },
    Chip { name: "polaris12", folders: BOTH },
    Chip { name: "polaris10", folders: BOTH },
    Chip { name: "stoney", folders: BOTH },
    Chip { name: "bonaire", folders: BOTH },
    Chip { name: "pitcairn", folders: BOTH },
];

/// A driver on a shim, as users name it: `honeykrisp-shim`, `radv-shim:CHIP`, or `radv-shim:CHIP@FOLDER` for a chip
/// that two versions of Mesa know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShimDriver {
    model: Model,
    /// The packages that it comes from.
    pub folder: &'static FolderSpec,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    Honeykrisp,
    Radv(&'static Chip),
}

impl ShimDriver {
    /// Whether `text` is meant to be one, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        text.split([':', '@']).next().is_some_and(|word| word.ends_with("-shim"))
    }

    /// All of them, each in the folder that is preferred.
    pub fn all() -> impl Iterator<Item = ShimDriver> {
        let radv = CHIPS.iter().map(|chip| ShimDriver { model: Model::Radv(chip), folder: chip.folders[0] });
        radv.chain([ShimDriver { model: Model::Honeykrisp, folder: NEW[0] }])
    }

    /// The names of all of them, for help and errors.
    pub fn names() -> String {
        let chips: Vec<&str> = CHIPS.iter().map(|chip| chip.name).collect();
        format!("{HONEYKRISP} and {RADV}:CHIP, where CHIP is one of {} (@patched: ours)", chips.join(", "))
    }

    /// The name that the driver gives itself where it announces its knobs, which is that of its hardware's owners too.
    pub fn label(self) -> &'static str {
        match self.model {
            Model::Honeykrisp => "honeykrisp",
            Model::Radv(_) => "radv",
        }
    }

    /// Whether it is one that `mesa-patches/build` makes.
    fn is_patched(self) -> bool {
        *self.folder == folders::PATCHED
    }

    /// The driver's manifest in its folder.
    fn manifest(self) -> &'static str {
        match self.model {
            _ if self.is_patched() => "radv.json",
            Model::Honeykrisp => "asahi.json",
            Model::Radv(_) => "radeon.json",
        }
    }

    /// The driver's library and the shim's.
    fn libraries(self) -> [&'static str; 2] {
        match self.model {
            Model::Honeykrisp => ["libvulkan_asahi.so", "libasahi_noop_drm_shim.so"],
            Model::Radv(_) => ["libvulkan_radeon.so", "libamdgpu_noop_drm_shim.so"],
        }
    }

    /// What the shim is told about the chip to play.
    fn variable(self) -> Option<(&'static str, &'static str)> {
        match self.model {
            Model::Honeykrisp => None,
            Model::Radv(chip) => Some(("AMDGPU_GPU_ID", chip.name)),
        }
    }

    /// A part of the name of the device that must appear, so that no other is taken for it.
    pub fn device_name(self) -> String {
        match self.model {
            Model::Honeykrisp => "Apple M1".into(),
            Model::Radv(chip) => format!("RADV {}", chip.name.to_uppercase()),
        }
    }
}

impl FromStr for ShimDriver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (driver, folder) = match text.split_once('@') {
            Some((driver, folder)) => (driver, Some(folder)),
            None => (text, None),
        };
        let (model, folders) = match driver.split_once(':') {
            None if driver == HONEYKRISP => (Model::Honeykrisp, NEW),
            Some((RADV, name)) => {
                let chip = CHIPS.iter().find(|chip| chip.name == name).ok_or_else(|| {
                    let known: Vec<&str> = CHIPS.iter().map(|chip| chip.name).collect();
                    format!("no shim plays the chip '{name}'; the chips are {}", known.join(", "))
                })?;
                (Model::Radv(chip), chip.folders)
            }
            _ if driver == RADV => {
                return Err(format!("say which chip: {}", ShimDriver::names()));
            }
            _ => return Err(format!("unknown shim '{text}'; there are {}", ShimDriver::names())),
        };
        let folder = match folder {
            None => folders[0],
            Some(name) => folders.iter().copied().find(|folder| folder.name == name).ok_or_else(|| {
                let known: Vec<&str> = folders.iter().map(|folder| folder.name).collect();
                format!("'{driver}' is not to be had from '{name}', only from {}", known.join(" and "))
            })?,
        };
        Ok(ShimDriver { model, folder })
    }
}

impl fmt::Display for ShimDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.model {
            Model::Honeykrisp => f.write_str(HONEYKRISP),
            Model::Radv(chip) if self.folder == chip.folders[0] => write!(f, "{RADV}:{}", chip.name),
            Model::Radv(chip) => write!(f, "{RADV}:{}@{}", chip.name, self.folder.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ShimDriver, String> {
        text.parse()
    }

    #[test]
    fn every_name_reads_back_as_it_is_shown() {
        let mut names = vec![HONEYKRISP.to_string()];
        for chip in &CHIPS {
            names.push(format!("{RADV}:{}", chip.name));
            names.extend(chip.folders[1..].iter().map(|f| format!("{RADV}:{}@{}", chip.name, f.name)));
        }
        for name in names {
            assert_eq!(parse(&name).unwrap().to_string(), name);
            assert!(ShimDriver::is_meant(&name));
        }
    }

    #[test]
    fn the_folder_that_is_taken_anyway_may_be_named_and_is_not_shown() {
        assert_eq!(parse("radv-shim:navi31@bookworm-backports").unwrap(), parse("radv-shim:navi31").unwrap());
        assert_eq!(parse("radv-shim:navi31@trixie-backports").unwrap().folder, &folders::TRIXIE);
        assert_eq!(parse("honeykrisp-shim@trixie-backports").unwrap().to_string(), "honeykrisp-shim");
    }

    #[test]
    fn the_patched_driver_plays_what_its_shim_knows() {
        assert_eq!(parse("radv-shim:gfx1201@patched").unwrap().folder, &folders::PATCHED);
        assert_eq!(parse("radv-shim:navi21@patched").unwrap().label(), "radv");
        assert!(parse("radv-shim:navi33@patched").unwrap_err().contains("trixie-backports"));
        // Honeykrisp of that Mesa opens no device.
        assert!(parse("honeykrisp-shim@patched").is_err());
    }

    #[test]
    fn an_unknown_chip_is_named_beside_the_known_ones() {
        let error = parse("radv-shim:navi99").unwrap_err();
        assert!(error.contains("'navi99'") && CHIPS.iter().all(|c| error.contains(c.name)), "{error}");
        for text in ["radv-shim", "radv-shim:", "radv-shim:NAVI31", "nvk-shim", "honeykrisp-shim:m1"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("gfx1201"), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_that_does_not_know_the_chip_is_refused_with_those_that_do() {
        let error = parse("radv-shim:gfx1201@bookworm-backports").unwrap_err();
        assert!(error.contains("trixie-backports"), "{error}");
        let error = parse("radv-shim:navi31@sid").unwrap_err();
        assert!(error.contains("bookworm-backports and trixie-backports"), "{error}");
    }

    #[test]
    fn what_executes_is_no_shim() {
        for text in ["auto", "radv", "honeykrisp", "lavapipe", "name:x-shim", "name:radv-shim"] {
            assert!(!ShimDriver::is_meant(text), "{text}");
        }
    }

    #[test]
    fn chips_whose_names_begin_alike_are_not_mistaken_for_each_other() {
        // RAVEN is the beginning of RAVEN2: a device of the latter must not pass for the former.
        let raven = parse("radv-shim:raven").unwrap();
        assert!(launch::plays(raven, "AMD Radeon Vega 10 Graphics (RADV RAVEN)"));
        assert!(!launch::plays(raven, "AMD Radeon Graphics (RADV RAVEN2)"));
    }
}
