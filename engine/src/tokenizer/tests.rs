use proptest::prelude::*;

use super::*;
use crate::gguf::{Value, Writer};

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
    let error = tokenizer(&["12"], &["1 2"], "other").unwrap_err().to_string();
    assert!(error.contains("other") && error.contains("smollm"), "{error}");
    assert!(tokenizer(&[], &[], "other").is_ok());
}

#[test]
fn a_vocabulary_without_a_printable_byte_is_refused() {
    let mut writer = Writer::new();
    writer.put("tokenizer.ggml.model", Value::String("gpt2"));
    writer.put_strings("tokenizer.ggml.tokens", &["a", "b"]);
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    let error = Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap_err().to_string();
    assert!(error.contains("byte 0x20"), "{error}");
}

#[test]
fn a_control_character_without_a_token_is_an_error_only_where_a_text_has_it() {
    let alphabet = Alphabet::new();
    let tokens: Vec<String> =
        (0..=255u8).filter(|b| *b != 4).map(|b| alphabet.spell(b).to_string()).collect();
    let mut writer = Writer::new();
    writer.put("tokenizer.ggml.model", Value::String("gpt2"));
    writer.put_strings("tokenizer.ggml.tokens", &tokens);
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    let t = Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap();
    assert_eq!(t.decode(&t.encode(b"a\x05\xff").unwrap()), b"a\x05\xff");
    assert!(t.encode(b"a\x04").unwrap_err().to_string().contains("0x04"));
}

#[test]
fn another_tokenizer_model_is_named() {
    let mut writer = Writer::new();
    writer.put("tokenizer.ggml.model", Value::String("bert"));
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    let error = Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap_err().to_string();
    assert!(error.contains("\"bert\""), "{error}");
}

#[test]
fn llama_3_takes_a_whole_piece_that_is_a_token_and_digits_in_threes() {
    let extra = ["12", "34", "123", "1234", "abc"];
    let ids = |pre, text: &[u8]| tokenizer(&extra, &["1 2", "3 4"], pre).unwrap().encode(text).unwrap();
    // "abc" and "123" follow from no merge.
    // Token 11 is what llama.cpp begins a text with where a file of this kind names none.
    assert_eq!(ids("llama-bpe", b"abc1234"), [11, 260, 258, u32::from(b'4')]);
    assert_eq!(ids("qwen2", b"abc").len(), 3);
}

#[test]
fn qwen_leaves_line_ends_with_punctuation() {
    let t = tokenizer(&[".Ċ", "Ċa"], &[". Ċ", "Ċ a"], "qwen2").unwrap();
    assert_eq!(t.encode(b"x.\na").unwrap(), [u32::from(b'x'), 256, u32::from(b'a')]);
}

#[test]
fn a_token_that_ends_a_turn_is_no_text_whatever_its_type() {
    let t = pieces(&[("a", 0.0), ("</s>", 0.0)], false);
    assert!(t.is_end(259) && !t.is_end(258));
    assert_eq!(t.encode(b"a</s>").unwrap(), [256, 258, 0x3c, 0x2f, 0x73, 0x3e]);
    assert_eq!(t.encode_marked(b"a</s>").unwrap(), [256, 258, 259]);
}

/// A byte-level vocabulary with more tokens of plain text, and numbers of tokens by key.
fn marked(extra: &[&str], numbers: &[(&str, u32)]) -> Tokenizer {
    let alphabet = Alphabet::new();
    let mut tokens: Vec<String> = (0..=255u8).map(|b| alphabet.spell(b).to_string()).collect();
    tokens.extend(extra.iter().map(|s| (*s).to_owned()));
    let mut writer = Writer::new();
    writer.put("tokenizer.ggml.model", Value::String("gpt2"));
    writer.put_strings("tokenizer.ggml.tokens", &tokens);
    for (key, number) in numbers {
        writer.put(&format!("tokenizer.ggml.{key}"), Value::U32(*number));
    }
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap()
}

