//! A whole sweep: what is missing is found first, then every run is made, and after each one the report is written.
//!
//! The order of checks is the order of cost. A missing file costs nothing to find, devices cost one start of the
//! engine, and the folder for the report is made only when there is something to run, so that a sweep that cannot
//! start leaves nothing behind.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use zinc_engine::levers::RecordArg;
use zinc_engine::results::Info;
use zinc_hazard::Policy;

use crate::absent::not_run;
use crate::application::Application;
use crate::assemble::{Setting, Target};
use crate::child::{Engine, Job};
use crate::cli::Cli;
use crate::drivers::{Chosen, DriverSpec, choose};
use crate::error::SweepError;
use crate::gates::{Gate, Status};
use crate::host;
use crate::knobs;
use crate::outcome::Observation;
use crate::output::Folder;
use crate::packets;
use crate::patched;
use crate::plan::{
    Role, RunSpec, drop_orders, fixed_runs, narrow_runs, recorded_runs, round, sample, takes_drops,
};
use crate::progress::Progress;
use crate::report::{Arm, ArmRole, Git, Host, Report, Run, SCHEMA_VERSION, Settings};
use crate::shims::ShimDriver;
use crate::shims::folders::Cache;
use crate::shims::launch::{self, Shim};
use crate::stats::comparison::{BOOTSTRAP_FROM, Comparison};
use crate::variables::narrowest;

/// What a report calls the engine's own model.
const EMBEDDED: &str = "embedded";

/// The time allowed for a run before anything is known of how long one takes.
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);

