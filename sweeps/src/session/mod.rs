//! A whole sweep: what is missing is found first, then every run is made, and after each one the report is written.
//!
//! The order of checks is the order of cost. A missing file costs nothing to find, devices cost one start of the
//! engine, and the folder for the report is made only when there is something to run, so that a sweep that cannot
//! start leaves nothing behind.

mod adaptive;
mod applications;
mod asked;
mod found;
mod targets;
mod tools;
mod words;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::agree;
use crate::child::{Engine, Job};
use crate::cli::Cli;
use crate::command_line::CommandLine;
use crate::cost::predict::Prediction;
use crate::cost::{self, score};
use crate::drivers::DriverSpec;
use crate::error::SweepError;
use crate::gate::{Gate, Probe};
use crate::host;
use crate::journal::{self, Journal};
use crate::limits::first_timeout;
use crate::output::{Earlier, Folder};
use crate::packets;
use crate::plan::{Role, RunSpec, fixed_runs, probe_runs, recorded_runs, takes_drops};
use crate::programs::beside;
use crate::progress::Progress;
use crate::report::{Arm, ArmRole, Git, Host, Report, Run, SCHEMA_VERSION, Settings};
use crate::shims::launch::Shim;
use crate::target::Target;

pub use asked::list_knobs;
use asked::split;
use found::record_name;
use words::{needed, result_words};

