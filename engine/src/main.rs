//! The command `engine`.

use std::process::ExitCode;

use clap::Parser;
use zinc_engine::{cli::Cli, commands};

fn main() -> ExitCode {
    match commands::execute(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
