//! An application in the engine's place.
//!
//! What a driver makes of barriers and what recording costs can be asked of any program that repeats something a given
//! number of times. Nothing is known of such a program: it prints what it likes, and says nothing of its device or its
//! time. So it is swept only on drivers that record without executing, where there are no results to compare, and
//! everything per token is a difference between two runs of different length: counts, CPU time, wall time. What the
//! program does once, such as loading a model, cancels out.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::SweepError;
use crate::shims::on;

/// What stands in the arguments for the number of tokens.
pub const TOKENS: &str = "{tokens}";

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The program's file.
    pub program: PathBuf,
    arguments: Vec<OsString>,
}

impl Application {
    /// The application that `command` names. Where its program has no slash, it is looked for among those of the folder
    /// whose libraries it is to have, then in `path` (`PATH`).
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] when the program is not there or could not be started on a shim.
    pub fn find(
        command: &[OsString],
        root: Option<&Path>,
        path: Option<&OsStr>,
    ) -> Result<Application, SweepError> {
        let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let own = root.map(|root| root.join("usr/bin").join(name)).filter(|own| own.is_file());
        let program = own.map_or_else(|| on::find(name, None, path), Ok)?;
        on::fit(&program).map_err(|why| {
            SweepError::Missing(format!("'{}' cannot be started on a shim: {why}", program.display()))
        })?;
        let program = std::path::absolute(&program).unwrap_or(program);
        Ok(Application { program, arguments: command.iter().skip(1).cloned().collect() })
    }

    /// Whether some argument says where the number of tokens goes.
    pub fn counts_tokens(command: &[OsString]) -> bool {
        command.iter().skip(1).any(|a| a.to_string_lossy().contains(TOKENS))
    }

    /// Its arguments for a run of so many tokens.
    pub fn arguments(&self, tokens: u64) -> Vec<OsString> {
        let replace = |a: &OsString| match a.to_str() {
            Some(text) => text.replace(TOKENS, &tokens.to_string()).into(),
            None => a.clone(),
        };
        self.arguments.iter().map(replace).collect()
    }

    /// The program's name.
    pub fn name(&self) -> String {
        file_name(&self.program)
    }

    /// The whole command for a report that is passed on: of paths, only the last part.
    pub fn shown(&self) -> String {
        let shown = self.arguments.iter().map(|a| file_name(Path::new(a)));
        std::iter::once(self.name()).chain(shown).collect::<Vec<_>>().join(" ")
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(Into::into).collect()
    }

    #[test]
    fn the_number_of_tokens_goes_where_the_braces_are() {
        let own = std::env::current_exe().unwrap();
        let words = command(&[own.to_str().unwrap(), "-m", "/models/a.gguf", "-n", TOKENS, "--x={tokens}"]);
        assert!(Application::counts_tokens(&words) && !Application::counts_tokens(&words[..4]));
        let application = Application::find(&words, None, None).unwrap();
        assert_eq!(application.arguments(7), command(&["-m", "/models/a.gguf", "-n", "7", "--x=7"]));
        let shown = application.shown();
        assert!(shown.ends_with(" -m a.gguf -n {tokens} --x={tokens}") && !shown.contains('/'), "{shown}");
    }

    #[test]
    fn a_program_that_is_not_there_or_is_none_is_named() {
        for name in ["no/such-program", "/dev/null", "no-such-program"] {
            let error = Application::find(&command(&[name]), None, Some(OsStr::new("/nowhere"))).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
