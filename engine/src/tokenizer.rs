//! Text to tokens and back, from the vocabulary that the model file carries.
//!
//! Supported are byte-level BPE vocabularies ("gpt2" in GGUF). There every token is a sequence of bytes spelled in an
//! alphabet of 256 printable characters, and merging neighbours in the order of a list turns bytes into tokens. Since
//! each single byte is a token too, any input whatever has an encoding and decodes to itself, bit for bit, also where
//! it is not UTF-8. A vocabulary that lacks one of the 256 is refused: it would silently swallow input.
//!
//! How text is cut before merging (the *pre-tokenizer*) is a regular expression that GGUF only names. A model without
//! merges needs none, whatever it names; for others, the table below lists those that are implemented. The expressions
//! are facts about the models, taken from their published tokenizer files; `smollm` cuts digits apart first.
//!
//! Merging itself is the work of the `tokenizers` crate.

use std::collections::HashMap;

use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::gguf::{self, Gguf};

/// How contractions, words, numbers, punctuation and spaces are cut apart in GPT-2 and its descendants.
const GPT2_WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

/// `tokenizer.ggml.pre` to the expressions that cut the text, one after the other.
const PRE_TOKENIZERS: [(&str, &[&str]); 2] = [("gpt-2", &[GPT2_WORDS]), ("smollm", &[r"\p{N}", GPT2_WORDS])];

/// `tokenizer.ggml.token_type` of a token that stands for itself wherever it appears in the text.
const USER_DEFINED: u32 = 4;
/// `tokenizer.ggml.token_type` of a token that is never text: unknown, control, unused.
const NOT_TEXT: [u32; 3] = [2, 3, 5];

/// What stands in the way of a tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The metadata cannot be read.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// Another kind of tokenizer.
    #[error("the tokenizer model {0:?} is not supported; supported is \"gpt2\" (byte-level BPE)")]
    Model(String),
    /// A pre-tokenizer that is not in the table.
    #[error(
        "the pre-tokenizer {0:?} is not supported; supported are {known}",
        known = PRE_TOKENIZERS.map(|p| p.0).join(" and ")
    )]
    PreTokenizer(String),
    /// The vocabulary contradicts itself.
    #[error("the model's vocabulary is damaged: {0}")]
    Vocabulary(String),
}

