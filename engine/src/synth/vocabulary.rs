//! Vocabularies for models with random weights: a published one, or nothing but the bytes.
//!
//! A vocabulary is read from whatever carries it: a GGUF file, the `tokenizer.json` of a model, or the ranks that
//! tiktoken uses. The last has no merges; they follow from the ranks, since a token was made by merging the two parts
//! that its bytes fall into when only tokens before it exist.

use std::collections::HashMap;

use crate::gguf::{self, Gguf, Value, Writer};
use crate::tokenizer::Alphabet;

/// Whose vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// SmolLM2.
    Smollm2,
    /// Llama 3.
    Llama3,
    /// Qwen 2 and 3.
    Qwen,
    /// Gemma 3.
    Gemma3,
    /// Nobody's: the 256 bytes.
    Bytes,
}

/// Why a vocabulary cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is a GGUF and damaged.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// The file is no vocabulary.
    #[error("{0}")]
    Malformed(String),
    /// More tokens than the model has.
    #[error("the vocabulary has {tokens} tokens, and this shape holds {room}: choose another --vocabulary")]
    TooLarge {
        /// Tokens.
        tokens: usize,
        /// What there is room for.
        room: u32,
    },
}

fn malformed(what: &str) -> Error {
    Error::Malformed(what.to_owned())
}

/// `tokenizer.ggml.token_type` of text, of control tokens, and of places without a token.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

/// A vocabulary as GGUF stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`.
    model: String,
    /// `tokenizer.ggml.pre`.
    pre: String,
    tokens: Vec<String>,
    types: Vec<i32>,
    scores: Vec<f32>,
    merges: Vec<String>,
    /// The other keys below `tokenizer.`: numbers, flags and the chat template.
    numbers: Vec<(String, u32)>,
    flags: Vec<(String, bool)>,
    template: Option<String>,
}

/// The turns of a conversation as Qwen and SmolLM mark them.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] \
    + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

impl Vocabulary {
    /// The 256 bytes and one control token that ends a text.
    pub fn bytes() -> Self {
        let alphabet = Alphabet::new();
        let mut tokens: Vec<String> = (0..=255u8).map(|b| alphabet.spell(b).to_string()).collect();
        let mut types = vec![NORMAL; 256];
        tokens.push("<|endoftext|>".to_owned());
        types.push(CONTROL);
        Self {
            model: "gpt2".to_owned(),
            pre: "gpt-2".to_owned(),
            tokens,
            types,
            scores: Vec::new(),
            merges: Vec::new(),
            numbers: vec![("bos_token_id".to_owned(), 256), ("eos_token_id".to_owned(), 256)],
            flags: vec![("add_bos_token".to_owned(), false)],
            template: None,
        }
    }

