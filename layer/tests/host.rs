//! What a host process may do with its descriptors and signals, and must come to no harm by.

mod mock;

use ash::vk;
use mock::App;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use zinc_report::{Report, WrittenAt};

/// How the host of this process behaves; unset in the tests themselves.
const HOST: &str = "ZINC_TESTS_HOST";

/// What [`submits_late`] submits.
static LATE: OnceLock<(App, vk::CommandBuffer)> = OnceLock::new();

extern "C" fn submits_late() {
    if let Some((app, commands)) = LATE.get() {
        (0..3).for_each(|_| app.submit(*commands));
    }
}

/// A host that makes a device and destroys it, so that a report is due on stderr, and does what `HOST` says in between.
#[test]
fn a_host() {
    let Ok(manner) = std::env::var(HOST) else { return };
    // Rust's own start-up ignores SIGPIPE; a host's does not.
    // SAFETY: the default action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    if manner == "submits late" {
        // Handlers run last first: this one after the layer's own, which is registered when the device is made.
        // SAFETY: the handler unwinds nowhere.
        unsafe { libc::atexit(submits_late) };
    }
    let negotiate = zinc_barrier::entry::negotiate as *const ();
    // SAFETY: one function pointer as another; the structure is the same.
    let app = App::new(unsafe { std::mem::transmute::<*const (), mock::Negotiate>(negotiate) });
    let commands = app.commands();
    app.begin(commands);
    app.end(commands);
    if manner == "forks" {
        // SAFETY: the child calls nothing but `exit`, which runs the handlers that the layer has registered.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::exit(0) };
        }
        let mut status = 0;
        // SAFETY: this host's own child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        let report = std::env::var("ZINC_BARRIER_REPORT").unwrap();
        assert!(!std::path::Path::new(&report).exists(), "the child has reported for its parent");
    }
    if let Some(end) = manner.strip_prefix("ends by ") {
        app.submit(commands);
        let report = std::env::var("ZINC_BARRIER_REPORT").unwrap();
        assert!(std::path::Path::new(&report).exists(), "written at the first submission");
        // The last moment before which all that was submitted is in the report.
        std::thread::sleep(std::time::Duration::from_millis(300));
        app.submit(commands);
        // SAFETY: ends this process at once, without handlers.
        unsafe {
            match end {
                "_exit" => libc::_exit(0),
                "abort" => libc::abort(),
                signal => libc::raise(signal.parse().unwrap()),
            }
        };
        unreachable!("the process has ended");
    }
    if manner == "becomes another" {
        app.submit(commands);
        let report = std::env::var_os("ZINC_BARRIER_REPORT").unwrap();
        let why = host("plain").env("ZINC_BARRIER_REPORT", report).exec();
        unreachable!("the process is another now: {why}");
    }
    if manner == "submits late" {
        app.submit(commands);
        assert!(LATE.set((app, commands)).is_ok());
        return;
    }
    if let Some(path) = manner.strip_prefix("reopens ") {
        let file = std::fs::File::create(path).unwrap();
        // SAFETY: this host's own descriptors.
        let second = unsafe { libc::dup2(file.as_raw_fd(), 2) };
        assert_eq!(second, 2, "the file is where stderr was");
    }
    if let Some(path) = manner.strip_prefix("closes all but ") {
        // As daemons do it.
        (2..64).for_each(|fd| {
            // SAFETY: this host's own, and the layer's, which must bear it.
            unsafe { libc::close(fd) };
        });
        let files: Vec<_> = (2..64).map(|n| std::fs::File::create(format!("{path}.{n}")).unwrap()).collect();
        drop(app);
        let written: u64 = files.iter().map(|f| f.metadata().unwrap().len()).sum();
        // Neither the test program's own end nor a panic has a stderr here.
        std::process::exit(if written == 0 { 0 } else { 3 });
    }
    drop(app);
}

