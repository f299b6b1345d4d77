//! Each program says which commit it was built from, so that a report can be traced to the code that made it.

use std::path::PathBuf;

use zinc_tests::{Child, artefacts};

/// What stands in parentheses behind the version: the commit's beginning, and whether the tree was changed.
fn commit(program: PathBuf) -> Option<String> {
    let said = Child::new(program).arg("--version").run().succeeded().stdout;
    let commit = said.trim().split_once('(')?.1.strip_suffix(')')?.to_owned();
    Some(commit.chars().take_while(char::is_ascii_hexdigit).collect())
}

#[test]
fn the_engine_and_the_layers_command_say_the_commit_that_sweep_says() {
    // That this one is right is tested with the sweep itself, against git.
    let expected = commit(artefacts::sweep());
    if let Some(commit) = &expected {
        assert!(commit.len() >= 12, "{commit}");
    }
    assert_eq!(commit(artefacts::engine()), expected);
    assert_eq!(commit(artefacts::installer()), expected);
}
