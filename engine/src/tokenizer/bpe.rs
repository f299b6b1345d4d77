//! Byte-level BPE (`tokenizer.ggml.model` is `gpt2`): the vocabulary spells each byte as one printable character.
//!
//! Some published vocabularies lack a few control characters (SmolLM2's lacks 0x04 among others). They are accepted, and
//! a text that has such a byte is an error: dropping it would change what the text says without a word.
//!
//! Merging is the work of the `tokenizers` crate.

use std::collections::HashMap;

use tokenizers::PreTokenizerWrapper;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;

use super::alphabet::Alphabet;
use super::pre::Pre;
use super::{Error, NOT_TEXT, USER_DEFINED};

pub(super) struct Bpe {
    inner: tokenizers::Tokenizer,
    byte_tokens: [Option<u32>; 256],
}

impl Bpe {
    /// `pre` is `None` for vocabularies without merges, which need no cutting.
    pub(super) fn new(
        ids: &HashMap<&str, u32>,
        merges: Vec<(String, String)>,
        pre: Option<Pre>,
    ) -> Result<Self, Error> {
        let alphabet = Alphabet::new();
        let token = |byte: u8| ids.get(alphabet.spell(byte).to_string().as_str()).copied();
        let byte_tokens: [Option<u32>; 256] = std::array::from_fn(|byte| token(byte as u8));
        let needed = (b' '..=b'~').chain([b'\n']);
        if let Some(byte) = needed.into_iter().find(|byte| byte_tokens[usize::from(*byte)].is_none()) {
            let spelled = alphabet.spell(byte);
            return Err(Error::Vocabulary(format!("the byte {byte:#04x} has no token {spelled:?}")));
        }
        let vocab: Vocab = ids.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect();
        let bpe = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .ignore_merges(pre.is_some_and(|pre| pre.ignore_merges))
            .build()
            .map_err(|e| Error::Vocabulary(e.to_string()))?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        let splits = pre.map_or_else(|| Ok(Vec::new()), |pre| pre.splits())?;
        let mut steps: Vec<PreTokenizerWrapper> = splits.into_iter().map(Into::into).collect();
        steps.push(ByteLevel::new(false, false, false).into());
        inner.with_pre_tokenizer(Some(Sequence::new(steps)));
        Ok(Self { inner, byte_tokens })
    }

    /// The bytes that each token stands for; none for control tokens.
    pub(super) fn pieces(tokens: &[String], types: &[u32]) -> Vec<Vec<u8>> {
        let alphabet = Alphabet::new();
        let piece = |(token, ty): (&String, &u32)| match *ty {
            ty if NOT_TEXT.contains(&ty) => Vec::new(),
            USER_DEFINED => token.clone().into_bytes(),
            _ => alphabet.bytes(token),
        };
        tokens.iter().zip(types).map(piece).collect()
    }

    /// Appends the tokens of any bytes; what is not UTF-8 becomes the tokens of its bytes.
    pub(super) fn encode(&self, text: &[u8], out: &mut Vec<u32>) -> Result<(), Error> {
        if let Some(&byte) = text.iter().find(|byte| self.byte_tokens[usize::from(**byte)].is_none()) {
            return Err(Error::Byte(byte));
        }
        for chunk in text.utf8_chunks() {
            if !chunk.valid().is_empty() {
                let encoding = self
                    .inner
                    .encode_fast(chunk.valid(), false)
                    .map_err(|e| Error::Vocabulary(format!("the text cannot be encoded: {e}")))?;
                out.extend(encoding.get_ids());
            }
            out.extend(chunk.invalid().iter().filter_map(|&byte| self.byte_tokens[usize::from(byte)]));
        }
        Ok(())
    }
}
