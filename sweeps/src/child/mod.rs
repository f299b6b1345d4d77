//! One run of one program, from environment to numbers.
//!
//! The engine is started as a stranger would start it, with the layer injected from outside. A run is believed only
//! if two documents agree with what was asked: the engine's result (right device, right path through it, some tokens)
//! and the layer's report (right policy, shuffle and mutation, and a barrier really withheld where one was to be). An
//! application in the engine's place has only the second.

mod applications;
mod decoding;
mod layer;
mod probes;

pub use probes::Tools;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zinc_engine::results;
use zinc_settings::manifest::write_explicit_dir;

use crate::application::Application;
use crate::contain::{self, Finished, Unfinished, signal_name, tail};
use crate::digest::Digester;
use crate::environment;
use crate::error::SweepError;
use crate::gate::Probe;
use crate::knobs::{self, Announced};
use crate::neighbours::Neighbours;
use crate::outcome::{Failure, Measured, Observation, Outcome, Process};
use crate::packets;
use crate::plan::{Role, RunSpec, SETUP_TOKENS};
use crate::shims::launch::Shim;
use crate::variables::Setting;

/// Characters of a child's stderr that go into a reason.
const STDERR_LIMIT: usize = 300;

/// How long `engine info` may take unless another limit is set: it opens every driver on the machine, some of which are slow
/// to start.
const INFO_TIMEOUT: Duration = Duration::from_secs(120);

/// What is the same for all runs of one device with one model.
#[derive(Debug, Clone)]
pub struct Job {
    /// What `--device` takes.
    pub device: String,
    /// The name that the device must have in the results.
    pub device_name: String,
    /// The GGUF; `None` is the embedded model.
    pub model: Option<PathBuf>,
    /// Tokens to decode.
    pub tokens: u64,
    /// Tokens in a chunk.
    pub ctx: u64,
    /// The shim to start the engine on; `None` is the machine itself.
    pub shim: Option<Shim>,
    /// When the engine is to record; `None` leaves it to the engine.
    pub record: Option<String>,
    /// Busy neighbours on each logical processor while it runs.
    pub busy: u32,
    /// The owner's variables by [`RunSpec::knob`]; the first sets nothing.
    pub settings: Vec<Setting>,
    /// What to start instead of the engine.
    pub application: Option<Application>,
    /// Variables of the arm: the driver to take, and its knobs.
    pub variables: Vec<(String, OsString)>,
}

impl Job {
    /// What is needed to run an application once and learn on which device it runs.
    pub fn of_application(application: &Application, variables: Vec<(String, OsString)>, tokens: u64) -> Job {
        Job {
            device: String::new(),
            device_name: String::new(),
            model: None,
            tokens,
            ctx: tokens,
            shim: None,
            record: None,
            busy: 0,
            settings: Vec::new(),
            application: Some(application.clone()),
            variables,
        }
    }
}

/// The engine and the layer to inject into it, with a private folder for manifest and reports that goes away with
/// this value.
#[derive(Debug)]
pub struct Engine<'a> {
    program: PathBuf,
    packets: Option<PathBuf>,
    tools: Tools,
    info_timeout: Duration,
    submit_timeout: Option<u64>,
    folder: TempDir,
    stop: &'a AtomicBool,
}

