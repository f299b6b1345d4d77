//! How byte-level vocabularies spell bytes.

use std::collections::HashMap;

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
    pub(super) fn bytes(&self, token: &str) -> Vec<u8> {
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