    /// Reads a GGUF file, a `tokenizer.json` or tiktoken ranks, whichever the bytes are. A `tokenizer.json` is taken to
    /// be Llama 3's and ranks to be Qwen's, because neither says how text is cut.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        match bytes {
            [b'G', b'G', b'U', b'F', ..] => Self::from_gguf(&Gguf::metadata_of(bytes)?),
            [b'{', ..] => Self::from_json(bytes),
            _ => Self::from_ranks(bytes),
        }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Sets whether texts begin with the token for that.
    pub fn set_leading_token(&mut self, wanted: bool) {
        self.flags.retain(|(key, _)| key != "add_bos_token");
        self.flags.push(("add_bos_token".to_owned(), wanted));
    }

    /// Sets how conversations are written down.
    pub fn set_chat_template(&mut self, template: Option<&str>) {
        self.template = template.map(str::to_owned);
    }

    /// Adds places without a token until there are `count`.
    pub fn fill_to(&mut self, count: u32) -> Result<(), Error> {
        if self.tokens.len() > count as usize {
            return Err(Error::TooLarge { tokens: self.tokens.len(), room: count });
        }
        for index in self.tokens.len()..count as usize {
            self.tokens.push(format!("[PAD{index}]"));
            self.types.push(UNUSED);
            if !self.scores.is_empty() {
                self.scores.push(0.0);
            }
        }
        Ok(())
    }

    /// Writes all of it as metadata.
    pub fn put(&self, writer: &mut Writer) {
        writer.put("tokenizer.ggml.model", Value::String(&self.model));
        writer.put("tokenizer.ggml.pre", Value::String(&self.pre));
        writer.put_strings("tokenizer.ggml.tokens", &self.tokens);
        writer.put_i32s("tokenizer.ggml.token_type", &self.types);
        if !self.scores.is_empty() {
            writer.put_f32s("tokenizer.ggml.scores", &self.scores);
        }
        // llama.cpp wants the key of every byte-level vocabulary, also of one that merges nothing.
        if self.model == "gpt2" || !self.merges.is_empty() {
            writer.put_strings("tokenizer.ggml.merges", &self.merges);
        }
        for (key, value) in &self.numbers {
            writer.put(&format!("tokenizer.ggml.{key}"), Value::U32(*value));
        }
        for (key, value) in &self.flags {
            writer.put(&format!("tokenizer.ggml.{key}"), Value::Bool(*value));
        }
        if let Some(template) = &self.template {
            writer.put("tokenizer.chat_template", Value::String(template));
        }
    }

    fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, Error> {
        let text =
            |key: &str| -> Result<String, Error> { Ok(gguf::required(gguf.string(key)?, key)?.to_owned()) };
        let strings = |key: &str| -> Result<Vec<String>, Error> {
            let Some(array) = gguf.array(key)? else { return Ok(Vec::new()) };
            let strings = array.strings().ok_or_else(|| malformed("the vocabulary holds no strings"))?;
            Ok(strings.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect())
        };
        let tokens = strings("tokenizer.ggml.tokens")?;
        let types: Option<Vec<i32>> = gguf
            .array("tokenizer.ggml.token_type")?
            .and_then(|array| Some(array.u32s()?.map(|ty| ty as i32).collect()));
        let types =
            types.filter(|types| types.len() == tokens.len()).unwrap_or_else(|| vec![NORMAL; tokens.len()]);
        let scores: Vec<f32> = gguf
            .array("tokenizer.ggml.scores")?
            .and_then(|array| Some(array.f32s()?.collect()))
            .unwrap_or_default();
        let (mut numbers, mut flags) = (Vec::new(), Vec::new());
        for (key, value) in gguf.metadata() {
            let Some(key) = key.strip_prefix("tokenizer.ggml.") else { continue };
            match value {
                Value::U32(number) => numbers.push((key.to_owned(), number)),
                Value::Bool(flag) => flags.push((key.to_owned(), flag)),
                _ => {}
            }
        }
        Ok(Self {
            model: text("tokenizer.ggml.model")?,
            pre: gguf.string("tokenizer.ggml.pre")?.unwrap_or("default").to_owned(),
            tokens,
            types,
            scores,
            merges: strings("tokenizer.ggml.merges")?,
            numbers,
            flags,
            template: gguf.string("tokenizer.chat_template")?.map(str::to_owned),
        })
    }

    fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let json: serde_json::Value = serde_json::from_slice(bytes)
            .map_err(|e| Error::Malformed(format!("the vocabulary is no JSON: {e}")))?;
        let vocab =
            json["model"]["vocab"].as_object().ok_or_else(|| malformed("the JSON has no model.vocab"))?;
        let merges =
            json["model"]["merges"].as_array().ok_or_else(|| malformed("the JSON has no model.merges"))?;
        let added = json["added_tokens"].as_array().map(Vec::as_slice).unwrap_or_default();
        let added: Vec<(&str, u64)> =
            added.iter().filter_map(|t| Some((t["content"].as_str()?, t["id"].as_u64()?))).collect();
        let plain = vocab.iter().filter_map(|(token, id)| Some((token.as_str(), id.as_u64()?)));
        let all: Vec<(&str, u64)> = plain.chain(added.iter().copied()).collect();
        let count = all.iter().map(|(_, id)| id + 1).max().unwrap_or(0);
        if count > 1 << 24 {
            return Err(malformed("the JSON has token numbers beyond any vocabulary"));
        }
        let mut tokens: Vec<String> = (0..count).map(|id| format!("[PAD{id}]")).collect();
        let mut types = vec![UNUSED; count as usize];
        for (token, id) in &all {
            tokens[*id as usize] = (*token).to_owned();
            types[*id as usize] = NORMAL;
        }
        for (_, id) in &added {
            types[*id as usize] = CONTROL;
        }
        let merge = |merge: &serde_json::Value| match merge {
            serde_json::Value::Array(pair) => {
                Some(format!("{} {}", pair.first()?.as_str()?, pair.get(1)?.as_str()?))
            }
            other => other.as_str().map(str::to_owned),
        };
        let find = |name: &str| added.iter().find(|(token, _)| *token == name).map(|(_, id)| *id as u32);
        let special = |key: &str, names: &[&str]| {
            names.iter().find_map(|name| find(name)).map(|id| (key.to_owned(), id))
        };
        let bos = special("bos_token_id", &["<|begin_of_text|>"]);
        let eos = special("eos_token_id", &["<|eot_id|>", "<|end_of_text|>"]);
        Ok(Self {
            model: "gpt2".to_owned(),
            pre: "llama-bpe".to_owned(),
            tokens,
            types,
            scores: Vec::new(),
            merges: merges.iter().filter_map(merge).collect(),
            flags: vec![("add_bos_token".to_owned(), bos.is_some())],
            numbers: bos.into_iter().chain(eos).collect(),
            template: None,
        })
    }

    fn from_ranks(bytes: &[u8]) -> Result<Self, Error> {
        let bad = || malformed("the vocabulary is no GGUF, no tokenizer.json, and no list of tiktoken ranks");
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for line in text.lines() {
            let (encoded, rank) = line.split_once(' ').ok_or_else(bad)?;
            if rank.parse() != Ok(pieces.len()) {
                return Err(bad());
            }
            pieces.push(base64(encoded).filter(|piece| !piece.is_empty()).ok_or_else(bad)?);
        }
        let ranks: HashMap<&[u8], usize> =
            pieces.iter().enumerate().map(|(i, p)| (p.as_slice(), i)).collect();
        if ranks.len() != pieces.len() || (0..=255u8).any(|b| !ranks.contains_key([b].as_slice())) {
            return Err(bad());
        }
        let alphabet = Alphabet::new();
        let spell = |piece: &[u8]| piece.iter().map(|b| alphabet.spell(*b)).collect::<String>();
        let merges = pieces
            .iter()
            .enumerate()
            .filter_map(|(rank, piece)| last_merge(piece, rank, &ranks))
            .map(|(a, b)| format!("{} {}", spell(a), spell(b)))
            .collect();
        let mut tokens: Vec<String> = pieces.iter().map(|piece| spell(piece)).collect();
        let mut types = vec![NORMAL; tokens.len()];
        // Qwen's marks, in the order of their numbers.
        let end = tokens.len() as u32;
        for mark in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] {
            tokens.push(mark.to_owned());
            types.push(CONTROL);
        }
        Ok(Self {
            model: "gpt2".to_owned(),
            pre: "qwen2".to_owned(),
            tokens,
            types,
            scores: Vec::new(),
            merges,
            numbers: vec![("bos_token_id".to_owned(), end), ("eos_token_id".to_owned(), end + 2)],
            flags: vec![("add_bos_token".to_owned(), false)],
            template: Some(CHATML.to_owned()),
        })
    }
}

