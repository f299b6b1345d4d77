//! The digest of an output, as it comes.
//!
//! Two runs are compared by their bytes. Text is never decoded for that, since a decoder maps different bytes to one
//! replacement character, and an output is never collected for that, since then its end would have to be cut off somewhere.
//! Lines that the owner's patterns find are left out, and so are the blanks at the end of the output.

use blake3::Hasher;

use crate::pattern::Pattern;

/// Bytes of a line in which patterns are sought; what is behind them goes as the line's beginning does.
const LINE: usize = 1 << 20;

/// A digest that is being made.
pub struct Digester {
    ignore: Vec<Pattern>,
    /// All bytes that count so far.
    all: Hasher,
    /// The same to the last byte that is no blank.
    trimmed: Hasher,
    /// The beginning of a line that is not yet decided on.
    line: Vec<u8>,
    /// What was decided on a line that is longer than [`LINE`].
    decided: Option<bool>,
}

impl Digester {
    /// A digest that leaves out the lines in which one of `ignore` is found.
    pub fn new(ignore: &[Pattern]) -> Digester {
        Digester {
            ignore: ignore.to_vec(),
            all: Hasher::new(),
            trimmed: Hasher::new(),
            line: Vec::new(),
            decided: None,
        }
    }

    /// Adds what came next.
    pub fn add(&mut self, bytes: &[u8]) {
        if self.ignore.is_empty() {
            return self.count(bytes);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.decided {
                Some(true) => self.count(part),
                Some(false) => {}
                None => self.line.extend_from_slice(part),
            }
            let ended = part.ends_with(b"\n");
            if self.decided.is_none() && (ended || self.line.len() >= LINE) {
                self.decide();
            }
            if ended {
                self.decided = None;
            }
        }
    }

    /// The digest, hexadecimal.
    pub fn finish(mut self) -> String {
        self.decide();
        self.trimmed.finalize().to_hex().to_string()
    }

    /// Counts the line at hand, or leaves it out.
    fn decide(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        let counts = !self.ignore.iter().any(|pattern| pattern.finds(&text));
        if counts {
            self.count(&line);
        }
        self.decided = Some(counts);
    }

    fn count(&mut self, bytes: &[u8]) {
        let text = bytes.trim_ascii_end().len();
        if text > 0 {
            self.all.update(&bytes[..text]);
            self.trimmed = self.all.clone();
        }
        self.all.update(&bytes[text..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(ignore: &[&str], parts: &[&[u8]]) -> String {
        let ignore: Vec<Pattern> = ignore.iter().map(|text| text.parse().unwrap()).collect();
        let mut digester = Digester::new(&ignore);
        parts.iter().for_each(|part| digester.add(part));
        digester.finish()
    }

    fn of(text: &[u8]) -> String {
        blake3::hash(text).to_hex().to_string()
    }

    #[test]
    fn outputs_that_differ_in_bytes_that_are_no_text_differ() {
        for ignore in [&[][..], &["^took "][..]] {
            assert_eq!(digest(ignore, &[b"a\xff\n"]), of(b"a\xff"));
            assert_ne!(digest(ignore, &[b"a\xff\n"]), digest(ignore, &[b"a\xfe\n"]));
            assert_ne!(digest(ignore, &[b"a\xff\n"]), digest(ignore, &["a\u{fffd}\n".as_bytes()]));
        }
    }

    #[test]
    fn lines_that_are_ignored_and_blanks_at_the_end_do_not_count() {
        let ignore = ["^took "];
        assert_eq!(digest(&ignore, &[b"a\ntook 1 s\nb\n"]), of(b"a\nb"));
        assert_eq!(digest(&ignore, &[b"a\nb\ntook \xff s"]), of(b"a\nb"));
        assert_eq!(digest(&[], &[b"a\n\n \r\n"]), of(b"a"));
        assert_eq!(digest(&[], &[b"a\n", b" \n", b"b"]), of(b"a\n \nb"));
        assert_ne!(digest(&[], &[b"a\nb"]), digest(&[], &[b"b\na"]));
        assert_ne!(digest(&[], &[b""]), digest(&[], &[b"a"]));
    }

    #[test]
    fn where_reads_begin_and_end_changes_nothing() {
        let text = b"one\ntook 1 s\n\n two \ntook 2 s\nthree \n\n";
        for ignore in [&[][..], &["^took "][..]] {
            let whole = digest(ignore, &[text]);
            for size in 1..text.len() {
                assert_eq!(digest(ignore, &text.chunks(size).collect::<Vec<_>>()), whole, "{size}");
            }
        }
    }

    #[test]
    fn a_line_of_any_length_goes_as_its_beginning_does() {
        let long = vec![b'x'; 3 * LINE];
        let with = |first: &[u8]| [first, &long, b"\nb\n"].concat();
        let parts = |text: &[u8]| digest(&["^took "], &text.chunks(1000).collect::<Vec<_>>());
        assert_eq!(parts(&with(b"took ")), of(b"b"));
        assert_eq!(parts(&with(b"")), of(&with(b"")[..3 * LINE + 2]));
    }
}
