//! Values that JSON has no form for: how a record of runs writes them.

/// Numbers that a broken run can make infinite or undefined, which JSON does not have: they come back as NaN.
pub(crate) mod float {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
    }
}

/// A driver's packets, as a list, since JSON's keys are text only.
pub(crate) mod packets {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::packets::{Count, Counts};

    type Packets = Option<Result<Counts, String>>;

    pub fn serialize<S: Serializer>(value: &Packets, to: S) -> Result<S::Ok, S::Error> {
        let list = value.as_ref().map(|r| r.as_ref().map(|counts| counts.iter().collect::<Vec<_>>()));
        list.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Packets, D::Error> {
        let list = Option::<Result<Vec<(Count, u64)>, String>>::deserialize(from)?;
        Ok(list.map(|r| r.map(|counts| counts.into_iter().collect())))
    }
}
