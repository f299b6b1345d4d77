//! Modules import one way: what a file stands on does not stand on that file.
//!
//! The graph is of files. An import in a test counts for nothing; nor does one between a folder's `mod.rs` and what lies
//! in the folder, which are one room and its door. Where modules do know each other, the list below says which and why,
//! and an entry that no longer holds has to go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use zinc_tests::artefacts::repository;

/// Modules that know each other: the crate's folder, the modules, and why it is so.
const KNOTS: &[(&str, &[&str], &str)] = &[
    (
        "layer",
        &[
            "abi",
            "addresses",
            "application",
            "bindings",
            "capture",
            "commands",
            "context",
            "descriptors",
            "device",
            "entry",
            "footprint",
            "hooks",
            "images",
            "in_force",
            "labels",
            "layouts",
            "mappings",
            "memory",
            "objects",
            "pipelines",
            "pushes",
            "queries",
            "recorder",
            "registry",
            "replay",
            "replay::cuttable",
            "reporting",
            "script",
            "segment",
            "set_layouts",
            "stubs",
            "submits",
            "templates",
            "tight",
            "tooling",
            "transfers",
        ],
        "An intercepted call, the device that it is of and what it changes there: the table of functions names every command, commands name the device, and the device holds what they change.",
    ),
    (
        "layer/hazard",
        &["config", "memo", "state", "tracker"],
        "What a barrier does is worked out by the tracker once and then looked up, by the state that it was in.",
    ),
    (
        "layer/hazard",
        &["planner", "policy", "whole"],
        "A policy says which planner decides, and the planner of whole stretches is one of them.",
    ),
    (
        "layer/reflect",
        &[
            "constants",
            "decorations",
            "effects",
            "flow",
            "meaning",
            "module",
            "ranges",
            "resource",
            "specialize",
        ],
        "A module is what its parts make of it, and each part reads the module.",
    ),
    (
        "layer/reflect",
        &["ranges::build", "ranges::pointers"],
        "An index is built from pointers, and a pointer from indices.",
    ),
    (
        "layer/reflect",
        &["ranges::transfer", "ranges::walk"],
        "A walk over blocks applies what an instruction does, which for a call is another walk.",
    ),
    ("layer/report", &["table", "words"], "A table's cells are words, and some words are of whole tables."),
    ("engine", &["cli", "commands"], "Options name the commands whose arguments they hold."),
    ("engine", &["decode", "weights"], "Weights are loaded for a session, which holds them."),
    (
        "engine",
        &[
            "ops::attention",
            "ops::batch",
            "ops::cases",
            "ops::chain",
            "ops::fused",
            "ops::matrices",
            "ops::prompt",
            "ops::variants",
        ],
        "Each kind of operator adds its cases to the list, and takes from the list's module what a case is.",
    ),
    (
        "engine",
        &["plan::chain", "plan::decode", "plan::fused", "plan::resident"],
        "A schedule falls back to another where a step has no kernel of its own.",
    ),
    (
        "sweeps/packets",
        &["hooks", "leaving", "next", "process", "state"],
        "A hook counts, and what counts decides which hook is called.",
    ),
    (
        "sweeps/packets/core",
        &["amdgpu", "asahi", "file", "seen", "summary", "tracker"],
        "A tracker hands what was submitted to the driver's own part, which notes it in the tracker's tables.",
    ),
];

/// Files by the names of their modules, such as `session::found`; the root is "".
type Files = BTreeMap<String, PathBuf>;

/// The modules of the crate with its source in `folder`.
fn files(folder: &Path) -> Files {
    fn gather(folder: &Path, name: &str, files: &mut Files) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let stem = entry.file_stem().unwrap().to_str().unwrap();
            let inner = if name.is_empty() { stem.to_owned() } else { format!("{name}::{stem}") };
            if entry.is_dir() {
                if stem != "bin" {
                    gather(&entry, &inner, files);
                }
            } else if entry.extension().is_some_and(|e| e == "rs") {
                let name = match stem {
                    "lib" | "main" if name.is_empty() => String::new(),
                    "mod" => name.to_owned(),
                    _ => inner,
                };
                files.insert(name, entry);
            }
        }
    }
    let mut found = Files::new();
    gather(folder, "", &mut found);
    found
}

/// The paths that a file names, each as segments from the crate's root.
struct Paths<'a> {
    module: &'a str,
    files: &'a Files,
    found: Vec<Vec<String>>,
}

impl Paths<'_> {
    fn add(&mut self, segments: &[String]) {
        let own: Vec<String> = self.module.split("::").filter(|s| !s.is_empty()).map(String::from).collect();
        let up = segments.iter().take_while(|s| *s == "super").count();
        let path = match segments.first().map(String::as_str) {
            Some("crate") => segments[1..].to_vec(),
            Some("self") => [&own[..], &segments[1..]].concat(),
            Some("super") if up <= own.len() => [&own[..own.len() - up], &segments[up..]].concat(),
            // A child of this module.
            Some(first) if self.files.contains_key(&[&own[..], &[first.to_owned()]].concat().join("::")) => {
                [&own[..], segments].concat()
            }
            _ => return,
        };
        self.found.push(path);
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                let name = path.ident.to_string();
                self.tree(&[before, &[name]].concat(), &path.tree);
            }
            syn::UseTree::Name(name) => self.add(&[before, &[name.ident.to_string()]].concat()),
            syn::UseTree::Rename(name) => self.add(&[before, &[name.ident.to_string()]].concat()),
            syn::UseTree::Glob(_) => self.add(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }
}

