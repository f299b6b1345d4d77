//! What `engine profile` says about a token, on a real device.

use serde_json::Value;
use zinc_engine::results::Profile;

use crate::support::{assert_fails, engine, stdout};

/// Rounding of microseconds to a double.
const SLACK: f64 = 1e-3;

/// (kind, begin, end) of a track's spans, microseconds.
fn track(trace: &Value, tid: u64) -> Vec<(String, f64, f64)> {
    let events = trace["traceEvents"].as_array().expect("trace events");
    let of = events.iter().filter(|e| e["ph"] == "X" && e["tid"] == tid);
    of.map(|e| {
        let (begin, length) = (e["ts"].as_f64().expect("a time"), e["dur"].as_f64().expect("a length"));
        (e["cat"].as_str().expect("a kind").to_owned(), begin, begin + length)
    })
    .collect()
}

#[test]
fn a_profile_s_segments_sum_to_its_token_and_its_trace_has_both_tracks_without_overlaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    for barriers in ["every", "tracked"] {
        let path = path.to_str().expect("text");
        let args = ["profile", "-n", "3", "--json", "--barriers", barriers, "--trace", path];
        let result: Profile = serde_json::from_str(&stdout(&engine(&args))).expect("a result");
        let (sum, wall) = (result.segments.sum(), result.stamped_wall_us);
        assert!((sum / wall - 1.0).abs() < 1e-6, "{sum} of {wall}");
        assert!(result.segments.named().iter().all(|(_, us)| *us >= 0.0), "{:?}", result.segments);
        assert!(result.segments.weight_streaming_us > 0.0 && result.segments.kv_read_us > 0.0);
        assert!(result.fit.expect("several sizes").steps > 2);

        let text = std::fs::read(path).expect("a trace");
        let trace: Value = serde_json::from_slice(&text).expect("valid JSON");
        for tid in [1, 2] {
            let spans = track(&trace, tid);
            let tokens: Vec<_> = spans.iter().filter(|s| s.0 == "token").collect();
            let parts: Vec<_> = spans.iter().filter(|s| s.0 != "token").collect();
            assert_eq!(tokens.len(), 3);
            assert!(parts.windows(2).all(|p| p[0].2 <= p[1].1 + SLACK), "spans of track {tid} overlap");
            assert!(tokens.windows(2).all(|p| p[0].2 <= p[1].1 + SLACK), "tokens of track {tid} overlap");
            let inside =
                |p: &&(String, f64, f64)| tokens.iter().any(|t| t.1 <= p.1 + SLACK && p.2 <= t.2 + SLACK);
            assert!(parts.iter().all(inside), "a span of track {tid} is outside its token");
        }
        let steps = track(&trace, 2).iter().filter(|s| s.0 == "step").count() as u64;
        assert_eq!(steps, 3 * result.rows.iter().map(|row| row.count).sum::<u64>());
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error_that_names_it() {
    let output = engine(&["profile", "-n", "1", "--trace", "/nowhere/at/all.json"]);
    assert_fails(&output, 1, &["/nowhere/at/all.json"]);
}