/// Makes the sweep that `cli` asks for; returns the report, which is also in the folder that `cli` names. Setting
/// `stop` ends it after killing the run in progress.
///
/// # Errors
///
/// [`SweepError`]; never for what goes wrong within an arm.
pub fn run(cli: &Cli, stop: &AtomicBool) -> Result<Report, SweepError> {
    let earlier = Earlier::of(cli.resume, cli.force);
    earlier.check(&cli.out)?;
    let application = applications::application(cli)?;
    let needs_engine = cli.drivers.iter().any(|driver| matches!(driver, DriverSpec::Shim(_)));
    // Where an application stands in its place on every driver, the engine is not even needed.
    let (role, program) = match &application {
        Some(application) if !needs_engine => ("application", application.line.program.clone()),
        _ => ("engine", beside(cli.engine.as_deref(), "engine", "the engine", "--engine")?),
    };
    let layer = beside(cli.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?;
    targets::check_models(cli)?;
    let settings = cli.settings().map_err(SweepError::Missing)?;
    let drivers = split(cli)?;
    let shims = &drivers.2;
    let packets = if shims.is_empty() { None } else { packets::library(cli.packets.as_deref())? };
    let tools = tools::find(cli)?;
    let engine = Engine::new(&program, &layer, packets.as_deref(), stop)?
        .with_tools(tools)
        .with_timeout(cli.timeout.unwrap_or_else(first_timeout))
        .with_submit_timeout(cli.submit_timeout);
    let mut blake3: BTreeMap<String, String> = [(role, &program), ("layer", &layer)]
        .into_iter()
        .chain(packets.as_ref().map(|path| ("packets", path)))
        .filter_map(|(role, path)| Some((role.to_string(), host::blake3_of(path)?)))
        .collect();
    for (role, path) in shims.iter().flat_map(Shim::binaries) {
        blake3.extend(host::blake3_of(&path).map(|digest| (role, digest)));
    }
    let mut found = targets::find(cli, &engine, drivers, &settings, application.as_ref())?;
    blake3.append(&mut found.models);
    for arm in found.not_run.iter().filter(|arm| arm.role == ArmRole::Reference) {
        eprintln!("sweep: {}", arm.reason.as_deref().unwrap_or_default());
    }
    let prediction = cli.prediction.as_deref().map(cost::prediction).transpose()?;
    let folder = Folder::of_sweep(&cli.out, earlier)?;
    let journal =
        Journal::open(folder.path(), &identity(cli, &blake3, &found.targets), cli.resume, host::now())?;
    if cli.resume {
        eprintln!("sweep: {} runs are in {} already", journal.resumed, cli.out.join(journal::NAME).display());
    }
    let now = Instant::now();
    let mut sweep = Sweep {
        cli,
        packets: packets.is_some(),
        engine,
        folder,
        host: host::host(),
        git: host::git(),
        blake3,
        check: application.as_ref().and_then(|a| a.measure.shown()),
        application: application.map(|a| a.shown()),
        not_run: found.not_run,
        progress: Progress::new(0),
        timeout: cli.timeout.unwrap_or_else(first_timeout),
        probe_timeouts: BTreeMap::new(),
        // What was run before lies before.
        started: now.checked_sub(Duration::from_secs_f64(journal.end_s)).unwrap_or(now),
        resumed: journal.resumed,
        journal,
        prediction,
        timeline: Vec::new(),
    };
    let result = sweep.make_all(&mut found.targets);
    sweep.progress.close();
    result
}

/// Everything that decides which runs there are and what they give, by name.
fn identity(
    cli: &Cli,
    blake3: &BTreeMap<String, String>,
    targets: &[(Target, Job)],
) -> serde_json::Map<String, serde_json::Value> {
    // Where things lie and how long one waits decides nothing.
    let asked = Cli {
        out: Default::default(),
        resume: false,
        force: false,
        prediction: None,
        timeout: None,
        submit_timeout: None,
        engine: None,
        layer: None,
        packets: None,
        pictures: None,
        oracles: None,
        ..cli.clone()
    };
    let of = |(t, _): &(Target, Job)| {
        format!("{} {:?} {} {:?} {:?}", t.chosen.driver, t.chosen.device, t.model, t.knobs, t.settings)
    };
    let targets: Vec<String> = targets.iter().map(of).collect();
    [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("arguments", format!("{asked:?}").into()),
        ("programs or models", serde_json::json!(blake3)),
        ("devices", targets.into()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into_iter()
    .collect()
}

struct Sweep<'a> {
    cli: &'a Cli,
    packets: bool,
    engine: Engine<'a>,
    folder: Folder,
    host: Host,
    git: Option<Git>,
    blake3: BTreeMap<String, String>,
    application: Option<String>,
    check: Option<String>,
    not_run: Vec<Arm>,
    progress: Progress,
    timeout: Duration,
    probe_timeouts: BTreeMap<Probe, Duration>,
    started: Instant,
    resumed: usize,
    journal: Journal,
    prediction: Option<Prediction>,
    timeline: Vec<Run>,
}

impl Sweep<'_> {
    fn make_all(&mut self, targets: &mut [(Target, Job)]) -> Result<Report, SweepError> {
        let policies = self.cli.arms();
        let settings = targets.first().map_or(0, |(t, _)| t.settings.len().saturating_sub(1) as u16);
        // What is counted by the run is not taken apart into loading and tokens.
        let by_token = self.cli.command_line().is_none_or(CommandLine::counts_tokens);
        let nothing_compared = targets.iter().any(|(t, _)| t.executes && t.gates.is_empty());
        let fixed = |executes: bool| match executes {
            true => {
                let mut runs = fixed_runs(&policies, settings, self.cli.reps, self.cli.seed);
                if !by_token {
                    runs.retain(|run| run.role != Role::Setup);
                }
                if nothing_compared {
                    runs.retain(|run| !matches!(run.role, Role::Shuffled | Role::Control));
                }
                runs
            }
            false => {
                recorded_runs(&policies, settings, self.cli.reps, self.packets, self.application.is_some())
            }
        };
        let drops = policies.iter().filter(|p| takes_drops(**p)).count() as u64 * u64::from(self.cli.drops);
        let runs = |executes: bool| fixed(executes).len() as u64 + if executes { drops } else { 0 };
        self.progress.expect(targets.iter().map(|(t, _)| runs(t.executes)).sum::<u64>() as i64);
        let plans: Vec<Vec<RunSpec>> = targets.iter().map(|(t, _)| fixed(t.executes)).collect();
        for (i, fixed) in plans.iter().enumerate() {
            // Another device or model may be slower than the last one.
            self.timeout = self.cli.timeout.unwrap_or_else(first_timeout);
            self.probe_timeouts.clear();
            for spec in fixed {
                self.make(targets, i, spec)?;
            }
            let executes = targets[i].0.executes;
            if executes {
                self.make_precise(targets, i)?;
                self.make_narrowest(targets, i)?;
            }
            for probe in targets[i].0.probes().into_iter().filter(|_| executes) {
                if probe != Probe::Main {
                    let runs = probe_runs(probe, &policies, settings, self.cli.seed);
                    self.progress.expect((runs.len() as u64 + drops) as i64);
                    for (n, spec) in runs.iter().enumerate() {
                        // Without a reference there is nothing to compare with.
                        if n > 0 && targets[i].0.evidence().reference_of(probe).is_none() {
                            self.progress.expect(-((runs.len() - n) as i64));
                            break;
                        }
                        self.make(targets, i, spec)?;
                    }
                }
                for policy in policies.iter().filter(|p| takes_drops(**p)) {
                    self.make_drops(targets, i, *policy, probe)?;
                }
            }
            if executes {
                self.make_soaks(targets, i)?;
            }
            targets[i].0.complete = true;
        }
        let mut report = self.report(targets);
        if let Some(prediction) = &self.prediction {
            match score::score(prediction, &report) {
                Ok(score) => report.prediction = Some(score),
                Err(why) => report.notes.push(format!("The prediction was not scored: {why}.")),
            }
        }
        self.folder.write(&report)?;
        self.folder.write_pictures(&report)?;
        Ok(report)
    }

    /// How long a run may take. Each gate's program has a time of its own: what the engine does says nothing of it.
    fn timeout_of(&self, spec: &RunSpec) -> Duration {
        let of_probe = || self.probe_timeouts.get(&spec.probe).copied().unwrap_or_else(first_timeout);
        match (self.cli.timeout, spec.probe) {
            (Some(timeout), _) => timeout,
            (None, Probe::Main) => self.timeout,
            (None, _) => of_probe(),
        }
    }

    /// Makes one run, keeps what came of it, and writes the report.
    fn make(&mut self, targets: &mut [(Target, Job)], i: usize, spec: &RunSpec) -> Result<(), SweepError> {
        let (target, job) = &mut targets[i];
        let what = format!("{}: {}", target.chosen.driver, spec.words(&target.settings));
        self.progress.start(&what);
        let kept = self.journal.take(i, spec);
        let made_now = kept.is_none();
        let (observation, start_s) = match kept {
            Some(kept) => (kept.observation, kept.start_s),
            None => {
                let start_s = self.started.elapsed().as_secs_f64();
                let observation = self.engine.run(spec, job, self.timeout_of(spec))?;
                self.journal.add(i, &observation, start_s)?;
                (observation, start_s)
            }
        };
        // Long enough for the slowest permutation on a machine that has become busy, and still bounded.
        let from_now_on = observation.wall * 20 + Duration::from_secs(30);
        if self.cli.timeout.is_none() && spec.policy.is_none() {
            self.timeout = from_now_on;
        }
        if spec.probe != Probe::Main && observation.outcome.is_ok() {
            self.probe_timeouts.entry(spec.probe).or_insert(from_now_on);
        }
        let wall = observation.wall;
        target.observations.push(observation);
        let last = &target.observations[target.observations.len() - 1];
        let result = result_words(target, last);
        if made_now {
            self.progress.finish(&what, &result, wall);
        } else {
            self.progress.skip();
        }
        self.timeline.push(Run {
            driver: target.chosen.driver.clone(),
            model: target.model.clone(),
            knobs: target.knobs_of(spec.knob),
            run: spec.to_string(),
            start_s,
            wall_s: wall.as_secs_f64(),
            ok: last.outcome.is_ok(),
            result,
        });
        let by_number = target.gates.iter().any(|gate| matches!(gate, Gate::Value { .. }));
        let broken = needed(last, target.executes && (target.measure.is_none() || by_number));
        if made_now {
            let report = self.report(targets);
            self.folder.write(&report)?;
        }
        broken.map_or(Ok(()), |why| Err(SweepError::Reference(why)))
    }

    fn report(&self, targets: &[(Target, Job)]) -> Report {
        let started = || targets.iter().map(|(t, _)| t).filter(|t| !t.observations.is_empty());
        let mut notes: Vec<String> = Vec::new();
        for note in started().flat_map(Target::notes) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let settled = agree::gates(started());
        let mut arms: Vec<Arm> =
            started().flat_map(Target::arms).chain(self.not_run.iter().cloned()).collect();
        agree::refute(&mut arms, &settled);
        if self.resumed > 0 {
            notes.push(format!(
                "This sweep was interrupted and went on: {} of its runs were made before, so rounds on both sides of the gap \
                 may differ by more than the arms do.",
                self.resumed
            ));
        }
        Report {
            schema: SCHEMA_VERSION,
            sweep_version: env!("CARGO_PKG_VERSION").into(),
            complete: targets.iter().all(|(t, _)| t.complete),
            began_unix_s: Some(self.journal.began_unix_s),
            plan: self.cli.part.clone(),
            parts: Vec::new(),
            prediction: None,
            host: self.host.clone(),
            git: self.git.clone(),
            blake3: self.blake3.clone(),
            settings: Settings {
                policies: self.cli.arms().iter().map(ToString::to_string).collect(),
                reps: self.cli.reps,
                tokens: self.cli.tokens,
                ctx: self.cli.chunk(),
                drops: self.cli.drops,
                seed: self.cli.seed,
                record: self.cli.record.iter().map(record_name).collect(),
                busy: self.cli.busy.clone(),
                precision: self.cli.precision,
                application: self.application.clone(),
                check: self.check.clone(),
            },
            arms,
            gates: started().flat_map(Target::gates).chain(settled).collect(),
            soaks: started().flat_map(Target::soaks).collect(),
            notes,
            timeline: self.timeline.clone(),
        }
    }
}
