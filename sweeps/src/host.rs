//! The machine and the source, as far as a reader of the report needs them: what the rates depend on and nothing
//! that names a person or a folder.

use std::path::Path;

use crate::report::{Git, Host};

/// Seconds since 1970; 0 where the clock stands before that.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// This machine.
pub fn host() -> Host {
    let uname = rustix::system::uname();
    let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let machine = uname.machine().to_string_lossy().into_owned();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    Host {
        cpu: cpu_name(&read("/proc/cpuinfo")).unwrap_or(machine),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        os: match os_name(&read("/etc/os-release")) {
            Some(name) => format!("{name}, {kernel}"),
            None => kernel,
        },
    }
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    let value = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_string())
    })?;
    (!value.is_empty()).then_some(value)
}

fn os_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim_matches('"');
    (!value.is_empty()).then(|| value.to_string())
}

/// The source that this program was built from. `None` where that was no checkout.
pub fn git() -> Option<Git> {
    let commit = env!("ZINC_BUILD_COMMIT");
    let dirty = env!("ZINC_BUILD_CHANGED") == "true";
    (!commit.is_empty()).then(|| Git { commit: commit.into(), dirty })
}

/// BLAKE3 of a file, hexadecimal; `None` if it cannot be read.
pub fn blake3_of(path: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path).ok()?).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_systems_own_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags : x\n";
        assert_eq!(cpu_name(cpuinfo).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(cpu_name("CPU implementer : 0x41\n"), None);
        let release = "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(os_name(release).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(os_name(""), None);
    }

    #[test]
    fn a_file_has_the_digest_that_b3sum_prints_and_a_missing_one_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        std::fs::write(&path, "").unwrap();
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(blake3_of(&path).as_deref(), Some(empty));
        assert_eq!(blake3_of(&folder.path().join("missing")), None);
    }
}
