//! Streams, played with and without the layer.
//!
//! A stream's result is the digest of all memory at its end. Without the layer on lavapipe, which executes in order,
//! that digest is the truth; every run under a correct policy must give it, in whatever order the layer issues what
//! it may.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use zinc_report::{Counts, Report};

use crate::artefacts;
use crate::{Child, Ended, Layer, vulkan};

/// A program in the language of streams (tests/README.md).
#[derive(Clone, Debug)]
pub struct Stream {
    text: String,
}

/// A stream that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// BLAKE3 of all buffers with their names.
    pub digest: String,
    /// Buffer to its digest and first words.
    pub buffers: Value,
    /// The layer's report; `None` without the layer.
    pub report: Option<Report>,
    /// What was said on stderr.
    pub stderr: String,
}

impl Played {
    /// What the layer counted of the executed commands.
    ///
    /// # Panics
    ///
    /// When the stream was played without the layer.
    pub fn totals(&self) -> Counts {
        self.report.as_ref().expect("played under the layer").totals
    }
}

impl Stream {
    /// A program.
    pub fn new(text: impl Into<String>) -> Stream {
        Stream { text: text.into() }
    }

    /// The program's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The player as a child with the usual environment; files go into `scratch`.
    pub fn child(&self, scratch: &Path) -> Child {
        Child::new(artefacts::stream()).arg("-").input(&self.text).envs(&vulkan::environment(scratch))
    }

    /// Plays it without the layer.
    pub fn bare(&self) -> Played {
        let scratch = scratch();
        self.played(self.child(scratch.path()).run(), None)
    }

    /// Plays it under the layer with a policy.
    pub fn under(&self, policy: &str) -> Played {
        self.with(|layer| layer.policy(policy))
    }

    /// Plays it under the layer with a policy and a shuffled order.
    pub fn shuffled(&self, policy: &str, shuffle: &str) -> Played {
        self.with(|layer| layer.policy(policy).set("SHUFFLE", shuffle))
    }

    /// Plays it under the layer as `settings` sets it.
    pub fn with(&self, settings: impl FnOnce(Layer) -> Layer) -> Played {
        let scratch = scratch();
        let layer = settings(Layer::new(scratch.path()));
        let ended = self.child(scratch.path()).envs(&layer.environment()).run();
        self.played(ended, Some(&layer))
    }

    /// Plays it under the layer with further variables, which come last.
    pub fn with_variables(&self, variables: &[(&str, &str)]) -> Ended {
        let scratch = scratch();
        let layer = Layer::new(scratch.path());
        let variables: Vec<_> = variables.iter().map(|(n, v)| (n.to_string(), OsString::from(v))).collect();
        self.child(scratch.path()).envs(&layer.environment()).envs(&variables).run()
    }

    fn played(&self, ended: Ended, layer: Option<&Layer>) -> Played {
        assert!(ended.status.success(), "{}\n--- stream\n{}", ended.transcript(), self.text);
        let result = ended.json();
        Played {
            digest: result["digest"].as_str().expect("the player prints a digest").into(),
            buffers: result["buffers"].clone(),
            report: layer.map(Layer::report),
            stderr: ended.stderr,
        }
    }
}

/// An empty folder that goes away with its value.
///
/// # Panics
///
/// When there is no room for one.
pub fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("zinc-tests-").tempdir().expect("a temporary folder can be made")
}
