//! One program on one driver of a private prefix, and what it submitted.
//!
//! The drivers were built for this system, so the shim is preloaded in the ordinary way: first the packet counter, then
//! the writer of command buffers, then the shim, which answers the driver's calls itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use zinc_packets_core::report::{Pm4, Report};
use zinc_tests::artefacts;

/// A prefix that `mesa-patches/build` made.
pub struct Prefix(pub PathBuf);

/// Settings of a driver: variable and value.
pub type Knobs<'a> = &'a [(&'a str, &'a str)];

/// What one program submitted.
pub struct Played {
    /// The packets, counted.
    pub pm4: Pm4,
    /// The command buffers, word for word.
    pub words: Vec<u8>,
    /// Lines that the driver's own counters wrote.
    pub counters: String,
}

impl Prefix {
    /// The prefix that the build script names, or its words on why there is none.
    pub fn find(stock: bool) -> Result<Prefix> {
        let mut command = Command::new(artefacts::repository().join("mesa-patches/build"));
        command.args(["--where", "--drivers", "radv"]);
        if stock {
            command.arg("--stock");
        }
        let output = command.output().context("cannot start mesa-patches/build")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Prefix(String::from_utf8_lossy(&output.stdout).trim().into()))
    }

    fn library(&self, name: &str) -> PathBuf {
        self.0.join("lib").join(name)
    }

    /// The environment of a program on RADV as `chip`.
    fn environment(&self, chip: &str, counted: &Path, words: Option<&Path>) -> Vec<(&'static str, OsString)> {
        let mut preload = artefacts::packets().into_os_string();
        if words.is_some() {
            preload.push(":");
            preload.push(self.library("libzinc_ib_dump.so"));
        }
        preload.push(":");
        preload.push(self.library("libamdgpu_noop_drm_shim.so"));
        let manifest = self.0.join("vulkan/radv.json").into_os_string();
        let mut env = vec![
            ("LD_PRELOAD", preload),
            ("AMDGPU_GPU_ID", chip.into()),
            ("VK_DRIVER_FILES", manifest.clone()),
            ("VK_ICD_FILENAMES", manifest),
            ("ZINC_BARRIER_PACKETS", counted.into()),
            // A shader that comes from the cache leaves other traces than one that is compiled.
            ("MESA_SHADER_CACHE_DISABLE", "1".into()),
            ("NODEVICE_SELECT", "1".into()),
        ];
        if let Some(words) = words {
            env.push(("ZINC_BARRIER_IB_DUMP", words.into()));
        }
        env
    }

    /// Runs `program` with `arguments` on RADV as `chip`. The command buffers are written only if `words` says so, since
    /// a long run submits gigabytes.
    pub fn play(&self, chip: &str, program: &[OsString], knobs: Knobs, words: bool) -> Result<Played> {
        let folder = tempfile::tempdir().context("scratch folder")?;
        let (counted, dump) = (folder.path().join("packets.json"), folder.path().join("words"));
        let counters = folder.path().join("counters");
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).envs(self.environment(chip, &counted, words.then_some(&*dump)));
        command.env("RADV_BARRIER_COUNTERS", &counters).envs(knobs.iter().copied());
        let output = command.output().with_context(|| format!("cannot start {}", program[0].display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{chip}: ended with {}: {said}", output.status);
        let text = std::fs::read_to_string(&counted)
            .with_context(|| format!("{chip}: the packet counter wrote nothing: {said}"))?;
        let report: Report = serde_json::from_str(&text).context("the packet counter's report")?;
        let [device] = &report.devices[..] else {
            bail!("{chip}: {} devices got submissions, not one: {said}", report.devices.len());
        };
        ensure!(device.unreadable_submits == 0, "{chip}: a submission could not be read");
        let pm4 = device.total.pm4.clone().with_context(|| format!("{chip}: no PM4 stream"))?;
        Ok(Played {
            pm4,
            words: if words {
                std::fs::read(&dump).context("the words of the command buffers")?
            } else {
                vec![]
            },
            counters: std::fs::read_to_string(&counters).unwrap_or_default(),
        })
    }
}