/// A model's own tokenizer.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The bytes that each token stands for; empty for control tokens.
    pieces: Vec<Vec<u8>>,
    byte_tokens: [u32; 256],
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
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
        if model != "gpt2" {
            return Err(Error::Model(model.to_owned()));
        }
        let tokens = token_strings(gguf)?;
        let types = token_types(gguf, tokens.len())?;
        let merges = merges(gguf)?;
        let pre = match gguf.string("tokenizer.ggml.pre")? {
            _ if merges.is_empty() => Vec::new(),
            name => cuts(name.unwrap_or("(none named)"))?,
        };

        let alphabet = Alphabet::new();
        let mut ids: HashMap<&str, u32> = HashMap::with_capacity(tokens.len());
        for (id, token) in tokens.iter().enumerate() {
            if ids.insert(token, id as u32).is_some() {
                return Err(Error::Vocabulary(format!("the token {token:?} appears twice")));
            }
        }
        let mut byte_tokens = [0; 256];
        for (byte, slot) in byte_tokens.iter_mut().enumerate() {
            let spelled = alphabet.spell(byte as u8).to_string();
            *slot = *ids
                .get(spelled.as_str())
                .ok_or_else(|| Error::Vocabulary(format!("the byte {byte:#04x} has no token {spelled:?}")))?;
        }
        let pieces = tokens
            .iter()
            .zip(&types)
            .map(|(token, ty)| match *ty {
                ty if NOT_TEXT.contains(&ty) => Vec::new(),
                USER_DEFINED => token.clone().into_bytes(),
                _ => alphabet.bytes(token),
            })
            .collect();

        let vocab = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id as u32)).collect();
        let bpe = BPE::builder()
            .vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocab, merges)
            .build()
            .map_err(|e| Error::Vocabulary(e.to_string()))?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        let mut steps: Vec<PreTokenizerWrapper> = pre.into_iter().map(Into::into).collect();
        steps.push(ByteLevel::new(false, false, false).into());
        inner.with_pre_tokenizer(Some(Sequence::new(steps)));
        let fixed: Vec<_> = tokens
            .iter()
            .zip(&types)
            .filter(|(_, ty)| **ty == USER_DEFINED)
            .map(|(token, _)| AddedToken::from(token.clone(), false).normalized(false))
            .collect();
        inner.add_tokens(&fixed);

        let special = |key: &str| -> Result<Option<u32>, Error> {
            match gguf.u64(key)? {
                Some(id) if id >= tokens.len() as u64 => {
                    Err(Error::Vocabulary(format!("{key} is {id}, and there are {} tokens", tokens.len())))
                }
                id => Ok(id.map(|id| id as u32)),
            }
        };
        let bos = special("tokenizer.ggml.bos_token_id")?;
        let eos = special("tokenizer.ggml.eos_token_id")?;
        // Without the key, llama.cpp adds no leading token for the pre-tokenizers in the table.
        let add_bos = gguf.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(false);
        if add_bos && bos.is_none() {
            return Err(Error::Vocabulary("a leading token is asked for, and none is named".to_owned()));
        }
        Ok(Self { inner, pieces, byte_tokens, bos, eos, add_bos })
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

    /// Tokens of any bytes, the leading token first if the model wants one. Control tokens spelled out in the text are
    /// treated as text.
    pub fn encode(&self, text: &[u8]) -> Result<Vec<u32>, Error> {
        let mut out: Vec<u32> = self.leading_token().into_iter().collect();
        for chunk in text.utf8_chunks() {
            if !chunk.valid().is_empty() {
                let encoding = self
                    .inner
                    .encode_fast(chunk.valid(), false)
                    .map_err(|e| Error::Vocabulary(format!("the text cannot be encoded: {e}")))?;
                out.extend(encoding.get_ids());
            }
            out.extend(chunk.invalid().iter().map(|&byte| self.byte_tokens[usize::from(byte)]));
        }
        Ok(out)
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

fn cuts(name: &str) -> Result<Vec<Split>, Error> {
    let (_, expressions) =
        PRE_TOKENIZERS.iter().find(|p| p.0 == name).ok_or_else(|| Error::PreTokenizer(name.to_owned()))?;
    expressions
        .iter()
        .map(|expression| {
            Split::new(SplitPattern::Regex((*expression).to_owned()), SplitDelimiterBehavior::Isolated, false)
                .map_err(|e| Error::Vocabulary(e.to_string()))
        })
        .collect()
}

/// The 256 characters in which byte-level vocabularies spell bytes: printable Latin-1 characters stand for
/// themselves, the other 68 bytes for U+0100 and following, in order.
pub(crate) struct Alphabet {
    spelling: [char; 256],
    byte: HashMap<char, u8>,
}

impl Alphabet {
    pub(crate) fn new() -> Self {
        let mut spelling = ['\0'; 256];
        let mut next = 0x100;
        for byte in 0..=255u8 {
            let printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
            spelling[usize::from(byte)] = if printable {
                char::from(byte)
            } else {
                next += 1;
                char::from_u32(next - 1).expect("U+0100 to U+0143 are characters")
            };
        }
        let byte = (0..=255u8).map(|byte| (spelling[usize::from(byte)], byte)).collect();
        Self { spelling, byte }
    }

    pub(crate) fn spell(&self, byte: u8) -> char {
        self.spelling[usize::from(byte)]
    }

    /// The bytes that a token spells. Characters outside the alphabet stand for their own UTF-8.
    fn bytes(&self, token: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(token.len());
        for c in token.chars() {
            match self.byte.get(&c) {
                Some(&byte) => out.push(byte),
                None => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{Value, Writer};
    use proptest::prelude::*;

    fn vocabulary(extra: &[&str], merges: &[&str], pre: &str) -> Vec<u8> {
        let alphabet = Alphabet::new();
        let mut tokens: Vec<String> = (0..=255u8).map(|b| alphabet.spell(b).to_string()).collect();
        tokens.extend(extra.iter().map(|s| (*s).to_owned()));
        let mut writer = Writer::new();
        writer.put("tokenizer.ggml.model", Value::String("gpt2"));
        writer.put("tokenizer.ggml.pre", Value::String(pre));
        writer.put_strings("tokenizer.ggml.tokens", &tokens);
        writer.put_strings("tokenizer.ggml.merges", merges);
        let mut file = Vec::new();
        writer.write(&mut file, |_, _| Ok(())).unwrap();
        file
    }

    fn tokenizer(extra: &[&str], merges: &[&str], pre: &str) -> Result<Tokenizer, Error> {
        Tokenizer::from_gguf(&Gguf::parse(&vocabulary(extra, merges, pre)).unwrap())
    }

    #[test]
    fn merges_apply_in_their_order_and_not_across_words() {
        let t = tokenizer(&["th", "the", "Ġt", "eĠ"], &["t h", "th e", "Ġ t", "e Ġ"], "gpt-2").unwrap();
        // "the the": the second word begins with its space, so "e " cannot merge across the cut.
        assert_eq!(t.encode(b"the the").unwrap(), [257, u32::from(b' '), 257]);
    }

    #[test]
    fn smollm_cuts_digits_apart_and_gpt_2_does_not() {
        let ids = |pre| tokenizer(&["12"], &["1 2"], pre).unwrap().encode(b"12").unwrap();
        assert_eq!(ids("gpt-2"), [256]);
        assert_eq!(ids("smollm").len(), 2);
    }

    #[test]
    fn an_unknown_pre_tokenizer_is_named_unless_there_is_nothing_to_merge() {
        let error = tokenizer(&["12"], &["1 2"], "qwen2").unwrap_err().to_string();
        assert!(error.contains("qwen2") && error.contains("smollm"), "{error}");
        assert!(tokenizer(&[], &[], "qwen2").is_ok());
    }

    #[test]
    fn a_vocabulary_without_some_byte_is_refused() {
        let mut writer = Writer::new();
        writer.put("tokenizer.ggml.model", Value::String("gpt2"));
        writer.put_strings("tokenizer.ggml.tokens", &["a", "b"]);
        let mut file = Vec::new();
        writer.write(&mut file, |_, _| Ok(())).unwrap();
        let error = Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap_err().to_string();
        assert!(error.contains("byte 0x00"), "{error}");
    }

    #[test]
    fn another_tokenizer_model_is_named() {
        let mut writer = Writer::new();
        writer.put("tokenizer.ggml.model", Value::String("llama"));
        let mut file = Vec::new();
        writer.write(&mut file, |_, _| Ok(())).unwrap();
        let error = Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap_err().to_string();
        assert!(error.contains("\"llama\""), "{error}");
    }

    #[test]
    fn a_merge_of_tokens_that_do_not_exist_is_an_error() {
        assert!(matches!(tokenizer(&[], &["t h"], "gpt-2"), Err(Error::Vocabulary(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_themselves(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let t = tokenizer(&["th", "Ġt"], &["t h", "Ġ t"], "smollm").unwrap();
            prop_assert_eq!(t.decode(&t.encode(&text).unwrap()), text);
        }

        #[test]
        fn any_text_decodes_to_itself(text in ".*") {
            let t = tokenizer(&["th", "Ġt"], &["t h", "Ġ t"], "gpt-2").unwrap();
            prop_assert_eq!(t.decode(&t.encode(text.as_bytes()).unwrap()), text.as_bytes());
        }
    }
}
