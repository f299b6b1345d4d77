//! Reports of earlier sweeps, read back.

use std::path::Path;

use crate::error::SweepError;
use crate::report::{Report, SCHEMA_VERSION};

/// The report in a folder, or in that file.
///
/// # Errors
///
/// [`SweepError::Missing`] naming the file when it is not there, is no report, or is one of another version.
pub fn report(path: &Path) -> Result<Report, SweepError> {
    let file = if path.is_dir() { path.join("report.json") } else { path.to_path_buf() };
    let missing = |why: String| SweepError::Missing(format!("no report in '{}': {why}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|e| missing(e.to_string()))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| missing(e.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(n) if n == u64::from(SCHEMA_VERSION) => {}
        Some(n) => {
            return Err(missing(format!(
                "it has schema {n}, and this program reads {SCHEMA_VERSION}; use the sweep that wrote it"
            )));
        }
        None => return Err(missing("it has no schema number, so it is no report of a sweep".into())),
    }
    serde_json::from_value(value).map_err(|e| missing(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let said = || report(folder.path()).unwrap_err();
        assert_eq!(said().exit_code(), 3);
        for (text, reason) in [("", "EOF"), ("{}", "no schema"), (r#"{"schema": 999}"#, "schema 999")] {
            std::fs::write(&file, text).unwrap();
            assert!(said().to_string().contains(reason), "{text}: {}", said());
            assert!(said().to_string().contains("report.json"));
        }
    }
}
