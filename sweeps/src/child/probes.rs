//! Runs of programs other than the one that is swept, for their gates' sake.
//!
//! Each program's answer becomes cases: kernels, scenes, sorts of hazard. A program that says with its exit status that
//! cases failed has answered; one that crashed, hung or printed something else has not. The layer's report is held against
//! what was asked here as everywhere. Synchronization validation runs on the oracles' own driver, since what it judges is
//! what is recorded and not what a device makes of it, and with their loader, which is as new as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use zinc_engine::results;

use super::{Engine, Job, layer};
use crate::contain::{Finished, tail};
use crate::display::Display;
use crate::environment;
use crate::error::SweepError;
use crate::gate::Probe;
use crate::outcome::{Failure, Measured, Outcome};
use crate::plan::{Role, RunSpec, SETUP_TOKENS};

/// The name of Khronos validation's layer.
const VALIDATION: &str = "VK_LAYER_KHRONOS_validation";

/// What begins the name of a hazard in what validation says.
const HAZARD: &str = "SYNC-HAZARD-";

/// The programs that gates need.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// The program `pictures`.
    pub pictures: Option<PathBuf>,
    /// The folder that `tests/oracles` filled.
    pub oracles: Option<PathBuf>,
    /// What `test-backend-ops -o` takes; nothing for all there are.
    pub backend_ops: String,
}

type Cases = BTreeMap<String, String>;

impl Engine<'_> {
    /// The cases of the program that `spec` names.
    pub(super) fn run_probe(
        &self,
        spec: &RunSpec,
        job: &Job,
        timeout: Duration,
    ) -> Result<Outcome, SweepError> {
        let folder = match tempfile::Builder::new().prefix("reports-").tempdir_in(self.folder.path()) {
            Ok(folder) => folder,
            Err(error) => {
                return Ok(Err(Failure::Start(format!("no folder for the layer's report: {error}"))));
            }
        };
        let mut env = self.environment(spec, job, folder.path());
        let path = folder.path().to_string_lossy().replace('%', "%%");
        environment::set(&mut env, "ZINC_BARRIER_REPORT", format!("{path}/%p-%i-%d.json").into());
        let traces = folder.path().with_extension("traces");
        if spec.role == Role::Traced {
            if let Err(error) = std::fs::create_dir(&traces) {
                return Ok(Err(Failure::Start(format!("no folder for the layer's trace: {error}"))));
            }
            let path = traces.to_string_lossy().replace('%', "%%");
            environment::set(&mut env, "ZINC_BARRIER_TRACE", format!("{path}/%p-%i-%d.jsonl").into());
        }
        let display;
        let mut command = match spec.probe {
            Probe::Main => return Ok(Err(Failure::Start("this program has no cases".into()))),
            Probe::Ops => self.ops(job),
            Probe::BackendOps => self.backend_ops(job, &mut env),
            Probe::Validation => self.validated(job, &mut env),
            Probe::Graphics => self.pictures(job),
            Probe::Window => {
                display = match Display::start() {
                    Ok(display) => display,
                    Err(why) => return Ok(Err(Failure::Start(why))),
                };
                environment::set(&mut env, "DISPLAY", display.name().into());
                let mut command = self.pictures(job);
                command.arg("--window");
                command
            }
        };
        command.env_clear().envs(env);
        let done = match self.finish_any(command, timeout)? {
            Ok(done) => done,
            Err(failure) => return Ok(Err(failure)),
        };
        let cases = match read(spec.probe, &done) {
            Ok(cases) => cases,
            Err(failure) => return Ok(Err(failure)),
        };
        let forced = if spec.role == Role::Traced { forced(&traces) } else { Vec::new() };
        // What runs on the oracles' driver or chooses for itself need not be on the device that is swept.
        let device = Some(job.device_name.as_str())
            .filter(|_| !matches!(spec.probe, Probe::BackendOps | Probe::Validation));
        Ok(layer::read_reports(spec, folder.path(), device).map(|(report, counts)| Measured {
            cases,
            forced,
            counts: Some(counts),
            layer_notes: report.notes,
            ..Measured::nothing(1)
        }))
    }

    fn ops(&self, job: &Job) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["ops", "--json", "--device"]).arg(&job.device);
        command.args(self.submit_timeout.iter().flat_map(|s| ["--submit-timeout".into(), s.to_string()]));
        command
    }

    fn backend_ops(&self, job: &Job, env: &mut Vec<(OsString, OsString)>) -> Command {
        if job.device_name.contains("llvmpipe") {
            on_own_driver(job, env);
        }
        let mut command = self.of_oracles("test-backend-ops".as_ref());
        command.args(["test", "-b", "Vulkan0"]);
        if !self.tools.backend_ops.is_empty() {
            command.args(["-o", &self.tools.backend_ops]);
        }
        // ggml takes no CPU device by itself.
        if !env.iter().any(|(name, _)| name == "GGML_VK_VISIBLE_DEVICES") {
            environment::set(env, "GGML_VK_VISIBLE_DEVICES", "0".into());
        }
        command
    }

    fn validated(&self, job: &Job, env: &mut Vec<(OsString, OsString)>) -> Command {
        if job.application.is_none() {
            on_own_driver(job, env);
        }
        let above = env.iter().find(|(name, _)| name == "VK_INSTANCE_LAYERS").map(|(_, value)| value.clone());
        let layers = match above {
            Some(above) => format!("{}:{VALIDATION}", above.to_string_lossy()),
            None => VALIDATION.into(),
        };
        environment::set(env, "VK_INSTANCE_LAYERS", layers.into());
        environment::set(env, "VK_LAYER_VALIDATE_SYNC", "1".into());
        environment::set(env, "VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1".into());
        if let Some(application) = &job.application {
            let mut command = Command::new(&application.line.program);
            command.args(application.arguments(super::tokens(&RunSpec::FIRST, job)));
            return command;
        }
        let mut command = self.of_oracles(self.program.as_ref());
        let tokens = SETUP_TOKENS.to_string();
        command.args(["perplexity", "--via", "decode", "--json", "--tokens", &tokens, "--ctx", &tokens]);
        if let Some(model) = &job.model {
            command.arg("--model").arg(model);
        }
        command
    }

    fn pictures(&self, job: &Job) -> Command {
        let mut command = Command::new(self.tools.pictures.as_deref().unwrap_or(Path::new("pictures")));
        command.arg("--device").arg(&job.device_name);
        command
    }

    /// A program on the oracles' loader, with their libraries and validation.
    fn of_oracles(&self, program: &std::ffi::OsStr) -> Command {
        let folder = self.tools.oracles.as_deref().unwrap_or(Path::new(""));
        let mut command = Command::new(folder.join("run"));
        command.arg(program);
        command
    }
}