/// The two parts that were merged into `piece`: what merging its bytes by rank leaves when only ranks below its own
/// exist. `None` for single bytes, and where more than two parts are left.
fn last_merge<'p>(
    piece: &'p [u8],
    rank: usize,
    ranks: &HashMap<&[u8], usize>,
) -> Option<(&'p [u8], &'p [u8])> {
    let mut cuts: Vec<usize> = (0..=piece.len()).collect();
    while cuts.len() > 3 {
        let merged = |w: &[usize]| ranks.get(&piece[w[0]..w[2]]).copied().filter(|r| *r < rank);
        let (_, at) = cuts.windows(3).enumerate().filter_map(|(i, w)| Some((merged(w)?, i))).min()?;
        cuts.remove(at + 1);
    }
    (cuts.len() == 3).then(|| piece.split_at(cuts[1]))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(extra: &[&[u8]]) -> String {
        let encode = |piece: &[u8]| {
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let bits: Vec<u8> = piece.iter().flat_map(|b| (0..8).rev().map(move |i| b >> i & 1)).collect();
            let six = |c: &[u8]| (0..6).fold(0, |v, i| v << 1 | usize::from(c.get(i).copied().unwrap_or(0)));
            bits.chunks(6).map(|c| char::from(alphabet[six(c)])).collect::<String>()
        };
        let bytes = (0..=255u8).map(|b| vec![b]);
        let all = bytes.chain(extra.iter().map(|e| e.to_vec()));
        all.enumerate().map(|(i, p)| format!("{} {i}\n", encode(&p))).collect()
    }

    #[test]
    fn merges_follow_from_ranks() {
        let vocabulary = Vocabulary::parse(ranks(&[b"th", b"he", b"the", b" the"]).as_bytes()).unwrap();
        // "the" was made of "th" and "e", since "th" came before "he".
        assert_eq!(vocabulary.merges, ["t h", "h e", "th e", "Ġ the"]);
        assert_eq!(vocabulary.len(), 260 + 3);
    }

    #[test]
    fn what_is_no_vocabulary_is_named() {
        for bytes in [b"hello".as_slice(), b"", b"{}", b"GGUF", b"IQ== 0\nIg== 7\n"] {
            let error = Vocabulary::parse(bytes).unwrap_err().to_string();
            assert!(!error.is_empty(), "{error}");
        }
    }

    #[test]
    fn filling_up_never_drops_a_token() {
        let mut vocabulary = Vocabulary::bytes();
        assert!(vocabulary.fill_to(256).unwrap_err().to_string().contains("257 tokens"));
        vocabulary.fill_to(300).unwrap();
        assert_eq!(vocabulary.len(), 300);
    }
}
