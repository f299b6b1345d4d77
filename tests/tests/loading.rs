//! The layer in the real loader: inserted by each of the ways that the README names, once, and kept out when asked.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use zinc_tests::artefacts;
use zinc_tests::layer::{read_report, write_manifest};
use zinc_tests::oracle::oracles;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Ended, Stream, vulkan};

const ENABLE: (&str, &str) = ("ZINC_BARRIER", "1");
const NAME: (&str, &str) = ("VK_INSTANCE_LAYERS", "zinc_barrier");
const DISABLE: (&str, &str) = ("DISABLE_ZINC_BARRIER", "1");

fn stream() -> Stream {
    Stream::new(
        "
        buffer a 1024
        buffer b 1024
        begin x
            dispatch step a b
            barrier compute_shader/shader_write -> compute_shader/shader_read
            dispatch step b a
        end
        submit x
        wait
    ",
    )
}

/// `zinc-barrier ARGS` with its home in a folder.
fn zinc_barrier(home: &Path, args: &[&str]) -> Ended {
    Child::new(artefacts::installer())
        .args(args)
        .env("HOME", home)
        .env("XDG_DATA_HOME", home.join("data"))
        .run()
}

/// Plays a stream with its home in a folder and says how often the layer was inserted and whether it reported.
fn inserted(home: &Path, variables: &[(&str, &str)]) -> (usize, bool) {
    let report = home.join("report.json");
    let _ = std::fs::remove_file(&report);
    let mut child = stream().child(home).env("XDG_DATA_HOME", home.join("data"));
    child = child.env("ZINC_BARRIER_REPORT", &report).env("VK_LOADER_DEBUG", "layer");
    for (name, value) in variables {
        child = child.env(name, value);
    }
    let ended = child.run().succeeded();
    let insertions = ended.stderr.lines().filter(|line| {
        let line = line.to_lowercase();
        line.contains("insert instance layer") && line.contains("zinc_barrier")
    });
    let reported = report.exists();
    if reported {
        assert_eq!(read_report(&report).totals.dispatches, 2, "{}", ended.transcript());
    }
    (insertions.count(), reported)
}

#[test]
fn an_explicit_manifest_and_the_layer_s_name_insert_it_once() {
    assert!(stream().under("alias-only").report.is_some());
    let folder = scratch();
    let layers = folder.path().join("layers");
    write_manifest(&layers, None);
    let path = layers.display().to_string();
    assert_eq!(inserted(folder.path(), &[NAME, ("VK_LAYER_PATH", &path)]), (1, true));
    assert_eq!(inserted(folder.path(), &[("VK_LAYER_PATH", &path)]), (0, false), "nobody asked for it");
}

#[test]
fn an_installed_layer_is_inserted_once_by_either_variable_or_by_both() {
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    assert_eq!(inserted(home.path(), &[]), (0, false), "nobody asked for it");
    assert_eq!(inserted(home.path(), &[NAME]), (1, true), "by name");
    assert_eq!(inserted(home.path(), &[ENABLE]), (1, true), "by the enabling variable");
    // The loader inserts it under each of its names; it then works once, as the dispatches of its report say.
    assert_eq!(inserted(home.path(), &[NAME, ENABLE]), (2, true), "by both");
}

#[test]
fn it_works_once_where_it_is_inserted_twice_around_another_layer() {
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    let validation = "VK_LAYER_KHRONOS_validation";
    let mut seen = Vec::new();
    for names in [format!("{validation}:zinc_barrier"), format!("zinc_barrier:{validation}")] {
        let found = inserted(home.path(), &[("VK_INSTANCE_LAYERS", &names), ENABLE]);
        assert_eq!(found, (2, true), "{names}");
        let report = read_report(&home.path().join("report.json"));
        seen.push((report.totals.barriers_asked, report.totals.submits, report.notes));
    }
    assert_eq!((seen[0].0, seen[0].1), (1, 1));
    assert_eq!(seen[0], seen[1]);
}

/// What a loader says of the layer when a program starts that does not use it.
fn warnings(home: &Path, program: Child) -> Vec<String> {
    let child = program
        .env("HOME", home)
        .env("XDG_DATA_HOME", home.join("data"))
        .env("VK_LOADER_DEBUG", "warn,error");
    let ended = child.run().succeeded();
    ended.stderr.lines().filter(|line| line.to_lowercase().contains("zinc")).map(String::from).collect()
}

#[test]
fn a_loader_warns_of_nothing_in_programs_that_do_not_use_the_layer() {
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    let probe = artefacts::installer();
    if let Some(current) = oracles("what a current loader says of the layer") {
        let found = warnings(home.path(), Child::new(current.folder().join("run")).arg(&probe).arg("probe"));
        assert_eq!(found, Vec::<String>::new(), "a current loader");
    }
    // Older ones read the manifests of explicit layers, too, whose name is the one that people type.
    let found = warnings(home.path(), Child::new(&probe).arg("probe"));
    assert!(found.iter().all(|line| line.contains("Layer name zinc_barrier does not conform")), "{found:?}");
    assert!(found.len() <= 1, "{found:?}");
}

#[test]
fn the_disabling_variable_keeps_it_out() {
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    let (_, reported) = inserted(home.path(), &[ENABLE, DISABLE]);
    assert!(!reported, "DISABLE_ZINC_BARRIER must win over ZINC_BARRIER");
    // The loader inserts what VK_INSTANCE_LAYERS names all the same; the layer then does and says nothing.
    let (_, reported) = inserted(home.path(), &[NAME, DISABLE]);
    assert!(!reported, "DISABLE_ZINC_BARRIER must win over VK_INSTANCE_LAYERS");
}

