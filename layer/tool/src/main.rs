//! The command `zinc-barrier`, which puts the layer in its place and reads what it left behind.

mod cli;
mod doctor;
mod explain;
mod overrides;
mod places;
mod probe;

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os())
}
