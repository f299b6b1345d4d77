//! Models by name from a model hub: `hf:ORG/REPO/FILE`.
//!
//! The `hf-hub` crate does it, in its usual cache and with its usual variables (`HF_HOME`, `HF_ENDPOINT`), so that a
//! file which another program has fetched is not fetched again. A download that was interrupted goes on where it ended.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Repo, RepoType};

use crate::gguf::split::PartName;

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is not of the form.
    #[error(
        "{0:?} is no name of a model on a hub: write hf:ORG/REPO/FILE, and @REVISION behind REPO if it matters"
    )]
    Name(String),
    /// The hub has no such file, or does not give it.
    #[error("{name} cannot be fetched from the hub: {source}{hint}", hint = hint(.source))]
    Fetch {
        /// The name as it was given.
        name: String,
        /// What the hub's client said.
        source: Box<ApiError>,
    },
}

const GO_ON: &str = "; run the command again to go on where it stopped";
/// How often a download that is cut off is tried, each time from where it ended.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

fn hint(error: &ApiError) -> &'static str {
    let text = error.to_string();
    if text.contains("401") || text.contains("403") {
        "; the model may ask for a login: put a token into the file `token` in the hub's cache folder"
    } else if text.contains("404") {
        "; look whether the names of repository and file are right"
    } else {
        GO_ON
    }
}

/// The parts of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    repository: String,
    revision: String,
    file: String,
}

/// What names on a hub begin with.
const PREFIX: &str = "hf:";

impl Name {
    /// `None` if the text is not meant as one.
    pub fn parse(text: &str) -> Option<Result<Self, Error>> {
        let rest = text.strip_prefix(PREFIX)?;
        let parts: Vec<&str> = rest.splitn(3, '/').collect();
        let bad = || Error::Name(text.to_owned());
        Some(match parts[..] {
            [organisation, repository, file] => {
                let (repository, revision) = repository.split_once('@').unwrap_or((repository, "main"));
                // Part of a path in the cache, so nothing that climbs.
                let sound =
                    |part: &str| !part.is_empty() && part.split('/').all(|p| !matches!(p, "" | "." | ".."));
                if [organisation, repository, revision, file].into_iter().all(sound) {
                    let repository = format!("{organisation}/{repository}");
                    Ok(Self { repository, revision: revision.to_owned(), file: file.to_owned() })
                } else {
                    Err(bad())
                }
            }
            _ => Err(bad()),
        })
    }

    /// The file in the cache, fetched if it is not there; with it the other parts of a split model.
    pub fn fetch(&self) -> Result<PathBuf, Error> {
        let (folder, name) = match self.file.rsplit_once('/') {
            Some((folder, name)) => (format!("{folder}/"), name),
            None => (String::new(), self.file.as_str()),
        };
        for number in PartName::parse(name).map_or(0..0, |part| 0..part.count) {
            let Some(part) = PartName::parse(name) else { break };
            Self { file: format!("{folder}{}", part.sibling(number)), ..self.clone() }.fetch_one()?;
        }
        self.fetch_one()
    }

    fn fetch_one(&self) -> Result<PathBuf, Error> {
        let fail = |source: ApiError| Error::Fetch {
            name: format!("{PREFIX}{}/{}", self.repository, self.file),
            source: Box::new(source),
        };
        let builder = ApiBuilder::from_env().with_progress(std::io::stderr().is_terminal());
        let api = builder.build().map_err(fail)?;
        let repository = Repo::with_revision(self.repository.clone(), RepoType::Model, self.revision.clone());
        let repository = api.repo(repository);
        // The crate's own retries report failure even where the last of them succeeded, so they are made here.
        for _ in 1..ATTEMPTS {
            match repository.get(&self.file) {
                Err(error) if hint(&error) == GO_ON => std::thread::sleep(PAUSE),
                result => return result.map_err(fail),
            }
        }
        repository.get(&self.file).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_organisation_a_repository_and_a_file() {
        let name = |text| Name::parse(text).unwrap();
        let parts = name("hf:org/repo/sub/model.gguf").unwrap();
        assert_eq!((parts.repository.as_str(), parts.file.as_str()), ("org/repo", "sub/model.gguf"));
        assert_eq!(name("hf:org/repo@v2/m.gguf").unwrap().revision, "v2");
        assert!(Name::parse("models/hf.gguf").is_none());
        for bad in
            ["hf:", "hf:org", "hf:org/repo", "hf:org/repo/", "hf:../../x", "hf:a/b/../../../etc", "hf:a//f"]
        {
            assert!(name(bad).unwrap_err().to_string().contains("hf:ORG/REPO/FILE"), "{bad}");
        }
    }
}
