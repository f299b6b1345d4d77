//! How byte-level models cut text before they merge: the *pre-tokenizers*.
//!
//! A GGUF file only names the one that it needs. The expressions are facts about the models, taken from their published
//! tokenizer files; which name stands for which is llama.cpp's convention (`llama_vocab::impl::load` in
//! `src/llama-vocab.cpp`). Each expression cuts what the ones before it left; what an expression does not match stays a
//! piece too.

use tokenizers::SplitDelimiterBehavior;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use super::Error;

/// How contractions, words, numbers, punctuation and spaces are cut apart in GPT-2 and its descendants.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
/// The same with digits in threes, upper case contractions and line ends of their own: Llama 3.
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Like Llama 3, each digit alone: Qwen 2 and 3.
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Where a file names none.
const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|]+";

/// A way to cut text, with what goes along with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pre {
    names: &'static [&'static str],
    expressions: &'static [&'static str],
    /// Whether a whole piece that is a token is taken as it is, without merging.
    pub(super) ignore_merges: bool,
    /// Whether texts begin with the token for that, where the file does not say.
    pub(super) add_bos: bool,
}

const fn pre(names: &'static [&'static str], expressions: &'static [&'static str]) -> Pre {
    Pre { names, expressions, ignore_merges: false, add_bos: false }
}

const TABLE: [Pre; 6] = [
    pre(&["gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling"], &[GPT2]),
    pre(&["smollm", "starcoder", "refact", "command-r", "codeshell", "minerva-7b"], &[r"\p{N}", GPT2]),
    pre(&["qwen2", "deepseek-r1-qwen", "stablelm2", "kormo"], &[QWEN2]),
    Pre {
        ignore_merges: true,
        add_bos: true,
        ..pre(&["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0", "lfm2"], &[LLAMA3])
    },
    pre(&["chatglm-bpe"], &[LLAMA3]),
    pre(&["default"], &[PUNCTUATION, GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
];

/// The one of that name; `default` where a file names none.
pub(super) fn named(name: Option<&str>) -> Result<Pre, Error> {
    let name = name.unwrap_or("default");
    let found = TABLE.iter().find(|pre| pre.names.contains(&name));
    found.copied().ok_or_else(|| Error::PreTokenizer(name.to_owned()))
}

/// Every name, for messages.
pub(super) fn list() -> String {
    TABLE.iter().flat_map(|pre| pre.names).copied().collect::<Vec<_>>().join(", ")
}

impl Pre {
    /// The steps for the `tokenizers` crate.
    pub(super) fn splits(&self) -> Result<Vec<Split>, Error> {
        let split = |expression: &&str| {
            let pattern = SplitPattern::Regex((*expression).to_owned());
            Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .map_err(|e| Error::Vocabulary(e.to_string()))
        };
        self.expressions.iter().map(split).collect()
    }
}