#[test]
fn installing_twice_is_installing_once_and_uninstalling_leaves_nothing() {
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    let once = files(home.path());
    assert!(once.iter().any(|f| f.contains("explicit_layer.d")), "{once:?}");
    assert!(once.iter().any(|f| f.contains("implicit_layer.d")), "{once:?}");
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    assert_eq!(files(home.path()), once);
    zinc_barrier(home.path(), &["uninstall", "--user"]).succeeded();
    assert_eq!(files(home.path()), Vec::<String>::new());
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => found.push(path.display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn vulkaninfo_says_the_same_with_the_layer() {
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    let summary = |variables: &[(&str, &str)]| {
        let mut child = Child::new("vulkaninfo").arg("--summary").envs(&vulkan::environment(home.path()));
        child = child.env("XDG_DATA_HOME", home.path().join("data"));
        for (name, value) in variables {
            child = child.env(name, value);
        }
        child.run().succeeded().stdout
    };
    let without = summary(&[]);
    assert!(without.contains("zinc_barrier"), "the installed layer is not even listed:\n{without}");
    for variables in [&[ENABLE][..], &[NAME], &[ENABLE, NAME]] {
        assert_eq!(summary(variables), without, "with {variables:?}");
    }
}

/// All settings below `list`, those within others too.
fn settings_below<'a>(list: &'a Value, out: &mut Vec<&'a Value>) {
    for setting in list.as_array().into_iter().flatten() {
        out.push(setting);
        settings_below(&setting["settings"], out);
        for flag in setting["flags"].as_array().into_iter().flatten() {
            settings_below(&flag["settings"], out);
        }
    }
}

/// What a manifest says in a way in which Khronos's own layer, which Vulkan Configurator was made for, does not say it.
fn strange_to_configurator(ours: &Value, theirs: &Value) -> Vec<String> {
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    let mut faults = Vec::new();
    // Older loaders want to be told of the entry point, which newer manifests leave out.
    let known: BTreeSet<_> = keys(&theirs["layer"]).into_iter().chain(["functions".to_owned()]).collect();
    for key in keys(&ours["layer"]).difference(&known) {
        faults.push(format!("layer: {key}"));
    }
    let (mut mine, mut models) = (Vec::new(), Vec::new());
    settings_below(&ours["layer"]["features"]["settings"], &mut mine);
    settings_below(&theirs["layer"]["features"]["settings"], &mut models);
    for setting in mine {
        let name = setting["key"].as_str().unwrap_or("a setting without a key");
        let alike = || models.iter().filter(|model| model["type"] == setting["type"]);
        let any: BTreeSet<_> = models.iter().flat_map(|model| keys(model)).collect();
        let all = alike().map(|model| keys(model)).reduce(|a, b| a.intersection(&b).cloned().collect());
        // They use no plain text of their own; what every setting of theirs has, this must have, too.
        let all = all.or_else(|| {
            let plain = setting["type"] == "STRING";
            plain.then(|| ["key", "label", "description", "type", "default"].map(str::to_owned).into())
        });
        let Some(all) = all else {
            faults.push(format!("{name}: type {}", setting["type"]));
            continue;
        };
        // A dependence on another setting is theirs.
        let missing =
            all.difference(&keys(setting)).filter(|key| *key != "dependence").cloned().collect::<Vec<_>>();
        faults.extend(missing.iter().map(|key| format!("{name}: no {key}")));
        faults.extend(keys(setting).difference(&any).map(|key| format!("{name}: {key}")));
        let fits = match setting["type"].as_str() {
            Some("BOOL") => setting["default"].is_boolean(),
            Some("ENUM") => setting["flags"].as_array().is_some_and(|flags| {
                let described =
                    |flag: &Value| ["key", "label", "description"].iter().all(|key| flag[*key].is_string());
                flags.iter().all(described) && flags.iter().any(|flag| flag["key"] == setting["default"])
            }),
            _ => setting["default"].is_string(),
        };
        if !fits {
            faults.push(format!("{name}: default {}", setting["default"]));
        }
    }
    faults
}

#[test]
fn the_manifest_describes_its_settings_as_khronos_own_layer_describes_its() {
    let Some(oracles) = oracles("the manifest beside Khronos's") else { return };
    let folder = oracles.folder().join("usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json");
    let read = |path: &Path| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).expect("a manifest")).expect("JSON")
    };
    let theirs = read(&folder);
    let home = scratch();
    zinc_barrier(home.path(), &["install", "--user"]).succeeded();
    let explicit = home.path().join("data/vulkan/explicit_layer.d/zinc_barrier.json");
    let ours = read(&explicit);
    assert!(ours["layer"]["features"]["settings"].as_array().is_some_and(|all| all.len() > 10));
    assert_eq!(ours["file_format_version"], theirs["file_format_version"]);
    assert_eq!(strange_to_configurator(&ours, &theirs), Vec::<String>::new());
    // The control: each of these would not be shown, or not as it is.
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = ours.clone();
        change(&mut changed["layer"]["features"]["settings"][0]);
        strange_to_configurator(&changed, &theirs).len()
    };
    assert!(with(&|setting| setting["type"] = "WORD".into()) > 0);
    assert!(with(&|setting| setting["default"] = 7.into()) > 0);
    assert!(with(&|setting| setting["colour"] = "red".into()) > 0);
    assert!(with(&|setting| drop(setting.as_object_mut().unwrap().remove("label"))) > 0);
}
