//! The command `engine`.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use zinc_engine::{cli::Cli, commands};

fn main() -> ExitCode {
    match commands::execute(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::FAILURE,
        Err(error) => {
            // Nobody may be reading; the exit status says it too.
            let _ = writeln!(std::io::stderr(), "error: {}", commands::printable(&error.to_string()));
            ExitCode::from(error.exit_status())
        }
    }
}
