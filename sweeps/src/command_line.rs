//! A command line: the program and its arguments, in which the number of tokens has its place.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::SweepError;
use crate::programs;
use crate::shims::start;

/// What stands in the arguments for the number of tokens.
pub const TOKENS: &str = "{tokens}";

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLine {
    /// The program's file.
    pub program: PathBuf,
    arguments: Vec<OsString>,
}

/// A command in one argument, as a shell would take it apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub Vec<OsString>);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Words, String> {
        match shlex::split(text) {
            None => Err(format!("a quote in '{text}' is never closed")),
            Some(words) if words.is_empty() => Err("it names no program".into()),
            Some(words) => Ok(Words(words.into_iter().map(Into::into).collect())),
        }
    }
}

impl CommandLine {
    /// The command that `words` are. Where its program has no slash, it is looked for among those of the folder
    /// whose libraries it is to have, then in `path` (`PATH`). It may be a script.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] when the program is not there or, if it is to run `on_shim`, could not be started there.
    pub fn find(
        words: &[OsString],
        root: Option<&Path>,
        path: Option<&OsStr>,
        on_shim: bool,
    ) -> Result<CommandLine, SweepError> {
        let name = words.first().map_or(OsStr::new(""), OsString::as_os_str);
        let own = root.map(|root| root.join("usr/bin").join(name)).filter(|own| own.is_file());
        let program = own.map_or_else(|| programs::find(name, None, path), Ok)?;
        if on_shim {
            start::kind(&program, start::library().is_some()).map_err(|why| {
                SweepError::Missing(format!("'{}' cannot be started on a shim: {why}", program.display()))
            })?;
        }
        let program = std::path::absolute(&program).unwrap_or(program);
        let arguments = words.iter().skip(1).cloned().collect();
        Ok(CommandLine { program, arguments })
    }

    /// Whether some argument says where the number of tokens goes.
    pub fn counts_tokens(words: &[OsString]) -> bool {
        words.iter().skip(1).any(|a| a.to_string_lossy().contains(TOKENS))
    }

    /// Its arguments for a run of so many tokens.
    pub fn arguments(&self, tokens: u64) -> Vec<OsString> {
        let replace = |a: &OsString| match a.to_str() {
            Some(text) => text.replace(TOKENS, &tokens.to_string()).into(),
            None => a.clone(),
        };
        self.arguments.iter().map(replace).collect()
    }

    /// What it is called.
    pub fn name(&self) -> String {
        file_name(&self.program)
    }

    /// The whole command for a report that is passed on: of paths, only the last part.
    pub fn shown(&self) -> String {
        let shown = self.arguments.iter().map(|a| file_name(Path::new(a)));
        std::iter::once(file_name(&self.program)).chain(shown).collect::<Vec<_>>().join(" ")
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
        assert!(CommandLine::counts_tokens(&words) && !CommandLine::counts_tokens(&words[..4]));
        let line = CommandLine::find(&words, None, None, true).unwrap();
        assert_eq!(line.arguments(7), command(&["-m", "/models/a.gguf", "-n", "7", "--x=7"]));
        let shown = line.shown();
        assert!(shown.ends_with(" -m a.gguf -n {tokens} --x={tokens}") && !shown.contains('/'), "{shown}");
    }

    #[test]
    fn a_program_that_is_not_there_or_is_none_is_named() {
        for name in ["no/such-program", "/dev/null", "no-such-program"] {
            let error =
                CommandLine::find(&command(&[name]), None, Some(OsStr::new("/nowhere")), true).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_command_in_one_argument_is_taken_apart_as_a_shell_does() {
        let words: Words = r#"app -p 'two words' --x="a b" "#.parse().unwrap();
        assert_eq!(words.0, command(&["app", "-p", "two words", "--x=a b"]));
        assert!("app 'open".parse::<Words>().unwrap_err().contains("never closed"));
        assert!(" ".parse::<Words>().is_err());
    }
}
