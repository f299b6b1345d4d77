//! Perplexity, defined exactly as llama.cpp's perplexity tool defines it.
//!
//! The text is tokenised as a whole and cut into chunks of `ctx` tokens; what does not fill a chunk is left out. Each
//! chunk is a sequence of its own. If the model wants a leading token, it replaces the first token of every chunk. Only
//! the second half counts, so that every scored token has at least half a chunk before it: with `first = ctx / 2`, the
//! logits at index i in `first..ctx - 1` score token i + 1, which gives `ctx - 1 - first` scores a chunk.
//!
//! With n scores v_i = -ln p_i: nll = mean(v), perplexity = exp(nll), and the error is
//! exp(nll) * sqrt((mean(v^2) - nll^2) / (n - 1)), the standard error of the mean carried through the exponential.
//!
//! The tool strips one newline from the end of the file, and so does this module. Source: `tools/perplexity/
//! perplexity.cpp` (function `perplexity`, commit 050fc7f) of llama.cpp.

use crate::results::Estimate;
use crate::tokenizer::Tokenizer;

/// Why a text cannot be scored.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Fewer tokens than one chunk has.
    #[error("the text has {tokens} tokens, and one chunk needs {ctx}; use a longer text or a smaller --ctx")]
    TooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens a chunk.
        ctx: u32,
    },
    /// A chunk too short to score anything with an error.
    #[error("a chunk of {0} tokens scores fewer than two; use at least 5")]
    ChunkTooShort(u32),
}

/// Which tokens to feed, and which of them to score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Tokens a chunk.
    pub ctx: u32,
    chunks: Vec<Chunk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    /// What is fed: the leading token in place of the first one, if the model wants one.
    fed: Vec<u32>,
    /// What the text has.
    text: Vec<u32>,
}

impl Task {
    /// Cuts `tokens` into chunks of `ctx`, at most `limit` tokens in all. With a limit below `ctx`, there is one chunk
    /// of `limit` tokens.
    pub fn new(tokens: &[u32], leading: Option<u32>, ctx: u32, limit: Option<u32>) -> Result<Self, Error> {
        let ctx = limit.map_or(ctx, |limit| ctx.min(limit));
        if ctx < 5 {
            return Err(Error::ChunkTooShort(ctx));
        }
        let most = limit.map_or(usize::MAX, |limit| (limit / ctx) as usize);
        let chunks: Vec<_> = tokens
            .chunks_exact(ctx as usize)
            .take(most)
            .map(|text| {
                let mut fed = text.to_vec();
                if let Some(leading) = leading {
                    fed[0] = leading;
                }
                Chunk { fed, text: text.to_vec() }
            })
            .collect();
        if chunks.is_empty() {
            return Err(Error::TooShort { tokens: tokens.len(), ctx });
        }
        Ok(Self { ctx, chunks })
    }

    /// Tokens that will be fed.
    pub fn tokens(&self) -> u64 {
        self.chunks.len() as u64 * u64::from(self.ctx)
    }

    /// Hands each chunk's tokens to `feed`, which passes the logits behind each of them on, with its index in the chunk.
    pub fn run<E>(
        &self,
        tokenizer: &Tokenizer,
        mut feed: impl FnMut(&[u32], &mut dyn FnMut(usize, &[f32])) -> Result<(), E>,
    ) -> Result<Score, E> {
        let mut sums = Sums::default();
        let mut bytes = 0;
        let first = self.ctx as usize / 2;
        for chunk in &self.chunks {
            feed(&chunk.fed, &mut |i, logits| {
                if let Some(&target) = chunk.text.get(i + 1).filter(|_| i >= first) {
                    sums.add(negative_log_likelihood(logits, target));
                    bytes += tokenizer.bytes(target).len() as u64;
                }
            })?;
        }
        Ok(sums.score(bytes))
    }
}

/// The strip that llama.cpp applies to a file: one newline at the end.
pub fn strip(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").unwrap_or(text)
}

/// -ln of the softmax probability of `target`, in double precision.
pub fn negative_log_likelihood(logits: &[f32], target: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&v| f64::from(v - largest).exp()).sum();
    f64::from(largest) + sum.ln() - f64::from(logits[target as usize])
}

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Tokens scored.
    pub scored: u64,
    /// Bytes of text that they stand for.
    pub bytes: u64,
    /// Mean negative log-likelihood, nats a token.
    pub nll: f64,
    /// exp(nll) with its error.
    pub perplexity: Estimate,
    /// exp of nats per byte.
    pub per_byte: f64,
}

#[derive(Default)]
struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, v: f64) {
        self.count += 1;
        self.sum += v;
        self.squares += v * v;
    }

    fn score(&self, bytes: u64) -> Score {
        let n = self.count as f64;
        let nll = self.sum / n;
        let variance = (self.squares / n - nll * nll).max(0.0);
        let value = nll.exp();
        let stderr = value * (variance / (n - 1.0)).sqrt();
        let per_byte = (self.sum / bytes as f64).exp();
        Score { scored: self.count, bytes, nll, perplexity: Estimate { value, stderr }, per_byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likelihood_of_equal_logits_is_one_over_their_number() {
        let nll = negative_log_likelihood(&[3.0; 8], 5);
        assert!((nll - 8f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn extreme_logits_neither_overflow_nor_lose_the_target() {
        assert_eq!(negative_log_likelihood(&[1e30, 0.0], 0), 0.0);
        assert!(negative_log_likelihood(&[1e4, 0.0], 1) > 9999.0);
    }

    #[test]
    fn chunks_are_whole_and_the_leading_token_replaces_the_first_of_each() {
        let tokens: Vec<u32> = (0..25).collect();
        let task = Task::new(&tokens, Some(99), 10, None).unwrap();
        assert_eq!(task.tokens(), 20);
        assert_eq!(task.chunks[1].fed[..2], [99, 11]);
        assert_eq!(task.chunks[1].text[..2], [10, 11]);
    }

    #[test]
    fn a_limit_is_cut_to_whole_chunks_or_makes_one_short_chunk() {
        let tokens: Vec<u32> = (0..100).collect();
        let fed = |limit| Task::new(&tokens, None, 16, Some(limit)).map(|t| (t.ctx, t.tokens()));
        assert_eq!(fed(47), Ok((16, 32)));
        assert_eq!(fed(8), Ok((8, 8)));
        assert_eq!(fed(4), Err(Error::ChunkTooShort(4)));
        assert_eq!(Task::new(&tokens, None, 101, None), Err(Error::TooShort { tokens: 100, ctx: 101 }));
    }

    #[test]
    fn mean_and_error_follow_the_definition() {
        let mut sums = Sums::default();
        [1.0, 2.0, 3.0].iter().for_each(|v| sums.add(*v));
        let score = sums.score(6);
        assert_eq!((score.scored, score.nll), (3, 2.0));
        // variance of the mean: (14/3 - 4) / (3 - 1) = 1/3
        let expected = 2f64.exp() * (1f64 / 3.0).sqrt();
        assert!((score.perplexity.stderr - expected).abs() < 1e-12);
        assert!((score.per_byte - 1f64.exp()).abs() < 1e-12);
    }
}
