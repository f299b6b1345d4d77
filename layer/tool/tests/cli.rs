//! The command `zinc-barrier` as its users run it: a process with a home folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zinc_report::{Counts, Device, DeviceType, Hazards, Report};

/// A temporary home, a file that passes for the layer's library, and the command.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap() };
        fs::write(home.path("layer.so"), b"\x7fELF and so on").unwrap();
        // Of the machine's own folders only its drivers: what layers are installed there is not this test's business.
        fs::create_dir_all(home.path("machine/vulkan")).unwrap();
        std::os::unix::fs::symlink("/usr/share/vulkan/icd.d", home.path("machine/vulkan/icd.d")).unwrap();
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc-barrier"));
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in
            variables.filter(|n| ["XDG_", "VK_", "ZINC_"].iter().any(|p| n.to_string_lossy().starts_with(p)))
        {
            command.env_remove(name);
        }
        command.args(arguments).env("HOME", self.folder.path()).env_remove("DISABLE_ZINC_BARRIER");
        command.env("XDG_DATA_DIRS", self.path("machine")).env("XDG_CONFIG_DIRS", self.path("machine"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed; returns what it printed.
    fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that must fail with `status`, print nothing and explain itself; returns the explanation.
    fn bad(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        text(&output.stderr)
    }

    /// Installs the library that was built.
    fn install_built(&self) {
        let command = Path::new(env!("CARGO_BIN_EXE_zinc-barrier"));
        let library = command.with_file_name("deps").join("libzinc_barrier.so");
        self.good(&["install", "--library", &library.display().to_string()]);
    }

    fn install(&self, place: &[&str]) -> String {
        let library = self.path("layer.so").display().to_string();
        self.good(&[&["install", "--library", &library], place].concat())
    }

    /// Every file and folder below the home, with its permissions and its content.
    fn everything(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        fn walk(folder: &Path, into: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                if path.is_dir() {
                    walk(&path, into);
                }
                into.insert(path.clone(), (mode, fs::read(&path).unwrap_or_default()));
            }
        }
        let mut all = BTreeMap::new();
        walk(self.folder.path(), &mut all);
        all
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const IMPLICIT: &str = ".local/share/vulkan/implicit_layer.d/zinc_barrier.json";
const EXPLICIT: &str = ".local/share/vulkan/explicit_layer.d/zinc_barrier.json";
const LIBRARY: &str = ".local/lib/zinc_barrier/libzinc_barrier.so";

#[test]
fn install_writes_the_library_and_both_manifests_and_names_them() {
    let home = Home::new();
    let printed = home.install(&["--user"]);
    for file in [IMPLICIT, EXPLICIT, LIBRARY] {
        assert!(printed.contains(&format!("wrote {}\n", home.path(file).display())), "{printed}");
    }
    let all = home.everything();
    assert_eq!(all[&home.path(LIBRARY)], (0o755, b"\x7fELF and so on".to_vec()));
    for (file, switches) in [(IMPLICIT, true), (EXPLICIT, false)] {
        let (mode, bytes) = &all[&home.path(file)];
        assert_eq!(*mode, 0o644);
        let manifest: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let name = if file == IMPLICIT { "VK_LAYER_ZINC_barrier" } else { "zinc_barrier" };
        assert_eq!(manifest["layer"]["name"], name);
        assert_eq!(manifest["layer"]["library_path"], home.path(LIBRARY).display().to_string());
        assert_eq!(manifest["layer"]["enable_environment"]["ZINC_BARRIER"] == "1", switches);
        assert_eq!(manifest["layer"]["disable_environment"]["DISABLE_ZINC_BARRIER"] == "1", switches);
    }
}

#[test]
fn installing_twice_is_installing_once_and_uninstalling_leaves_nothing() {
    let home = Home::new();
    let before = home.everything();
    home.install(&[]);
    let once = home.everything();
    home.install(&[]);
    assert_eq!(home.everything(), once);
    let printed = home.good(&["uninstall"]);
    assert_eq!(home.everything(), before, "{printed}");
    for file in [IMPLICIT, EXPLICIT, LIBRARY] {
        assert!(printed.contains(&format!("removed {}\n", home.path(file).display())), "{printed}");
    }
    assert!(home.good(&["uninstall"]).starts_with("nothing to remove"));
}

#[test]
fn uninstalling_keeps_what_others_own() {
    let home = Home::new();
    fs::create_dir_all(home.path(".local/share/vulkan/implicit_layer.d")).unwrap();
    let before = home.everything();
    home.install(&[]);
    let other = home.path(".local/share/vulkan/explicit_layer.d/other.json");
    fs::write(&other, "{}").unwrap();
    home.good(&["uninstall"]);
    assert!(other.exists() && !home.path(EXPLICIT).exists());
    fs::remove_file(&other).unwrap();
    let left: Vec<PathBuf> =
        home.everything().into_keys().filter(|path| !before.contains_key(path)).collect();
    assert_eq!(left, [home.path(".local/share/vulkan/explicit_layer.d")], "the folder of the other's file");
}

#[test]
fn a_manifest_of_somebody_else_under_our_name_is_not_removed() {
    let home = Home::new();
    home.install(&[]);
    fs::write(home.path(IMPLICIT), r#"{"layer": {"name": "other"}}"#).unwrap();
    let message = home.bad(1, &["uninstall"]);
    assert!(message.contains(IMPLICIT) && message.contains("not a manifest of zinc_barrier"), "{message}");
    assert!(home.path(IMPLICIT).exists());
}

#[test]
fn a_prefix_is_a_place_of_its_own() {
    let home = Home::new();
    let prefix = home.path("p").display().to_string();
    home.install(&["--prefix", &prefix]);
    assert!(home.path("p/share/vulkan/explicit_layer.d/zinc_barrier.json").is_file());
    assert!(home.path("p/lib/zinc_barrier/libzinc_barrier.so").is_file());
    assert!(!home.path(".local").exists());
    home.good(&["uninstall", "--prefix", &prefix]);
    assert!(!home.path("p").exists());
}

/// A file stands where a folder is needed: this stops root too, for whom no folder is read-only.
#[test]
fn an_unwritable_place_is_named_and_nothing_is_left_behind() {
    for blocked in [".local/lib", ".local/share/vulkan/explicit_layer.d", ".local"] {
        let home = Home::new();
        let blocked = home.path(blocked);
        fs::create_dir_all(blocked.parent().unwrap()).unwrap();
        fs::write(&blocked, "in the way").unwrap();
        let before = home.everything();
        let library = home.path("layer.so").display().to_string();
        let message = home.bad(1, &["install", "--library", &library]);
        assert!(
            message.contains(&blocked.display().to_string()) && message.contains("--prefix"),
            "{message}"
        );
        assert_eq!(home.everything(), before, "{message}");
    }
}

#[test]
fn a_library_that_is_missing_or_is_none_is_refused() {
    let home = Home::new();
    let message = home.bad(1, &["install", "--library", "/no/such.so"]);
    assert!(message.contains("/no/such.so"), "{message}");
    fs::write(home.path("layer.so"), "text").unwrap();
    let library = home.path("layer.so").display().to_string();
    let message = home.bad(1, &["install", "--library", &library]);
    assert!(message.contains("not a shared library"), "{message}");
    assert!(!home.path(".local").exists());
}

#[test]
fn without_a_home_the_remedy_is_named() {
    let home = Home::new();
    let library = home.path("layer.so");
    let output = home.command(&["install", "--library"]).arg(library).env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--prefix"), "{}", text(&output.stderr));
}

#[test]
fn usage_errors_exit_with_2_and_help_with_0() {
    let home = Home::new();
    assert!(home.bad(2, &["instal"]).contains("install"));
    assert!(home.bad(2, &["install", "--user", "--system"]).contains("cannot be used with"));
    assert!(home.bad(2, &["report"]).contains("FILE"));
    assert!(home.good(&["--help"]).contains("VK_INSTANCE_LAYERS=zinc_barrier"));
    assert!(home.good(&["variables"]).contains("ZINC_BARRIER_OUT_OF_BOUNDS"));
}

#[test]
fn the_doctor_names_the_loader_and_says_that_nothing_is_installed() {
    let home = Home::new();
    let printed = home.good(&["doctor"]);
    assert!(printed.contains("libvulkan.so.1") && printed.contains("Vulkan 1."), "{printed}");
    assert!(printed.contains("not installed; run 'zinc-barrier install --user'"), "{printed}");
    assert!(printed.contains("VK_INSTANCE_LAYERS=zinc_barrier: not inserted"), "{printed}");
    assert_eq!(home.run(&["doctor", "--check"]).status.code(), Some(1));
}

/// The manifests against the real loader: whatever it is, it must take them.
#[test]
fn the_real_library_is_inserted_both_ways_after_install() {
    let home = Home::new();
    home.install_built();
    let printed = home.good(&["doctor", "--check"]);
    let inserted = format!("inserted, from {}", home.path(LIBRARY).canonicalize().unwrap().display());
    for way in ["VK_INSTANCE_LAYERS=zinc_barrier", "ZINC_BARRIER=1"] {
        assert!(printed.contains(&format!("{way}: {inserted}")), "{printed}");
    }
    assert!(printed.contains("this environment as it is: not inserted"), "{printed}");
    home.good(&["uninstall"]);
    assert_eq!(home.run(&["doctor", "--check"]).status.code(), Some(1));
}

/// An overriding layer, as Vulkan Configurator wrote it before its version 3, which every loader knows.
#[test]
fn the_doctor_names_a_file_of_another_program_that_keeps_the_layer_out() {
    let home = Home::new();
    home.install_built();
    let overriding = home.path(IMPLICIT).with_file_name("VkLayer_override.json");
    let layer = |name: &str| {
        serde_json::json!({"file_format_version": "1.1.2", "layer": {
            "name": name, "type": "GLOBAL", "api_version": "1.3.0", "implementation_version": "1", "description": "",
            "component_layers": [], "blacklisted_layers": ["zinc_barrier"],
            "disable_environment": {"DISABLE_VK_LAYER_LUNARG_override": "1"},
        }})
        .to_string()
    };
    fs::write(&overriding, layer("VK_LAYER_LUNARG_override")).unwrap();
    let output = home.run(&["doctor", "--check"]);
    let printed = text(&output.stdout);
    let words = format!("{} keeps the layer out of every program", overriding.display());
    assert!(output.status.code() == Some(1) && printed.contains(&words), "{printed}");
    assert!(!printed.contains("nothing is wrong"), "{printed}");
    // The control: the same file, of a layer that overrides nothing.
    fs::write(&overriding, layer("VK_LAYER_other")).unwrap();
    home.good(&["doctor", "--check"]);
}

#[test]
fn the_doctor_finds_the_manifests_and_a_library_that_cannot_be_opened() {
    let home = Home::new();
    home.install(&[]);
    let printed = home.good(&["doctor"]);
    for file in [IMPLICIT, EXPLICIT] {
        let line =
            format!("{} -> {} (cannot be used)", home.path(file).display(), home.path(LIBRARY).display());
        assert!(printed.contains(&line), "{printed}");
    }
    fs::remove_file(home.path(LIBRARY)).unwrap();
    let printed = home.good(&["doctor"]);
    assert!(printed.contains("does not exist; run 'zinc-barrier install' again"), "{printed}");
}

#[test]
fn the_doctor_names_variables_that_keep_the_layer_out() {
    let home = Home::new();
    let output = home
        .command(&["doctor"])
        .env("DISABLE_ZINC_BARRIER", "1")
        .env("VK_LOADER_LAYERS_DISABLE", "~implicit~")
        .env("ZINC_BARRIER_POLICY", "fast")
        .output()
        .unwrap();
    let printed = text(&output.stdout);
    for words in
        ["DISABLE_ZINC_BARRIER is set", "VK_LOADER_LAYERS_DISABLE keeps", "ZINC_BARRIER_POLICY='fast'"]
    {
        assert!(printed.contains(words), "{words} is missing in\n{printed}");
    }
}

fn sample() -> Report {
    let device = Device {
        name: "llvmpipe".into(),
        driver: "llvmpipe".into(),
        driver_version: "Mesa".into(),
        api_version: "1.3.230".into(),
        device_type: DeviceType::Cpu,
        number: 0,
    };
    let mut report = Report::new("0.1.0", device, "alias-only", true);
    report.totals = Counts {
        submits: 1,
        command_buffers: 1,
        dispatches: 455,
        barriers_asked: 306,
        barriers_emitted: 300,
        barriers_elided: 6,
        hazards: Hazards { raw: 300, ..Hazards::default() },
        ..Counts::default()
    };
    report.add_standard_notes();
    report
}

#[test]
fn a_report_is_printed_as_a_table() {
    let home = Home::new();
    let path = home.path("r.json").display().to_string();
    fs::write(&path, sample().to_json()).unwrap();
    let printed = home.good(&["report", &path, &path]);
    assert_eq!(printed, format!("{0}\n{0}", sample().table()));
    assert!(printed.contains("policy alias-only") && printed.contains("in-order CPU device"), "{printed}");
}

#[test]
fn a_file_that_is_no_report_is_named_and_nothing_is_printed() {
    let home = Home::new();
    let good = home.path("good.json").display().to_string();
    fs::write(&good, sample().to_json()).unwrap();
    let other_version = sample().to_json().replace("\"schema\": 2", "\"schema\": 1");
    for (content, words) in [("{}", "not a report"), ("{", "not a JSON"), (&other_version, "schema 1")] {
        let path = home.path("bad.json").display().to_string();
        fs::write(&path, content).unwrap();
        let message = home.bad(1, &["report", &good, &path]);
        assert!(message.contains(&path) && message.contains(words), "{message}");
    }
    assert!(home.bad(1, &["report", "/no/such.json"]).contains("/no/such.json"));
}