/// Makes the sweep that `cli` asks for; returns the report, which is also in the folder that `cli` names. Setting
/// `stop` ends it after killing the run in progress.
///
/// # Errors
///
/// [`SweepError`]; never for what goes wrong within an arm.
pub fn run(cli: &Cli, stop: &AtomicBool) -> Result<Report, SweepError> {
    let program = beside(cli.engine.as_deref(), "engine", "the engine", "--engine")?;
    let layer = beside(cli.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?;
    for model in &cli.models {
        if !model.is_file() {
            return Err(SweepError::Missing(format!("there is no model file '{}'", model.display())));
        }
    }
    let settings = cli.settings().map_err(SweepError::Missing)?;
    let application = match &cli.application[..] {
        [] => None,
        command => {
            Some(Application::find(command, cli.root.as_deref(), std::env::var_os("PATH").as_deref())?)
        }
    };
    let (drivers, places, shims, absent) = split(cli)?;
    let packets = if shims.is_empty() { None } else { packets::library(cli.packets.as_deref())? };
    let engine = Engine::new(&program, &layer, packets.as_deref(), stop)?;
    let mut blake3: BTreeMap<String, String> = [("engine", &program), ("layer", &layer)]
        .into_iter()
        .chain(packets.as_ref().map(|path| ("packets", path)))
        .filter_map(|(role, path)| Some((role.to_string(), host::blake3_of(path)?)))
        .collect();
    for (role, path) in shims.iter().flat_map(Shim::binaries) {
        blake3.extend(host::blake3_of(&path).map(|digest| (role, digest)));
    }
    let models: Vec<Option<&Path>> = if cli.models.is_empty() {
        vec![None]
    } else {
        cli.models.iter().map(|m| Some(m.as_path())).collect()
    };
    let (mut targets, mut not_run_arms) = (Vec::new(), Vec::new());
    for model in models {
        let mut absent = absent.clone();
        let mut add = |info: &Info,
                       chosen: Chosen,
                       shim: Option<&Shim>,
                       place: &[(String, OsString)]|
         -> Result<(), SweepError> {
            let name = match &application {
                Some(application) => application.name(),
                None => model_name(model, info)?,
            };
            if let Some(known) = &info.model {
                blake3.insert(name.clone(), known.model.blake3.clone());
            }
            for (record, busy, combination) in axes(cli) {
                let variables = place.iter().cloned().chain(knobs::variables(&combination)).collect();
                let job = Job {
                    device: chosen.selector.clone(),
                    device_name: chosen.device.name.clone(),
                    model: model.map(Into::into),
                    tokens: cli.tokens,
                    ctx: cli.chunk(),
                    shim: shim.cloned(),
                    record: record.clone(),
                    settings: settings.clone(),
                    busy: busy.unwrap_or(0),
                    application: application.clone(),
                    variables,
                };
                let named = [("record", record), ("busy", busy.map(|n| n.to_string()))];
                let named = named.into_iter().filter_map(|(k, v)| Some((k.to_string(), v?)));
                let target = Target {
                    chosen: chosen.clone(),
                    model: name.clone(),
                    knobs: named.chain(combination).collect(),
                    settings: settings.clone(),
                    executes: shim.is_none(),
                    policies: cli.arms(),
                    findings: Vec::new(),
                    observations: Vec::new(),
                    complete: false,
                };
                targets.push((target, job));
            }
            Ok(())
        };
        if !drivers.is_empty() {
            let (info, announced) = engine.info(model, None, &[])?;
            for chosen in choose(&info, &drivers, cli.require)? {
                knobs::check(&cli.knob, &announced, &chosen.driver)?;
                add(&info, chosen, None, &[])?;
            }
        }
        for (spec, place) in &places {
            let (info, announced) = engine.info(model, None, place)?;
            for mut chosen in choose(&info, std::slice::from_ref(spec), cli.require)? {
                knobs::check(&cli.knob, &announced, &chosen.driver)?;
                chosen.driver = spec.to_string();
                add(&info, chosen, None, place)?;
            }
        }
        for shim in &shims {
            let (info, announced) = engine.info(model, Some(shim), &[])?;
            match launch::choose(shim.driver, &info) {
                Ok(chosen) => {
                    knobs::check(&cli.knob, &announced, &chosen.driver)?;
                    add(&info, chosen, Some(shim), &[])?;
                }
                Err(why) => absent.push((shim.driver, why.to_string())),
            }
        }
        let name = match (&application, model) {
            (Some(application), _) => application.name(),
            (None, Some(path)) => file_name(path),
            (None, None) => EMBEDDED.into(),
        };
        let arms = absent.drain(..).flat_map(|(driver, why)| not_run(driver, &why, &name, &cli.arms()));
        not_run_arms.extend(arms);
    }
    for arm in not_run_arms.iter().filter(|arm| arm.role == ArmRole::Reference) {
        eprintln!("sweep: {}", arm.reason.as_deref().unwrap_or_default());
    }
    let mut sweep = Sweep {
        cli,
        packets: packets.is_some(),
        engine,
        folder: Folder::prepare(&cli.out)?,
        host: host::host(),
        git: host::git(),
        blake3,
        application: application.map(|a| a.shown()),
        not_run: not_run_arms,
        progress: Progress::new(0),
        timeout: cli.timeout.unwrap_or(FIRST_TIMEOUT),
        started: Instant::now(),
        timeline: Vec::new(),
    };
    let result = sweep.make_all(&mut targets);
    sweep.progress.close();
    result
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
    not_run: Vec<Arm>,
    progress: Progress,
    timeout: Duration,
    started: Instant,
    timeline: Vec<Run>,
}

impl Sweep<'_> {
    fn make_all(&mut self, targets: &mut [(Target, Job)]) -> Result<Report, SweepError> {
        let policies = self.cli.arms();
        let settings = targets.first().map_or(0, |(t, _)| t.settings.len().saturating_sub(1) as u16);
        let fixed = |executes: bool| match executes {
            true => fixed_runs(&policies, settings, self.cli.reps, self.cli.seed),
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
            self.timeout = self.cli.timeout.unwrap_or(FIRST_TIMEOUT);
            for spec in fixed {
                self.make(targets, i, spec)?;
            }
            let executes = targets[i].0.executes;
            if executes {
                self.make_precise(targets, i)?;
                self.make_narrowest(targets, i)?;
            }
            for policy in policies.iter().filter(|p| executes && takes_drops(**p)) {
                self.make_drops(targets, i, *policy)?;
            }
            targets[i].0.complete = true;
        }
        let report = self.report(targets);
        self.folder.write(&report)?;
        self.folder.write_pictures(&report)?;
        Ok(report)
    }

    /// Further rounds, where a precision was asked for, until every ratio's interval is narrow enough or there were
    /// enough rounds. The rule looks at the width of the intervals and never at where they lie, so it favours no answer.
    fn make_precise(&mut self, targets: &mut [(Target, Job)], i: usize) -> Result<(), SweepError> {
        let Some(precision) = self.cli.precision else { return Ok(()) };
        let first = self.cli.reps;
        for r in first..self.cli.max_reps.max(first) {
            let target = &targets[i].0;
            let settings = target.settings.len().saturating_sub(1) as u16;
            let ratios: Vec<Comparison> = target.ratios().collect();
            let narrow = |c: &Comparison| c.n >= BOOTSTRAP_FROM && c.half_width() <= precision;
            // An arm that gives no rates will give none in the next round either.
            if ratios.iter().all(narrow) {
                break;
            }
            let round = round(&target.policies, settings, r);
            self.progress.expect(round.len() as i64);
            for spec in round {
                self.make(targets, i, &spec)?;
            }
        }
        Ok(())
    }

    /// The search for the smallest mask that passes, under `stock`: each candidate is run once in order and once
    /// reversed, and becomes a setting of its own in the report.
    fn make_narrowest(&mut self, targets: &mut [(Target, Job)], i: usize) -> Result<(), SweepError> {
        let Some(ablation) =
            self.cli.ablations.iter().find(|a| Some(&a.name) == self.cli.narrowest.as_ref()).cloned()
        else {
            return Ok(());
        };
        let found = narrowest(ablation.mask, |mask| -> Result<bool, SweepError> {
            let setting: Setting = vec![(ablation.name.clone(), mask.to_string())];
            let known = targets[i].0.settings.iter().position(|s| *s == setting);
            let knob = match known {
                Some(knob) => knob as u16,
                None => {
                    let (target, job) = &mut targets[i];
                    target.settings.push(setting.clone());
                    job.settings.push(setting);
                    (target.settings.len() - 1) as u16
                }
            };
            for spec in narrow_runs(knob) {
                if !targets[i].0.observations.iter().any(|o| o.spec == spec) {
                    self.progress.expect(1);
                    self.make(targets, i, &spec)?;
                }
            }
            let evidence = targets[i].0.evidence();
            Ok(narrow_runs(knob).iter().all(|spec| {
                let run = evidence.observations.iter().find(|o| o.spec == *spec);
                let same = |m| {
                    evidence
                        .reference()
                        .is_some_and(|r| Gate::ALL.iter().all(|g| g.difference(r, m).is_none()))
                };
                run.is_some_and(|o| o.outcome.as_ref().is_ok_and(same))
            }))
        })?;
        let name = &ablation.name;
        targets[i].0.findings.push(match found {
            Some(mask) => format!(
                "Narrowest: {name}={mask} gave the reference's numbers in order and reversed, and with any one bit of it \
                 less something failed."
            ),
            None => format!("Narrowest: not even {name}={} gave the reference's numbers.", ablation.mask),
        });
        Ok(())
    }

    /// Single drops, each tried under one order after the other until the strictest gate notices. A policy that has
    /// already been refuted, or whose runs fail, gets none: the question is then settled.
    fn make_drops(
        &mut self,
        targets: &mut [(Target, Job)],
        i: usize,
        policy: Policy,
    ) -> Result<(), SweepError> {
        let wanted = i64::from(self.cli.drops);
        let target = &targets[i].0;
        let ks = match (sound(target, policy), emitted_per_submission(target, policy)) {
            (true, Some(emitted)) => sample(emitted, self.cli.drops, self.cli.seed),
            _ => Vec::new(),
        };
        self.progress.expect(ks.len() as i64 - wanted);
        for k in ks {
            for (n, order) in drop_orders(self.cli.seed).into_iter().enumerate() {
                if n > 0 {
                    self.progress.expect(1);
                }
                self.make(targets, i, &RunSpec::dropping(policy, k, order))?;
                if targets[i].0.observations.last().is_none_or(|o| differs(&targets[i].0, o)) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Makes one run, keeps what came of it, and writes the report.
    fn make(&mut self, targets: &mut [(Target, Job)], i: usize, spec: &RunSpec) -> Result<(), SweepError> {
        let (target, job) = &mut targets[i];
        let what = format!("{}: {spec}", target.chosen.driver);
        self.progress.start(&what);
        let start_s = self.started.elapsed().as_secs_f64();
        let observation = self.engine.run(spec, job, self.timeout)?;
        if self.cli.timeout.is_none() && observation.spec.policy.is_none() {
            // Long enough for the slowest permutation on a machine that has become busy, and still bounded.
            self.timeout = observation.wall * 20 + Duration::from_secs(30);
        }
        let wall = observation.wall;
        target.observations.push(observation);
        let last = &target.observations[target.observations.len() - 1];
        let result = result_words(target, last);
        self.progress.finish(&what, &result, wall);
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
        let broken = needed(last, target.executes);
        let report = self.report(targets);
        self.folder.write(&report)?;
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
        Report {
            schema: SCHEMA_VERSION,
            sweep_version: env!("CARGO_PKG_VERSION").into(),
            complete: targets.iter().all(|(t, _)| t.complete),
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
            },
            arms: started().flat_map(Target::arms).chain(self.not_run.iter().cloned()).collect(),
            gates: started().flat_map(Target::gates).collect(),
            notes,
            timeline: self.timeline.clone(),
        }
    }
}

/// A driver that records only and is not to be had, with the reason.
type Absent = (ShimDriver, String);

/// What was asked for, sorted.
type Drivers = (Vec<DriverSpec>, Vec<Place>, Vec<Shim>, Vec<Absent>);

/// A driver outside of the loader's folders, and the variables that have the loader take it.
type Place = (DriverSpec, Vec<(String, OsString)>);

/// When the engine records, its busy neighbours, and the driver's knobs.
type Point = (Option<String>, Option<u32>, Vec<(String, String)>);

/// The drivers that execute, the shims that are set up, and those that are not, each once.
fn split(cli: &Cli) -> Result<Drivers, SweepError> {
    let (mut drivers, mut shims, mut absent) = (Vec::new(), Vec::<Shim>::new(), Vec::<Absent>::new());
    let mut places: Vec<Place> = Vec::new();
    for spec in &cli.drivers {
        if let DriverSpec::Patched(driver) = spec {
            let manifest = driver.manifest(|name| std::env::var_os(name))?;
            if !places.iter().any(|(known, _)| known == spec) {
                places.push((spec.clone(), patched::variables(&manifest)));
            }
            continue;
        }
        let DriverSpec::Shim(driver) = spec else {
            drivers.push(spec.clone());
            continue;
        };
        if let Some(require) = cli.require {
            return Err(SweepError::Missing(format!(
                "--require {}: {driver} is a shim, which executes nothing",
                require.name()
            )));
        }
        if shims.iter().map(|s| s.driver).chain(absent.iter().map(|a| a.0)).any(|known| known == *driver) {
            continue;
        }
        match Cache::here().and_then(|cache| Shim::find(*driver, &cache)) {
            Ok(shim) => shims.push(shim.rooted(cli.root.as_deref())?),
            Err(why) => absent.push((*driver, why.to_string())),
        }
    }
    Ok((drivers, places, shims, absent))
}

/// The knobs that the drivers of the command line announce, for people.
///
/// # Errors
///
/// [`SweepError`], as [`run`].
pub fn list_knobs(cli: &Cli, stop: &AtomicBool) -> Result<String, SweepError> {
    let program = beside(cli.engine.as_deref(), "engine", "the engine", "--engine")?;
    let layer = beside(cli.layer.as_deref(), "libzinc_barrier.so", "the layer's library", "--layer")?;
    let engine = Engine::new(&program, &layer, None, stop)?;
    let (drivers, places, shims, _) = split(cli)?;
    let mut all = Vec::new();
    if !drivers.is_empty() {
        all.extend(engine.info(None, None, &[])?.1);
    }
    for (_, place) in &places {
        all.extend(engine.info(None, None, place)?.1);
    }
    for shim in &shims {
        all.extend(engine.info(None, Some(shim), &[])?.1);
    }
    Ok(knobs::list(&all))
}

/// All combinations of when the engine records, how busy its neighbours are, and the driver's knobs; `None` where
/// nothing was said.
fn axes(cli: &Cli) -> Vec<Point> {
    let mut axes = Vec::new();
    // An axis of which nothing was said has one place all the same, and nothing stands there.
    for r in 0..cli.record.len().max(1) {
        for b in 0..cli.busy.len().max(1) {
            for combination in knobs::combinations(&cli.knob) {
                axes.push((cli.record.get(r).map(record_name), cli.busy.get(b).copied(), combination));
            }
        }
    }
    axes
}

fn record_name(record: &RecordArg) -> String {
    record.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
}

/// The path that was given, or the file of that name beside this program.
fn beside(given: Option<&Path>, name: &str, what: &str, option: &str) -> Result<PathBuf, SweepError> {
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.parent()?.join(name)))
            .unwrap_or_else(|| PathBuf::from(name)),
    };
    if !path.is_file() {
        return Err(SweepError::Missing(format!(
            "{what} is not at '{}'; build it with `cargo build --release -p zinc-barrier -p zinc-engine`, or say \
             where it is with {option}",
            path.display()
        )));
    }
    // The loader and the child resolve relative paths from elsewhere.
    std::path::absolute(&path)
        .map_err(|source| SweepError::System { what: format!("cannot find {what}"), source })
}

