//! A folder with the stand-in engine, ready to be swept.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use zinc_sweeps::report::Report;

/// The stand-in engine in a folder of its own, and where the report will go.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// How a sweep ended.
pub struct Swept {
    /// The exit status.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it said on stderr.
    pub stderr: String,
    /// `report.json`, if there is one, read through the types that wrote it.
    pub report: Option<Report>,
}

impl Bench {
    /// An engine that behaves, on a machine with one CPU device.
    pub fn new() -> Bench {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        let engine = bench.path("engine.sh");
        fs::write(&engine, include_str!("engine.sh")).unwrap();
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(bench.path("libzinc_barrier.so"), "not loaded by anybody").unwrap();
        fs::create_dir(bench.path("behaviour")).unwrap();
        bench.with_devices(&[("Fake CPU", "llvmpipe Mesa 22.3.6", "cpu")])
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The devices that `engine info` tells of: name, driver, kind.
    pub fn with_devices(self, devices: &[(&str, &str, &str)]) -> Bench {
        let devices: Vec<Value> = devices
            .iter()
            .enumerate()
            .map(|(i, (name, driver, kind))| {
                json!({"index": i, "name": name, "driver": driver, "driver_version": "1", "api_version": "1.3.0",
                       "kind": kind, "unusable": null})
            })
            .collect();
        let model = json!({"name": "m", "source": "embedded", "blake3": "00", "architecture": "llama",
            "parameters": 1, "bytes": 1, "layers": 1, "embedding": 1, "feed_forward": 1, "heads": 1, "kv_heads": 1,
            "head_dim": 1, "vocabulary": 1, "context": 1, "tokenizer": "t", "tensor_types": {}});
        let info = json!({"schema": 1, "command": "info", "engine_version": "0.1.0", "devices": devices,
            "vulkan_error": null, "model": model});
        fs::write(self.path("info.json"), info.to_string()).unwrap();
        self
    }

    /// Puts the application that stands in beside the engine; what `--app` takes.
    pub fn application(&self) -> String {
        let program = self.path("app.sh");
        fs::write(&program, include_str!("app.sh")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program.display().to_string()
    }

    /// Puts the programs of the other gates beside the engine, and returns the options that name them.
    pub fn tools(&self) -> [String; 4] {
        let script = |name: &str, text: &str| {
            let path = self.path(name);
            fs::write(&path, format!("#!/usr/bin/env bash\nhere=$(dirname \"$0\")\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("pictures.sh", r#"exec "$here/engine.sh" pictures "$@""#);
        fs::create_dir(self.path("oracles")).unwrap();
        script(
            "oracles/run",
            r#"[[ $1 == test-backend-ops ]] && exec "$here/../engine.sh" backend-ops "$@"; exec "$@""#,
        );
        ["--pictures", "pictures.sh", "--oracles", "oracles"].map(Into::into)
    }

    /// Lets the run of that name misbehave; see engine.sh for names and words.
    pub fn with(self, run: &str, how: &str) -> Bench {
        fs::write(self.path("behaviour").join(run), how).unwrap();
        self
    }

    /// Runs `sweep` with few runs and these further arguments.
    pub fn sweep(&self, args: &[&str]) -> Swept {
        let out = self.path("out");
        let mut command = self.command();
        if !args.contains(&"--out") {
            command.arg("--out").arg(&out);
        }
        for (option, value) in [("--reps", "2"), ("--drops", "3")] {
            if !args.contains(&option) {
                command.args([option, value]);
            }
        }
        let output = command.args(args).output().unwrap();
        self.swept(output)
    }

    /// `sweep` with the stand-in engine, in an environment that holds traps.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
        command.arg("--engine").arg(self.path("engine.sh"));
        command.arg("--layer").arg(self.path("libzinc_barrier.so"));
        command.current_dir(self.folder.path());
        // Whatever the owner has set must not reach an arm.
        command.env("ZINC_BARRIER_POLICY", "none").env("ZINC_BARRIER_SHUFFLE", "reverse");
        command.env("ZINC_BARRIER_MUTATE", "0").env("VK_INSTANCE_LAYERS", "zinc_barrier");
        command
    }

    /// What came of a finished process.
    pub fn swept(&self, output: Output) -> Swept {
        let report = fs::read_to_string(self.path("out/report.json")).ok();
        Swept {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            report: report.map(|text| serde_json::from_str(&text).unwrap()),
        }
    }

    /// The runs that the engine was started for, in order, drops included.
    pub fn runs(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_string())).collect()
    }
}

impl Swept {
    /// The report, which must be there.
    pub fn report(&self) -> &Report {
        self.report.as_ref().unwrap_or_else(|| panic!("no report; stderr:\n{}", self.stderr))
    }

    /// The verdict on the arm of that policy and shuffle as the report's word, with its reason.
    pub fn verdict(&self, policy: &str, shuffle: &str) -> (String, String) {
        let arm = self
            .report()
            .arms
            .iter()
            .find(|a| a.policy.as_deref() == Some(policy) && a.shuffle == shuffle)
            .unwrap_or_else(|| panic!("no arm {policy}, {shuffle}"));
        let word = serde_json::to_value(arm.verdict).unwrap();
        (word.as_str().unwrap().to_string(), arm.reason.clone().unwrap_or_default())
    }

    /// The status of a gate for a policy as the report's word, with its reason.
    pub fn gate(&self, gate: &str, policy: &str) -> (String, String) {
        let found = self
            .report()
            .gates
            .iter()
            .find(|g| g.gate == gate && g.policy == policy)
            .unwrap_or_else(|| panic!("no gate {gate} for {policy}"));
        let word = serde_json::to_value(found.status).unwrap();
        (word.as_str().unwrap().to_string(), found.reason.clone().unwrap_or_default())
    }

    /// Fails the test with everything that was said unless the exit status is `code`.
    pub fn expect(self, code: i32) -> Swept {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}