impl<'a> Engine<'a> {
    /// Prepares the folder in which the loader will find `layer`.
    ///
    /// # Errors
    ///
    /// [`SweepError::System`] when no temporary folder can be made.
    ///
    /// `packets` is the packet counter, for the runs on a shim that are to have it.
    pub fn new(
        program: &Path,
        layer: &Path,
        packets: Option<&Path>,
        stop: &'a AtomicBool,
    ) -> Result<Engine<'a>, SweepError> {
        let system = |what: &str, source| SweepError::System { what: what.into(), source };
        let folder = tempfile::Builder::new()
            .prefix("zinc-sweep-")
            .tempdir()
            .map_err(|e| system("cannot make a temporary folder", e))?;
        let manifests = folder.path().join("explicit_layer.d");
        write_explicit_dir(&manifests, layer)
            .map_err(|e| system("cannot write the layer's manifest", std::io::Error::other(e)))?;
        Ok(Engine {
            program: program.into(),
            packets: packets.map(Into::into),
            tools: Tools::default(),
            info_timeout: INFO_TIMEOUT,
            submit_timeout: None,
            folder,
            stop,
        })
    }

    /// The same with the programs that gates need.
    pub fn with_tools(self, tools: Tools) -> Engine<'a> {
        Engine { tools, ..self }
    }

    /// The same with another limit for [`Engine::info`].
    pub fn with_timeout(self, info_timeout: Duration) -> Engine<'a> {
        Engine { info_timeout, ..self }
    }

    /// The same with seconds after which the engine shall take a submission for hung, where that is not for the engine to say.
    pub fn with_submit_timeout(self, submit_timeout: Option<u64>) -> Engine<'a> {
        Engine { submit_timeout, ..self }
    }

    /// The devices of the machine, or of a shim, and the model: `engine info`.
    ///
    /// # Errors
    ///
    /// [`SweepError::Missing`] with the engine's own words when it cannot tell, as with a model that is truncated.
    ///
    /// `variables` are set beside the owner's. What drivers announce of their knobs comes along.
    pub fn info(
        &self,
        model: Option<&Path>,
        shim: Option<&Shim>,
        variables: &[(String, OsString)],
    ) -> Result<(results::Info, Vec<Announced>), SweepError> {
        let mut env = environment::without_layer(std::env::vars_os());
        if let Some(shim) = shim {
            shim.apply(&mut env, None);
        }
        let mut command = start(&self.program, shim, None, &env);
        command.args(["info", "--json"]);
        if let Some(model) = model {
            command.arg("--model").arg(model);
        }
        let mut variables = variables.to_vec();
        let announced = self.ask(&mut variables);
        for (name, value) in variables {
            environment::set(&mut env, &name, value);
        }
        command.env_clear().envs(env);
        let missing = |why: String| {
            let about = model.map(|m| format!(" about the model '{}'", m.display())).unwrap_or_default();
            let on = shim.map(|s| format!(" on {}", s.driver)).unwrap_or_default();
            SweepError::Missing(format!("cannot ask the engine{on}{about}: {why}"))
        };
        match self.finish(command, self.info_timeout)? {
            Err(failure) => Err(missing(failure.to_string())),
            Ok(done) => {
                let info = serde_json::from_slice(&done.stdout)
                    .map_err(|e| missing(format!("`engine info --json` printed something else: {e}")))?;
                Ok((info, knobs::parse(&std::fs::read_to_string(&announced).unwrap_or_default())))
            }
        }
    }

    /// Has drivers announce their knobs, to the file that is returned.
    fn ask(&self, variables: &mut Vec<(String, OsString)>) -> PathBuf {
        let announced = self.folder.path().join("knobs.json");
        // Where there is none, nobody has been asked yet.
        let _ = std::fs::remove_file(&announced);
        variables.extend(knobs::ASK.map(|name| (name.to_string(), announced.clone().into())));
        announced
    }

    /// Makes one run.
    ///
    /// # Errors
    ///
    /// [`SweepError::Interrupted`] only: whatever goes wrong in the run is its outcome.
    pub fn run(&self, spec: &RunSpec, job: &Job, timeout: Duration) -> Result<Observation, SweepError> {
        let started = Instant::now();
        let report = self.folder.path().join("report.json");
        let packets = self.packets_report();
        // A report of the run before must never be taken for one of this run.
        let removed = [&report, &packets]
            .map(std::fs::remove_file)
            .into_iter()
            .find_map(|removed| removed.err().filter(|error| error.kind() != std::io::ErrorKind::NotFound));
        let outcome = match removed {
            Some(error) => Err(Failure::Start(format!("an old report cannot be removed: {error}"))),
            None => {
                let neighbours = Neighbours::start(job.busy).map_err(|source| SweepError::System {
                    what: "cannot start busy neighbours".into(),
                    source,
                })?;
                let outcome = match &job.application {
                    _ if spec.probe != Probe::Main => self.run_probe(spec, job, timeout)?,
                    Some(application) if job.shim.is_none() => {
                        self.run_application(application, spec, job, timeout)?
                    }
                    _ => {
                        let done = self.finish(self.command(spec, job, &report), timeout)?;
                        done.and_then(|done| judge(spec, job, &done, &report))
                    }
                };
                drop(neighbours);
                outcome
            }
        };
        let outcome = outcome.map(|measured| match self.counter(spec, job) {
            None => measured,
            Some(_) => Measured { packets: Some(read_packets(&packets)), ..measured },
        });
        Ok(Observation { spec: *spec, outcome, wall: started.elapsed() })
    }

    /// The packet counter, where the run is to have it.
    fn counter(&self, spec: &RunSpec, job: &Job) -> Option<&Path> {
        self.packets.as_deref().filter(|_| job.shim.is_some() && spec.counts_packets())
    }

    fn packets_report(&self) -> PathBuf {
        self.folder.path().join("packets.json")
    }

    fn command(&self, spec: &RunSpec, job: &Job, report: &Path) -> Command {
        let program = job.application.as_ref().map_or(&self.program, |a| &a.line.program);
        let env = self.environment(spec, job, report);
        let mut command = start(program, job.shim.as_ref(), self.counter(spec, job), &env);
        let args = match &job.application {
            Some(application) => application.arguments(tokens(spec, job)),
            None => decoding::arguments(spec, job, self.submit_timeout),
        };
        command.args(args).env_clear().envs(env);
        command
    }

    fn environment(&self, spec: &RunSpec, job: &Job, report: &Path) -> Vec<(OsString, OsString)> {
        let manifests = self.folder.path().join("explicit_layer.d");
        let mut env =
            environment::for_run(std::env::vars_os(), spec, &manifests, report, environment::holds_ours);
        if let Some(shim) = &job.shim {
            shim.apply(&mut env, self.counter(spec, job));
        }
        for (name, value) in &job.variables {
            environment::set(&mut env, name, value.clone());
        }
        for (name, value) in job.settings.get(usize::from(spec.knob)).into_iter().flatten() {
            environment::set(&mut env, name, value.into());
        }
        if self.counter(spec, job).is_some() {
            environment::set(&mut env, packets::VARIABLE, self.packets_report().into());
        }
        env
    }

    /// Waits for a good end; the outer error is the sweep's, the inner one the run's.
    fn finish(&self, command: Command, timeout: Duration) -> Result<Result<Finished, Failure>, SweepError> {
        self.finish_digested(command, timeout, None)
    }

    /// The same with a digest of its output.
    fn finish_digested(
        &self,
        command: Command,
        timeout: Duration,
        digester: Option<Digester>,
    ) -> Result<Result<Finished, Failure>, SweepError> {
        let done = self.end_of(command, timeout, digester)?;
        Ok(done.and_then(|done| match done.status.code() {
            Some(0) => Ok(done),
            Some(status) => Err(Failure::Exit { status, stderr: tail(&done.stderr, STDERR_LIMIT) }),
            // What a signal ended was told above.
            None => Ok(done),
        }))
    }

    /// Waits for the end, with whatever exit status.
    fn finish_any(
        &self,
        command: Command,
        timeout: Duration,
    ) -> Result<Result<Finished, Failure>, SweepError> {
        self.end_of(command, timeout, None)
    }

    fn end_of(
        &self,
        command: Command,
        timeout: Duration,
        digester: Option<Digester>,
    ) -> Result<Result<Finished, Failure>, SweepError> {
        Ok(match contain::run_digested(command, timeout, self.stop, digester) {
            Err(Unfinished::Interrupted) => return Err(SweepError::Interrupted),
            Err(Unfinished::Start(error)) => Err(Failure::Start(error.to_string())),
            Err(Unfinished::TimedOut) => Err(Failure::Timeout(timeout)),
            Ok(done) => match done.status.signal() {
                None => Ok(done),
                Some(signal) => Err(Failure::Signal {
                    signal: signal_name(signal),
                    stderr: tail(&done.stderr, STDERR_LIMIT),
                }),
            },
        })
    }
}

