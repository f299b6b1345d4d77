//! A child process that cannot take the sweep with it.
//!
//! The child gets a process group of its own, a limited time, no standard input, and two pipes that are drained to
//! the end but kept only up to a limit. Whatever it leaves running is killed with it. Waiting is done without
//! reaping (`WNOWAIT`) so that the group's id cannot pass to a stranger between the child's end and the kill.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::digest::Digester;

/// Bytes kept of each of the child's streams.
pub const KEPT: usize = 8 << 20;

/// How long to wait for the pipes to close once the child's group is dead; only a process that left the group can
/// hold them open longer.
const DRAIN: Duration = Duration::from_secs(2);

/// A child that ended by itself.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed, up to a limit of some megabytes.
    pub stdout: Vec<u8>,
    /// What it said on stderr, up to the same limit.
    pub stderr: Vec<u8>,
    /// Bytes printed to standard output and to stderr, kept or not.
    pub printed: (u64, u64),
    /// The digest of standard output to its last byte, where one was asked for; `None` also where a process that the child
    /// left behind held the pipe open, so that the end was never seen.
    pub digest: Option<String>,
    /// Wall time from start to end.
    pub wall: Duration,
    /// CPU time of the child and of the children that it waited for.
    pub cpu: Duration,
}

impl Finished {
    /// Whether more was printed, on either stream, than was kept.
    pub fn cut(&self) -> bool {
        self.printed.0 > self.stdout.len() as u64 || self.printed.1 > self.stderr.len() as u64
    }
}

/// Why there is no [`Finished`].
#[derive(Debug)]
pub enum Unfinished {
    /// It could not be started, or not be waited for.
    Start(std::io::Error),
    /// It was killed after the time allowed.
    TimedOut,
    /// It was killed because the sweep was asked to stop.
    Interrupted,
}

/// Runs `command` to its end, for at most `timeout`, or until `stop` is set.
///
/// # Errors
///
/// [`Unfinished`] when there is no end to speak of; the child and its group are dead then too.
pub fn run(command: Command, timeout: Duration, stop: &AtomicBool) -> Result<Finished, Unfinished> {
    run_digested(command, timeout, stop, None)
}

/// The same with a digest of all of standard output, also of what is not kept.
///
/// # Errors
///
/// As [`run`].
pub fn run_digested(
    mut command: Command,
    timeout: Duration,
    stop: &AtomicBool,
    digester: Option<Digester>,
) -> Result<Finished, Unfinished> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // A sweep that is killed must not leave a child that takes time from the one that goes on with it.
    // SAFETY: prctl is a plain system call and may stand between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(Unfinished::Start)?;
    let stdout = child.stdout.take().map(|pipe| Drained::new(pipe, digester));
    let stderr = child.stderr.take().map(|pipe| Drained::new(pipe, None));
    let pid = Pid::from_child(&child);
    let waited = wait(pid, started + timeout, stop);
    let wall = started.elapsed();
    // The child is running or not yet reaped, so the group is still its own. A group that is gone is what is wanted.
    let _ = kill_process_group(pid, Signal::KILL);
    // The sweep has one child at a time, so what its children have used grows here by what this one did.
    let before = children_cpu();
    let status = child.wait().map_err(Unfinished::Start);
    let cpu = children_cpu().saturating_sub(before);
    let deadline = Instant::now() + DRAIN;
    let (stdout, stderr) = (
        stdout.map(|d| d.take(deadline)).unwrap_or_default(),
        stderr.map(|d| d.take(deadline)).unwrap_or_default(),
    );
    waited?;
    let printed = (stdout.printed, stderr.printed);
    let digest = stdout.digester.filter(|_| stdout.ended).map(Digester::finish);
    Ok(Finished { status: status?, stdout: stdout.kept, stderr: stderr.kept, printed, digest, wall, cpu })
}

