//! Tokens at which generation ends, by llama.cpp's rule (`llama_vocab::impl::load`).
//!
//! A file names the tokens that end a text, a turn and a message by number, and the marks with which fill-in-the-middle
//! models pad, name repositories and part files. Few files name all of them, so the rest is found by spelling. Whatever
//! is found so is a control token, whatever its type in the file: Gemma 3 lists `</s>` as text. Two families of models
//! have marks of that spelling that do not end anything; they are known by other marks that they have.
//!
//! Where a vocabulary spells a fill-in-the-middle mark in several ways, llama.cpp takes one by the order of a hash table,
//! and this the first of the list.

use std::collections::HashMap;

use super::Error;

/// Keys below `tokenizer.ggml.` of single tokens that end generation.
const NAMED: [&str; 3] = ["eos_token_id", "eot_token_id", "eom_token_id"];

/// Spellings of tokens that end generation wherever they are in a vocabulary.
const SPELLED: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "[e~[",
];

/// A mark of fill-in-the-middle models: its key, whether it ends generation, and its spellings where the key is absent.
type Mark = (&'static str, bool, &'static [&'static str]);

const MARKS: [Mark; 6] = [
    ("fim_pad_token_id", true, &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    ("fim_rep_token_id", true, &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    ("fim_sep_token_id", true, &["<|file_sep|>"]),
    (
        "fim_pre_token_id",
        false,
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
            "<PRE>",
            "\u{2581}<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
    ),
    (
        "fim_suf_token_id",
        false,
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
            "<SUF>",
            "\u{2581}<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
    ),
    (
        "fim_mid_token_id",
        false,
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
            "<MID>",
            "\u{2581}<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
    ),
];

/// Marks of the harmony format that are shown to the reader, whatever their type.
const SHOWN: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// What is known of a vocabulary's marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// Tokens at which generation ends, by number.
    pub(super) ends: Vec<u32>,
    /// Tokens that are control tokens whatever the file says.
    pub(super) control: Vec<u32>,
    /// Tokens that stand for themselves whatever the file says.
    pub(super) shown: Vec<u32>,
    /// Tokens that are text whatever the file says.
    pub(super) text: Vec<u32>,
}

impl Ends {
    /// Finds them. `named` gives the token of a key below `tokenizer.ggml.`, if the file has it; `end` is the token that
    /// ends a text where it has no such key.
    pub(super) fn find(
        ids: &HashMap<&str, u32>,
        end: Option<u32>,
        named: impl Fn(&str) -> Result<Option<u32>, Error>,
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        let spelled = |text: &str| ids.get(text).copied();
        for key in NAMED {
            let default = if key == "eos_token_id" { end } else { None };
            found.ends.extend(named(key)?.or(default));
        }
        for (key, ends, spellings) in MARKS {
            let given = named(key)?;
            let by_spelling = spellings.iter().find_map(|text| spelled(text)).filter(|_| given.is_none());
            found.control.extend(by_spelling);
            found.ends.extend(given.or(by_spelling).filter(|_| ends));
        }
        for text in SPELLED {
            found.ends.extend(spelled(text));
            found.control.extend(spelled(text));
        }
        found.shown.extend(SHOWN.iter().filter_map(|text| spelled(text)));
        found.exceptions(&spelled);
        found.ends.sort_unstable();
        found.ends.dedup();
        Ok(found)
    }

    /// Takes back the marks that end nothing in the families that have certain others.
    fn exceptions(&mut self, spelled: &impl Fn(&str) -> Option<u32>) {
        let is_end = |text: &str| spelled(text).is_some_and(|id| self.ends.contains(&id));
        let call = is_end("<|call|>") || is_end("<|calls|>");
        // Harmony and Solar Open: a message ends there, and the turn goes on.
        let inner = call && (is_end("<|return|>") || is_end("<|flush|>"));
        // Gemma 4, and PLaMo, in whose vocabularies it closes a tag of HTML.
        let tag = is_end("<|tool_response>") || is_end("<|plamo:eos|>");
        if let Some(id) = spelled("<|end|>").filter(|_| inner) {
            self.take_back(id);
            self.shown.push(id);
        }
        if let Some(id) = spelled("</s>").filter(|_| tag) {
            self.take_back(id);
            self.text.push(id);
        }
    }

    fn take_back(&mut self, id: u32) {
        self.ends.retain(|end| *end != id);
        self.control.retain(|control| *control != id);
    }
}
