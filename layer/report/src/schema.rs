//! The committed schema equals the types, and what the types write obeys it.
//!
//! After a change of the types, write the file anew with
//!
//! ```text
//! ZINC_BARRIER_UPDATE_SCHEMA=1 cargo test -p zinc-report schema
//! ```
//!
//! and ask whether the rule for versions on the crate's front page wants another number.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::*;

/// Two reports as the layer writes them: an empty one, and one with everything that can be in it.
pub(crate) fn samples() -> Vec<Report> {
    let cpu = Device {
        name: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
        driver: "llvmpipe".into(),
        driver_version: "Mesa 22.3.6 (LLVM 15.0.6)".into(),
        api_version: "1.3.230".into(),
        device_type: DeviceType::Cpu,
        number: 0,
    };
    let empty = Report::new("0.1.0", cpu.clone(), "stock", true);

    let mut full = Report::new("0.1.0", cpu, "alias-only", true);
    let recorded = Counts {
        command_buffers: 5,
        dispatches: 227,
        transfers: 2,
        barriers_asked: 153,
        barriers_emitted: 60,
        barriers_elided: 93,
        barriers_passed_through: 1,
        hazards: Hazards { raw: 45, war: 4, waw: 1, prefix: 5, flush: 3, unmodelled: 1 },
        ..Counts::default()
    };
    full.totals = Counts { submits: 10, ..recorded.scaled(2) };
    full.recorded = recorded;
    full.mutate = Some(3);
    full.process = Some("llama-bench".into());
    let every = Counts {
        barriers_emitted: 760,
        barriers_elided: 0,
        barriers_added: 454,
        hazards: Hazards::default(),
        ..full.totals
    };
    full.would_emit = Some([("every".to_string(), every)].into());
    full.witnesses = Some(vec![
        Witness {
            first: "pipeline 3".into(),
            second: "copy".into(),
            range: Some(WitnessRange { memory: 0, offset: 4096, size: 2304 }),
            kind: HazardKind::Raw,
            count: 60,
        },
        Witness {
            first: "anything".into(),
            second: "pipeline 1".into(),
            range: None,
            kind: HazardKind::Prefix,
            count: 10,
        },
    ]);
    full.audit = Some(Audit { required: 812, violations: 1 });
    full.replayed = Some(Replayed { replayed: 9, delayed: 455, cut: 301, ..Replayed::default() });
    full.kept_by = [("vkCmdSetEvent2".to_string(), 1)].into();
    full.unknown_because = [("its shader has capability ShaderInvocationReorderNV".to_string(), 2)].into();
    full.notes = vec!["Said by the layer.".into()];
    vec![empty, full]
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schema/report.schema.json")
}

/// The schema of the types, with the version pinned: the types alone would let any integer pass.
fn generated() -> Value {
    let mut schema = schemars::schema_for!(Report).to_value();
    schema["title"] = json!("Report of the Vulkan layer zinc_barrier");
    schema["properties"]["schema"] =
        json!({"const": SCHEMA_VERSION, "description": "The version of this document."});
    schema
}

#[test]
fn the_committed_schema_equals_the_types() {
    let mut text = serde_json::to_string_pretty(&generated()).unwrap();
    text.push('\n');
    if std::env::var_os("ZINC_BARRIER_UPDATE_SCHEMA").is_some() {
        std::fs::write(path(), &text).unwrap();
    }
    let committed = std::fs::read_to_string(path()).unwrap_or_default();
    assert!(
        committed == text,
        "{} differs from the types; write it anew with\n\
         ZINC_BARRIER_UPDATE_SCHEMA=1 cargo test -p zinc-report schema",
        path().display()
    );
}

#[test]
fn sample_reports_obey_the_schema() {
    let validator = jsonschema::validator_for(&generated()).unwrap();
    for report in samples() {
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses_and_bears_what_it_bears() {
    let validator = jsonschema::validator_for(&generated()).unwrap();
    let good: Value = serde_json::from_str(&samples()[1].to_json()).unwrap();
    type Change = fn(&mut Value);
    let cases: [(Change, bool); 7] = [
        (|v| v["schema"] = json!(1), false),
        (|v| v["totals"]["barriers_asked"] = json!("306"), false),
        (|v| v["totals"]["submits"] = json!(-1), false),
        (|v| v["device"]["type"] = json!("tpu"), false),
        (|v| _ = v.as_object_mut().unwrap().remove("policy"), false),
        (|v| _ = v.as_object_mut().unwrap().remove("would_emit"), true),
        (|v| v["added_later"] = json!(1), true),
    ];
    for (change, accepted) in cases {
        let mut value = good.clone();
        change(&mut value);
        assert_eq!(validator.is_valid(&value), accepted, "schema: {value}");
        assert_eq!(Report::from_json(&value.to_string()).is_ok(), accepted, "reader: {value}");
    }
}
