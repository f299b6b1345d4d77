//! A run of an application that executes: its own output, and what is compared.
//!
//! Where a second command is compared, both run under the same policy, order and setting, one after the other, and the
//! layer's reports of both must be of that run. What nobody times (permuted orders, the control, single drops) starts the
//! second command only. An output without the number that the owner's pattern seeks is tried again, since programs that
//! log from a thread of their own now and then exit before their last line is out; whatever else goes wrong is the
//! outcome.

use std::time::Duration;

use zinc_report::{Counts, Report};

use super::{Engine, Job, layer, tokens};
use crate::application::Application;
use crate::command_line::CommandLine;
use crate::contain::{Finished, KEPT};
use crate::digest::Digester;
use crate::environment;
use crate::error::SweepError;
use crate::knobs::{self, Announced};
use crate::measure::Compare;
use crate::outcome::{Failure, Measured, Outcome, Process};
use crate::pattern::Unread;
use crate::plan::{Role, RunSpec};

/// How often a command whose output lacks a number is run.
const ATTEMPTS: u32 = 3;

/// A command that came to its end, and what the layer saw of it.
struct Ended {
    done: Finished,
    seen: Option<(Report, Counts)>,
}

impl Engine<'_> {
    /// The numbers of an application under `spec`.
    pub(super) fn run_application(
        &self,
        application: &Application,
        spec: &RunSpec,
        job: &Job,
        timeout: Duration,
    ) -> Result<Outcome, SweepError> {
        let measure = &application.measure;
        let timed = matches!(spec.role, Role::WithoutLayer | Role::Setup | Role::Timed | Role::Short);
        let mut measured = Measured::nothing(tokens(spec, job));
        let mut counts = None;
        if timed || !matches!(measure.compare, Compare::Check { .. }) {
            let named = (&application.line, &*application.name());
            let tried = self.attempt(named, spec, job, timeout, |ended| {
                let wall = || Ok(ended.done.wall.as_secs_f64());
                measure.metric.as_ref().map_or_else(wall, |metric| metric.rate(&text(&ended.done)))
            })?;
            let (ended, metric) = match tried {
                Ok(tried) => tried,
                Err(failure) => return Ok(Err(failure)),
            };
            measured.tok_s = metric;
            measured.process = Some(Process { cpu: ended.done.cpu, wall: ended.done.wall });
            if measure.compare == Compare::Output {
                measured.digest = match digest(&ended.done) {
                    Ok(digest) => digest,
                    Err(failure) => return Ok(Err(failure)),
                };
            }
            if measure.metric.is_some() {
                measured.notes.extend(cut(&application.name(), &ended.done));
            }
            counts = ended.seen;
        }
        if let Compare::Check { command, value } = &measure.compare
            && spec.role != Role::Setup
        {
            let tried = self.attempt((command, &command.name()), spec, job, timeout, |ended| {
                value.as_ref().map_or(Ok(f64::NAN), |value| value.number(&text(&ended.done)))
            })?;
            let (ended, number) = match tried {
                Ok(tried) => tried,
                Err(failure) => return Ok(Err(failure)),
            };
            measured.perplexity = number;
            measured.digest = match digest(&ended.done) {
                Ok(digest) => digest,
                Err(failure) => return Ok(Err(failure)),
            };
            if value.is_some() {
                measured.notes.extend(cut(&command.name(), &ended.done));
            }
            counts = counts.or(ended.seen);
        }
        if let Some((report, counts)) = counts {
            measured.counts = Some(counts);
            measured.layer_notes = report.notes;
        }
        Ok(Ok(measured))
    }

    /// Runs a command until `read` finds what it seeks, a few times at most.
    fn attempt(
        &self,
        (line, name): (&CommandLine, &str),
        spec: &RunSpec,
        job: &Job,
        timeout: Duration,
        read: impl Fn(&Ended) -> Result<f64, Unread>,
    ) -> Result<Result<(Ended, f64), Failure>, SweepError> {
        let mut missing = String::new();
        for _ in 0..ATTEMPTS {
            let ended = match self.command_under(line, spec, job, timeout)? {
                Ok(ended) => ended,
                Err(failure) => return Ok(Err(failure)),
            };
            match read(&ended) {
                Ok(number) => return Ok(Ok((ended, number))),
                Err(Unread::Nowhere(why)) => {
                    missing = why;
                    if ended.done.cut() {
                        missing
                            .push_str(&format!(", as far as it was kept: {} MiB of each stream", KEPT >> 20));
                    }
                }
                // Another run must not be made for the sake of another number.
                Err(Unread::Wrong(why)) => {
                    missing = why;
                    break;
                }
            }
        }
        Ok(Err(Failure::Garbage(format!("{name}: {missing}"))))
    }

    /// Runs one command under the layer, once.
    fn command_under(
        &self,
        line: &CommandLine,
        spec: &RunSpec,
        job: &Job,
        timeout: Duration,
    ) -> Result<Result<Ended, Failure>, SweepError> {
        // A folder of its own for each process: what an earlier one left must never be taken for this one's.
        let folder = tempfile::Builder::new().prefix("reports-").tempdir_in(self.folder.path());
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => {
                return Ok(Err(Failure::Start(format!("no folder for the layer's report: {error}"))));
            }
        };
        let mut env = self.environment(spec, job, folder.path());
        if spec.policy.is_some() {
            let path = folder.path().to_string_lossy().replace('%', "%%");
            environment::set(&mut env, "ZINC_BARRIER_REPORT", format!("{path}/%p-%i-%d.json").into());
        }
        let mut command = std::process::Command::new(&line.program);
        command.args(line.arguments(tokens(spec, job))).env_clear().envs(env);
        let digester = Some(Digester::new(job.application.as_ref().map_or(&[][..], |a| &a.measure.ignore)));
        let done = match self.finish_digested(command, timeout, digester)? {
            Ok(done) => done,
            Err(failure) => return Ok(Err(failure)),
        };
        if spec.policy.is_none() {
            return Ok(Ok(Ended { done, seen: None }));
        }
        let device = Some(job.device_name.as_str()).filter(|name| !name.is_empty());
        Ok(layer::read_reports(spec, folder.path(), device).map(|seen| Ended { done, seen: Some(seen) }))
    }

    /// One run under `stock`, to learn on which device the application runs and what drivers announce of their knobs; it also fills caches, so that the first run
    /// that counts is not slower than the others.
    ///
    /// # Errors
    ///
    /// [`SweepError::Reference`] with the reason when the application does not come to its end under the layer.
    pub fn first_run(
        &self,
        application: &Application,
        job: &Job,
        timeout: Duration,
    ) -> Result<(zinc_report::Device, Vec<Announced>), SweepError> {
        let cannot = |failure: Failure| {
            SweepError::Reference(format!("'{}' cannot be swept: under stock {failure}", application.shown()))
        };
        let mut asking = job.clone();
        let said = self.ask(&mut asking.variables);
        let ended =
            self.command_under(&application.line, &RunSpec::FIRST, &asking, timeout)?.map_err(cannot)?;
        let (report, _) = ended.seen.ok_or_else(|| cannot(Failure::LayerNotLoaded))?;
        Ok((report.device, knobs::parse(&std::fs::read_to_string(said).unwrap_or_default())))
    }
}

/// What it printed on both streams: a rate may be on either.
fn text(done: &Finished) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

/// The digest of its standard output.
fn digest(done: &Finished) -> Result<String, Failure> {
    done.digest.clone().ok_or_else(|| {
        let why =
            "a process that it left running held its standard output open, so that its end was not seen";
        Failure::Garbage(why.into())
    })
}

/// What a reader must know of a number that was sought in an output of which a part was not kept.
fn cut(name: &str, done: &Finished) -> Option<String> {
    done.cut().then(|| {
        format!(
            "{name} printed more than is kept ({} bytes to standard output, {} to stderr): its number was sought in the first \
             {} MiB of each; what is compared covers every byte of standard output.",
            done.printed.0,
            done.printed.1,
            KEPT >> 20
        )
    })
}
