//! The library as it is used, with this system's own dynamic loader in the place of a shim's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use zinc_start_core::{Place, VARIABLE, version_of_loader};

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A place with a library to preload that is seen in a process's memory, and a folder for scripts.
struct Bench {
    folder: TempDir,
    place: Place,
}

impl Bench {
    fn new() -> Bench {
        let folder = TempDir::new().unwrap();
        let library = library();
        let stand_in = folder.path().join("stand-in.so");
        std::fs::copy(&library, &stand_in).unwrap();
        let libc = version_of_loader(&std::fs::read(LOADER).unwrap()).expect("the loader's version");
        let place = Place {
            loader: LOADER.into(),
            libraries: folder.path().join("lib").into(),
            preload: stand_in.into(),
            libc,
        };
        Bench { folder, place }
    }

    fn script(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("script");
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        path
    }

    /// Runs a script with the library in front.
    fn run(&self, text: &str) -> Output {
        let mut command = Command::new(self.script(text));
        command.env("LD_PRELOAD", library()).env(VARIABLE, self.place.to_value()).arg("an argument");
        command.output().unwrap()
    }
}

/// Cargo puts this test in `deps`, and the library next to it.
fn library() -> PathBuf {
    let path = std::env::current_exe().unwrap().with_file_name("libzinc_start.so");
    assert!(path.is_file(), "{} was not built: run the whole package's tests", path.display());
    path
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_scripts_interpreter_and_its_children_are_started_at_the_place() {
    let bench = Bench::new();
    let text =
        "#!/bin/sh\necho \"$1\"\ngrep -c stand-in.so /proc/$$/maps\ngrep -c stand-in.so /proc/self/maps\n";
    let output = said(&bench.run(text));
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "an argument");
    for count in &lines[1..] {
        assert_ne!(*count, "0", "{output}");
    }
    assert_eq!(lines.len(), 3, "{output}");
    // Without the library no process has it: what is asked can tell.
    let plain = Command::new(bench.script(text)).output().unwrap();
    assert!(String::from_utf8_lossy(&plain.stdout).ends_with("\n0\n0\n"), "{plain:?}");
}

#[test]
fn a_program_behind_a_loader_of_its_own_is_started_at_the_place_and_finds_its_libraries() {
    let bench = Bench::new();
    let text = format!("#!/bin/sh\nexec {LOADER} --library-path /own/lib /bin/cat /proc/self/cmdline\n");
    let output = said(&bench.run(&text)).replace('\0', " ");
    let expected = format!(
        "{LOADER} --library-path {}:/own/lib --preload {} /bin/cat /proc/self/cmdline ",
        bench.place.libraries.display(),
        bench.place.preload.display()
    );
    assert_eq!(output, expected);
}

#[test]
fn a_program_finds_its_own_file_where_it_would_without_a_loader() {
    let bench = Bench::new();
    let output = said(&bench.run(
        "#!/bin/sh\nreadlink /proc/self/exe\nrealpath /proc/self/exe\nreadlink /proc/1/exe || echo no\n",
    ));
    let file = |name: &str| {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        found.iter().find_map(|path| path.canonicalize().ok()).unwrap()
    };
    let mut lines = output.lines();
    assert_eq!(lines.next().map(Path::new), Some(&*file("readlink")));
    assert_eq!(lines.next().map(Path::new), Some(&*file("realpath")));
    assert_ne!(lines.next().map(Path::new), Some(&*file("readlink")), "another process's file is its own");
}

#[test]
fn a_value_that_is_no_place_is_said_and_the_program_goes_on() {
    let bench = Bench::new();
    let script = bench.script("#!/bin/sh\necho here\n");
    let output =
        Command::new(script).env("LD_PRELOAD", library()).env(VARIABLE, "nonsense").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains(VARIABLE));
}

#[test]
fn a_place_whose_loader_is_gone_is_said_and_the_program_goes_on() {
    let bench = Bench::new();
    let place = Place { loader: "/nowhere/ld.so".into(), ..bench.place.clone() };
    let script = bench.script("#!/bin/sh\necho here\n");
    let output =
        Command::new(script).env("LD_PRELOAD", library()).env(VARIABLE, place.to_value()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not started on the shim"));
}
