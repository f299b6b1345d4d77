//! What a user can get wrong in the environment. A layer lives in somebody else's process: whatever it is told, its
//! host runs on, ends as it would have ended, and computes what it would have computed.

use zinc_tests::Stream;

const BARRIER: &str = "barrier compute_shader/shader_write -> compute_shader/shader_read";

fn stream() -> Stream {
    Stream::new(format!(
        "
        buffer a 1024
        buffer b 1024
        buffer c 1024
        buffer d 1024
        buffer e 1024
        data a iota
        begin x
            dispatch step a b
            {BARRIER}
            dispatch step a c
            {BARRIER}
            dispatch step a d
            {BARRIER}
            dispatch step b e
        end
        submit x
        wait
    "
    ))
}

#[test]
fn a_settings_file_sets_what_the_variables_leave_open() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vk_layer_settings.txt"), "zinc_barrier.policy = none\n").unwrap();
    let path = folder.path().to_str().unwrap();
    let policy = |variables: &[(&str, &str)]| {
        let said = said_with(variables);
        let at = said.find("policy ").unwrap_or_else(|| panic!("no report on stderr: {said}"));
        said[at + 7..].split([',', ' ']).next().unwrap_or_default().to_string()
    };
    assert_eq!(policy(&[("ZINC_BARRIER_REPORT", "stderr"), ("VK_LAYER_SETTINGS_PATH", path)]), "none");
    assert_eq!(policy(&[("ZINC_BARRIER_REPORT", "stderr")]), "alias-only", "without the file");
    let both = [
        ("ZINC_BARRIER_REPORT", "stderr"),
        ("VK_LAYER_SETTINGS_PATH", path),
        ("ZINC_BARRIER_POLICY", "every"),
    ];
    assert_eq!(policy(&both), "every", "a variable counts before the file");
}

/// Plays the stream with further variables: the host must not notice. What was said on stderr.
fn said_with(variables: &[(&str, &str)]) -> String {
    let ended = stream().with_variables(variables).succeeded();
    assert_eq!(ended.json()["digest"], stream().bare().digest.as_str(), "{}", ended.transcript());
    ended.stderr
}

#[test]
fn wrong_values_are_named_with_the_right_ones_and_everything_passes_through() {
    for (variable, value, right) in [
        ("POLICY", "alias_only", "alias-only"),
        ("POLICY", "ALIAS-ONLY", "stock"),
        ("SHUFFLE", "backwards", "reverse"),
        ("MUTATE", "first", "K"),
        ("WOULD_EMIT", "yes", "1"),
        ("GRANULE", "48", "power of two"),
        ("OUT_OF_BOUNDS", "never", "trust"),
    ] {
        let name = format!("ZINC_BARRIER_{variable}");
        let played = stream().with(|layer| layer.set(variable, value));
        for word in [&name, value, right] {
            assert!(
                played.stderr.contains(word),
                "{name}={value}: stderr lacks '{word}':\n{}",
                played.stderr
            );
        }
        assert_eq!(played.digest, stream().bare().digest, "{name}={value}");
        let report = played.report.expect("the report is still written");
        assert_eq!(report.policy, "stock", "{name}={value}");
        assert_eq!(report.totals.barriers_elided, 0, "{name}={value}");
    }
}

#[test]
fn a_check_that_is_asked_for_with_a_wrong_word_is_refused_and_not_ignored() {
    for name in ["DELAY", "SLICE", "AUDIT"] {
        let played = stream().with(|layer| layer.set(name, "yes"));
        assert!(played.stderr.contains(&format!("ZINC_BARRIER_{name}")), "{}", played.stderr);
        let report = played.report.expect("the report is still written");
        assert_eq!(report.policy, "stock");
        assert!(report.replayed.is_none() && report.audit.is_none());
    }
}

#[test]
fn a_misspelt_variable_is_named() {
    let said = said_with(&[("ZINC_BARRIER_POLICIES", "none")]);
    assert!(said.contains("ZINC_BARRIER_POLICIES"), "{said}");
}

#[test]
fn a_report_that_cannot_be_written_is_named_and_harms_nobody() {
    let said = said_with(&[("ZINC_BARRIER_REPORT", "/no/such/folder/report.json")]);
    assert!(said.contains("/no/such/folder/report.json"), "{said}");
}

#[test]
fn the_report_goes_where_it_was_told_to_go() {
    let table = said_with(&[("ZINC_BARRIER_REPORT", "stderr"), ("ZINC_BARRIER_POLICY", "alias-only")]);
    assert!(table.contains("alias-only") && table.contains("elided"), "{table}");
    let silence = said_with(&[("ZINC_BARRIER_REPORT", "off")]);
    assert!(silence.is_empty(), "{silence}");
}

#[test]
fn the_default_policy_is_alias_only() {
    let report = stream().with(|layer| layer).report.expect("played under the layer");
    assert_eq!((report.policy.as_str(), report.shuffle.as_str()), ("alias-only", "off"));
    assert!(report.totals.barriers_elided > 0, "{:?}", report.totals);
}

#[test]
fn a_report_tells_no_names_unless_asked() {
    let silent = stream().with(|layer| layer).report.expect("played under the layer");
    assert_eq!(silent.process, None);
    let telling = stream().with(|layer| layer.set("NAMES", "1")).report.expect("played under the layer");
    assert_eq!(telling.process.as_deref(), Some("stream"));
}
