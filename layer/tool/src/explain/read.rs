//! Reading a trace: the lines that `trace` writes, checked as somebody else's input.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use zinc_hazard::{Access, Barrier, Flags, Kind, MemoryId, Range, Scope, Stages, Stretch};
use zinc_report::TRACE_VERSION;

/// One stretch.
pub struct Line {
    pub policy: String,
    pub operations: Vec<Operation>,
    pub asked: Vec<Asked>,
    pub flushes: Vec<usize>,
    pub timestamps: Vec<(usize, bool)>,
    pub emissions: Vec<Emission>,
}

pub struct Operation {
    pub what: String,
    pub stays: bool,
    pub accesses: Vec<Access>,
}

pub struct Asked {
    /// The number of operations recorded before it.
    pub before: usize,
    pub barrier: Barrier,
    pub fate: String,
    pub emission: Option<usize>,
}

pub struct Emission {
    pub kind: String,
    pub cut: bool,
    pub earlier: Option<usize>,
    pub later: Option<usize>,
    pub range: Option<[u64; 3]>,
}

/// Every line of a trace.
pub fn lines(text: &str) -> Result<Vec<Line>> {
    let one = |(number, line): (usize, &str)| {
        let value: Value = serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
        parse(&value).with_context(|| format!("line {}", number + 1))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(one).collect()
}

fn number(value: &Value, field: &str) -> Result<usize> {
    let found = value[field].as_u64().with_context(|| format!("'{field}' is missing or no number"))?;
    Ok(usize::try_from(found)?)
}

fn word(value: &Value, field: &str) -> Result<String> {
    Ok(value[field].as_str().with_context(|| format!("'{field}' is missing or no text"))?.into())
}

fn list<T>(value: &Value, field: &str, one: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    let items = value[field].as_array().with_context(|| format!("'{field}' is missing or no list"))?;
    items.iter().map(|item| one(item).with_context(|| format!("in '{field}'"))).collect()
}

fn words<const N: usize>(value: &Value) -> Result<[u64; N]> {
    let items: Vec<u64> = value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    items.try_into().ok().with_context(|| format!("{N} numbers were expected, not {value}"))
}

fn barrier(value: &Value) -> Result<Barrier> {
    let [src_stages, src_flags, dst_stages, dst_flags] = words(value)?;
    let scope = |stages, flags| Scope {
        stages: Stages::from_bits_retain(stages),
        flags: Flags::from_bits_retain(flags),
    };
    Ok(Barrier { src: scope(src_stages, src_flags), dst: scope(dst_stages, dst_flags) })
}

fn access(value: &Value) -> Result<Access> {
    let kind = match value[0].as_str() {
        Some("read") => Kind::Read,
        Some("write") => Kind::Write,
        _ => bail!("an access is a read or a write, not {value}"),
    };
    let range = match &value[1] {
        Value::Null => Range::Anywhere,
        bytes => {
            let [memory, start, end] = words(bytes)?;
            Range::Bytes { memory: MemoryId(memory), start, end }
        }
    };
    let mask = |n: usize| value[n].as_u64().with_context(|| format!("a mask is missing in {value}"));
    Ok(Access {
        range,
        kind,
        stages: Stages::from_bits_retain(mask(2)?),
        flags: Flags::from_bits_retain(mask(3)?),
    })
}

fn parse(value: &Value) -> Result<Line> {
    let version = number(value, "trace")?;
    if version as u64 != TRACE_VERSION {
        bail!("this is version {version} of a trace; this program reads {}", TRACE_VERSION);
    }
    let optional = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
    Ok(Line {
        policy: word(value, "policy")?,
        operations: list(value, "operations", |v| {
            Ok(Operation {
                what: word(v, "what")?,
                stays: v["stays"].as_bool().unwrap_or(false),
                accesses: list(v, "accesses", access)?,
            })
        })?,
        asked: list(value, "asked", |v| {
            Ok(Asked {
                before: number(v, "before")?,
                barrier: barrier(&v["scopes"])?,
                fate: word(v, "fate")?,
                emission: optional(&v["emission"]),
            })
        })?,
        flushes: list(value, "flushes", |v| optional(v).context("a flush is a number"))?,
        // Earlier traces have none.
        timestamps: match value.get("timestamps") {
            Some(_) => list(value, "timestamps", |v| {
                let gap = optional(&v[0]).context("a timestamp begins with a number")?;
                Ok((gap, v[1].as_bool().unwrap_or(false)))
            })?,
            None => Vec::new(),
        },
        emissions: list(value, "emissions", |v| {
            Ok(Emission {
                kind: word(v, "kind")?,
                cut: v["cut"].as_bool().unwrap_or(false),
                earlier: optional(&v["earlier"]),
                later: optional(&v["later"]),
                range: if v["range"].is_null() { None } else { Some(words(&v["range"])?) },
            })
        })?,
    })
}

impl Line {
    /// The stretch, as it was recorded.
    pub fn stretch(&self) -> Stretch {
        let mut stretch = Stretch::new();
        let mut asked = self.asked.iter().peekable();
        let mut flushes = self.flushes.iter().peekable();
        let mut timestamps = self.timestamps.iter().peekable();
        for number in 0..=self.operations.len() {
            while let Some(next) = asked.next_if(|a| a.before <= number) {
                stretch.asked(next.barrier);
            }
            while flushes.next_if(|gap| **gap <= number).is_some() {
                stretch.flush();
            }
            while let Some((_, after_compute)) = timestamps.next_if(|(gap, _)| *gap <= number) {
                stretch.timestamp(*after_compute);
            }
            if let Some(operation) = self.operations.get(number) {
                stretch.operation(&operation.accesses, operation.stays);
            }
        }
        stretch
    }
}
