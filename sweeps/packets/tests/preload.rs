//! The library as it is used: in front of a program that knows nothing of it, with a fake kernel behind it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use zinc_packets_core::report::{Pm4, Report};

/// Cargo puts this test in `deps`, the library beside it and the examples in the folder next to that.
fn built(example: Option<&str>) -> PathBuf {
    let deps = std::env::current_exe().expect("this test").parent().expect("a folder").to_owned();
    let path = match example {
        Some(name) => deps.parent().expect("a folder").join("examples").join(name),
        None => deps.join("libzinc_packets.so"),
    };
    assert!(path.exists(), "{} was not built: run the whole package's tests", path.display());
    path
}

struct Run {
    folder: TempDir,
    output: Output,
}

impl Run {
    /// Runs the submitter with `preload` in front and the report going to `report` in a folder of its own.
    fn new(preload: &[&Path], report: Option<&str>, arguments: &[&str], refuse: bool) -> Self {
        let folder = TempDir::new().expect("a folder");
        let mut command = Command::new(built(Some("submitter")));
        let preload: Vec<_> = preload.iter().map(|path| path.to_str().expect("UTF-8")).collect();
        command.args(arguments).env("LD_PRELOAD", preload.join(" ")).env_remove("ZINC_BARRIER_PACKETS");
        if let Some(report) = report {
            command.env("ZINC_BARRIER_PACKETS", folder.path().join(report));
        }
        if refuse {
            command.env("FAKE_REFUSE", "1");
        }
        let output = command.output().expect("it starts");
        Self { folder, output }
    }

    fn counted(arguments: &[&str]) -> Self {
        Self::new(&[&built(None), &built(Some("libfake_kernel.so"))], Some("r.json"), arguments, false)
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn complained(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn report(&self) -> Report {
        let text = std::fs::read(self.folder.path().join("r.json"));
        let text = text.unwrap_or_else(|error| panic!("no report: {error}; {}", self.complained()));
        serde_json::from_slice(&text).expect("a report")
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    fn pm4(&self) -> Pm4 {
        let report = self.report();
        assert_eq!((report.schema, report.interposed_first, report.devices.len()), (1, true, 1));
        report.devices[0].total.pm4.clone().expect("amdgpu")
    }
}

#[test]
fn every_submission_of_every_thread_is_counted() {
    let run = Run::counted(&["return", "4", "100"]);
    assert!(run.output.status.success(), "{}", run.complained());
    let pm4 = run.pm4();
    assert_eq!((pm4.dispatches, pm4.cs_partial_flushes, pm4.acquires, pm4.packets), (400, 400, 400, 1600));
    assert_eq!((pm4.unknown, pm4.truncated, pm4.unreadable), (0, 0, 0));
    let op = &pm4.cache_ops[0];
    assert_eq!((op.register.as_str(), op.value.as_str(), op.count), ("GCR_CNTL", "0xc180", 400));
    assert_eq!(op.bits, ["GLK_INV", "GLV_INV", "GL2_INV", "GL2_WB"]);
    let device = &run.report().devices[0];
    assert_eq!((device.kernel.as_str(), device.generation, device.queues.len()), ("3.1.4", Some(11), 4));
    // One more was submitted with addresses that lead nowhere: counted, admitted, and harmless.
    assert_eq!((device.submits, device.unreadable_submits), (401, 1));
}

#[test]
fn the_program_sees_the_same_whether_counted_or_not() {
    let (counter, kernel) = (built(None), built(Some("libfake_kernel.so")));
    for refuse in [false, true] {
        let arguments = ["return", "2", "10"];
        let alone = Run::new(&[&kernel], Some("r.json"), &arguments, refuse);
        let off = Run::new(&[&counter, &kernel], None, &arguments, refuse);
        let on = Run::new(&[&counter, &kernel], Some("r.json"), &arguments, refuse);
        assert!(alone.output.status.success() && !alone.said().is_empty());
        assert_eq!((alone.said(), alone.output.status), (off.said(), off.output.status));
        assert_eq!((alone.said(), alone.output.status), (on.said(), on.output.status));
        assert_eq!(on.complained(), "");
        assert!(off.files().is_empty() && alone.files().is_empty());
        let device = &on.report().devices[0];
        let expected = if refuse { (0, 21) } else { (21, 0) };
        assert_eq!((device.submits, device.failed_submits), expected);
    }
}

#[test]
fn a_refused_call_leaves_errno_as_the_kernel_set_it() {
    let preload = [built(None), built(Some("libfake_kernel.so"))];
    let run = Run::new(&[&preload[0], &preload[1]], Some("r.json"), &["return", "1", "3"], true);
    assert_eq!(run.said(), format!("failed 3 wild -1 errno {} generation 11\n", libc::ENOMEM));
}

#[test]
fn a_program_that_ends_by_exit_without_handlers_still_reports() {
    let run = Run::counted(&["_exit", "1", "5"]);
    assert_eq!(run.output.status.code(), Some(7));
    assert_eq!(run.pm4().dispatches, 5);
}

#[test]
fn a_program_that_ends_inside_a_signal_handler_ends_with_its_status_and_soon() {
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let run = Run::counted(&["handler", "1", "5"]);
        assert_eq!(run.output.status.code(), Some(9), "{}", run.complained());
        assert!(start.elapsed().as_secs() < 30, "a clock ends it after two seconds at the latest");
        // The handler interrupted the program's allocator. The report needs none of it, so the clock did not ring.
        assert_eq!(run.pm4().dispatches, 5);
    }
}

#[test]
fn a_forked_child_does_not_report_its_parent_s_work_again() {
    let run = Run::new(
        &[&built(None), &built(Some("libfake_kernel.so"))],
        Some("%p.json"),
        &["fork", "1", "5"],
        false,
    );
    assert!(run.output.status.success(), "{}", run.complained());
    let files = run.files();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].trim_end_matches(".json").parse::<u32>().is_ok(), "%p is the process's number");
    let text = std::fs::read(run.folder.path().join(&files[0])).expect("the report");
    let report: Report = serde_json::from_slice(&text).expect("a report");
    assert_eq!(report.devices[0].total.pm4.as_ref().map(|pm4| pm4.dispatches), Some(10));
}

#[test]
fn the_wrong_order_is_named() {
    let run = Run::new(
        &[&built(Some("libfake_kernel.so")), &built(None)],
        Some("r.json"),
        &["return", "1", "5"],
        false,
    );
    assert!(run.output.status.success());
    assert!(run.complained().contains("put it first"), "{}", run.complained());
    assert!(run.files().is_empty());
}

#[test]
fn a_place_that_can_t_be_written_is_named_and_the_program_ends_as_it_would() {
    let run = Run::new(
        &[&built(None), &built(Some("libfake_kernel.so"))],
        Some("no/such/folder.json"),
        &["return", "1", "5"],
        false,
    );
    assert!(run.output.status.success());
    assert!(run.complained().contains("no/such/folder.json"), "{}", run.complained());
}

#[test]
fn a_program_without_a_device_writes_nothing_and_says_nothing() {
    let folder = TempDir::new().expect("a folder");
    let output = Command::new("/bin/echo")
        .arg("hello")
        .env("LD_PRELOAD", built(None))
        .env("ZINC_BARRIER_PACKETS", folder.path().join("r.json"))
        .output()
        .expect("it starts");
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"hello\n".as_slice(), b"".as_slice()));
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
}
