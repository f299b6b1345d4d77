//! The model and the text that are part of the program, so that it runs without a download.
//!
//! `model/MODEL_CARD.md` says where both come from.

/// A small byte-level English model, Q8_0, a complete GGUF file.
pub static MODEL: &[u8] = include_bytes!("../model/embedded-q8_0.gguf");

/// Text that the model was not trained on.
pub static HELD_OUT_TEXT: &[u8] = include_bytes!("../model/heldout.txt");
