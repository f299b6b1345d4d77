//! A conversation as the model wants it written down.
//!
//! Models that were trained to answer bring a Jinja template that puts marks around each turn. Templates are written for
//! Python and for transformers (`apply_chat_template`), so what that gives them is here, too: Python's string and dictionary
//! methods, its `tojson`, `raise_exception`, `strftime_now`, the block `generation`, and `tools` and `documents`, which are
//! none. What is printed is written as Python writes it. `tests/jinja` renders the same templates with Jinja2 itself.

mod generation;
mod python;

use chrono::{DateTime, Local};
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, context};

use crate::tokenizer::Tokenizer;

/// Why a conversation cannot be written down.
#[derive(Debug, thiserror::Error)]
#[error("the model's chat template cannot be used ({0}); --raw leaves it out")]
pub struct Error(String);

impl From<minijinja::Error> for Error {
    fn from(error: minijinja::Error) -> Self {
        // The first line says what; the rest is the template's source.
        Self(error.to_string())
    }
}

/// One question of any bytes, after what the system says if anything, with the mark that the answer begins with. `None` if
/// the model has no template.
pub fn question(
    tokenizer: &Tokenizer,
    system: Option<&str>,
    question: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let Some(template) = tokenizer.chat_template() else { return Ok(None) };
    let stand_ins = StandIns::for_bytes(question, template, system.unwrap_or_default())?;
    let turn = |role: &str, content: &str| context! { role, content };
    let messages: Vec<_> = system
        .map(|text| turn("system", text))
        .into_iter()
        .chain([turn("user", &stand_ins.text(question))])
        .collect();
    let text = render(template, messages, tokenizer.marks(), Local::now())?;
    Ok(Some(stand_ins.bytes(&text)))
}

/// The template's text for these messages, at this time.
fn render(
    template: &str,
    messages: Vec<Value>,
    [bos_token, eos_token]: [&str; 2],
    now: DateTime<Local>,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(|out, _, value| Ok(out.write_str(&python::text(value))?));
    environment.add_filter("tojson", python::to_json);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", move |format: String| formatted(now, &format));
    environment.template_from_str(&generation::replaced(template))?.render(context! {
        messages,
        tools => (),
        documents => (),
        add_generation_prompt => true,
        bos_token,
        eos_token,
    })
}

/// The filter `length`: what is not defined has the length 0 in Jinja2.
fn length(value: &Value) -> Result<usize, minijinja::Error> {
    if value.is_undefined() { Ok(0) } else { minijinja::filters::length(value) }
}

/// `datetime.strftime`: the directives that C has mean the same to both.
fn formatted(now: DateTime<Local>, format: &str) -> Result<String, minijinja::Error> {
    use std::fmt::Write;
    let mut out = String::new();
    write!(out, "{}", now.format(format)).map_err(|_| {
        let what = format!("strftime_now does not know a directive of {format:?}");
        minijinja::Error::new(ErrorKind::InvalidOperation, what)
    })?;
    Ok(out)
}

/// Characters that stand for bytes that are not UTF-8 while a template has them: it takes text, and hands on what it does
/// not know.
struct StandIns {
    /// The character that stands for byte 0.
    first: u32,
}

impl StandIns {
    /// Characters for private use that none of these texts has.
    fn for_bytes(question: &[u8], template: &str, system: &str) -> Result<Self, Error> {
        let free = |first: &u32| {
            let used = |c: char| (*first..*first + 256).contains(&u32::from(c));
            let chunks = question.utf8_chunks();
            !chunks
                .flat_map(|chunk| chunk.valid().chars())
                .chain(template.chars())
                .chain(system.chars())
                .any(used)
        };
        let first = (0xf_0000..0xf_ff00).step_by(256).find(free);
        first
            .map(|first| Self { first })
            .ok_or_else(|| Error("the prompt has all private characters".to_owned()))
    }

    fn text(&self, bytes: &[u8]) -> String {
        let mut out = String::new();
        for chunk in bytes.utf8_chunks() {
            out.push_str(chunk.valid());
            out.extend(chunk.invalid().iter().filter_map(|b| char::from_u32(self.first + u32::from(*b))));
        }
        out
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for c in text.chars() {
            match u32::from(c).checked_sub(self.first).and_then(|b| u8::try_from(b).ok()) {
                Some(byte) => out.push(byte),
                None => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{Gguf, Value, Writer};
    use crate::synth::Vocabulary;

    fn with_template(template: &str) -> Tokenizer {
        let mut writer = Writer::new();
        Vocabulary::bytes().put(&mut writer);
        writer.put("tokenizer.chat_template", Value::String(template));
        let mut file = Vec::new();
        writer.write(&mut file, |_, _| Ok(())).unwrap();
        Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap()
    }

    #[test]
    fn turns_are_marked_as_the_template_says() {
        let tokenizer = with_template(
            "{{ bos_token }}{% for m in messages %}\n  {% if m['role'] != 'system' %}[{{ m.role.upper() }}]{% endif %}\n\
             {{ m['content'].strip() }};{% endfor %}{% if add_generation_prompt %}[BOT]{% endif %}",
        );
        let text = question(&tokenizer, Some("be brief"), b" why? ").unwrap().unwrap();
        assert_eq!(text, b"<|endoftext|>be brief;[USER]why?;[BOT]");
        // The mark becomes one token, not its letters.
        assert_eq!(tokenizer.encode_marked(&text).unwrap()[0], 256);
    }

    #[test]
    fn a_template_that_refuses_or_is_broken_is_an_error_with_the_way_around_it() {
        for template in ["{{ raise_exception('no system') }}", "{% for %}", "{{ nothing.at.all }}"] {
            let error = question(&with_template(template), None, b"x").unwrap_err().to_string();
            assert!(error.contains("--raw"), "{error}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_pass_through_a_template() {
        let tokenizer = with_template("<{{ messages[-1].content | trim }}>\u{f0041}");
        let text = question(&tokenizer, None, b" a\xff\xc3(\xf0\x9f\x98\x80\x80 ").unwrap().unwrap();
        assert_eq!(text, b"<a\xff\xc3(\xf0\x9f\x98\x80\x80>\xf3\xb0\x81\x81");
        assert_eq!(tokenizer.encode_marked(&text).unwrap().len(), text.len());
    }

    #[test]
    fn the_time_is_written_as_python_writes_it() {
        use chrono::TimeZone;
        let now = Local.with_ymd_and_hms(2024, 7, 6, 5, 4, 3).unwrap();
        // What `datetime(2024, 7, 6, 5, 4, 3).strftime` gives in Python 3.
        for (format, expected) in [
            ("%d %b %Y", "06 Jul 2024"),
            ("%Y-%m-%d", "2024-07-06"),
            ("%B %d, %Y", "July 06, 2024"),
            ("%A, %d %B %Y %H:%M:%S %p", "Saturday, 06 July 2024 05:04:03 AM"),
            ("%a %y %j %I %%", "Sat 24 188 05 %"),
            ("%-d %e", "6  6"),
        ] {
            assert_eq!(formatted(now, format).unwrap(), expected, "{format}");
        }
        assert!(formatted(now, "%Q").unwrap_err().to_string().contains("%Q"));
    }
}
