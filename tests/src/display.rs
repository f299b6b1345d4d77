//! A virtual X server for windowed programs, on a display number of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A running Xvfb; dropping it ends it.
#[derive(Debug)]
pub struct Display {
    server: Child,
    name: String,
}

impl Display {
    /// Starts a server without a network port. `Err` says why there is none, in one line, for `oracle::not_run`.
    ///
    /// # Errors
    ///
    /// When Xvfb is not installed or does not come up.
    pub fn start() -> Result<Display, String> {
        let mut command = Command::new("Xvfb");
        // The server chooses a free number, and says which once it listens.
        command.args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"]);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let server = spawned.map_err(|e| format!("cannot start Xvfb ({e}): run tests/setup"))?;
        let mut display = Display { server, name: String::new() };
        let mut number = String::new();
        if let Some(pipe) = display.server.stdout.take() {
            // On an error the number stays empty.
            let _ = BufReader::new(pipe).read_line(&mut number);
        }
        let number = number.trim();
        if number.is_empty() {
            return Err("Xvfb ended before it listened".into());
        }
        display.name = format!(":{number}");
        Ok(display)
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
