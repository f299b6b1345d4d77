//! SentencePiece vocabularies with scores (`tokenizer.ggml.model` is `llama`): Gemma, Llama 1 and 2.
//!
//! Neighbouring pieces are joined, always the pair whose joint piece has the highest score, the leftmost of equals,
//! until no joint piece is in the vocabulary. A character that is no token becomes the tokens of its bytes (`<0x0A>`).
//! A space is spelled U+2581. The `tokenizers` crate has nothing of that kind: it joins by the order of a list of
//! merges, which these files do not carry.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::{BYTE, Error, NOT_TEXT, USER_DEFINED};

/// What a space is spelled as.
const SPACE: &str = "\u{2581}";

pub(super) struct Spm {
    ids: HashMap<String, u32>,
    scores: Vec<f32>,
    byte_tokens: [u32; 256],
    /// Whether a space is put in front of a text.
    prefix: bool,
}

/// A piece of the text while pieces are joined; a joined right neighbour is left with no bytes.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    len: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A pair that may be joined. Pairs come out of the heap by score, then from the left.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both when the pair was found: a pair with fewer or more now is stale.
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl Spm {
    pub(super) fn new(ids: &HashMap<&str, u32>, scores: Vec<f32>, prefix: bool) -> Result<Self, Error> {
        let mut byte_tokens = [0; 256];
        for (byte, slot) in byte_tokens.iter_mut().enumerate() {
            let spelled = format!("<0x{byte:02X}>");
            *slot = *ids
                .get(spelled.as_str())
                .ok_or_else(|| Error::Vocabulary(format!("the byte {byte:#04x} has no token {spelled:?}")))?;
        }
        let ids = ids.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect();
        Ok(Self { ids, scores, byte_tokens, prefix })
    }

    /// The bytes that each token stands for; none for control tokens.
    pub(super) fn pieces(tokens: &[String], types: &[u32]) -> Vec<Vec<u8>> {
        let byte = |token: &str| {
            let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
            u8::from_str_radix(digits, 16).ok()
        };
        let piece = |(token, ty): (&String, &u32)| match *ty {
            ty if NOT_TEXT.contains(&ty) => Vec::new(),
            USER_DEFINED => token.clone().into_bytes(),
            BYTE => byte(token).into_iter().collect(),
            _ => token.replace(SPACE, " ").into_bytes(),
        };
        tokens.iter().zip(types).map(piece).collect()
    }

    /// Appends the tokens of any bytes. `first` says that nothing, or a token that is no text, stands before them.
    pub(super) fn encode(&self, text: &[u8], first: bool, out: &mut Vec<u32>) {
        let mut prefix = if first && self.prefix { " " } else { "" };
        for chunk in text.utf8_chunks() {
            if !chunk.valid().is_empty() {
                self.encode_text(&format!("{prefix}{}", chunk.valid()).replace(' ', SPACE), out);
                prefix = "";
            }
            out.extend(chunk.invalid().iter().map(|&byte| self.byte_tokens[usize::from(byte)]));
        }
    }

    fn encode_text(&self, text: &str, out: &mut Vec<u32>) {
        let mut pieces: Vec<Piece> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Piece {
                start,
                len: c.len_utf8(),
                previous: i.checked_sub(1),
                next: Some(i + 1),
            })
            .collect();
        let Some(last) = pieces.last_mut() else { return };
        last.next = None;
        let mut heap = BinaryHeap::new();
        for left in 0..pieces.len() - 1 {
            heap.extend(self.pair(text, &pieces, left, left + 1));
        }
        while let Some(pair) = heap.pop() {
            let (left, right) = (pieces[pair.left], pieces[pair.right]);
            if left.len == 0 || right.len == 0 || left.len + right.len != pair.len {
                continue;
            }
            pieces[pair.left].len = pair.len;
            pieces[pair.left].next = right.next;
            pieces[pair.right].len = 0;
            if let Some(next) = right.next {
                pieces[next].previous = Some(pair.left);
                heap.extend(self.pair(text, &pieces, pair.left, next));
            }
            if let Some(previous) = left.previous {
                heap.extend(self.pair(text, &pieces, previous, pair.left));
            }
        }
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            let text = &text[piece.start..piece.start + piece.len];
            match self.ids.get(text) {
                Some(&id) => out.push(id),
                None => out.extend(text.bytes().map(|byte| self.byte_tokens[usize::from(byte)])),
            }
        }
    }

    fn pair(&self, text: &str, pieces: &[Piece], left: usize, right: usize) -> Option<Pair> {
        let len = pieces[left].len + pieces[right].len;
        let id = *self.ids.get(&text[pieces[left].start..][..len])?;
        Some(Pair { score: self.scores[id as usize], left, right, len })
    }
}
