//! A run is believed only if both of its documents are what was asked for.

use serde_json::json;
use zinc_hazard::Policy;
use zinc_report::{Counts, DeviceType, OutOfBounds, SCHEMA_VERSION, WrittenAt};

use serde_json::Value;
use zinc_report::Report;

use super::decoding::read_result;
use super::layer::*;
use super::*;
use crate::outcome::Failure;
use crate::plan::Shuffle;

fn result() -> Value {
    json!({
        "schema": 1, "command": "perplexity", "engine_version": "0",
        "device": {"index": 0, "name": "dev", "driver": "d", "driver_version": "1", "api_version": "1.3.0", "kind": "cpu"},
        "model": {"name": "m", "source": "embedded", "blake3": "00", "architecture": "llama", "parameters": 1, "bytes": 1},
        "via": "decode", "ctx": 32, "tokens": 32, "scored": 16, "bytes": 16,
        "nll": 1.5, "perplexity": {"value": 4.48, "stderr": 0.2}, "per_byte": 4.48, "logits_digest": "abc",
        "decode": {"tokens": 32, "seconds": 2.0, "tok_s": 16.0, "dispatches_per_token": 5, "barriers_per_token": 5,
                   "submits_per_token": 1, "cpu_us_per_token": 7.0, "gpu_us_per_token": null},
    })
}

fn read(value: &Value) -> Outcome {
    read_result(value.to_string().as_bytes(), "dev")
}

fn report(policy: &str, shuffle: &str, mutate: Option<u64>) -> Report {
    let counts = Counts {
        dispatches: 160,
        barriers_asked: 160,
        barriers_emitted: 100,
        barriers_elided: 60,
        barriers_mutated: mutate.map_or(0, |_| 32),
        ..Counts::default()
    };
    Report {
        schema: SCHEMA_VERSION,
        layer_version: "0.1.0".into(),
        device: zinc_report::Device {
            name: "dev".into(),
            driver: "d".into(),
            driver_version: "1".into(),
            api_version: "1.3.0".into(),
            device_type: DeviceType::Cpu,
            number: 0,
        },
        policy: policy.into(),
        policy_is_correct: true,
        shuffle: shuffle.into(),
        mutate,
        out_of_bounds: OutOfBounds::Trust,
        ranges: zinc_report::Ranges::Bound,
        granule: 64,
        layer_failed: false,
        written_at: WrittenAt::DeviceDestruction,
        totals: counts,
        recorded: counts,
        would_emit: None,
        witnesses: None,
        audit: None,
        replayed: None,
        kept_by: Default::default(),
        unknown_because: Default::default(),
        process: None,
        notes: vec![],
    }
}

#[test]
fn a_result_is_read() {
    let m = read(&result()).unwrap();
    assert_eq!((m.digest.as_str(), m.perplexity, m.tokens, m.tok_s), ("abc", 4.48, 32, 16.0));
    assert_eq!((m.dispatches_per_token, m.gpu_us_per_token), (5, None));
}

#[test]
fn what_is_not_a_result_of_this_run_is_garbage() {
    let changes: [(&str, Value); 8] = [
        ("/schema", json!(2)),
        ("/via", json!("reference")),
        ("/decode", Value::Null),
        ("/device", Value::Null),
        ("/device/name", json!("another device")),
        ("/decode/tokens", json!(0)),
        ("/decode/tok_s", json!(0.0)),
        ("/logits_digest", json!("")),
    ];
    for (at, value) in changes {
        let mut broken = result();
        *broken.pointer_mut(at).unwrap() = value;
        let outcome = read(&broken);
        assert!(matches!(outcome, Err(Failure::Garbage(_))), "{at}: {outcome:?}");
    }
    for text in ["", "Segmentation fault", "{}", "[1, 2"] {
        assert!(matches!(read_result(text.as_bytes(), "dev"), Err(Failure::Garbage(_))), "{text}");
    }
}

#[test]
fn a_perplexity_that_is_not_a_number_is_a_result() {
    for at in ["/nll", "/perplexity/value"] {
        let mut nan = result();
        *nan.pointer_mut(at).unwrap() = Value::Null;
        let m = read(&nan).unwrap();
        assert!(m.perplexity.is_nan() && m.perplexity_stderr.is_nan(), "{at}");
    }
    let mut one_token = result();
    *one_token.pointer_mut("/perplexity/stderr").unwrap() = Value::Null;
    let m = read(&one_token).unwrap();
    assert!(m.perplexity == 4.48 && m.perplexity_stderr.is_nan());
}

#[test]
fn a_report_of_another_run_is_refused_and_says_how_to_find_out_why() {
    let reversed = RunSpec { mutate: None, ..RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Reverse) };
    assert_eq!(check_report(&reversed, &report("alias-only", "reverse", None)), Ok(()));
    for (other, named) in [
        (report("stock", "reverse", None), "policy stock instead of alias-only"),
        (report("alias-only", "off", None), "shuffle off instead of reverse"),
        (report("alias-only", "reverse", Some(3)), "dropped barrier 3 instead of none"),
    ] {
        let message = check_report(&reversed, &other).unwrap_err().to_string();
        assert!(message.contains(named) && message.contains("zinc-barrier doctor"), "{message}");
    }
    let mut idle = report("alias-only", "reverse", None);
    idle.totals.dispatches = 0;
    assert!(check_report(&reversed, &idle).is_err());
    let mut gave_up = report("alias-only", "reverse", None);
    gave_up.layer_failed = true;
    assert!(check_report(&reversed, &gave_up).is_err());
}

