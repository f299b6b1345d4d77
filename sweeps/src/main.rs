//! The command `sweep`: arguments in, exit status out. All work is in the library.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zinc_sweeps::cli::{Cli, Command};
use zinc_sweeps::error::SweepError;
use zinc_sweeps::report::Report;
use zinc_sweeps::shims::{on, setup};
use zinc_sweeps::{against, compare, cost, markdown, output, parts, reading, session, table};

fn main() -> ExitCode {
    let cli = Cli::from_process();
    if let Some(document) = cli.print_schema {
        return print(&document.schema_json(), 0);
    }
    match &cli.command {
        None => {}
        Some(Command::SetupShims(args)) => return setup::run(args).map_or_else(|e| fail(&e), ExitCode::from),
        Some(Command::Compare { a, b }) => {
            let text = reading::report(a).and_then(|a| Ok(compare::render(&a, &reading::report(b)?)));
            return text.map_or_else(|e| fail(&e), |text| print(&text, 0));
        }
        Some(Command::Against { table, reports }) => {
            return against(table, reports).map_or_else(|e| fail(&e), |(text, code)| print(&text, code));
        }
        Some(Command::Plan(args)) => {
            return parts::plan(args).map_or_else(|e| fail(&e), |text| print(&text, 0));
        }
        Some(Command::Merge(args)) => {
            return parts::merge(args).map_or_else(|e| fail(&e), |report| shown(&report, &args.out));
        }
        Some(Command::Plot { report, out }) => {
            return output::redraw(report, out.as_deref()).map_or_else(|e| fail(&e), |text| print(&text, 0));
        }
        // They can be stopped, so they come once that is set up.
        Some(Command::Cost(_) | Command::Run(_)) => {}
        Some(Command::Completions { shell }) => return print(&Cli::completions(*shell), 0),
        Some(Command::On(args)) => return on::run(args).map_or_else(|e| fail(&e), |never| match never {}),
    }
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    if let Err(error) = ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed)) {
        eprintln!("sweep: Ctrl-C will not be handled: {error}");
    }
    if let Some(Command::Cost(args)) = &cli.command {
        return cost::run(args, &stop).map_or_else(|e| fail(&e), |text| print(&text, 0));
    }
    if let Some(Command::Run(args)) = &cli.command {
        return parts::run(args, &stop).map_or_else(|e| fail(&e), |report| shown(&report, &args.folder()));
    }
    if cli.knobs {
        return session::list_knobs(&cli, &stop).map_or_else(|e| fail(&e), |text| print(&text, 0));
    }
    session::run(&cli, &stop).map_or_else(|e| fail(&e), |report| shown(&report, &cli.out))
}

/// The report's table and answer; the exit status that it stands for.
fn shown(report: &Report, out: &Path) -> ExitCode {
    let score =
        report.prediction.as_ref().map_or(String::new(), |score| format!("The prediction\n{}", score.body()));
    let text = format!(
        "\n{}\n{score}\n{}\nReport: {} and report.md beside it\n",
        table::render(report),
        markdown::conclusion(report),
        out.join("report.json").display()
    );
    print(&text, report.exit_code())
}

/// The table's claims judged by the reports; exit status 1 when one is contradicted.
fn against(table: &str, reports: &[PathBuf]) -> Result<(String, u8), SweepError> {
    let reports = reports.iter().map(|path| reading::report(path)).collect::<Result<Vec<_>, _>>()?;
    let (name, text) = against::find(table)?;
    let judged = against::judge(&name, &text, &reports)?;
    let contradicted = judged.iter().any(|j| j.mark == against::Mark::Contradicted);
    Ok((against::render(&name, &text, &judged), u8::from(contradicted)))
}

fn fail(error: &SweepError) -> ExitCode {
    eprintln!("sweep: {error}");
    ExitCode::from(error.exit_code())
}

/// Prints to a standard output that may have been closed, as by `| head`: the exit status still tells the result.
fn print(text: &str, code: u8) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}
