//! What a model's stream of commands holds, learnt from `stock` alone.
//!
//! No other policy is run for it: the layer itself says what each would have emitted (`ZINC_BARRIER_WOULD_EMIT`), and its
//! trace says with which masks the engine asks. So what is predicted from this was not seen.
//!
//! Counts are those of one token by the difference of two lengths, both recorded token by token, so that neither what
//! loads the model nor when the engine records is in them. The rate is that of the engine as a sweep runs it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use zinc_engine::results::Perplexity;
use zinc_hazard::Policy;
use zinc_report::{Counts, Report};
use zinc_settings::manifest::write_explicit_dir;

use super::scope::Scope;
use crate::contain::{self, Unfinished, tail};
use crate::environment;
use crate::error::SweepError;
use crate::plan::{Role, RunSpec, SETUP_TOKENS};
use crate::stats::difference::Interval;

/// Tokens of the longer of the two counted runs.
const COUNTED: u64 = SETUP_TOKENS + 8;

/// Timed runs of `stock`.
const TIMED: usize = 7;

/// The stream of one token.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Wall time of a token under `stock`, microseconds.
    pub us_per_token: Interval,
    /// Dispatches.
    pub dispatches: f64,
    /// Bytes of weights by dispatches.
    pub read_bytes_per_dispatch: f64,
    /// Barriers that the engine asks for, by what they cost as.
    pub asked: BTreeMap<Scope, f64>,
    /// What each policy would emit of them, and add.
    pub would: BTreeMap<String, Would>,
}

/// What a policy would do to the barriers of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Would {
    /// Barriers that reach the driver, those added among them.
    pub emitted: f64,
    /// Barriers that nobody asked for.
    pub added: f64,
}

/// The programs, and how to run them.
pub struct Programs<'a> {
    /// The engine's command.
    pub engine: PathBuf,
    /// The layer's library.
    pub layer: PathBuf,
    /// The device, as the engine takes it.
    pub device: String,
    /// Time for one of these short runs.
    pub timeout: Duration,
    /// Set when the owner asks to stop.
    pub stop: &'a AtomicBool,
}

struct Run {
    result: Perplexity,
    report: Report,
    trace: String,
}

