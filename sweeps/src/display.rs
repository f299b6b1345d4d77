//! A virtual X server for the gate that looks at windows, and for the tests that do.
//!
//! Whatever the owner's own screen shows must have no part in a result, so the server is the sweep's own: it chooses a
//! free display, listens on no network, and ends with the run.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A running Xvfb; dropping it ends it.
#[derive(Debug)]
pub struct Display {
    server: Child,
    name: String,
}

impl Display {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// In words, when Xvfb is not installed or does not come up.
    pub fn start() -> Result<Display, String> {
        let server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start Xvfb, which windows need ({e}): run tests/setup"))?;
        let mut display = Display { server, name: String::new() };
        let mut number = String::new();
        if let Some(pipe) = display.server.stdout.take() {
            // It writes the number once it listens, or ends and closes the pipe; then the number stays empty.
            let _ = BufReader::new(pipe).read_line(&mut number);
        }
        match number.trim() {
            "" => Err("Xvfb, which windows need, ended before it listened".into()),
            number => {
                display.name = format!(":{number}");
                Ok(display)
            }
        }
    }

    /// The value for `DISPLAY`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing left to end.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
