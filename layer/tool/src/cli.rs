//! The command `zinc-barrier`: puts the layer where the Vulkan loader looks, says what keeps it from being loaded,
//! and prints its reports.
//!
//! Everything is printed at once at the end: a command that fails prints nothing but its error.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use zinc_hazard::Policy;
use zinc_report::Report;
use zinc_settings::manifest::LAYER_NAME;
use zinc_settings::variables;

use crate::places::{self, Places};
use crate::{doctor, explain, probe};

const EXAMPLES: &str = "\
How to put the layer between a program and the driver:

  zinc-barrier install --user
  VK_INSTANCE_LAYERS=zinc_barrier PROGRAM        (ZINC_BARRIER=1 PROGRAM does the same)

Examples:

  What does a program ask for? Count, change nothing, say what other policies would emit:
    ZINC_BARRIER=1 ZINC_BARRIER_POLICY=stock ZINC_BARRIER_WOULD_EMIT=1 vkcube --c 100

  Drop what no two accesses need, and keep the counts as JSON:
    ZINC_BARRIER=1 ZINC_BARRIER_POLICY=alias-only ZINC_BARRIER_REPORT=counts-%p.json PROGRAM
    zinc-barrier report counts-*.json

  Which places do the barriers come from, and why is each there? Trace, then read and draw:
    ZINC_BARRIER=1 ZINC_BARRIER_TRACE=trace-%p.jsonl ZINC_BARRIER_NAMES=1 PROGRAM
    zinc-barrier explain trace-*.jsonl --svg graph.svg

  Would a missing barrier have been noticed? Issue unordered operations last first; compare the output:
    ZINC_BARRIER=1 ZINC_BARRIER_SHUFFLE=reverse ZINC_BARRIER_REPORT=off PROGRAM

'zinc-barrier variables' lists every setting. To validate what the layer emits, name it first:
  VK_INSTANCE_LAYERS=zinc_barrier:VK_LAYER_KHRONOS_validation PROGRAM";

/// What the help begins with: it is the layer that people look for.
const ABOUT: &str = "The Vulkan layer zinc_barrier: drops pipeline barriers that no pair of accesses needs, and counts the rest";

const COMPLETIONS: &str = "\
  zinc-barrier completions bash > ~/.local/share/bash-completion/completions/zinc-barrier
  zinc-barrier completions zsh > ~/.zfunc/_zinc-barrier      (a folder of fpath)
  zinc-barrier completions fish > ~/.config/fish/completions/zinc-barrier.fish";

/// The Vulkan layer zinc_barrier: drops pipeline barriers that no two accesses need, and counts the rest.
#[derive(Parser)]
#[command(name = "zinc-barrier", version = env!("ZINC_BUILD_VERSION"), about = ABOUT, after_help = EXAMPLES)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Copy the library and write the two manifests through which the Vulkan loader finds it.
    Install {
        #[command(flatten)]
        place: Place,
        /// The layer's library [default: libzinc_barrier.so beside this program]
        #[arg(long, value_name = "PATH")]
        library: Option<PathBuf>,
    },
    /// Remove what install wrote, and nothing else.
    Uninstall {
        #[command(flatten)]
        place: Place,
    },
    /// Say which loader, drivers, layers and manifests are found, and why the layer would not be loaded.
    Doctor {
        /// Exit with status 1 unless the layer can be inserted both ways.
        #[arg(long)]
        check: bool,
    },
    /// List the environment variables that set the layer.
    Variables,
    /// Print reports that the layer wrote as JSON as tables.
    Report {
        /// Reports: what ZINC_BARRIER_REPORT=PATH left behind.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Say why barriers are there, from a trace: which places they come from, and what became of each.
    Explain(explain::Explain),
    /// Print what a shell needs to complete this command's words.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Make an instance and describe it: the child of doctor.
    #[command(hide = true)]
    Probe,
}

#[derive(Args)]
#[group(multiple = false)]
struct Place {
    /// For this user: ~/.local (the default)
    #[arg(long)]
    user: bool,
    /// For everybody: /usr/local
    #[arg(long)]
    system: bool,
    /// Below this folder, in share/vulkan and lib; the loader looks there if its share is in XDG_DATA_DIRS
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

impl Place {
    fn resolve(&self) -> Result<Places> {
        match &self.prefix {
            Some(prefix) => Ok(Places::under(&std::path::absolute(prefix)?)),
            None if self.system => Ok(Places::system()),
            None => Places::user(|name| std::env::var_os(name)),
        }
    }
}

/// Runs the command with these arguments, the program's name first.
///
/// Exit status: 0 when done, 1 when it could not be done (or `doctor --check` found the layer out), 2 for a usage
/// error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = match Command::try_parse_from(arguments) {
        Ok(command) => command,
        Err(why) => {
            // Help and version come this way too, with status 0. Nobody is left to tell if printing fails.
            let _ = why.print();
            return ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2));
        }
    };
    let printed = run(command.what).and_then(|(text, code)| {
        match io::stdout().lock().write_all(text.as_bytes()) {
            // A reader that has seen enough is no error.
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(why).context("cannot write to stdout"),
            _ => Ok(code),
        }
    });
    printed.unwrap_or_else(|why| {
        let _ = writeln!(io::stderr().lock(), "zinc-barrier: {why:#}");
        ExitCode::FAILURE
    })
}

