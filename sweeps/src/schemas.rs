//! The JSON Schemas of the documents that this program writes, by name.
//!
//! They are derived from the types, so that none can say what the program does not do, and committed beside this crate's
//! manifest, so that a change of a document shows in a diff. One rule for versions holds for all: a field that readers may
//! ignore keeps the number; a field that goes away or changes its meaning raises it, and a reader takes its own number only.

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use crate::cost::document::Cost;
use crate::cost::predict::Prediction;
use crate::cost::{document, predict};
use crate::documents::Document;
use crate::parts::plan::{self, Plan};
use crate::report::{self, Report};

impl Document {
    /// Its JSON Schema, with a line feed at its end.
    pub fn schema_json(self) -> String {
        match self {
            Self::Report => of::<Report>(report::SCHEMA_VERSION),
            Self::Cost => of::<Cost>(document::SCHEMA_VERSION),
            Self::Prediction => of::<Prediction>(predict::SCHEMA_VERSION),
            Self::Plan => of::<Plan>(plan::SCHEMA_VERSION),
        }
    }
}

fn of<T: JsonSchema>(version: u32) -> String {
    // The types alone would let any number pass for the version.
    let mut schema = schema_for!(T).to_value();
    schema["properties"]["schema"] = serde_json::json!({
        "const": version,
        "description": "The version of the document: raised when a field changes its meaning or goes away.",
    });
    let mut text = serde_json::to_string_pretty(&sorted(schema)).unwrap_or_default();
    text.push('\n');
    text
}

/// The same document with its fields in the order of the alphabet, whatever order the JSON library was built to keep.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().collect();
            Value::Object(fields.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each document with its committed schema.
    const COMMITTED: [(Document, &str); 4] = [
        (Document::Report, include_str!("../report.schema.json")),
        (Document::Cost, include_str!("../cost.schema.json")),
        (Document::Prediction, include_str!("../prediction.schema.json")),
        (Document::Plan, include_str!("../plan.schema.json")),
    ];

    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        for (document, committed) in COMMITTED {
            let name = format!("{document:?}").to_lowercase();
            assert!(
                committed == document.schema_json(),
                "{name}.schema.json is out of date; `cargo run -p zinc-sweeps --bin sweep -- --print-schema={name} \
                 >sweeps/{name}.schema.json` renews it. Raise SCHEMA_VERSION if old readers would be misled."
            );
        }
    }

    #[test]
    fn a_document_of_another_version_is_not_valid_and_one_with_a_further_field_is() {
        for (document, committed) in COMMITTED {
            let schema: Value = serde_json::from_str(committed).unwrap();
            let version = schema["properties"]["schema"]["const"].as_u64().unwrap();
            assert!(
                schema.get("additionalProperties").is_none(),
                "{document:?}: a younger field is an error"
            );
            assert!(schema["required"].as_array().unwrap().contains(&"schema".into()), "{document:?}");
            let of_version = serde_json::json!({"properties": {"schema": schema["properties"]["schema"]}});
            let validator = jsonschema::validator_for(&of_version).unwrap();
            assert!(
                validator.is_valid(&serde_json::json!({"schema": version, "younger": 1})),
                "{document:?}"
            );
            assert!(!validator.is_valid(&serde_json::json!({"schema": version + 1})), "{document:?}");
        }
    }
}
