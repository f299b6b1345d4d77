//! Command lines in, command lines out.

use super::*;

fn place() -> Place {
    Place {
        loader: "/shim/ld.so".into(),
        libraries: "/shim/lib".into(),
        preload: "/kit/counter.so:/shim/lib/shim.so".into(),
        libc: (2, 41),
    }
}

fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(Into::into).collect()
}

/// A process of the system, which the kernel gave its dynamic loader.
fn plain(executable: &str, command: &str) -> Process {
    Process {
        words: words(command),
        executable: executable.into(),
        loader: "/lib64/ld-linux-x86-64.so.2".into(),
        by_loader: false,
        libc_folder: "/usr/lib/x86_64-linux-gnu".into(),
        libc: (2, 36),
        library_path: None,
    }
}

/// A process whose command line begins with a dynamic loader of the program's own.
fn loaded(command: &str, libc: Version) -> Process {
    Process {
        words: words(command),
        executable: "/app/ld.so".into(),
        loader: "/app/ld.so".into(),
        by_loader: true,
        libc_folder: "/app/lib".into(),
        libc,
        library_path: None,
    }
}

fn said(process: &Process) -> Option<String> {
    let words = restart(&place(), process)?;
    Some(words.join(OsStr::new(" ")).into_string().unwrap())
}

const OPTIONS: &str = "--preload /kit/counter.so:/shim/lib/shim.so";

#[test]
fn a_script_goes_on_in_its_interpreter_on_the_drivers_c_library() {
    let bash = plain("/usr/bin/bash", "/bin/bash ./wrapper -n 3");
    let expected = format!(
        "/shim/ld.so --library-path /shim/lib {OPTIONS} --argv0 /bin/bash /usr/bin/bash ./wrapper -n 3"
    );
    assert_eq!(said(&bash), Some(expected));
}

#[test]
fn libraries_that_the_caller_named_are_found_behind_the_drivers() {
    let app = Process { library_path: Some("/opt/app/lib".into()), ..plain("/opt/app/bin/app", "app") };
    let expected =
        format!("/shim/ld.so --library-path /shim/lib:/opt/app/lib {OPTIONS} --argv0 app /opt/app/bin/app");
    assert_eq!(said(&app), Some(expected));
    let nothing = Process { library_path: Some("".into()), ..plain("/opt/app/bin/app", "app") };
    assert!(said(&nothing).unwrap().contains("--library-path /shim/lib --preload"));
}

#[test]
fn a_program_with_an_older_loader_of_its_own_gets_the_drivers() {
    let app = loaded("/app/ld.so --library-path /app/lib /app/bin/app -x", (2, 40));
    let expected = format!("/shim/ld.so --library-path /shim/lib:/app/lib {OPTIONS} /app/bin/app -x");
    assert_eq!(said(&app), Some(expected));
    // The loader does not look at the variable where it has the option, so its folders do not count.
    let both = Process { library_path: Some("/not/this".into()), ..app };
    assert!(!said(&both).unwrap().contains("/not/this"));
}

#[test]
fn a_program_with_a_newer_loader_of_its_own_keeps_it_and_its_libraries_come_first() {
    let app = loaded("/app/ld.so --argv0 a --inhibit-cache --library-path /app/lib /app/bin/app", (2, 42));
    let expected = format!(
        "/app/ld.so --inhibit-cache --library-path /app/lib:/app/lib:/shim/lib {OPTIONS} --argv0 a /app/bin/app"
    );
    assert_eq!(said(&app), Some(expected));
}

#[test]
fn a_newer_system_runs_the_driver_on_its_own_c_library() {
    let app = Process { libc: (2, 43), ..plain("/usr/bin/app", "app") };
    let expected = format!(
        "/lib64/ld-linux-x86-64.so.2 --library-path /usr/lib/x86_64-linux-gnu:/shim/lib {OPTIONS} --argv0 app /usr/bin/app"
    );
    assert_eq!(said(&app), Some(expected));
}

#[test]
fn what_the_program_preloads_itself_comes_behind() {
    let app = loaded("/app/ld.so --preload /app/hook.so /app/bin/app", (2, 41));
    let text = said(&app).unwrap();
    assert!(text.contains("--preload /kit/counter.so:/shim/lib/shim.so:/app/hook.so "), "{text}");
}

#[test]
fn a_program_that_is_there_already_is_left_alone() {
    // What this very function returned must not be restarted, or processes would start for ever.
    for process in
        [plain("/usr/bin/bash", "bash x"), loaded("/app/ld.so --preload /h.so /app/bin/app", (2, 42))]
    {
        let again = restart(&place(), &process).unwrap();
        let executable = again[0].clone();
        let expected = if process.by_loader { "/app/bin/app" } else { "/usr/bin/bash" };
        assert_eq!(program(&place(), &process), None);
        let process = Process { words: again, by_loader: true, executable, ..process };
        assert_eq!(restart(&place(), &process), None);
        assert_eq!(program(&place(), &process), Some(OsStr::new(expected)));
    }
    // A program's own argument of that name is no option of a loader.
    let app = plain("/usr/bin/app", "app --preload /kit/counter.so:/shim/lib/shim.so");
    assert!(said(&app).is_some());
}

#[test]
fn a_loader_that_starts_no_program_is_left_alone() {
    for command in
        ["/app/ld.so --list /app/bin/app", "/app/ld.so --version", "/app/ld.so", "/app/ld.so --preload"]
    {
        assert_eq!(said(&loaded(command, (2, 41))), None, "{command}");
    }
}

#[test]
fn a_place_goes_through_its_variable() {
    assert_eq!(Place::from_value(&place().to_value()), Some(place()));
    for text in ["", "a\nb\nc", "a\nb\nc\nd", "a\nb\nc\n2.41\ne"] {
        assert_eq!(Place::from_value(OsStr::new(text)), None, "{text:?}");
    }
}

#[test]
fn versions_are_read_from_a_loader() {
    let file = b"\x7fELF..\0ld.so (Debian GLIBC 2.41-12) stable release version 2.41.\nCopyright\0";
    assert_eq!(version_of_loader(file), Some((2, 41)));
    assert_eq!(version_of_loader(b"#!/bin/sh\n# release version of a stand-in\n"), None);
    assert_eq!(version(b"2.9"), Some((2, 9)));
    assert!(version(b"2.41") > version(b"2.9"), "as numbers, not as text");
    assert_eq!((version(b"2"), version(b"x.1"), version(b"2.")), (None, None, None));
}
