//! Reading a report back, distrustfully.
//!
//! The version is looked at before anything else, so that a document of another version is refused as such and not
//! by whichever field happens to differ first. Then the numbers must add up.

use serde_json::Value;

use crate::{Inconsistent, Report, SCHEMA_VERSION};

/// Why a text is not a report that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON at all, or cut off.
    #[error("not a JSON document ({0}); a report that was cut off cannot be read")]
    NotJson(serde_json::Error),
    /// JSON, but nothing that the layer wrote.
    #[error(
        "not a report of the layer: it has no integer field 'schema'. The layer writes one when \
         ZINC_BARRIER_REPORT is a path"
    )]
    NotAReport,
    /// A report of another version.
    #[error(
        "the report has schema {found}, and this program reads schema {SCHEMA_VERSION}; read it with the \
         zinc-barrier of the version that wrote it"
    )]
    #[allow(missing_docs)]
    OtherVersion { found: String },
    /// The right version, but a field is missing or of another type.
    #[error("schema {SCHEMA_VERSION} is claimed, but the document does not follow it: {0}")]
    WrongShape(serde_json::Error),
    /// The numbers contradict each other.
    #[error("the counts in '{0}' contradict each other: {1}")]
    Inconsistent(String, Inconsistent),
}

impl Report {
    /// Reads a JSON document of this version.
    ///
    /// # Errors
    ///
    /// For anything but a report of [`SCHEMA_VERSION`] whose counts add up.
    pub fn from_json(text: &str) -> Result<Report, ReadError> {
        let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
        match value.get("schema") {
            Some(Value::Number(n)) if n.as_u64() == Some(u64::from(SCHEMA_VERSION)) => {}
            Some(Value::Number(n)) => return Err(ReadError::OtherVersion { found: n.to_string() }),
            _ => return Err(ReadError::NotAReport),
        }
        let report: Report = serde_json::from_value(value).map_err(ReadError::WrongShape)?;
        report.check()?;
        Ok(report)
    }

    /// Whether all counts in the report can be true together.
    ///
    /// # Errors
    ///
    /// [`ReadError::Inconsistent`] with the path of the first set of counts that cannot.
    pub fn check(&self) -> Result<(), ReadError> {
        let would =
            self.would_emit.iter().flatten().map(|(policy, counts)| (format!("would_emit.{policy}"), counts));
        let fixed = [("totals".to_string(), &self.totals), ("recorded".to_string(), &self.recorded)];
        for (path, counts) in fixed.into_iter().chain(would) {
            counts.check().map_err(|why| ReadError::Inconsistent(path, why))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::samples;

    fn refused(text: &str) -> String {
        Report::from_json(text).unwrap_err().to_string()
    }

    #[test]
    fn what_was_written_is_read_back() {
        for report in samples() {
            assert_eq!(Report::from_json(&report.to_json()).unwrap(), report);
        }
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let text = samples()[0].to_json().replace(&format!("\"schema\": {SCHEMA_VERSION}"), "\"schema\": 7");
        assert!(refused(&text).contains("has schema 7"), "{}", refused(&text));
    }

    #[test]
    fn other_documents_are_not_taken_for_reports() {
        for text in ["{}", "[]", "3", "null", r#"{"schema": "1"}"#] {
            assert!(refused(text).starts_with("not a report"), "{}", refused(text));
        }
        let whole = samples()[0].to_json();
        assert!(refused(&whole[..whole.len() / 2]).contains("cut off"));
        assert!(refused(&format!(r#"{{"schema": {SCHEMA_VERSION}}}"#)).contains("missing field"));
    }

    #[test]
    fn numbers_that_do_not_add_up_are_refused_with_their_place() {
        let mut report = samples().remove(1);
        report.totals.barriers_asked += 1;
        assert!(refused(&report.to_json()).contains("'totals'"));
        report.totals.barriers_asked -= 1;
        let would = report.would_emit.as_mut().unwrap().get_mut("every").unwrap();
        would.barriers_added += 1;
        assert!(refused(&report.to_json()).contains("'would_emit.every'"));
    }

    #[test]
    fn fields_of_a_later_version_and_the_lack_of_optional_ones_are_borne() {
        let mut value: Value = serde_json::from_str(&samples()[0].to_json()).unwrap();
        value["added_later"] = Value::from("something");
        value["totals"].as_object_mut().unwrap().remove("unknown_operations");
        value.as_object_mut().unwrap().remove("notes");
        assert!(Report::from_json(&value.to_string()).is_ok());
    }
}
