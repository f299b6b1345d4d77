//! Chat templates in the shapes of published ones, rendered as Jinja2 renders them.
//!
//! `chat/expected.json` is what `tests/jinja engine/tests/engine/chat` prints with Jinja2 3.1; `tests/tests/chat_templates.rs`
//! compares it with what that prints on the machine at hand.

use std::collections::BTreeMap;
use std::path::Path;

use zinc_engine::chat::question;
use zinc_engine::gguf::{Gguf, Value};
use zinc_engine::tokenizer::Tokenizer;

use crate::support::{Tiny, changed};

const EXPECTED: &str = include_str!("chat/expected.json");

/// The conversations of `tests/jinja`: what the system says, and the question.
const CONVERSATIONS: [(&str, Option<&str>, &str); 2] = [
    ("question", None, "  Why is \"h\u{e9}llo\" <b>bold</b>?\n "),
    ("system", Some("Be brief. /no_think"), "What's 2 + 2?"),
];

/// A vocabulary whose marks of a text's beginning and end are spelled `<s>` and `</s>`.
fn tokenizer(template: &str) -> Tokenizer {
    let marks = ["<s>", "</s>"];
    let file = Tiny::default().file();
    let gguf = Gguf::parse(&file).unwrap();
    let array = gguf.array("tokenizer.ggml.tokens").unwrap().unwrap();
    let mut tokens: Vec<Vec<u8>> = array.strings().unwrap().map(<[u8]>::to_vec).collect();
    tokens.truncate(256);
    tokens.extend(marks.map(|mark| mark.as_bytes().to_vec()));
    let mut writer = zinc_engine::gguf::Writer::new();
    writer.put_strings("x", &tokens);
    let mut out = Vec::new();
    writer.write(&mut out, |_, _| Ok(())).unwrap();
    let tokens = Gguf::parse(&out).unwrap();
    let file = changed(
        &file,
        &[
            ("tokenizer.ggml.tokens", tokens.get("x")),
            ("tokenizer.ggml.token_type", None),
            ("tokenizer.ggml.bos_token_id", Some(Value::U32(256))),
            ("tokenizer.ggml.eos_token_id", Some(Value::U32(257))),
            ("tokenizer.chat_template", Some(Value::String(template))),
        ],
    );
    Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap()
}

#[test]
fn published_shapes_of_templates_are_rendered_as_jinja2_renders_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/chat");
    let expected: BTreeMap<String, BTreeMap<String, Option<String>>> =
        serde_json::from_str(EXPECTED).unwrap();
    assert!(expected.len() >= 20, "{}", expected.len());
    let mut wrong = Vec::new();
    for (name, texts) in &expected {
        let template = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        let tokenizer = tokenizer(&template);
        for (conversation, system, user) in CONVERSATIONS {
            let rendered = question(&tokenizer, system, user.as_bytes());
            // What a refusal says differs between programs; that there is one must not.
            let text = rendered.as_ref().ok().map(|text| String::from_utf8(text.clone().unwrap()).unwrap());
            if text != texts[conversation] {
                wrong.push(format!(
                    "{name}, {conversation}:\n{:?}\n{rendered:?}\n{text:?}",
                    texts[conversation]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "Jinja2 first:\n{}", wrong.join("\n"));
}