impl Programs<'_> {
    /// The stream of `model` and the BLAKE3 of its file; `None` is
    /// the engine's own. Over runs of `tokens` tokens in chunks of `ctx`.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] with the engine's words when it cannot run the model.
    pub fn stream(
        &self,
        model: Option<&Path>,
        tokens: u64,
        ctx: u64,
    ) -> Result<(Stream, String), SweepError> {
        let folder = TempDir::with_prefix("zinc-cost-")
            .map_err(|source| SweepError::System { what: "cannot make a temporary folder".into(), source })?;
        let manifests = folder.path().join("explicit_layer.d");
        write_explicit_dir(&manifests, &self.layer).map_err(|e| SweepError::System {
            what: "cannot write the layer's manifest".into(),
            source: std::io::Error::other(e),
        })?;
        let run = |tokens: u64, counts: bool| self.run(folder.path(), &manifests, model, tokens, ctx, counts);
        let (short, long) = (run(SETUP_TOKENS, true)?, run(COUNTED, true)?);
        let mut rates = Vec::new();
        for _ in 0..TIMED {
            let decode = run(tokens, false)?.result.decode;
            rates.extend(decode.filter(|d| d.tok_s > 0.0).map(|d| 1e6 / d.tok_s));
        }
        let us_per_token = Interval::of(&rates)
            .ok_or_else(|| SweepError::Missing("the engine gave no rate to predict from".into()))?;
        let each = (COUNTED - SETUP_TOKENS) as f64;
        let dispatches = difference(&short.report.totals, &long.report.totals, each, |c| c.dispatches);
        if dispatches <= 0.0 {
            return Err(SweepError::Missing("the layer saw no dispatch of a token".into()));
        }
        let (before, after) = (asked(&short.trace), asked(&long.trace));
        let mut by_scope: BTreeMap<Scope, f64> = BTreeMap::new();
        for (scope, count) in &after {
            let more = *count as f64 - before.get(scope).copied().unwrap_or_default() as f64;
            if more > 0.0 {
                by_scope.insert(*scope, more / each);
            }
        }
        let would = |policy: &String, counts: &Counts| {
            let before = short.report.would_emit.as_ref()?.get(policy)?;
            let of = |f: fn(&Counts) -> u64| difference(before, counts, each, f);
            Some(Would { emitted: of(|c| c.barriers_emitted), added: of(|c| c.barriers_added) })
        };
        let policies = long.report.would_emit.iter().flatten();
        let stream = Stream {
            us_per_token,
            dispatches,
            read_bytes_per_dispatch: long.result.model.bytes as f64 / dispatches,
            asked: by_scope,
            would: policies.filter_map(|(p, c)| Some((p.clone(), would(p, c)?))).collect(),
        };
        Ok((stream, long.result.model.blake3))
    }

    fn run(
        &self,
        folder: &Path,
        manifests: &Path,
        model: Option<&Path>,
        tokens: u64,
        ctx: u64,
        counts: bool,
    ) -> Result<Run, SweepError> {
        let (report, trace) = (folder.join("report.json"), folder.join("trace.jsonl"));
        for old in [&report, &trace] {
            // What is not there is what is wanted.
            let _ = std::fs::remove_file(old);
        }
        let spec = RunSpec { role: Role::Timed, policy: Some(Policy::Stock), ..RunSpec::WITHOUT_LAYER };
        let mut env =
            environment::for_run(std::env::vars_os(), &spec, manifests, &report, environment::holds_ours);
        let mut args: Vec<OsString> =
            ["perplexity", "--via", "decode", "--json", "--device"].map(Into::into).to_vec();
        args.push(self.device.clone().into());
        for (name, value) in [("--ctx", tokens.min(ctx)), ("--tokens", tokens)] {
            args.extend([name.into(), value.to_string().into()]);
        }
        if let Some(model) = model {
            args.extend(["--model".into(), model.into()]);
        }
        if counts {
            environment::set(&mut env, "ZINC_BARRIER_WOULD_EMIT", "1".into());
            environment::set(&mut env, "ZINC_BARRIER_TRACE", trace.clone().into());
            args.extend(["--record".into(), "each".into()]);
        }
        let mut command = Command::new(&self.engine);
        command.args(args).env_clear().envs(env);
        let failed =
            |why: String| SweepError::Missing(format!("the engine gave no counts to predict from: {why}"));
        let done = contain::run(command, self.timeout, self.stop).map_err(|unfinished| match unfinished {
            Unfinished::Interrupted => SweepError::Interrupted,
            Unfinished::Start(error) => failed(error.to_string()),
            Unfinished::TimedOut => failed(format!(
                "it did not end within {} s; --timeout allows more",
                self.timeout.as_secs_f64()
            )),
        })?;
        if !done.status.success() {
            return Err(failed(format!("{}: {}", done.status, tail(&done.stderr, 300))));
        }
        let text =
            std::fs::read_to_string(&report).map_err(|e| failed(format!("no report of the layer: {e}")))?;
        Ok(Run {
            result: serde_json::from_slice(&done.stdout).map_err(|e| failed(e.to_string()))?,
            report: Report::from_json(&text).map_err(|e| failed(e.to_string()))?,
            trace: std::fs::read_to_string(&trace).unwrap_or_default(),
        })
    }
}

fn difference(short: &Counts, long: &Counts, tokens: f64, count: fn(&Counts) -> u64) -> f64 {
    count(long).saturating_sub(count(short)) as f64 / tokens
}

/// How many barriers of each sort a trace's recordings ask for.
fn asked(trace: &str) -> BTreeMap<Scope, u64> {
    let mut found = BTreeMap::new();
    for line in trace.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        for barrier in line["asked"].as_array().into_iter().flatten() {
            let masks = [0, 1, 2, 3].map(|i| barrier["scopes"][i].as_u64().unwrap_or(u64::MAX));
            *found.entry(Scope::of_masks(masks)).or_default() += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_of_a_trace_are_counted_by_what_they_cost_as() {
        let trace = r#"{"trace":1,"asked":[{"before":0,"scopes":[2048,64,2048,32]},{"before":1,"scopes":[2048,64,2048,32]}]}
{"trace":1,"asked":[{"before":0,"scopes":[65536,98304,65536,98304]}]}
not a line"#;
        let found = asked(trace);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(Scope::Shader, 2), (Scope::All, 1)]);
    }

    #[test]
    fn what_both_lengths_have_cancels() {
        let counts = |n| Counts { dispatches: n, ..Counts::default() };
        assert_eq!(difference(&counts(1000), &counts(1800), 8.0, |c| c.dispatches), 100.0);
    }
}
