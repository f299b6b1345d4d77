//! Tokens that are found in a text before anything else: those that stand for themselves, and, where that is wanted,
//! control tokens.
//!
//! The longest token goes first, over the whole text, then the next; so an earlier, shorter token never cuts a longer
//! one in two. That is llama.cpp's order (`tokenizer_st_partition`), and differs from scanning from the left.

use aho_corasick::AhoCorasick;

use super::Error;

pub(super) struct Fixed {
    /// Text, id, and whether it is a control token; the longest first.
    tokens: Vec<(String, u32, bool)>,
    /// Finds which of them a text holds at all, in one pass: a vocabulary may have thousands.
    finder: AhoCorasick,
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t [u8]),
    Token(u32),
}

impl Fixed {
    pub(super) fn new(mut tokens: Vec<(String, u32, bool)>) -> Result<Self, Error> {
        tokens.retain(|token| !token.0.is_empty());
        tokens.sort_by_key(|token| std::cmp::Reverse(token.0.len()));
        let finder = AhoCorasick::new(tokens.iter().map(|token| &token.0))
            .map_err(|e| Error::Vocabulary(format!("its fixed tokens cannot be searched for: {e}")))?;
        Ok(Self { tokens, finder })
    }

    /// Cuts a text; control tokens count only if `control` says so.
    pub(super) fn cut<'t>(&self, text: &'t [u8], control: bool) -> Vec<Fragment<'t>> {
        let mut present: Vec<usize> = self
            .finder
            .find_overlapping_iter(text)
            .map(|found| found.pattern().as_usize())
            .filter(|index| control || !self.tokens[*index].2)
            .collect();
        present.sort_unstable();
        present.dedup();
        let mut fragments = vec![Fragment::Text(text)];
        for index in present {
            let (needle, id, _) = &self.tokens[index];
            let cut = |fragment| match fragment {
                Fragment::Text(text) => around(text, needle.as_bytes(), *id),
                token => vec![token],
            };
            fragments = fragments.into_iter().flat_map(cut).collect();
        }
        fragments.retain(|fragment| !matches!(fragment, Fragment::Text([])));
        fragments
    }
}

/// The text around each appearance of `needle`, from the left.
fn around<'t>(mut text: &'t [u8], needle: &[u8], id: u32) -> Vec<Fragment<'t>> {
    let mut out = Vec::new();
    while let Some(at) = text.windows(needle.len()).position(|window| window == needle) {
        out.extend([Fragment::Text(&text[..at]), Fragment::Token(id)]);
        text = &text[at + needle.len()..];
    }
    out.push(Fragment::Text(text));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_goes_first_wherever_it_is() {
        let token = |text: &str, id| (text.to_owned(), id, false);
        let fixed = Fixed::new(vec![token("ab", 1), token("bcd", 2)]).unwrap();
        // From the left, "ab" would have cut "bcd" in two.
        let expected = [Fragment::Text(b"xa"), Fragment::Token(2), Fragment::Token(1)];
        assert_eq!(fixed.cut(b"xabcdab", false), expected);
        assert_eq!(fixed.cut(b"", false), []);
    }

    #[test]
    fn control_tokens_are_text_unless_they_are_wanted() {
        let fixed = Fixed::new(vec![("<end>".to_owned(), 7, true)]).unwrap();
        assert_eq!(fixed.cut(b"a<end>", false), [Fragment::Text(b"a<end>")]);
        assert_eq!(fixed.cut(b"a<end>", true), [Fragment::Text(b"a"), Fragment::Token(7)]);
    }
}
