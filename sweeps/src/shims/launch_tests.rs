//! What is started, in which environment, and what is believed of it.

use std::fs;

use zinc_engine::results::{Device, DeviceInfo, DeviceKind};

use super::*;

/// A cache in a folder of its own where the driver seems to be set up.
fn set_up(driver: ShimDriver) -> (tempfile::TempDir, Cache) {
    let top = tempfile::tempdir().unwrap();
    let cache = Cache::of(|name| (name == "XDG_CACHE_HOME").then(|| top.path().into())).unwrap();
    let folder = cache.folder(driver.folder);
    for name in ["start/ld.so".to_string(), format!("vulkan/{}", driver.manifest())]
        .into_iter()
        .chain(driver.libraries().map(|l| format!("usr/lib/x86_64-linux-gnu/{l}")))
    {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::write(folder.join("recipe"), cache.recipe(driver.folder)).unwrap();
    (top, cache)
}

fn driver(name: &str) -> ShimDriver {
    name.parse().unwrap()
}

#[test]
fn a_program_starts_through_the_folders_own_loader_with_the_shim_preloaded() {
    for (name, shim) in [
        ("radv-shim:navi31", "libamdgpu_noop_drm_shim.so"),
        ("radv-shim:gfx1201", "libamdgpu_noop_drm_shim.so"),
        ("honeykrisp-shim", "libasahi_noop_drm_shim.so"),
    ] {
        let (_top, cache) = set_up(driver(name));
        let folder = cache.folder(driver(name).folder);
        let command = Shim::find(driver(name), &cache).unwrap().command(Path::new("/bin/app"), None, &[]);
        let libraries = folder.join("usr/lib/x86_64-linux-gnu");
        assert_eq!(command.get_program(), folder.join("start/ld.so"));
        let args: Vec<_> = command.get_args().map(PathBuf::from).collect();
        let expected = [
            "--library-path".into(),
            libraries.clone(),
            "--preload".into(),
            libraries.join(shim),
            "/bin/app".into(),
        ];
        assert_eq!(args, expected, "{name}");
    }
}

#[test]
fn libraries_that_the_caller_names_are_found_behind_the_shims() {
    let (_top, cache) = set_up(driver("honeykrisp-shim"));
    let shim = Shim::find(driver("honeykrisp-shim"), &cache).unwrap();
    let searched = |own: &str| {
        let env = [("LD_LIBRARY_PATH".into(), own.into())];
        shim.command(Path::new("/bin/app"), None, &env)
            .get_args()
            .nth(1)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(searched("/opt/a:/opt/b"), searched("") + ":/opt/a:/opt/b");
    assert!(searched("").ends_with("/usr/lib/x86_64-linux-gnu"));
}

#[test]
fn a_packet_counter_is_preloaded_before_the_shim_that_would_hide_the_calls_from_it() {
    let (_top, cache) = set_up(driver("honeykrisp-shim"));
    let shim = Shim::find(driver("honeykrisp-shim"), &cache).unwrap();
    let command = shim.command(Path::new("/bin/app"), Some(Path::new("/p/counter.so")), &[]);
    let preload = command.get_args().nth(3).unwrap().to_str().unwrap();
    assert!(
        preload.starts_with("/p/counter.so:/") && preload.ends_with("libasahi_noop_drm_shim.so"),
        "{preload}"
    );
}

#[test]
fn the_environment_leaves_the_loader_no_other_driver() {
    let (_top, cache) = set_up(driver("radv-shim:polaris10"));
    let shim = Shim::find(driver("radv-shim:polaris10"), &cache).unwrap();
    let owner = [
        ("VK_DRIVER_FILES", "own.json"),
        ("VK_ADD_DRIVER_FILES", "more.json"),
        ("AMDGPU_GPU_ID", "x"),
        ("A", "b"),
    ];
    let mut env = owner.map(|(n, v)| (n.into(), v.into())).to_vec();
    shim.apply(&mut env, None);
    env.sort();
    let manifest = cache.folder(shim.driver.folder).join("vulkan/radeon.json").into_os_string();
    let expected: Vec<(OsString, OsString)> = vec![
        ("A".into(), "b".into()),
        ("AMDGPU_GPU_ID".into(), "polaris10".into()),
        ("NODEVICE_SELECT".into(), "1".into()),
        ("VK_DRIVER_FILES".into(), manifest.clone()),
        ("VK_ICD_FILENAMES".into(), manifest),
    ];
    assert_eq!(env, expected);
}

#[test]
fn a_shim_that_is_not_set_up_is_named_with_the_command_that_does_it() {
    let wanted = driver("honeykrisp-shim");
    let (_top, cache) = set_up(driver("radv-shim:navi31"));
    let error = Shim::find(wanted, &cache).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let text = error.to_string();
    assert!(text.contains("'honeykrisp-shim'") && text.contains("`sweep setup-shims`"), "{text}");
}

#[test]
fn a_file_that_is_gone_is_named() {
    // The dynamic loader only warns about a library that it cannot preload, and the program would run without the shim.
    let wanted = driver("radv-shim:navi31");
    let (_top, cache) = set_up(wanted);
    let gone = "usr/lib/x86_64-linux-gnu/libamdgpu_noop_drm_shim.so";
    fs::remove_file(cache.folder(wanted.folder).join(gone)).unwrap();
    let text = Shim::find(wanted, &cache).unwrap_err().to_string();
    assert!(text.contains(gone) && text.contains("--refresh"), "{text}");
}

fn seen(names: &[&str]) -> Info {
    let device = |name: &&str| DeviceInfo {
        device: Device {
            index: 0,
            name: name.to_string(),
            driver: "radv Mesa 25.0.7".into(),
            driver_version: "25.0.7".into(),
            api_version: "1.4.305".into(),
            kind: DeviceKind::DiscreteGpu,
        },
        unusable: None,
    };
    Info {
        schema: 1,
        command: "info".into(),
        engine_version: "0".into(),
        devices: names.iter().map(device).collect(),
        vulkan_error: None,
        model: None,
    }
}

#[test]
fn the_one_device_that_the_shim_plays_is_taken_and_nothing_else() {
    let navi31 = driver("radv-shim:navi31");
    let own = "AMD Radeon Graphics (RADV NAVI31)";
    let chosen = choose(navi31, &seen(&[own])).unwrap();
    assert_eq!((chosen.driver.as_str(), chosen.selector.as_str()), ("radv-shim:navi31", own));
    for (names, needle) in [
        (&[][..], "no device"),
        (&["AMD Radeon Graphics (RADV GFX1201)"], "instead of RADV NAVI31"),
        (&[own, "AMD Radeon RX 7900 XTX (RADV NAVI31)"], "may be real"),
    ] {
        let error = choose(navi31, &seen(names)).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains(needle), "{error}");
    }
    let mut info = seen(&[own]);
    info.devices[0].unusable = Some("no 16-bit storage".into());
    assert!(choose(navi31, &info).unwrap_err().to_string().contains("no 16-bit storage"));
}

#[test]
fn the_devices_that_the_shims_really_show_are_recognised() {
    for (name, device) in [
        ("honeykrisp-shim", "Apple M1 (G13G A0)"),
        ("radv-shim:gfx1201", "AMD Radeon Graphics (RADV GFX1201)"),
        ("radv-shim:polaris12", "AMD Radeon RX 550 / 550 Series (RADV POLARIS12)"),
        ("radv-shim:raphael_mendocino", "AMD Radeon Graphics (RADV RAPHAEL_MENDOCINO)"),
    ] {
        assert!(plays(driver(name), device), "{name}");
    }
}