/// Whether an item is of tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg") && {
            let mut test = false;
            let _ = a.parse_nested_meta(|meta| {
                test |= meta.path.is_ident("test");
                Ok(())
            });
            test
        }
    })
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.add(&segments);
        }
        syn::visit::visit_path(self, path);
    }
}

/// Which modules each module names.
fn edges(files: &Files) -> BTreeMap<String, BTreeSet<String>> {
    let mut edges = BTreeMap::new();
    for (module, file) in files {
        let text = std::fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        if is_test(&parsed.attrs)
            || module.split("::").any(|part| part == "tests" || part.ends_with("_tests"))
        {
            continue;
        }
        let mut paths = Paths { module, files, found: Vec::new() };
        paths.visit_file(&parsed);
        let known = |path: &Vec<String>| {
            (1..=path.len()).rev().map(|n| path[..n].join("::")).find(|name| files.contains_key(name))
        };
        let within = |one: &str, other: &str| other.starts_with(&format!("{one}::"));
        let named = paths.found.iter().filter_map(known);
        let named = named.filter(|to| to != module && !within(module, to) && !within(to, module));
        edges.insert(module.clone(), named.collect());
    }
    edges
}

/// Modules that reach each other, each group once.
fn knots(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reach = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from.to_owned()];
        while let Some(at) = next.pop() {
            for to in edges.get(&at).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|from| (from, reach(from))).collect();
    let mut found: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (from, all) in &reached {
        let back = all.iter().filter(|to| reached.get(to).is_some_and(|r| r.contains(*from)));
        let knot: BTreeSet<String> = back.cloned().collect();
        if knot.len() > 1 {
            found.insert(knot);
        }
    }
    found.into_iter().collect()
}

/// The folders with a crate's source, as the workspace lists its crates.
fn crates() -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let members = text.lines().find_map(|line| line.strip_prefix("members = [")?.strip_suffix(']')).unwrap();
    members.split(',').map(|member| member.trim().trim_matches('"').to_owned()).collect()
}

#[test]
fn modules_import_one_way_but_for_those_that_are_listed_with_a_reason() {
    let mut faults = Vec::new();
    let mut held = BTreeSet::new();
    for name in crates() {
        let folder = repository().join(&name).join("src");
        if !folder.is_dir() {
            continue;
        }
        for knot in knots(&edges(&files(&folder))) {
            let listed = KNOTS.iter().position(|(of, modules, _)| {
                *of == name && knot.iter().all(|module| modules.contains(&module.as_str()))
            });
            match listed {
                Some(at) => _ = held.insert(at),
                None => faults.push(format!("{name}: {}", knot.into_iter().collect::<Vec<_>>().join(", "))),
            }
        }
    }
    let gone = (0..KNOTS.len()).filter(|at| !held.contains(at)).map(|at| KNOTS[at]);
    let gone: Vec<String> = gone.map(|(of, modules, _)| format!("{of}: {}", modules.join(", "))).collect();
    assert!(faults.is_empty(), "modules import each other:\n{}", faults.join("\n"));
    assert!(gone.is_empty(), "no longer so, take it off the list:\n{}", gone.join("\n"));
}

/// A crate of these files: what its modules name.
fn of(texts: &[(&str, &str)]) -> Vec<BTreeSet<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    knots(&edges(&files(folder.path())))
}

#[test]
fn a_knot_is_seen_through_every_way_to_name_a_module() {
    let knot = |names: &[&str]| vec![names.iter().map(|n| n.to_string()).collect::<BTreeSet<_>>()];
    let b = ("b.rs", "use crate::a::A; pub struct B;");
    for a in [
        "use crate::b::B; pub struct A;",
        "use super::b::{self, B}; pub struct A;",
        "pub struct A(crate::b::B);",
        "pub struct A; fn f() { let x = super::b::B; }",
    ] {
        assert_eq!(of(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), b]), knot(&["a", "b"]), "{a}");
    }
    // Of three, through a folder.
    let three = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::c::inner::I; pub struct A;"),
        b,
        ("c/mod.rs", "pub mod inner;"),
        ("c/inner.rs", "use crate::b::*; use super::C;"),
    ];
    assert_eq!(of(&three), knot(&["a", "b", "c::inner"]));
    // One way, with a test and a folder's own file that look back.
    let one_way = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        b,
        ("c/mod.rs", "mod inner; use inner::I;"),
        ("c/inner.rs", "use super::C; pub struct I;"),
    ];
    assert_eq!(of(&one_way), Vec::<BTreeSet<String>>::new());
}