#[test]
fn generation_ends_at_the_tokens_at_which_llama_cpp_ends_it() {
    // Lists printed by llama.cpp 0.7.0 ("printing all EOG tokens") for these vocabularies.
    let of = |extra: &[&str], numbers: &[(&str, u32)]| marked(extra, numbers).end_tokens().to_vec();
    let eos = ("eos_token_id", 7);
    for text in [
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|calls|>",
        "<|flush|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<eos>",
        "<end_of_utterance>",
        "<turn|>",
        "<|tool_response>",
        "<｜end▁of▁sentence｜>",
        "[e~[",
        "<|fim_pad|>",
        "<fim-pad>",
        "<fim_pad>",
        "<PAD>",
        "[PAD]",
        "<|fim_repo|>",
        "<|repo_name|>",
        "<fim-repo>",
        "<REPO>",
        "<reponame>",
        "<|file_sep|>",
    ] {
        assert_eq!(of(&[text], &[eos]), [7, 256], "{text}");
        assert_eq!(marked(&[text], &[eos]).bytes(256), b"", "{text} is no text");
    }
    for text in
        ["<|fim_prefix|>", "<|end_of_turn|>", "<|eot|>", "<step>", "<s>", "<bos>", "<unk>", "<|channel|>"]
    {
        assert_eq!(of(&[text], &[eos]), [7], "{text}");
    }
    // Numbers in the file, and a spelling that counts only where there is none.
    let ids =
        [("eot_token_id", 65), ("eom_token_id", 66), ("fim_pad_token_id", 67), ("fim_rep_token_id", 68)];
    let more = [("fim_sep_token_id", 69), ("fim_pre_token_id", 70), ("padding_token_id", 71)];
    assert_eq!(of(&[], &[&[eos][..], &ids, &more].concat()), [7, 65, 66, 67, 68, 69]);
    assert_eq!(of(&["<PAD>", "[PAD]", "<|fim_pad|>"], &[eos, ("fim_pad_token_id", 65)]), [7, 65]);
    // What the saver writes for none, and what each kind of vocabulary has where the file is silent.
    assert_eq!(of(&[], &[eos, ("eot_token_id", u32::MAX)]), [7]);
    assert_eq!(of(&[], &[]), [11]);
    assert_eq!(pieces(&[("a", 0.0)], false).end_tokens(), [2]);
}

#[test]
fn marks_within_a_turn_end_nothing_where_other_marks_end_it() {
    let of = |extra: &[&str]| marked(extra, &[("eos_token_id", 7)]).end_tokens().to_vec();
    // Harmony and Solar Open; llama.cpp says "removing '<|end|>' token from EOG list".
    assert_eq!(of(&["<|return|>", "<|call|>", "<|end|>"]), [7, 256, 257]);
    assert_eq!(of(&["<|calls|>", "<|flush|>", "<|end|>"]), [7, 256, 257]);
    assert_eq!(of(&["<|return|>", "<|flush|>", "<|end|>"]), [7, 256, 257, 258]);
    // "'</s>' is a normal token here, removing it from EOG list".
    assert_eq!(marked(&["<|plamo:eos|>", "</s>"], &[("eos_token_id", 256)]).end_tokens(), [256]);
    assert_eq!(marked(&["<|plamo:eos|>", "</s>"], &[("eos_token_id", 7)]).end_tokens(), [7, 257]);
    assert_eq!(of(&["<|tool_response>", "</s>"]), [7, 256]);
    let harmony = marked(&["<|return|>", "<|call|>", "<|end|>"], &[("eos_token_id", 258)]);
    assert!(!harmony.is_end(258) && harmony.bytes(258) == b"<|end|>");
    assert_eq!(marked(&["<|channel|>"], &[]).bytes(256), b"<|channel|>");
}

