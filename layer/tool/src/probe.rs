//! What really happens when a program makes a Vulkan instance here.
//!
//! Reading manifests says what should happen; only an instance says what does. It is made in a child process:
//! a driver that crashes or hangs must not take the doctor with it, and the loader reads some variables only once.
//! Whether the layer was inserted is seen in the child's own memory map, which no layer can fake by its name.

use std::ffi::{CStr, c_char};
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ash::vk;
use serde_json::{Value, json};
use zinc_report::{DeviceType, api_version_text};
use zinc_settings::manifest::LIBRARY_NAME;

/// How long a child may take; a driver that compiles its first shaders may be slow, but not this slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// The loader of this process.
#[derive(Clone, Debug)]
pub struct Loader {
    /// Where the loader's library lies.
    pub path: PathBuf,
    /// Its version as a packed number.
    pub version: u32,
    /// The names of the layers that it lists.
    pub layers: Vec<String>,
}

/// Loads the Vulkan loader and asks it for its version and its layers.
///
/// # Errors
///
/// If there is no loader, or it does not answer.
pub fn loader() -> Result<Loader> {
    // SAFETY: the loader is the system's own; its initialisers are as sound as those of any Vulkan program here.
    let entry = unsafe { ash::Entry::load() }.context("the Vulkan loader libvulkan.so.1 cannot be opened")?;
    // SAFETY: the entry points were just loaded, and nothing else is asked of the call.
    let version =
        unsafe { entry.try_enumerate_instance_version() }.context("the loader does not tell its version")?;
    // SAFETY: as above.
    let layers =
        unsafe { entry.enumerate_instance_layer_properties() }.context("the loader lists no layers")?;
    Ok(Loader {
        path: mapped("libvulkan.so").into_iter().next().unwrap_or_else(|| "libvulkan.so.1".into()),
        version: version.unwrap_or(vk::API_VERSION_1_0),
        layers: layers.iter().map(|layer| text(&layer.layer_name)).collect(),
    })
}

/// What a child saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// One line for each physical device.
    pub devices: Vec<String>,
    /// The layer's library, if it was loaded.
    pub layer: Option<PathBuf>,
    /// What went wrong, in the loader's or the system's words.
    pub error: Option<String>,
}

/// Runs this program's hidden subcommand `probe` with more variables set.
///
/// # Errors
///
/// If the child cannot be started. A child that fails is a result.
pub fn in_child(set: &[(&str, String)]) -> Result<Seen> {
    let program = std::env::current_exe().context("this program's own path is unknown")?;
    let mut command = Command::new(program);
    // The probe is no run of the user's: no report of it.
    command
        .arg("probe")
        .env("ZINC_BARRIER_REPORT", "off")
        .envs(set.iter().map(|(name, value)| (name, value)));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("the probing child cannot be started")?;
    // Less than a pipe holds is ever written, so the child cannot block on its output.
    let begin = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                let error = format!("making an instance took more than {} seconds", PATIENCE.as_secs());
                return Ok(Seen { error: Some(error), ..Seen::default() });
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut output = String::new();
    child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut output)).transpose()?;
    let value: Value = match serde_json::from_str(&output) {
        Ok(value) if status.success() => value,
        _ => {
            let error = format!("making an instance ended the process ({status})");
            return Ok(Seen { error: Some(error), ..Seen::default() });
        }
    };
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(String::from)).collect()
    };
    Ok(Seen {
        devices: strings(&value["devices"]),
        layer: value["layer"].as_str().map(PathBuf::from),
        error: value["error"].as_str().map(String::from),
    })
}

/// The child's side: makes an instance and describes it as JSON.
pub fn describe() -> Value {
    // SAFETY: as in `loader`.
    let entry = match unsafe { ash::Entry::load() } {
        Ok(entry) => entry,
        Err(why) => return json!({ "error": why.to_string() }),
    };
    // SAFETY: no pointer but the library's own.
    let version = unsafe { entry.try_enumerate_instance_version() }.ok().flatten();
    let application = vk::ApplicationInfo::default()
        .application_name(c"zinc-barrier")
        .api_version(version.unwrap_or(vk::API_VERSION_1_0));
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: `info` and what it points to live until the call returns, and no extension is named.
    let instance = match unsafe { entry.create_instance(&info, None) } {
        Ok(instance) => instance,
        Err(why) => return json!({ "error": format!("vkCreateInstance: {why}") }),
    };
    let layer = mapped(LIBRARY_NAME).into_iter().next();
    // SAFETY: the instance is alive.
    let devices = unsafe { instance.enumerate_physical_devices() };
    let error = devices.as_ref().err().map(|why| format!("vkEnumeratePhysicalDevices: {why}"));
    let lines: Vec<String> = devices
        .unwrap_or_default()
        .into_iter()
        .map(|device| {
            // SAFETY: the device was just listed by the living instance.
            let properties = unsafe { instance.get_physical_device_properties(device) };
            let kind = DeviceType::from_vulkan(properties.device_type.as_raw()).name();
            format!(
                "{} ({kind}), Vulkan {}",
                text(&properties.device_name),
                api_version_text(properties.api_version)
            )
        })
        .collect();
    // SAFETY: nothing made from the instance is used afterwards.
    unsafe { instance.destroy_instance(None) };
    json!({ "devices": lines, "layer": layer, "error": error })
}

/// The files of this process's memory map whose names begin with `name`.
fn mapped(name: &str) -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files: Vec<PathBuf> = Vec::new();
    // Five fields, then the path, which may hold spaces.
    for path in maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..]))) {
        let ours = path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
        if ours && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}
