//! The command `zinc-barrier`; everything is in the library.

fn main() -> std::process::ExitCode {
    zinc_barrier::cli::main(std::env::args_os())
}