fn model_name(model: Option<&Path>, info: &Info) -> Result<String, SweepError> {
    match (model, &info.model) {
        (Some(path), _) => Ok(file_name(path)),
        (None, Some(_)) => Ok(EMBEDDED.into()),
        (None, None) => {
            Err(SweepError::Missing("the engine has no embedded model; name a GGUF with --model".into()))
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// Why the sweep cannot go on after this run: the runs that everything is compared with must give numbers. Where nothing
/// executes, counts are all that is asked of them.
fn needed(o: &Observation, executes: bool) -> Option<String> {
    let what = match (o.spec.role == Role::WithoutLayer, o.spec.is_reference()) {
        (true, _) => "the engine alone, without the layer, gave no result",
        (_, true) => "the reference gave no result",
        _ => return None,
    };
    match &o.outcome {
        Err(failure) => Some(format!("{what}, so there is nothing to compare with: {failure}")),
        Ok(m) if executes && !m.perplexity.is_finite() => {
            Some(format!("{what} that others can be compared with: its perplexity is not a finite number"))
        }
        Ok(_) => None,
    }
}

fn differs(target: &Target, o: &Observation) -> bool {
    match (target.evidence().reference(), &o.outcome) {
        (Some(reference), Ok(m)) => Gate::Bits.difference(reference, m).is_some(),
        _ => false,
    }
}

/// Whether all runs of the policy so far gave the reference's numbers.
fn sound(target: &Target, policy: Policy) -> bool {
    let failed = target
        .observations
        .iter()
        .filter(|o| matches!(o.spec.role, Role::Timed | Role::Shuffled))
        .any(|o| (o.spec.policy, o.spec.knob) == (Some(policy), 0) && o.outcome.is_err());
    !failed && Gate::ALL.iter().all(|g| target.evidence().judge_gate(*g, policy).status != Status::Fail)
}

/// Barriers that the policy's timed arm emits for one submission of a token: the layer counts the barrier to withhold
/// anew after each of them.
fn emitted_per_submission(target: &Target, policy: Policy) -> Option<u64> {
    let of_policy =
        |o: &&Observation| (o.spec.policy, o.spec.role, o.spec.knob) == (Some(policy), Role::Timed, 0);
    let (spec, m) = target
        .observations
        .iter()
        .filter(of_policy)
        .find_map(|o| Some((o.spec, o.outcome.as_ref().ok()?)))?;
    let per_token = target.per_token(&spec, m, |counts| counts.barriers_emitted)?;
    (per_token.round() as u64).checked_div(m.submits_per_token)
}

/// What the last run gave, in a few words.
fn result_words(target: &Target, o: &Observation) -> String {
    match (&o.outcome, target.evidence().reference()) {
        (Err(failure), _) => failure.to_string(),
        (Ok(_), _) if o.spec.role == Role::Setup || !target.executes => "counted".into(),
        (Ok(m), Some(_)) if o.spec.is_reference() => format!("{:.1} tok/s", m.tok_s),
        (Ok(_), None) => "done".into(),
        (Ok(m), Some(reference)) => Gate::ALL
            .into_iter()
            .filter_map(|gate| gate.difference(reference, m))
            .next()
            .unwrap_or_else(|| "the same bits".into()),
    }
}