#[test]
fn a_drop_that_dropped_nothing_is_no_drop() {
    let drop = RunSpec::dropping(Policy::AliasOnly, 3, Shuffle::Seed(7));
    let mut struck = report("alias-only", "7", Some(3));
    assert_eq!(check_report(&drop, &struck), Ok(()));
    struck.totals.barriers_mutated = 0;
    assert_eq!(check_report(&drop, &struck), Err(Failure::NothingDropped(3)));
}

#[test]
fn a_violation_that_the_audit_found_fails_a_run_unless_it_is_wrong_on_purpose() {
    let audited = |policy: &str, violations| Report {
        audit: Some(zinc_report::Audit { required: 9, violations }),
        ..report(policy, "reverse", None)
    };
    let run = |policy| RunSpec { mutate: None, ..RunSpec::dropping(policy, 0, Shuffle::Reverse) };
    assert_eq!(check_report(&run(Policy::AliasOnly), &audited("alias-only", 0)), Ok(()));
    assert_eq!(check_report(&run(Policy::AliasOnly), &audited("alias-only", 2)), Err(Failure::Unordered(2)));
    assert_eq!(check_report(&run(Policy::None), &audited("none", 2)), Ok(()));
}

#[test]
fn a_report_that_was_written_while_the_process_ran_does_not_cover_it() {
    let spec = RunSpec { mutate: None, ..RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off) };
    let mut running = report("alias-only", "off", None);
    assert_eq!(check_report(&spec, &running), Ok(()));
    running.written_at = WrittenAt::Running;
    let failure = check_report(&spec, &running).unwrap_err();
    assert_eq!(failure.kind(), "reports missing");
    assert!(failure.to_string().contains("_exit"), "{failure}");
    running.written_at = WrittenAt::ProcessExit;
    assert_eq!(check_report(&spec, &running), Ok(()));
}

#[test]
fn every_device_of_every_process_has_a_report() {
    let spec = RunSpec { mutate: None, ..RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off) };
    let folder = tempfile::tempdir().unwrap();
    let write = |process: u32, number: u32| {
        let mut report = report("alias-only", "off", None);
        report.device.number = number;
        report.totals.submits = 1;
        let image = 1_764_000_000_u64 + u64::from(process);
        std::fs::write(folder.path().join(format!("{process}-{image}-{number}.json")), report.to_json())
            .unwrap();
    };
    [(7, 0), (7, 1), (9, 0)].iter().for_each(|(process, number)| write(*process, *number));
    let (_, counts) = read_reports(&spec, folder.path(), None).unwrap();
    assert_eq!(counts.dispatches, 3 * report("alias-only", "off", None).totals.dispatches);
    write(9, 2);
    let failure = read_reports(&spec, folder.path(), None).unwrap_err().to_string();
    assert!(failure.contains("process 9") && failure.contains("device 1 has none"), "{failure}");
}

#[test]
fn a_process_that_became_another_program_left_a_report_of_each() {
    let spec = RunSpec { mutate: None, ..RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off) };
    let folder = tempfile::tempdir().unwrap();
    let write = |image: u64, written_at| {
        let mut report = report("alias-only", "off", None);
        report.written_at = written_at;
        report.totals.submits = 1;
        std::fs::write(folder.path().join(format!("7-{image}-0.json")), report.to_json()).unwrap();
    };
    write(1, WrittenAt::DeviceDestruction);
    write(2, WrittenAt::ProcessExit);
    let (_, counts) = read_reports(&spec, folder.path(), None).unwrap();
    assert_eq!(counts.dispatches, 2 * report("alias-only", "off", None).totals.dispatches);
    write(1, WrittenAt::Running);
    let failure = read_reports(&spec, folder.path(), None).unwrap_err();
    assert_eq!(failure.kind(), "reports missing");
    assert!(failure.to_string().contains("became another program"), "{failure}");
}

#[test]
fn counts_that_are_not_of_what_the_engine_recorded_are_no_result() {
    let measured = Measured { dispatches_per_token: 10, ..Measured::nothing(32) };
    let counts = |dispatches| zinc_report::Counts { dispatches, ..Default::default() };
    assert_eq!(check_dispatches(&counts(320), &measured), Ok(()));
    let failure = check_dispatches(&counts(319), &measured).unwrap_err().to_string();
    assert!(failure.contains("319 dispatches where the engine says that it recorded 320"), "{failure}");
}

#[test]
fn a_missing_or_broken_report_is_not_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let spec = RunSpec { mutate: None, ..RunSpec::dropping(Policy::AliasOnly, 0, Shuffle::Off) };
    let path = folder.path().join("report.json");
    assert_eq!(read_report(&spec, &path), Err(Failure::LayerNotLoaded));
    std::fs::write(&path, "{\"schema\": 1").unwrap();
    assert!(matches!(read_report(&spec, &path), Err(Failure::LayerDiffers(_))));
    std::fs::write(&path, report("alias-only", "off", None).to_json()).unwrap();
    assert!(read_report(&spec, &path).is_ok());
}
