//! The tokenizer that the model file describes: byte-level BPE (`tokenizer.ggml.model` is `gpt2`) or SentencePiece
//! (`llama`).
//!
//! Either vocabulary can encode any bytes, also those that are not UTF-8, or says which byte it has no token for: input is
//! never swallowed. Tokens that stand for themselves are found first; what lies between them
//! is cut and merged as the model was trained to.

mod alphabet;
mod bpe;
mod ends;
mod fixed;
mod pre;
mod spm;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub(crate) use alphabet::Alphabet;
use bpe::Bpe;
use ends::Ends;
use fixed::{Fixed, Fragment};
use spm::Spm;

use crate::gguf::{self, Gguf, Value};

/// `tokenizer.ggml.token_type` of a token that is text, of one that is never text, of a control token, of one that stands for itself wherever
/// it appears in the text, and of one that is a byte.
const NORMAL: u32 = 1;
const UNKNOWN: u32 = 2;
const CONTROL: u32 = 3;
const USER_DEFINED: u32 = 4;
const BYTE: u32 = 6;
/// Types of tokens that are never text: unknown, control, unused.
const NOT_TEXT: [u32; 3] = [UNKNOWN, CONTROL, 5];

/// What stands in the way of a tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The metadata cannot be read.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// Another kind of tokenizer.
    #[error(
        "the tokenizer model {0:?} is not supported; supported are \"gpt2\" (byte-level BPE) and \"llama\" \
         (SentencePiece)"
    )]
    Model(String),
    /// A pre-tokenizer that is not in the table.
    #[error("the pre-tokenizer {0:?} is not supported; supported are {known}", known = pre::list())]
    PreTokenizer(String),
    /// A key that asks for something that is not done.
    #[error("the metadata key {key} is {value}, which this engine would ignore: its tokens would be wrong")]
    Ignored {
        /// The key.
        key: String,
        /// What it says.
        value: String,
    },
    /// A byte of a text that the vocabulary has no token for.
    #[error("the text has the byte {0:#04x}, which this model has no token for; take it out")]
    Byte(u8),
    /// The vocabulary contradicts itself.
    #[error("the model's vocabulary is damaged: {0}")]
    Vocabulary(String),
}

enum Inner {
    Bpe(Box<Bpe>),
    Spm(Box<Spm>),
}

/// A model's own tokenizer.
pub struct Tokenizer {
    inner: Inner,
    fixed: Fixed,
    /// The bytes that each token stands for; empty for control tokens.
    pieces: Vec<Vec<u8>>,
    bos: Option<u32>,
    eos: Option<u32>,
    ends: Vec<u32>,
    add_bos: bool,
    template: Option<String>,
    /// Texts of the first and the last token, for the template.
    marks: [String; 2],
    remarks: Vec<String>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.pieces.len())
    }
}

impl Tokenizer {
    /// Builds the tokenizer that the file describes.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, Error> {
        let model = gguf::required(gguf.string("tokenizer.ggml.model")?, "tokenizer.ggml.model")?;
        if model != "gpt2" && model != "llama" {
            return Err(Error::Model(model.to_owned()));
        }
        refuse_ignored(gguf)?;
        let tokens = token_strings(gguf)?;
        let mut types = token_types(gguf, tokens.len())?;
        let mut ids: HashMap<&str, u32> = HashMap::with_capacity(tokens.len());
        for (id, token) in (0..).zip(&tokens) {
            if ids.insert(token, id).is_some() {
                return Err(Error::Vocabulary(format!("the token {token:?} appears twice")));
            }
        }
        let special = |key: &str| special(gguf, key, tokens.len());
        let [default_bos, default_eos] =
            default_marks(model).map(|id| id.filter(|id| *id < tokens.len() as u32));
        let eos = special("eos_token_id")?.or(default_eos);
        let found = Ends::find(&ids, eos, special)?;
        for (ids, ty) in [(&found.control, CONTROL), (&found.shown, USER_DEFINED), (&found.text, NORMAL)] {
            ids.iter().for_each(|id| types[*id as usize] = ty);
        }
        let (inner, pieces, add_bos) = if model == "llama" {
            let prefix = gguf.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
            let spm = Spm::new(&ids, scores(gguf, tokens.len())?, prefix)?;
            (Inner::Spm(Box::new(spm)), Spm::pieces(&tokens, &types), true)
        } else {
            let merges = merges(gguf)?;
            let named = gguf.string("tokenizer.ggml.pre")?;
            let pre = if merges.is_empty() { None } else { Some(pre::named(named)?) };
            let add_bos = pre.is_some_and(|pre| pre.add_bos);
            (Inner::Bpe(Box::new(Bpe::new(&ids, merges, pre)?)), Bpe::pieces(&tokens, &types), add_bos)
        };
        let fixed = (0..).zip(tokens.iter().zip(&types)).filter_map(|(id, (token, ty))| match *ty {
            USER_DEFINED => Some((token.clone(), id, false)),
            CONTROL | UNKNOWN => Some((token.clone(), id, true)),
            _ => None,
        });
        let fixed = Fixed::new(fixed.collect())?;

