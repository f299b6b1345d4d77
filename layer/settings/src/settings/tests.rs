//! Read as a manual: what each variable does, and what a wrong value does.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::variables;

fn read<const N: usize>(pairs: [(&str, &str); N]) -> (Settings, Vec<String>) {
    let map: BTreeMap<String, OsString> = pairs.map(|(k, v)| (k.to_string(), v.into())).into();
    Settings::from_lookup(|name| map.get(name).cloned())
}

#[test]
fn nothing_set_means_the_defaults_without_a_word() {
    assert_eq!(read([]), (Settings::default(), vec![]));
    assert_eq!(Settings::default().policy, Policy::AliasOnly);
}

#[test]
fn every_variable_sets_its_field() {
    let (settings, warnings) = read([
        ("ZINC_BARRIER_POLICY", "every"),
        ("ZINC_BARRIER_SHUFFLE", "18446744073709551615"),
        ("ZINC_BARRIER_MUTATE", "0"),
        ("ZINC_BARRIER_MUTATE_COUNT", "device"),
        ("ZINC_BARRIER_WOULD_EMIT", "1"),
        ("ZINC_BARRIER_AUDIT", "1"),
        ("ZINC_BARRIER_TRACE", "/traces/%p.jsonl"),
        ("ZINC_BARRIER_REPORT", "/reports/%p.json"),
        ("ZINC_BARRIER_NAMES", "1"),
        ("ZINC_BARRIER_OUT_OF_BOUNDS", "trust"),
        ("ZINC_BARRIER_RANGES", "tight"),
        ("ZINC_BARRIER_CAPTURE", "/captures/%p"),
        ("ZINC_BARRIER_GRANULE", "4096"),
    ]);
    assert_eq!(warnings, Vec::<String>::new());
    let expected = Settings {
        policy: Policy::Every,
        shuffle: Shuffle::Seed(u64::MAX),
        mutate: Some(0),
        mutate_once: true,
        would_emit: true,
        audit: true,
        delay: false,
        slice: false,
        trace: Some("/traces/%p.jsonl".into()),
        report: Destination::File("/reports/%p.json".into()),
        names: true,
        out_of_bounds: OutOfBounds::Trust,
        ranges: Ranges::Tight,
        capture: Some("/captures/%p".into()),
        granule: 4096,
        silent: false,
    };
    assert_eq!(settings, expected);
}

#[test]
fn an_empty_value_is_an_unset_one() {
    for variable in variables::VARIABLES {
        assert_eq!(read([(variable.name, "")]), (Settings::default(), vec![]), "{}", variable.name);
    }
}

#[test]
fn every_value_in_the_table_of_variables_is_accepted_and_so_is_every_default() {
    for variable in variables::VARIABLES {
        let values = (variable.values)();
        let words = values.split(", ").filter(|w| !w.contains(' '));
        for value in words.map(str::to_string).chain([(variable.default)()]) {
            let (_, warnings) = read([(variable.name, &value)]);
            assert_eq!(warnings, Vec::<String>::new(), "{}={value}", variable.name);
        }
        let (settings, _) = read([(variable.name, &(variable.default)())]);
        assert_eq!(settings, Settings::default(), "the default of {}", variable.name);
    }
}

#[test]
fn a_wrong_value_is_named_with_the_right_ones_and_everything_passes_through() {
    for (name, value, right) in [
        ("ZINC_BARRIER_POLICY", "alias", "alias-only"),
        ("ZINC_BARRIER_POLICY", "Stock", "stock"),
        ("ZINC_BARRIER_SHUFFLE", "random", "reverse"),
        ("ZINC_BARRIER_SHUFFLE", "-1", "seed"),
        ("ZINC_BARRIER_SHUFFLE", "18446744073709551616", "seed"),
        ("ZINC_BARRIER_MUTATE", "+1", "from 0"),
        ("ZINC_BARRIER_MUTATE", "first", "from 0"),
        ("ZINC_BARRIER_WOULD_EMIT", "yes", "0, 1"),
        ("ZINC_BARRIER_NAMES", "2", "0, 1"),
        ("ZINC_BARRIER_OUT_OF_BOUNDS", "descriptor", "whole-buffer"),
        ("ZINC_BARRIER_RANGES", "loose", "tight"),
        ("ZINC_BARRIER_GRANULE", "0", "power of two"),
        ("ZINC_BARRIER_GRANULE", "96", "power of two"),
        ("ZINC_BARRIER_GRANULE", "2097152", "power of two"),
    ] {
        let others =
            [("ZINC_BARRIER_POLICY", "none"), ("ZINC_BARRIER_SHUFFLE", "7"), ("ZINC_BARRIER_MUTATE", "1")];
        let (settings, warnings) = Settings::from_lookup(|wanted| {
            let wrong = (wanted == name).then_some(value);
            wrong.or(others.iter().find(|(n, _)| *n == wanted).map(|(_, v)| *v)).map(OsString::from)
        });
        assert_eq!((settings.policy, settings.shuffle, settings.mutate), (Policy::Stock, Shuffle::Off, None));
        let [fault, consequence] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(fault.starts_with(&format!("{name}='{value}'")) && fault.contains(right), "{fault}");
        assert!(consequence.contains("passed through"), "{consequence}");
    }
}

#[test]
fn a_fault_leaves_the_report_where_the_user_wants_it() {
    let (settings, _) = read([("ZINC_BARRIER_POLICY", "?"), ("ZINC_BARRIER_REPORT", "off")]);
    assert_eq!(settings.report, Destination::Off);
}

#[test]
fn a_delay_and_slices_can_be_asked_for_and_a_fault_turns_them_off() {
    let both = [("ZINC_BARRIER_DELAY", "1"), ("ZINC_BARRIER_SLICE", "1")];
    let (settings, warnings) = read(both);
    assert_eq!((settings.delay, settings.slice), (true, true));
    assert_eq!(warnings, Vec::<String>::new());
    let (settings, _) = read([both[0], both[1], ("ZINC_BARRIER_POLICY", "?")]);
    assert_eq!((settings.delay, settings.slice), (false, false));
}

#[test]
fn bytes_that_are_no_text_are_a_wrong_value_but_a_fine_path() {
    let odd = || Some(OsString::from_vec(b"\xff\x1b[2J".to_vec()));
    let (_, warnings) = Settings::from_lookup(|name| odd().filter(|_| name == "ZINC_BARRIER_POLICY"));
    assert!(warnings[0].contains("ZINC_BARRIER_POLICY") && !warnings[0].contains('\u{1b}'), "{warnings:?}");
    let (settings, warnings) = Settings::from_lookup(|name| odd().filter(|_| name == "ZINC_BARRIER_REPORT"));
    assert_eq!((settings.report, warnings), (Destination::File(odd().unwrap().into()), vec![]));
}

#[test]
fn a_misspelt_variable_is_named_and_others_are_left_alone() {
    let names = [
        "ZINC_BARRIER_SHUFLE",
        "ZINC_BARRIER_ORACLES",
        "ZINC_BARRIER_POLICY",
        "ZINC_BARRIER_TRACE",
        "ZINC_BARRIER",
        "ZINC_DEBUG",
        "PATH",
    ];
    let warnings = unknown_variables(names.map(OsString::from));
    let [only] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(only.starts_with("ZINC_BARRIER_SHUFLE ") && only.contains("ZINC_BARRIER_SHUFFLE"), "{only}");
}
