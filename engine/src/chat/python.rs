//! Values as Python writes them: `str`, `repr` and `json.dumps`, which templates were written for.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// A number as Python writes it; JSON's and Python's spellings differ only where a number is not finite.
fn number(value: &Value, json: bool) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(x) = f64::try_from(value.clone()) else { return value.to_string() };
    match (x.is_finite(), json) {
        (true, _) => float(x),
        (false, _) if x.is_nan() => if json { "NaN" } else { "nan" }.to_owned(),
        (false, true) => if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        (false, false) => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
    }
}

/// The shortest text that reads back as the number; with an exponent below 1e-4 and from 1e16 on, as Python has it.
fn float(x: f64) -> String {
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = x.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// `str(value)`, as `{{ value }}` prints it.
pub(super) fn text(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        ValueKind::Undefined => String::new(),
        _ => repr(value),
    }
}

fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number => number(value, false),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let items = value.try_iter().into_iter().flatten().map(|item| repr(&item));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let entry = |key: Value| {
                let of = value.get_item(&key).unwrap_or_default();
                format!("{}: {}", repr(&key), repr(&of))
            };
            format!("{{{}}}", keys.map(entry).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// Python's quotes: single ones, unless the text has such and no double ones.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() && u32::from(c) < 0x100 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// How a document is laid out.
struct Layout {
    ascii: bool,
    /// What a level is indented by; none for one line.
    indent: Option<String>,
    item: String,
    key: String,
    sorted: bool,
}

/// The filter `tojson` as transformers defines it: `json.dumps(value, ensure_ascii=False, indent=None, separators=None,
/// sort_keys=False)`, with the same arguments.
pub(super) fn to_json(
    value: &Value,
    ascii: Option<bool>,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<String, Error> {
    let ascii = ascii.or(options.get("ensure_ascii")?).unwrap_or(false);
    let indent: Option<Value> = indent.or(options.get("indent")?).filter(|indent: &Value| !indent.is_none());
    let separators: Option<Value> = options.get("separators")?;
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let indent = indent.map(|indent| match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(indent.clone()).unwrap_or(0)),
    });
    let mut layout = Layout {
        ascii,
        item: if indent.is_some() { "," } else { ", " }.to_owned(),
        key: ": ".to_owned(),
        indent,
        sorted,
    };
    if let Some(pair) = separators.filter(|pair| !pair.is_none()) {
        let part = |i: usize| pair.get_item_by_index(i).map(|part| text(&part));
        (layout.item, layout.key) = (part(0)?, part(1)?);
    }
    let mut out = String::new();
    layout.write(value, 0, &mut out)?;
    Ok(out)
}

impl Layout {
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value, true)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.items(['[', ']'], &items, depth, out, |item, out| self.write(item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort_by_key(text);
                }
                self.items(['{', '}'], &keys, depth, out, |key, out| {
                    self.string(&self.key_text(key)?, out);
                    out.push_str(&self.key);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            _ => {
                let what = format!("{} is not JSON serializable", value.kind());
                return Err(Error::new(ErrorKind::InvalidOperation, what));
            }
        }
        Ok(())
    }

    fn key_text(&self, key: &Value) -> Result<String, Error> {
        let mut out = String::new();
        match key.kind() {
            ValueKind::String => return Ok(text(key)),
            _ => self.write(key, 0, &mut out)?,
        }
        Ok(out)
    }

    fn items(
        &self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        out: &mut String,
        mut each: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item);
            }
            self.line(depth + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c if self.ascii && !c.is_ascii() => {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units)
                        .iter()
                        .for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        // What `repr` gives in Python 3.
        for (x, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(float(x), expected);
        }
    }
}