/// A program, without arguments, on the machine itself or on a shim; `env` is its environment.
fn start(
    program: &Path,
    shim: Option<&Shim>,
    counter: Option<&Path>,
    env: &[(OsString, OsString)],
) -> Command {
    shim.map_or_else(|| Command::new(program), |shim| shim.command(program, counter, env))
}

/// Tokens of a run.
fn tokens(spec: &RunSpec, job: &Job) -> u64 {
    match spec.role {
        Role::Setup | Role::Short => SETUP_TOKENS,
        _ => job.tokens,
    }
}

/// The numbers of a run that ended well, if its documents can be believed.
fn judge(spec: &RunSpec, job: &Job, done: &Finished, report: &Path) -> Outcome {
    let mut measured = match &job.application {
        None => decoding::read_result(&done.stdout, &job.device_name)?,
        Some(_) => of_process(tokens(spec, job), done),
    };
    if spec.policy.is_some() {
        let report = layer::read_report(spec, report)?;
        if job.application.is_some() && report.device.name != job.device_name {
            let (found, asked) = (report.device.name, &job.device_name);
            return Err(Failure::LayerDiffers(format!("it saw device {found} instead of {asked}")));
        }
        if job.application.is_none() {
            layer::check_dispatches(&report.totals, &measured)?;
        }
        measured.counts = Some(report.totals);
        measured.layer_notes = report.notes;
    }
    Ok(measured)
}

/// All that a process shows which prints nothing that is understood here.
fn of_process(tokens: u64, done: &Finished) -> Measured {
    Measured { process: Some(Process { cpu: done.cpu, wall: done.wall }), ..Measured::nothing(tokens) }
}

fn read_packets(path: &Path) -> Result<packets::Counts, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => packets::read(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("it was not loaded, or left no report".into())
        }
        Err(error) => Err(format!("its report cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests;
