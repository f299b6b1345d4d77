//! Each shader and each assembly fixture says in its first lines what is expected of it, whole: a binding that is
//! found and not expected fails as much as the other way round.

use std::fs;
use std::path::PathBuf;

use zinc_reflect::{Elements, EntryPoint, Stage, reflect};

use crate::tools::{assemble_fixture, compile, folder};

/// The answer in the words of the fixtures.
pub fn render(entry: &EntryPoint) -> Vec<String> {
    let mut lines: Vec<String> = entry.unknown.iter().map(|reason| format!("unknown {reason}")).collect();
    for binding in &entry.bindings {
        let elements = match &binding.elements {
            Elements::All => "all".to_string(),
            Elements::These(these) => {
                format!("{{{}}}", these.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            }
        };
        let stopped = binding.stopped_by.as_ref().map(|by| format!(" stopped by {by}")).unwrap_or_default();
        let (class, count, direction) = (binding.class, binding.count, binding.direction);
        lines.push(format!(
            "{}.{} {class:?} {count:?} {direction} {elements}{stopped}",
            binding.set, binding.binding
        ));
    }
    lines.push(format!("addresses {}", entry.addresses));
    lines.push(format!("synchronising {}", if entry.synchronising { "yes" } else { "no" }));
    lines
}

/// What a fixture's comment lines that begin with `word` say.
fn said(text: &str, word: &str) -> Vec<String> {
    let comments = text.lines().filter_map(|line| line.strip_prefix("// ").or(line.strip_prefix("; ")));
    comments.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::to_string).collect()
}

fn fixtures(name: &str, extension: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder(name)).expect("the fixtures are there").map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|e| e == extension) && !file.ends_with("prelude.spvasm"))
        .collect();
    files.sort();
    files
}

fn check(file: &PathBuf, build: impl Fn(&str) -> Vec<u32>) -> Option<String> {
    let text = fs::read_to_string(file).expect("the fixture can be read");
    let expected = said(&text, "expect");
    assert!(!expected.is_empty(), "{} expects nothing", file.display());
    let target = said(&text, "target").pop().unwrap_or("vulkan1.1".into());
    let module = reflect(&build(&target)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let entry = module.entry_point("main", Stage::Compute).expect("an entry point main");
    let found = render(entry);
    (found != expected).then(|| format!("{}\n expected {expected:#?}\n found {found:#?}", file.display()))
}

#[test]
fn glsl_shaders_have_the_directions_that_they_state() {
    let files = fixtures("shaders", "comp");
    assert!(files.len() >= 15, "shaders are missing: {files:?}");
    let wrong: Vec<String> =
        files.iter().filter_map(|file| check(file, |target| compile(file, target))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn assembly_fixtures_have_the_directions_that_they_state() {
    let files = fixtures("fixtures", "spvasm");
    assert!(files.len() >= 15, "fixtures are missing: {files:?}");
    let wrong: Vec<String> =
        files.iter().filter_map(|file| check(file, |_| assemble_fixture(file))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn entry_points_are_found_by_name_and_stage_and_differ_in_direction() {
    let words = assemble_fixture(&folder("fixtures").join("two_entries.spvasm"));
    let module = reflect(&words).unwrap();
    assert_eq!(module.entry_points.len(), 2);
    let other = module.entry_point("other", Stage::Compute).unwrap();
    let direction = |binding| other.binding(0, binding).unwrap().direction.to_string();
    assert_eq!((direction(0), direction(1)), ("none".into(), "write".into()));
    assert!(module.entry_point("other", Stage::Fragment).is_none());
    assert!(module.entry_point("neither", Stage::Compute).is_none());
    assert!(other.binding(1, 0).is_none());
}