/// Takes out what chooses a driver: the system's lavapipe with the oracles' libraries would mix two C++ libraries.
fn on_own_driver(job: &Job, env: &mut Vec<(OsString, OsString)>) {
    for (name, _) in &job.variables {
        environment::remove(env, name);
    }
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT"] {
        environment::remove(env, name);
    }
}

/// The cases in what a program printed.
fn read(probe: Probe, done: &Finished) -> Result<Cases, Failure> {
    let stdout = String::from_utf8_lossy(&done.stdout);
    let stderr = String::from_utf8_lossy(&done.stderr);
    let cases = match probe {
        Probe::Main => None,
        Probe::Ops => ops(&stdout),
        Probe::BackendOps => backend_ops(&stdout),
        Probe::Graphics => scenes(&stdout, "digest"),
        Probe::Window => scenes(&stdout, "window_digest"),
        Probe::Validation if done.status.success() => Some(hazards(&format!("{stdout}\n{stderr}"))),
        Probe::Validation => None,
    };
    cases.ok_or_else(|| match done.status.code() {
        Some(0) | None => Failure::Garbage(format!("no result of {} in it", probe.name())),
        Some(status) => Failure::Exit { status, stderr: tail(&done.stderr, super::STDERR_LIMIT) },
    })
}

fn ops(stdout: &str) -> Option<Cases> {
    let result: results::Ops = serde_json::from_str(stdout).ok().filter(|r: &results::Ops| r.total > 0)?;
    let answer = |passed: bool| String::from(if passed { "pass" } else { "fail" });
    Some(result.cases.iter().map(|c| (format!("{} {}", c.kernel, c.shape), answer(c.passed))).collect())
}

/// `NAME(parameters): OK`, in colours, for each case; what is not supported is no case.
fn backend_ops(stdout: &str) -> Option<Cases> {
    let mut cases = Cases::new();
    for line in stdout.lines() {
        let plain = without_colours(line);
        let Some((case, answer)) = plain.trim().rsplit_once(": ") else { continue };
        // A case that fails says first by how much.
        let failed = plain.contains("FAIL");
        if case.contains('(') && (failed || answer == "OK") {
            let name = case.rfind(')').map_or(case, |end| &case[..=end]);
            let name = name.find('(').map_or(name, |open| {
                let begin = name[..open].rfind(char::is_whitespace).map_or(0, |at| at + 1);
                &name[begin..]
            });
            cases.insert(name.into(), if failed { "fail".into() } else { "pass".into() });
        }
    }
    (!cases.is_empty()).then_some(cases)
}

fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            // As far as the letter that ends the sequence.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

