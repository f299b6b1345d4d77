//! Crates depend on each other as docs/architecture.md draws it, and what is injected takes in little.
//!
//! The drawing is the rule: an edge that is in a manifest and not in the table is a mistake, and so is one in the table
//! that no manifest has any more.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};
use zinc_tests::artefacts::repository;

/// What every crate's name begins with; the table leaves it out.
const PREFIX: &str = "zinc-";

/// Crates for command lines, terminals and scratch files: not for other people's processes.
const NOT_INJECTED: [&str; 10] = [
    "anstream",
    "anyhow",
    "clap",
    "clap_builder",
    "clap_complete",
    "comfy-table",
    "crossterm",
    "rustix",
    "strsim",
    "tempfile",
];

/// One crate: its folder, and the crates of the workspace that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Crate {
    folder: String,
    linked: BTreeSet<String>,
    for_building_and_tests: BTreeSet<String>,
}

type Crates = BTreeMap<String, Crate>;

/// The words in backquotes of a cell.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The table of docs/architecture.md.
fn drawn(page: &str) -> Crates {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [folder, name, _, linked, other] = cells[..] else { panic!("five cells were expected: {row}") };
        let one = |cell| quoted(cell).next().unwrap_or_else(|| panic!("a cell is empty: {row}")).to_string();
        let all = |cell| quoted(cell).map(|name| format!("{PREFIX}{name}")).collect();
        let drawn = Crate { folder: one(folder), linked: all(linked), for_building_and_tests: all(other) };
        (one(name), drawn)
    })
    .collect()
}

/// What the manifests say, as `cargo metadata --no-deps` prints it.
fn built(metadata: &Value) -> Crates {
    let root = metadata["workspace_root"].as_str().expect("cargo names the workspace");
    let packages = metadata["packages"].as_array().expect("cargo lists the packages");
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let of = |package: &Value| {
        let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
        let folder = manifest.strip_prefix(root).and_then(|path| path.strip_suffix("/Cargo.toml"));
        let mut found = Crate {
            folder: folder.expect("a member is below the root").trim_start_matches('/').into(),
            ..Crate::default()
        };
        for needed in package["dependencies"].as_array().into_iter().flatten() {
            let name = needed["name"].as_str().expect("a dependency has a name");
            if names.contains(name) {
                let set = match needed["kind"].as_str() {
                    None => &mut found.linked,
                    Some(_) => &mut found.for_building_and_tests,
                };
                set.insert(name.into());
            }
        }
        (package["name"].as_str().expect("a package has a name").to_string(), found)
    };
    packages.iter().map(of).collect()
}

/// What differs, a line each.
fn differences(drawn: &Crates, built: &Crates) -> Vec<String> {
    let mut lines = Vec::new();
    for name in drawn.keys().chain(built.keys()).collect::<BTreeSet<_>>() {
        let (Some(table), Some(manifest)) = (drawn.get(name), built.get(name)) else {
            let where_from = if drawn.contains_key(name) { "the table" } else { "the workspace" };
            lines.push(format!("{name} is only in {where_from}"));
            continue;
        };
        if table.folder != manifest.folder {
            lines.push(format!("{name} is drawn in {} and lies in {}", table.folder, manifest.folder));
        }
        for (how, table, manifest) in [
            ("is linked with", &table.linked, &manifest.linked),
            ("builds or tests with", &table.for_building_and_tests, &manifest.for_building_and_tests),
        ] {
            lines.extend(manifest.difference(table).map(|other| format!("{name} {how} {other}: not drawn")));
            lines.extend(table.difference(manifest).map(|other| format!("{name} {how} {other}: only drawn")));
        }
    }
    lines
}

/// What cargo prints, from what is on this machine and as the lock file has it.
fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(repository()).args(arguments).args(["--locked", "--offline"]);
    let output = command.output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/architecture.md")).expect("the page is there")
}

fn metadata() -> Value {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_str(&text).expect("cargo prints JSON")
}

#[test]
fn crates_depend_on_each_other_as_the_page_draws_it() {
    let (drawn, built) = (drawn(&page()), built(&metadata()));
    assert!(built.len() > 10, "{built:?}");
    assert_eq!(differences(&drawn, &built), Vec::<String>::new());
}

#[test]
fn an_edge_a_crate_and_a_folder_that_are_not_drawn_are_named() {
    let drawn = drawn(&page());
    let with = |change: &dyn Fn(&mut Value)| {
        let mut metadata = metadata();
        change(&mut metadata);
        differences(&drawn, &built(&metadata))
    };
    let package = |metadata: &mut Value, name: &str| {
        let packages = metadata["packages"].as_array().unwrap();
        packages.iter().position(|package| package["name"] == name).unwrap()
    };
    let edge = |from: &'static str, to: &'static str, kind: Value| {
        with(&|metadata| {
            let from = package(metadata, from);
            let edges = metadata["packages"][from]["dependencies"].as_array_mut().unwrap();
            edges.push(json!({"name": to, "kind": kind}));
        })
    };
    assert_eq!(
        edge("zinc-hazard", "zinc-engine", Value::Null),
        ["zinc-hazard is linked with zinc-engine: not drawn"]
    );
    assert_eq!(
        edge("zinc-hazard", "zinc-tests", json!("dev")),
        ["zinc-hazard builds or tests with zinc-tests: not drawn"]
    );
    let without = with(&|metadata| {
        let tool = package(metadata, "zinc-barrier-tool");
        metadata["packages"][tool]["dependencies"] = json!([]);
        metadata["packages"][tool]["manifest_path"] =
            format!("{}/tool/Cargo.toml", metadata["workspace_root"].as_str().unwrap()).into();
    });
    assert_eq!(without[0], "zinc-barrier-tool is drawn in layer/tool and lies in tool");
    assert!(
        without.contains(&"zinc-barrier-tool is linked with zinc-settings: only drawn".into()),
        "{without:?}"
    );
    let renamed = with(&|metadata| {
        let bench = package(metadata, "zinc-layer-bench");
        metadata["packages"][bench]["name"] = "zinc-new".into();
    });
    assert_eq!(renamed, ["zinc-layer-bench is only in the table", "zinc-new is only in the workspace"]);
}

/// Which of [`NOT_INJECTED`] a package is linked with.
fn unwanted(package: &str) -> Vec<&'static str> {
    let tree = cargo(&["tree", "-p", package, "-e", "normal", "--prefix", "none"]);
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(package) && names.contains("zinc-settings"), "{tree}");
    NOT_INJECTED.into_iter().filter(|name| names.contains(name)).collect()
}

#[test]
fn nothing_for_a_command_line_is_injected_into_applications() {
    assert_eq!(unwanted("zinc-barrier"), Vec::<&str>::new());
    // The control: the layer's command has what the layer must not have.
    let command = unwanted("zinc-barrier-tool");
    for name in ["anyhow", "clap", "clap_complete", "comfy-table", "strsim"] {
        assert!(command.contains(&name), "{command:?}");
    }
}
