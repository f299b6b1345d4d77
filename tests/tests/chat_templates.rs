//! Jinja2 as an oracle for chat templates: what the engine's tests expect is what Jinja2 makes of the same templates.

use std::process::Command;

use serde_json::Value;
use zinc_tests::artefacts::repository;
use zinc_tests::oracle::not_run;

/// Exit status of `tests/jinja` where Jinja2 is missing.
const MISSING: i32 = 3;

#[test]
fn the_engine_s_expectations_are_what_jinja2_renders() {
    let test = "the_engine_s_expectations_are_what_jinja2_renders";
    let folder = repository().join("engine/tests/engine/chat");
    // The first may be one of the user's own, which Debian's package does not serve.
    let run = |python| Command::new(python).arg(repository().join("tests/jinja")).arg(&folder).output().ok();
    let mut outputs = ["python3", "/usr/bin/python3"].into_iter().filter_map(run);
    let Some(output) = outputs.find(|output| output.status.code() != Some(MISSING)) else {
        return not_run(test, "Python has no module jinja2: tests/setup installs it");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = std::fs::read_to_string(folder.join("expected.json")).expect("the file is in the repository");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let found = found.as_object().expect("an object");
    assert!(found.len() >= 20, "only {} templates", found.len());
    for (name, rendered) in found {
        assert_eq!(rendered, &expected[name], "{name}: run tests/jinja {} again", folder.display());
    }
    assert_eq!(expected.as_object().map(|all| all.len()), Some(found.len()), "templates that are gone");
}