fn run(what: What) -> Result<(String, ExitCode)> {
    let text = match what {
        What::Install { place, library } => install(&place.resolve()?, library)?,
        What::Uninstall { place } => uninstall(&place.resolve()?)?,
        What::Doctor { check } => {
            let facts = doctor::Facts::gather()?;
            let code = if check && !facts.is_well() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            return Ok((facts.text(), code));
        }
        What::Variables => variables_text(),
        What::Report { files } => report(&files)?,
        What::Explain(arguments) => explain::explain(&arguments)?,
        What::Completions { shell } => completions(shell)?,
        What::Probe => probe::describe().to_string(),
    };
    Ok((text, ExitCode::SUCCESS))
}

fn completions(shell: clap_complete::Shell) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Command::command(), "zinc-barrier", &mut script);
    String::from_utf8(script).context("the completion script is not text")
}

fn install(places: &Places, library: Option<PathBuf>) -> Result<String> {
    let library = match library {
        Some(path) => path,
        None => {
            places::library_beside(&std::env::current_exe().context("this program's own path is unknown")?)?
        }
    };
    let mut text = list("wrote", &places.install(&library)?);
    text += &format!(
        "\nVK_INSTANCE_LAYERS={LAYER_NAME} PROGRAM, or {}=1 PROGRAM, now runs with the layer; \
         'zinc-barrier doctor' checks it.\n",
        variables::ENABLE
    );
    Ok(text)
}

fn uninstall(places: &Places) -> Result<String> {
    let removed = places.uninstall()?;
    if removed.is_empty() {
        let folder = places.data.join("vulkan");
        return Ok(format!("nothing to remove: {LAYER_NAME} is not installed in {}\n", folder.display()));
    }
    Ok(list("removed", &removed))
}

fn list(verb: &str, paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("{verb} {}\n", path.display())).collect()
}

fn report(files: &[PathBuf]) -> Result<String> {
    let read = |path: &Path| -> Result<String> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let report = Report::from_json(&text).with_context(|| format!("{}", path.display()))?;
        Ok(report.table())
    };
    let tables: Vec<String> = files.iter().map(|path| read(path)).collect::<Result<_>>()?;
    Ok(tables.join("\n"))
}

fn variables_text() -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "Inserting the layer:\n");
    for (setting, help) in [
        (
            format!("VK_INSTANCE_LAYERS={LAYER_NAME}"),
            "inserts the layer; first in the list is nearest to the program",
        ),
        (format!("{}=1", variables::ENABLE), "inserts the layer as well; both together insert it once"),
        (
            format!("{}=1", variables::DISABLE),
            "keeps it out; where its name inserts it all the same, it does and says nothing",
        ),
    ] {
        let _ = writeln!(text, "  {setting:<34}{help}");
    }
    let _ = writeln!(text, "\nSetting it (unset and empty mean the default):\n");
    for variable in variables::VARIABLES {
        let (values, default) = ((variable.values)(), (variable.default)());
        let _ = writeln!(text, "  {}\n      values: {values}; default: {default}", variable.name);
        let _ = writeln!(text, "{}\n", filled(variable.help, 6, 100));
    }
    let _ = writeln!(text, "The policies:\n");
    for policy in Policy::ALL {
        let _ = writeln!(text, "  {policy:<12}{}", policy.about());
    }
    let refused = "If a value is not understood, the layer says so on stderr and passes everything through.";
    let _ = writeln!(text, "\n{}", filled(refused, 0, 100));
    text
}

/// `text` broken at spaces into lines of at most `width` characters, each indented by `indent`.
fn filled(text: &str, indent: usize, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if indent + line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines.iter().map(|line| format!("{:indent$}{line}", "")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_its_help_teaches_injection() {
        Command::command().debug_assert();
        let help = Command::command().render_long_help().to_string();
        for words in
            ["VK_INSTANCE_LAYERS=zinc_barrier", "ZINC_BARRIER=1", "install --user", "SHUFFLE=reverse"]
        {
            assert!(help.contains(words), "{words} is missing in\n{help}");
        }
        assert!(!help.contains("probe"), "{help}");
        assert!(help.starts_with("The Vulkan layer zinc_barrier: "), "{help}");
    }

    #[test]
    fn every_variable_in_an_example_exists_and_every_variable_is_listed() {
        let known: Vec<&str> = variables::VARIABLES.iter().map(|v| v.name).collect();
        let names = EXAMPLES
            .split(|c: char| !c.is_ascii_uppercase() && c != '_')
            .filter(|w| w.starts_with("ZINC_BARRIER_"));
        for name in names {
            assert!(known.contains(&name), "{name}");
        }
        let text = variables_text();
        assert!(
            known
                .iter()
                .chain(&["VK_INSTANCE_LAYERS", "DISABLE_ZINC_BARRIER"])
                .all(|name| text.contains(name)),
            "{text}"
        );
    }

    #[test]
    fn filling_breaks_lines_at_spaces_only() {
        assert_eq!(filled("one two three", 2, 9), "  one two\n  three");
        assert_eq!(filled("unbreakable", 2, 5), "  unbreakable");
        assert_eq!(filled("", 2, 5), "  ");
    }
}