/// The host in a process of its own.
fn host(manner: &str) -> Command {
    let mut host = mock::this_program();
    host.args(["--exact", "--nocapture", "a_host"]).env(HOST, manner).env_remove("ZINC_BARRIER_REPORT");
    host
}

#[test]
fn a_report_without_a_reader_does_not_end_the_host() {
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let status = host("plain").stdout(Stdio::null()).stderr(Stdio::from(write)).status().unwrap();
    assert!(status.success(), "{status}");
    // The control: with a reader there is a report.
    let output = host("plain").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("policy alias-only"), "{said}");
}

#[test]
fn a_report_that_is_never_read_does_not_block_the_host_for_ever() {
    let (read, write) = std::io::pipe().unwrap();
    // SAFETY: makes the pipe as small as it can be, and fills it.
    unsafe {
        let size = libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, 4096);
        let bytes = vec![0u8; usize::try_from(size).unwrap()];
        assert_eq!(libc::write(write.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()), bytes.len() as isize);
    }
    let mut child = host("plain").stdout(Stdio::null()).stderr(Stdio::from(write)).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    drop(read);
}

#[test]
fn a_report_goes_to_what_was_stderr_when_the_instance_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    let (mut read, write) = std::io::pipe().unwrap();
    let status = host(&format!("reopens {}", own.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::from(write))
        .status()
        .unwrap();
    let mut said = String::new();
    read.read_to_string(&mut said).unwrap();
    assert!(status.success() && said.contains("policy alias-only"), "{status}: {said}");
    assert_eq!(std::fs::read_to_string(own).unwrap(), "", "the host's own file");
}

#[test]
fn a_report_does_not_land_in_a_file_that_the_host_has_opened_in_place_of_all_that_was_open() {
    let folder = tempfile::tempdir().unwrap();
    let manner = format!("closes all but {}", folder.path().join("file").display());
    let output = host(&manner).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_forked_process_reports_nothing_of_its_parent_s() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let output = host("forks").env("ZINC_BARRIER_REPORT", &report).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(report.exists(), "the parent has reported");
}

/// The report of a host that behaves in this manner, and how it ended.
fn reported(manner: &str) -> (Report, std::process::ExitStatus) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let output = host(manner).env("ZINC_BARRIER_REPORT", &path).output().unwrap();
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stdout)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "and nothing else is left there");
    (Report::from_json(&text).unwrap(), output.status)
}

#[test]
fn a_host_that_ends_without_a_word_leaves_the_report_of_its_last_submissions() {
    for (end, code) in [("_exit", Some(0)), ("abort", None), ("15", None), ("9", None)] {
        let (report, status) = reported(&format!("ends by {end}"));
        assert_eq!(status.code(), code, "{end}: {status}");
        assert_eq!((report.totals.submits, report.written_at), (2, WrittenAt::Running), "{end}");
        assert!(report.notes.iter().any(|note| note.contains("while the process ran")), "{:?}", report.notes);
    }
    let (report, _) = reported("plain");
    assert_eq!(report.written_at, WrittenAt::DeviceDestruction, "the control");
}

#[test]
fn what_is_submitted_after_the_last_report_of_the_process_is_in_it() {
    let (report, status) = reported("submits late");
    assert!(status.success(), "{status}");
    assert_eq!((report.totals.submits, report.written_at), (4, WrittenAt::ProcessExit));
}

#[test]
fn a_process_that_becomes_another_program_leaves_a_report_of_each() {
    let left = |template: &str| {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join(template);
        let output = host("becomes another").env("ZINC_BARRIER_REPORT", report).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
        let mut submits: Vec<u64> = texts.map(|t| Report::from_json(&t).unwrap().totals.submits).collect();
        submits.sort_unstable();
        submits
    };
    assert_eq!(left("%p-%i-%d.json"), [0, 1]);
    assert_eq!(left("%p-%d.json"), [0], "the control: one process, so one file");
}