#[test]
fn sentence_pieces_begin_with_token_one_where_none_is_named() {
    let mut strings: Vec<String> = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    strings.extend((0..=255u8).map(|b| format!("<0x{b:02X}>")));
    let mut types = vec![2, 3, 3];
    types.resize(strings.len(), 6);
    let mut writer = Writer::new();
    writer.put("tokenizer.ggml.model", Value::String("llama"));
    writer.put_strings("tokenizer.ggml.tokens", &strings).put_i32s("tokenizer.ggml.token_type", &types);
    writer.put_f32s("tokenizer.ggml.scores", &vec![0.0; strings.len()]);
    writer.put("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    let tokenizer = |writer: &Writer| {
        let mut file = Vec::new();
        writer.write(&mut file, |_, _| Ok(())).unwrap();
        Tokenizer::from_gguf(&Gguf::parse(&file).unwrap())
    };
    let t = tokenizer(&writer).unwrap();
    assert_eq!(t.encode(b"A").unwrap(), [1, 3 + 65]);
    assert_eq!(t.end_tokens(), [2]);
    assert_eq!(t.marks(), ["<s>", "</s>"]);
    // What would be ignored is refused.
    writer.put("tokenizer.ggml.add_eos_token", Value::Bool(true));
    let error = tokenizer(&writer).unwrap_err().to_string();
    assert!(error.contains("add_eos_token") && error.contains("true"), "{error}");
}

#[test]
fn a_missing_pre_tokenizer_gets_a_remark() {
    let remarks = |t: Tokenizer| t.remarks().join(" ");
    assert!(remarks(marked(&[], &[])).contains("tokenizer.ggml.pre"));
    assert_eq!(remarks(tokenizer(&[], &[], "gpt-2").unwrap()), "");
    assert_eq!(remarks(pieces(&[("a", 0.0)], false)), "");
}

/// A SentencePiece vocabulary: bytes, some tokens with scores, one that stands for itself.
fn pieces(tokens: &[(&str, f32)], prefix: bool) -> Tokenizer {
    let mut strings: Vec<String> = (0..=255u8).map(|b| format!("<0x{b:02X}>")).collect();
    strings.extend(["<bos>".to_owned(), "\n\n".to_owned()]);
    strings.extend(tokens.iter().map(|(token, _)| (*token).to_owned()));
    let mut types = vec![6; 256];
    types.extend([3, 4]);
    types.resize(strings.len(), 1);
    let mut scores = vec![0.0; 258];
    scores.extend(tokens.iter().map(|(_, score)| *score));
    let mut writer = Writer::new();
    writer.put("tokenizer.ggml.model", Value::String("llama"));
    writer.put_strings("tokenizer.ggml.tokens", &strings).put_i32s("tokenizer.ggml.token_type", &types);
    writer.put_f32s("tokenizer.ggml.scores", &scores);
    writer.put("tokenizer.ggml.bos_token_id", Value::U32(256));
    writer.put("tokenizer.ggml.add_space_prefix", Value::Bool(prefix));
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap()
}

#[test]
fn sentence_pieces_join_by_score_and_then_from_the_left() {
    let t = pieces(&[("a", 0.0), ("b", 0.0), ("ab", -2.0), ("ba", -1.0), ("aba", -5.0), ("aa", -3.0)], false);
    // In "aba", "ba" has the better score; then "a" and "ba" make "aba".
    assert_eq!(t.encode(b"aba").unwrap(), [256, 262]);
    // Of equal pairs the left one goes first.
    assert_eq!(t.encode(b"aaa").unwrap(), [256, 263, 258]);
}

#[test]
fn what_is_no_piece_becomes_bytes_and_spaces_are_spelled_out() {
    let t = pieces(&[("\u{2581}", 0.0), ("a", 0.0), ("\u{2581}a", -1.0)], true);
    // The prefix comes once, and again behind a token that stands for itself.
    assert_eq!(t.encode(b"a\n\na").unwrap(), [256, 260, 257, 260]);
    assert_eq!(t.encode("aé".as_bytes()).unwrap(), [256, 260, 0xc3, 0xa9]);
    assert_eq!(t.encode(b"a\xff").unwrap(), [256, 260, 0xff]);
    assert_eq!(t.decode(&[256, 260, 0xc3, 0xa9, 257]), " aé\n\n".as_bytes());
}

#[test]
fn control_tokens_are_found_only_in_marked_text_and_the_leading_one_comes_once() {
    let t = pieces(&[("a", 0.0)], false);
    assert_eq!(t.encode_marked(b"<bos>a").unwrap(), [256, 258]);
    assert_eq!(t.encode_marked(b"a").unwrap(), [256, 258]);
    assert_eq!(t.encode(b"<bos>a").unwrap().len(), 1 + 5 + 1);
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