/// CPU time of all children that were waited for.
fn children_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage`, which the call fills and for which all zeros are valid too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |t: libc::timeval| Duration::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Returns when the process has ended, without reaping it.
fn wait(pid: Pid, deadline: Instant, stop: &AtomicBool) -> Result<(), Unfinished> {
    let mut pause = Duration::from_millis(1);
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), options) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Unfinished::Start(error.into())),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Unfinished::Interrupted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Unfinished::TimedOut);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// What came through a pipe.
#[derive(Default)]
struct Stream {
    kept: Vec<u8>,
    printed: u64,
    digester: Option<Digester>,
    /// Whether the end of the stream was seen.
    ended: bool,
}

impl Stream {
    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.printed += bytes.len() as u64;
        if let Some(digester) = &mut self.digester {
            digester.add(bytes);
        }
    }
}

/// A pipe that a thread reads to its end, so that the child never blocks on it.
struct Drained {
    stream: Arc<Mutex<Stream>>,
    ended: mpsc::Receiver<()>,
}

impl Drained {
    fn new(mut pipe: impl Read + Send + 'static, digester: Option<Digester>) -> Drained {
        let stream = Arc::new(Mutex::new(Stream { digester, ..Stream::default() }));
        let (end, ended) = mpsc::channel();
        let shared = Arc::clone(&stream);
        std::thread::spawn(move || {
            let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
            let mut buffer = vec![0; 64 << 10];
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => {
                        lock().ended = true;
                        break;
                    }
                    Ok(n) => lock().add(&buffer[..n]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            // The receiver is gone where the deadline has passed.
            let _ = end.send(());
        });
        Drained { stream, ended }
    }

    fn take(self, deadline: Instant) -> Stream {
        let _ = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        std::mem::take(&mut self.stream.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name of a signal that ended a child, with its number.
pub fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL, which is also how the system ends a process that took too much memory",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return number.to_string(),
    };
    format!("{number} ({name})")
}

/// The last lines of a child's stderr, fit for a message of one line: at most `limit` characters.
pub fn tail(stderr: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let joined = lines[lines.len().saturating_sub(3)..].join(" / ");
    let clean: String = joined.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let skip = clean.chars().count().saturating_sub(limit);
    if skip == 0 { clean } else { format!("...{}", clean.chars().skip(skip).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn shell(script: &str, timeout: Duration) -> Result<Finished, Unfinished> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, timeout, &AtomicBool::new(false))
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn both_streams_and_the_exit_status_come_back() {
        let done = shell("echo out; echo err >&2; exit 7", LONG).unwrap();
        assert_eq!(
            (done.status.code(), &done.stdout[..], &done.stderr[..]),
            (Some(7), &b"out\n"[..], &b"err\n"[..])
        );
    }

    #[test]
    fn a_signal_is_seen_as_one() {
        assert_eq!(shell("kill -SEGV $$", LONG).unwrap().status.signal(), Some(11));
    }

    #[test]
    fn a_child_that_hangs_is_killed_with_its_own_children() {
        let started = Instant::now();
        let result = shell("sleep 1000 & sleep 1000", Duration::from_millis(200));
        assert!(matches!(result, Err(Unfinished::TimedOut)));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_a_child_leaves_running_does_not_hold_up_the_sweep() {
        let started = Instant::now();
        let done = shell("sleep 1000 & echo done", LONG).unwrap();
        assert_eq!(done.stdout, b"done\n");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn output_without_end_is_cut_and_does_not_fill_the_memory() {
        let done = shell("head -c 20000000 /dev/zero", LONG).unwrap();
        assert_eq!(done.stdout.len(), KEPT);
        assert!(done.cut());
        assert_eq!(done.printed, (20_000_000, 0));
    }

    #[test]
    fn output_that_just_fits_is_not_cut() {
        let done = shell(&format!("head -c {KEPT} /dev/zero"), LONG).unwrap();
        assert_eq!((done.stdout.len(), done.cut()), (KEPT, false));
    }

    fn digest(script: &str) -> Option<String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_digested(command, LONG, &AtomicBool::new(false), Some(Digester::new(&[]))).unwrap().digest
    }

    #[test]
    fn the_digest_covers_what_is_not_kept() {
        let zeros = |last: &str| format!("head -c 20000000 /dev/zero; printf {last}");
        let whole = [&[0; 20_000_000][..], b"a\n"].concat();
        assert_eq!(digest(&zeros("a")), Some(blake3::hash(whole.trim_ascii_end()).to_hex().to_string()));
        assert_ne!(digest(&zeros("a")), digest(&zeros("b")));
    }

    #[test]
    fn output_whose_end_was_not_seen_has_no_digest() {
        assert_eq!(digest("echo x; setsid sleep 20 & sleep 0.5"), None);
        assert!(digest("echo x").is_some());
    }

    #[test]
    fn a_stop_from_outside_ends_the_child() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        assert!(matches!(run(command, LONG, &AtomicBool::new(true)), Err(Unfinished::Interrupted)));
    }

    #[test]
    fn a_program_that_is_not_there_cannot_be_started() {
        let command = Command::new("/nonexistent/program");
        assert!(matches!(run(command, LONG, &AtomicBool::new(false)), Err(Unfinished::Start(_))));
    }

    #[test]
    fn the_end_of_stderr_fits_a_line() {
        assert_eq!(tail(b"a\n\n b \nc\nd\n", 100), "b / c / d");
        assert_eq!(tail(b"\x1b[31mred\n", 100), " [31mred");
        assert_eq!(tail("äöü".repeat(100).as_bytes(), 3), "...äöü");
        assert_eq!(tail(b"", 10), "");
    }
}
