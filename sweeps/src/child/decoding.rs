//! A run of the engine's decoding: its arguments, and its result as numbers.

use std::ffi::OsString;

use serde_json::Value;
use zinc_engine::results;

use super::{Job, tokens};
use crate::outcome::{Failure, Measured, Outcome};
use crate::plan::{Role, RunSpec};

/// The engine's arguments for a run; `submit_timeout` are the seconds after which it takes a submission for hung, where
/// they are not its own.
pub(super) fn arguments(spec: &RunSpec, job: &Job, submit_timeout: Option<u64>) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        ["perplexity", "--via", "decode", "--json", "--device"].map(Into::into).to_vec();
    args.push(job.device.clone().into());
    let tokens = tokens(spec, job);
    let ctx = tokens.min(job.ctx);
    args.extend(["--ctx".into(), ctx.to_string().into(), "--tokens".into(), tokens.to_string().into()]);
    if let Some(model) = &job.model {
        args.extend(["--model".into(), model.into()]);
    }
    if spec.role == Role::Soak {
        args.push("--record-digests".into());
    }
    if let Some(record) = &job.record {
        args.extend(["--record".into(), record.into()]);
    }
    if let Some(seconds) = submit_timeout {
        args.extend(["--submit-timeout".into(), seconds.to_string().into()]);
    }
    args
}

pub(super) fn read_result(stdout: &[u8], device_name: &str) -> Outcome {
    let garbage = |why: String| Failure::Garbage(format!("not one of `engine perplexity --json`: {why}"));
    let mut value: Value = serde_json::from_slice(stdout).map_err(|e| garbage(e.to_string()))?;
    // JSON has no NaN: a number that is not finite arrives as null, and is a result, not garbage.
    let not_finite = |value: &Value, at: &str| value.pointer(at) == Some(&Value::Null);
    let nan = not_finite(&value, "/nll") || not_finite(&value, "/perplexity/value");
    let stderr_nan = not_finite(&value, "/perplexity/stderr");
    for at in ["/nll", "/perplexity/value", "/perplexity/stderr", "/per_byte"] {
        if let Some(field) = value.pointer_mut(at).filter(|f| f.is_null()) {
            *field = Value::from(0.0);
        }
    }
    let result: results::Perplexity = serde_json::from_value(value).map_err(|e| garbage(e.to_string()))?;
    if result.schema != results::SCHEMA {
        return Err(garbage(format!("schema {} instead of {}", result.schema, results::SCHEMA)));
    }
    if result.via != results::Via::Decode {
        return Err(garbage("the logits did not come through the decode path".into()));
    }
    let decode = result.decode.ok_or_else(|| garbage("there is no 'decode' in it".into()))?;
    if decode.tokens == 0 || !decode.tok_s.is_finite() || decode.tok_s <= 0.0 {
        return Err(garbage(format!("{} tokens at {} a second", decode.tokens, decode.tok_s)));
    }
    match result.device {
        Some(device) if device.name == device_name => {}
        other => {
            let name = other.map_or("no device".into(), |d| d.name);
            return Err(garbage(format!("it ran on {name} instead of {device_name}")));
        }
    }
    if result.logits_digest.is_empty() {
        return Err(garbage("the logits digest is empty".into()));
    }
    let records = result.record_digests.unwrap_or_default();
    let cases =
        records.into_iter().enumerate().map(|(n, digest)| (format!("record {n:06}"), digest)).collect();
    Ok(Measured {
        digest: result.logits_digest,
        perplexity: if nan { f64::NAN } else { result.perplexity.value },
        perplexity_stderr: if nan || stderr_nan { f64::NAN } else { result.perplexity.stderr },
        tokens: decode.tokens,
        tok_s: decode.tok_s,
        cpu_us_per_token: decode.cpu_us_per_token,
        gpu_us_per_token: decode.gpu_us_per_token,
        dispatches_per_token: decode.dispatches_per_token,
        submits_per_token: decode.submits_per_token,
        counts: None,
        packets: None,
        process: None,
        layer_notes: Vec::new(),
        notes: Vec::new(),
        cases,
        forced: Vec::new(),
    })
}