        let first = special("bos_token_id")?;
        // Without the key, what llama.cpp does for this kind of vocabulary, with the token that it takes then.
        let add_bos = gguf.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos);
        let bos = first.or(default_bos.filter(|_| add_bos));
        if add_bos && bos.is_none() {
            return Err(Error::Vocabulary("a leading token is asked for, and none is named".to_owned()));
        }
        let template = gguf.string("tokenizer.chat_template")?.map(str::to_owned);
        let mark = |id: Option<u32>| id.map_or_else(String::new, |id| tokens[id as usize].clone());
        let marks = [mark(bos), mark(eos)];
        let remarks = remarks(gguf, &inner)?;
        Ok(Self { inner, fixed, pieces, bos, eos, ends: found.ends, add_bos, template, marks, remarks })
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are no tokens: never, once built.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The token that begins a text, if this model wants one in front of every text.
    pub fn leading_token(&self) -> Option<u32> {
        self.bos.filter(|_| self.add_bos)
    }

    /// The token that begins a text, if the model names one, whether or not it wants it in front of every text.
    pub fn first_token(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, if the model has one.
    pub fn end_token(&self) -> Option<u32> {
        self.eos
    }

    /// What a user should know about this vocabulary, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The tokens at which generation ends, in the order of their numbers.
    pub fn end_tokens(&self) -> &[u32] {
        &self.ends
    }

    /// Whether a token ends a text or a turn of a conversation.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// How the model wants a conversation written down: a Jinja template (`tokenizer.chat_template`).
    pub fn chat_template(&self) -> Option<&str> {
        self.template.as_deref()
    }

    /// What the template calls `bos_token` and `eos_token`.
    pub fn marks(&self) -> [&str; 2] {
        [&self.marks[0], &self.marks[1]]
    }

    /// Tokens of any bytes, the leading token first if the model wants one. Control tokens spelled out in the text are
    /// treated as text.
    pub fn encode(&self, text: &[u8]) -> Result<Vec<u32>, Error> {
        let mut out: Vec<u32> = self.leading_token().into_iter().collect();
        self.append(text, false, &mut out)?;
        Ok(out)
    }

    /// Tokens of a text in which control tokens are spelled out, as a template makes it. The leading token is first if
    /// the model wants one, and only once if the text begins with it.
    pub fn encode_marked(&self, text: &[u8]) -> Result<Vec<u32>, Error> {
        let mut out = Vec::new();
        self.append(text, true, &mut out)?;
        if let Some(leading) = self.leading_token().filter(|leading| out.first() != Some(leading)) {
            out.insert(0, leading);
        }
        Ok(out)
    }

    fn append(&self, text: &[u8], control: bool, out: &mut Vec<u32>) -> Result<(), Error> {
        let mut first = true;
        for fragment in self.fixed.cut(text, control) {
            match (fragment, &self.inner) {
                (Fragment::Token(id), _) => out.push(id),
                (Fragment::Text(text), Inner::Bpe(bpe)) => bpe.encode(text, out)?,
                (Fragment::Text(text), Inner::Spm(spm)) => spm.encode(text, first, out),
            }
            first = matches!(fragment, Fragment::Token(_));
        }
        Ok(())
    }

    /// The bytes that a token stands for: none for control tokens and ids beyond the vocabulary.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.pieces.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// The bytes that tokens stand for.
    pub fn decode(&self, tokens: &[u32]) -> Vec<u8> {
        tokens.iter().flat_map(|&token| self.bytes(token)).copied().collect()
    }
}

