//! A conversation as the model wants it written down.
//!
//! Models that were trained to answer bring a Jinja template that puts marks around each turn. Templates are written for
//! Python, so its string and dictionary methods are there too.

use minijinja::{Environment, context};

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

/// One question, after what the system is told if anything, with the mark that the answer begins with. `None` if the
/// model has no template.
pub fn question(
    tokenizer: &Tokenizer,
    system: Option<&str>,
    question: &str,
) -> Result<Option<String>, Error> {
    let Some(template) = tokenizer.chat_template() else { return Ok(None) };
    let mut environment = Environment::new();
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message))
    });
    let turn = |role: &str, content: &str| context! { role, content };
    let messages: Vec<_> =
        system.map(|text| turn("system", text)).into_iter().chain([turn("user", question)]).collect();
    let [bos_token, eos_token] = tokenizer.marks();
    let text = environment.template_from_str(template)?.render(context! {
        messages,
        add_generation_prompt => true,
        bos_token,
        eos_token,
    })?;
    Ok(Some(text))
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
        let text = question(&tokenizer, Some("be brief"), " why? ").unwrap().unwrap();
        assert_eq!(text, "<|endoftext|>be brief;[USER]why?;[BOT]");
        // The mark becomes one token, not its letters.
        assert_eq!(tokenizer.encode_marked(&text).unwrap()[0], 256);
    }

    #[test]
    fn a_template_that_refuses_or_is_broken_is_an_error_with_the_way_around_it() {
        for template in ["{{ raise_exception('no system') }}", "{% for %}", "{{ nothing.at.all }}"] {
            let error = question(&with_template(template), None, "x").unwrap_err().to_string();
            assert!(error.contains("--raw"), "{error}");
        }
    }
}
