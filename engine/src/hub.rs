//! Models by name from a model hub: `hf:ORG/REPO/FILE`.
//!
//! The `hf-hub` crate does it, in the hub's usual cache and with its usual variables (`HF_HOME`, `HF_HUB_CACHE`,
//! `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_DOWNLOAD_TIMEOUT`), so that a file which another program has fetched is not fetched
//! again. A download that was interrupted goes on where it ended. What the crate leaves to its callers is done here: it
//! waits for ever for a server that says nothing or sends it in circles, and keeps whatever it was given.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::ProgressBar;

use crate::gguf::split::PartName;
use crate::progress;

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
    /// The hub is silent, or sends its client in circles.
    #[error(
        "{name} cannot be fetched from the hub: nothing came for {seconds} s (a connection that stalls, or an address that \
         leads back to itself){GO_ON}, and set HF_HUB_DOWNLOAD_TIMEOUT to wait longer"
    )]
    Silent {
        /// The name as it was given.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The hub gave something else.
    #[error(
        "{name} is no GGUF file: what the hub gave begins with {begins}; nothing was kept; look whether a proxy or a login \
         page stands between this machine and the hub"
    )]
    Contents {
        /// The name as it was given.
        name: String,
        /// Its first bytes.
        begins: String,
    },
}

const GO_ON: &str = "; run the command again to go on where it stopped";
/// How often a download that is cut off is tried, each time from where it ended.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// Seconds without a byte after which a download is given up, where `HF_HUB_DOWNLOAD_TIMEOUT` does not say.
const PATIENCE: u64 = 30;

fn hint(error: &ApiError) -> &'static str {
    let text = error.to_string();
    if text.contains("401") || text.contains("403") {
        "; the model may ask for a login: set HF_TOKEN, or put a token into the file `token` in the hub's folder"
    } else if text.contains("404") {
        "; look whether the names of repository and file are right"
    } else {
        GO_ON
    }
}

/// A variable that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The hub's folder: `HF_HOME`, or below the user's caches.
fn home() -> Option<PathBuf> {
    let caches = || {
        variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or(Some(PathBuf::from(variable("HOME")?).join(".cache")))
    };
    variable("HF_HOME").map(PathBuf::from).or_else(|| Some(caches()?.join("huggingface")))
}

/// The cache, which may lie elsewhere than in the hub's folder.
fn cache() -> Cache {
    let named = variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE")).map(PathBuf::from);
    named.or_else(|| Some(home()?.join("hub"))).map_or_else(Cache::default, Cache::new)
}

/// The token to show: from the variable, or from the file that a login leaves.
fn token() -> Option<String> {
    let file = || {
        let path = variable("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(home()?.join("token")))?;
        let token = std::fs::read_to_string(path).ok()?.trim().to_owned();
        (!token.is_empty()).then_some(token)
    };
    variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")).or_else(file)
}

/// What a download tells the one who waits for it.
enum Beat {
    Bytes,
    Done(Result<PathBuf, ApiError>),
}

/// Shows progress and says that there is some.
struct Beats {
    sender: Sender<Beat>,
    bar: ProgressBar,
}

impl Progress for Beats {
    fn init(&mut self, size: usize, _: &str) {
        self.bar = progress::bytes(size as u64, "fetching");
        self.update(0);
    }

    fn update(&mut self, size: usize) {
        self.bar.inc(size as u64);
        // A receiver that is gone is no reason to stop: the process is about to end.
        let _ = self.sender.send(Beat::Bytes);
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Fetches the file; a download that is cut off is tried again. The crate's own retries report failure even where the last
/// of them succeeded.
fn attempts(repository: &ApiRepo, file: &str, sender: &Sender<Beat>) -> Result<PathBuf, ApiError> {
    let once = || {
        let beats = Beats { sender: sender.clone(), bar: ProgressBar::hidden() };
        repository.download_with_progress(file, beats)
    };
    for _ in 1..ATTEMPTS {
        match once() {
            Err(error) if hint(&error) == GO_ON => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    once()
}

/// The first bytes of a file that is named as a model and is none, in words.
fn no_model(path: &Path) -> Option<String> {
    use std::io::Read;
    if path.extension().is_none_or(|extension| extension != "gguf") {
        return None;
    }
    let mut first = Vec::new();
    std::fs::File::open(path).ok()?.take(16).read_to_end(&mut first).ok()?;
    (!first.starts_with(b"GGUF")).then(|| format!("{:?}", String::from_utf8_lossy(&first)))
}

/// Takes a file out of the cache: the name, and the contents that it points to.
fn forget(path: &Path) {
    // What cannot be removed is found again and refused again.
    if let (Ok(target), Some(folder)) = (std::fs::read_link(path), path.parent()) {
        let _ = std::fs::remove_file(folder.join(target));
    }
    let _ = std::fs::remove_file(path);
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
        let repository = Repo::with_revision(self.repository.clone(), RepoType::Model, self.revision.clone());
        if let Some(path) = cache().repo(repository.clone()).get(&self.file) {
            match no_model(&path) {
                None => return Ok(path),
                // An earlier download was given a page instead of the file.
                Some(_) => forget(&path),
            }
        }
        let path = self.download(repository)?;
        match no_model(&path) {
            None => Ok(path),
            Some(begins) => {
                forget(&path);
                Err(Error::Contents { name: self.to_string(), begins })
            }
        }
    }

    /// Downloads in a thread of its own, since nothing else can give up on a server that says nothing.
    fn download(&self, repository: Repo) -> Result<PathBuf, Error> {
        let fail = |source: ApiError| Error::Fetch { name: self.to_string(), source: Box::new(source) };
        let mut builder = ApiBuilder::from_cache(cache()).with_token(token()).with_progress(false);
        if let Some(endpoint) = variable("HF_ENDPOINT") {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
        }
        let repository = builder.build().map_err(fail)?.repo(repository);
        let seconds = variable("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|text| text.parse().ok());
        let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(PATIENCE);
        let (sender, receiver) = mpsc::channel();
        let file = self.file.clone();
        std::thread::spawn(move || {
            let done = attempts(&repository, &file, &sender);
            let _ = sender.send(Beat::Done(done));
        });
        loop {
            match receiver.recv_timeout(Duration::from_secs(seconds)) {
                Ok(Beat::Bytes) => {}
                Ok(Beat::Done(result)) => return result.map_err(fail),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Error::Silent { name: self.to_string(), seconds });
                }
            }
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}/{}", self.repository, self.file)
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
