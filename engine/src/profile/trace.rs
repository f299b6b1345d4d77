//! A trace that Perfetto and Chrome's viewer read: trace events as JSON, a track for the host and one for the device.
//!
//! Complete events (`"ph": "X"`, microseconds) and names of tracks are all that is needed; other data, which viewers show
//! beside it, says how the two clocks were brought to one.

use serde_json::{Value, json};

use super::{Span, Token};

/// How the device's clock meets the host's where both can be read together.
pub const CALIBRATED: &str = "both clocks were read together (VK_EXT_calibrated_timestamps) after each token";
/// How they meet elsewhere.
pub const BY_WAIT: &str = "the device's last stamp is set to the moment when the host's wait for the fence returned; so \
                           the device's track lies late by that wait's own latency";

const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// The trace of these tokens on that device.
pub fn events(tokens: &[Token], device: &str, alignment: &str) -> Value {
    let name = |what: &str, tid: u32, name: &str| json!({"ph": "M", "name": what, "pid": 1, "tid": tid, "args": {"name": name}});
    let mut events = vec![
        name("process_name", 0, "zinc-barrier engine"),
        name("thread_name", HOST, "CPU"),
        name("thread_name", DEVICE, &format!("GPU: {device}")),
    ];
    for (number, token) in tokens.iter().enumerate() {
        for (tid, spans) in [(HOST, &token.cpu), (DEVICE, &token.gpu)] {
            if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
                let whole = Span {
                    name: format!("token {number}"),
                    kind: "token",
                    begin: first.begin,
                    end: last.end,
                };
                events.push(event(&whole, tid));
            }
            events.extend(spans.iter().map(|span| event(span, tid)));
        }
    }
    json!({
        "displayTimeUnit": "ns",
        "otherData": {"device": device, "alignment": alignment},
        "traceEvents": events,
    })
}

fn event(span: &Span, tid: u32) -> Value {
    let (begin, length) = (span.begin / 1e3, span.length() / 1e3);
    json!({"ph": "X", "name": span.name, "cat": span.kind, "pid": 1, "tid": tid, "ts": begin, "dur": length})
}

#[cfg(test)]
mod tests {
    use super::super::tests::token;
    use super::*;

    #[test]
    fn a_trace_has_both_tracks_and_each_span_once() {
        let trace = events(&[token()], "a device", BY_WAIT);
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |tid: u32| events.iter().filter(|e| e["ph"] == "X" && e["tid"] == tid).count();
        assert_eq!((of(HOST), of(DEVICE)), (6, 8));
        let barrier = events.iter().find(|e| e["name"] == "barrier").unwrap();
        assert_eq!((barrier["ts"].as_f64(), barrier["dur"].as_f64()), (Some(0.45), Some(0.03)));
        assert!(trace["otherData"]["alignment"].as_str().unwrap().contains("fence"));
    }
}