/// Refuses keys that change which tokens a text has, or which may follow, and that nothing here heeds.
fn refuse_ignored(gguf: &Gguf<'_>) -> Result<(), Error> {
    const KEYS: [&str; 6] = [
        "add_eos_token",
        "add_sep_token",
        "normalizer.lowercase",
        "normalizer.nfc",
        "normalizer.strip_accents",
        "suppress_tokens",
    ];
    for key in KEYS.map(|key| format!("tokenizer.ggml.{key}")) {
        match gguf.get(&key) {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Array(array)) if array.is_empty() => {}
            Some(value) => return Err(Error::Ignored { key, value: value.plain() }),
        }
    }
    Ok(())
}

/// What a user should know: that the way to cut texts is guessed.
fn remarks(gguf: &Gguf<'_>, inner: &Inner) -> Result<Vec<String>, Error> {
    let key = "tokenizer.ggml.pre";
    let guessed = matches!(inner, Inner::Bpe(_)) && gguf.string(key)?.is_none();
    Ok(guessed
        .then(|| {
            format!(
                "the model has no metadata key {key}, so texts are cut as by \"default\": its tokens, and with them its \
                 results, may be worse than they should be; convert the model again"
            )
        })
        .into_iter()
        .collect())
}

/// The tokens that begin and end a text where a file names none, as llama.cpp has them for each kind of vocabulary.
fn default_marks(model: &str) -> [Option<u32>; 2] {
    match model {
        "llama" => [Some(1), Some(2)],
        _ => [Some(11), Some(11)],
    }
}

/// The token of a key below `tokenizer.ggml.`; -1 means none, as llama.cpp's saver writes it.
fn special(gguf: &Gguf<'_>, key: &str, tokens: usize) -> Result<Option<u32>, Error> {
    let key = format!("tokenizer.ggml.{key}");
    if matches!(gguf.get(&key), Some(Value::U32(u32::MAX) | Value::I32(-1))) {
        return Ok(None);
    }
    match gguf.u64(&key)? {
        Some(id) if id >= tokens as u64 => {
            Err(Error::Vocabulary(format!("{key} is {id}, and there are {tokens} tokens")))
        }
        id => Ok(id.map(|id| id as u32)),
    }
}

fn token_strings(gguf: &Gguf<'_>) -> Result<Vec<String>, Error> {
    let key = "tokenizer.ggml.tokens";
    let array = gguf::required(gguf.array(key)?, key)?;
    let strings = array.strings().ok_or_else(|| Error::Vocabulary(format!("{key} holds no strings")))?;
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::Vocabulary(format!("{key} is not UTF-8")))
    };
    strings.map(text).collect()
}

fn token_types(gguf: &Gguf<'_>, count: usize) -> Result<Vec<u32>, Error> {
    let key = "tokenizer.ggml.token_type";
    let Some(array) = gguf.array(key)? else { return Ok(vec![1; count]) };
    let types: Vec<u32> =
        array.u32s().ok_or_else(|| Error::Vocabulary(format!("{key} holds no integers")))?.collect();
    if types.len() != count {
        return Err(Error::Vocabulary(format!("{} token types for {count} tokens", types.len())));
    }
    Ok(types)
}

fn scores(gguf: &Gguf<'_>, count: usize) -> Result<Vec<f32>, Error> {
    let key = "tokenizer.ggml.scores";
    let array = gguf::required(gguf.array(key)?, key)?;
    let scores: Vec<f32> =
        array.f32s().ok_or_else(|| Error::Vocabulary(format!("{key} holds no floats")))?.collect();
    if scores.len() != count {
        return Err(Error::Vocabulary(format!("{} scores for {count} tokens", scores.len())));
    }
    Ok(scores)
}

fn merges(gguf: &Gguf<'_>) -> Result<Vec<(String, String)>, Error> {
    let key = "tokenizer.ggml.merges";
    let Some(array) = gguf.array(key)?.filter(|array| !array.is_empty()) else { return Ok(Vec::new()) };
    let strings = array.strings().ok_or_else(|| Error::Vocabulary(format!("{key} holds no strings")))?;
    strings
        .map(|bytes| {
            let text = std::str::from_utf8(bytes).ok();
            let pair =
                text.and_then(|text| text.split_once(' ')).filter(|(a, b)| !a.is_empty() && !b.is_empty());
            pair.map(|(a, b)| (a.to_owned(), b.to_owned()))
                .ok_or_else(|| Error::Vocabulary(format!("{:?} is no merge", String::from_utf8_lossy(bytes))))
        })
        .collect()
}