fn scenes(stdout: &str, digest: &str) -> Option<Cases> {
    let value: Value = serde_json::from_str(stdout).ok()?;
    let scenes = value.get("scenes")?.as_object().filter(|scenes| !scenes.is_empty())?;
    scenes.iter().map(|(name, scene)| Some((name.clone(), scene.get(digest)?.as_str()?.into()))).collect()
}

/// The barriers, by their number in a recording, that a pair of operations in it forces. Those that are due to what came
/// before or comes behind are none of them: where a program waits between two submissions, as tests of operators do, nothing
/// could show their loss.
fn forced(traces: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(traces).into_iter().flatten().flatten();
    let texts: Vec<String> = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    let mut numbers = BTreeSet::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let before = line["emissions_before"].as_u64().unwrap_or(0);
        for (n, emission) in (before..).zip(line["emissions"].as_array().into_iter().flatten()) {
            if emission["kind"].as_str().is_some_and(|kind| ["raw", "war", "waw"].contains(&kind)) {
                numbers.insert(n);
            }
        }
    }
    numbers.into_iter().collect()
}

/// How often each sort of hazard is reported.
fn hazards(said: &str) -> Cases {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in said.lines() {
        let Some(at) = line.find(HAZARD) else { continue };
        let name: String =
            line[at + HAZARD.len()..].chars().take_while(|c| c.is_ascii_uppercase() || *c == '-').collect();
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().map(|(name, n)| (name, n.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(cases: &Cases) -> Vec<(&str, &str)> {
        cases.iter().map(|(case, answer)| (case.as_str(), answer.as_str())).collect()
    }

    #[test]
    fn cases_of_llama_cpp_are_read_through_their_colours() {
        let said = "Backend 1/2: Vulkan0\n  ADD(type=f32,ne=[1,1,1,1]): \x1b[1;32mOK\x1b[0m\n  \
                    ADD(type=f16,ne=[2,1,1,1]): not supported [Vulkan0]\n  \
                    [ADD] NMSE = 0.5 > 0.0000001   ADD(type=f32,ne=[3,1,1,1]): \x1b[1;31mFAIL\x1b[0m\n  \
                    89/90 tests passed\n  Backend Vulkan0: \x1b[1;31mFAIL\x1b[0m\n";
        let cases = backend_ops(said).unwrap();
        assert_eq!(
            pairs(&cases),
            [("ADD(type=f32,ne=[1,1,1,1])", "pass"), ("ADD(type=f32,ne=[3,1,1,1])", "fail")]
        );
        assert_eq!(backend_ops("Backend 1/1: CPU\n  Skipping\n"), None);
    }

    #[test]
    fn hazards_are_counted_by_their_sort_and_none_is_an_answer() {
        let said = "Validation Error: [ SYNC-HAZARD-READ-AFTER-WRITE ] Object 0\nx\n\
                    Validation Error: [ SYNC-HAZARD-READ-AFTER-WRITE ] y\nSYNC-HAZARD-WRITE-AFTER-WRITE(z)";
        assert_eq!(pairs(&hazards(said)), [("READ-AFTER-WRITE", "2"), ("WRITE-AFTER-WRITE", "1")]);
        assert!(hazards("all is well").is_empty());
    }

    #[test]
    fn barriers_that_only_what_is_outside_of_a_recording_forces_are_not_among_the_forced() {
        let folder = tempfile::tempdir().unwrap();
        let lines = "{\"emissions_before\":0,\"emissions\":[{\"kind\":\"prefix\"},{\"kind\":\"raw\"}]}\n\
                     {\"emissions_before\":2,\"emissions\":[{\"kind\":\"flush\"},{\"kind\":\"war\"}]}\nnot a line\n";
        std::fs::write(folder.path().join("1-0.jsonl"), lines).unwrap();
        std::fs::write(folder.path().join("1-1.jsonl"), "{\"emissions\":[{\"kind\":\"waw\"}]}").unwrap();
        assert_eq!(forced(folder.path()), [0, 1, 3]);
        assert_eq!(forced(&folder.path().join("nowhere")), [] as [u64; 0]);
    }

    #[test]
    fn scenes_have_their_digests_and_a_scene_without_one_is_no_result() {
        let said = r#"{"scenes": {"cube": {"digest": "a", "window_digest": "b"}}}"#;
        assert_eq!(pairs(&scenes(said, "window_digest").unwrap()), [("cube", "b")]);
        assert_eq!(scenes(r#"{"scenes": {"cube": {"digest": "a"}}}"#, "window_digest"), None);
        assert_eq!(scenes(r#"{"scenes": {}}"#, "digest"), None);
        assert_eq!(scenes("no pictures today", "digest"), None);
    }
}
