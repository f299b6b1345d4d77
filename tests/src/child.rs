//! Child processes with a known environment and an end.
//!
//! Three things make a test of a child trustworthy. Its environment holds what was put there and nothing that happens
//! to be set in the shell. It ends, since a barrier that is lost may well hang a driver, and a test that waits for
//! ever reports nothing. And when an expectation fails, the message shows everything the child said.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest that a child may take on a machine that has nothing else to do, unless a test says otherwise.
const LIMIT: Duration = Duration::from_secs(120);

/// Variables that children inherit; everything else is set by tests.
const INHERITED: [&str; 5] = ["PATH", "LANG", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH"];

/// A program about to be started.
#[derive(Debug)]
pub struct Child {
    command: Command,
    limit: Duration,
    input: Option<Vec<u8>>,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was run, for messages.
    pub what: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

/// How many processes share a processor here, 1 where there is room: a limit that is right on an idle machine is wrong by
/// this on one that has other work.
fn crowding() -> f64 {
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    crowding_of(&std::fs::read_to_string("/proc/loadavg").unwrap_or_default(), processors)
}

/// The same from the text of `/proc/loadavg`, of which the last minute counts.
fn crowding_of(load: &str, processors: usize) -> f64 {
    let load: f64 = load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    (load / processors as f64).clamp(1.0, 20.0)
}

impl Child {
    /// A program with an empty environment but for `PATH` and the few variables that every child inherits.
    pub fn new(program: impl AsRef<OsStr>) -> Child {
        let mut command = Command::new(program);
        command.env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Child { command, limit: LIMIT, input: None }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Child {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Child {
        self.command.args(args);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Child {
        self.command.env(name, value);
        self
    }

    /// Sets variables.
    #[must_use]
    pub fn envs(mut self, variables: &[(String, OsString)]) -> Child {
        self.command.envs(variables.iter().map(|(name, value)| (name, value)));
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Child {
        self.command.env_remove(name);
        self
    }

    /// Runs it in a folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Child {
        self.command.current_dir(folder);
        self
    }

    /// Gives it something to read from standard input.
    #[must_use]
    pub fn input(mut self, text: &str) -> Child {
        self.input = Some(text.as_bytes().to_vec());
        self
    }

    /// Lets it run longer, or shorter, than two minutes.
    #[must_use]
    pub fn limit(mut self, seconds: u64) -> Child {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// When it can't be started, and when it takes longer than its limit (it is killed then).
    pub fn run(mut self) -> Ended {
        let what = format!("{:?}", self.command.get_program());
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let spawned = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|e| panic!("cannot start {what}: {e}"));
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let stdin = child.stdin.take();
        let input = self.input.take();
        let writer = thread::spawn(move || {
            if let (Some(mut pipe), Some(bytes)) = (stdin, input) {
                // A child that ends before it has read everything is no fault of the test.
                let _ = std::io::Write::write_all(&mut pipe, &bytes);
            }
        });
        let started = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None)
                    if started.elapsed() > self.limit
                        && started.elapsed() > self.limit.mul_f64(crowding()) =>
                {
                    // It may have ended in this very moment; the panic below is right all the same.
                    let _ = child.kill();
                    let _ = child.wait();
                    panic!(
                        "{what} was still running after {:?}; it said:\n{}",
                        self.limit,
                        stderr.join().unwrap()
                    );
                }
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(e) => panic!("cannot wait for {what}: {e}"),
            }
        };
        writer.join().expect("writing to a pipe does not panic");
        let text = |thread: thread::JoinHandle<String>| thread.join().expect("reading a pipe does not panic");
        Ended { what, status, stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Reads a pipe to its end, in a thread of its own so that no child blocks on a full pipe.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Ended {
    /// The exit status; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Everything it said, for messages.
    pub fn transcript(&self) -> String {
        format!(
            "{} ended with {}\n--- stdout\n{}\n--- stderr\n{}",
            self.what, self.status, self.stdout, self.stderr
        )
    }

    /// Itself, if it succeeded.
    ///
    /// # Panics
    ///
    /// With the transcript, if it did not.
    pub fn succeeded(self) -> Ended {
        assert!(self.status.success(), "{}", self.transcript());
        self
    }

    /// Itself, if it ended as programs do that were given something wrong: with this exit status and a message on
    /// stderr that contains all of `words` (in any letter case), without a panic.
    ///
    /// # Panics
    ///
    /// With the transcript, if it did not.
    pub fn refused(self, code: i32, words: &[&str]) -> Ended {
        assert_eq!(self.code(), Some(code), "{}", self.transcript());
        let said = self.stderr.to_lowercase();
        for word in words {
            assert!(
                said.contains(&word.to_lowercase()),
                "the message does not mention '{word}': {}",
                self.transcript()
            );
        }
        assert!(!said.contains("panicked"), "{}", self.transcript());
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    ///
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.transcript()))
    }
}

#[cfg(test)]
mod tests {
    use super::crowding_of;

    #[test]
    fn limits_are_longer_where_processes_share_a_processor() {
        assert_eq!(crowding_of("0.30 2.10 3.00 1/160 7\n", 2), 1.0);
        assert_eq!(crowding_of("9.00 2.10 3.00 9/160 7\n", 2), 4.5);
        assert_eq!(crowding_of("999.00 2 3 9/160 7\n", 2), 20.0);
        assert_eq!(crowding_of("", 2), 1.0, "a system that does not say");
    }
}
