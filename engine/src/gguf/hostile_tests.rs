//! Files that lie: truncations, flipped bits, absurd counts. The reader must refuse or accept, never panic, and never
//! allocate more than a small multiple of the file's size.

use proptest::prelude::*;

use super::{Error, Gguf, TensorType, Value, Writer};

/// A small file with every kind of value and two tensors.
fn sample() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put("general.architecture", Value::String("llama"));
    writer.put("a.u8", Value::U8(1)).put("a.i64", Value::I64(-5)).put("a.f32", Value::F32(1.5));
    writer.put("a.bool", Value::Bool(true)).put("a.f64", Value::F64(2.5)).put("a.u16", Value::U16(9));
    writer.put_strings("a.strings", &["one", "two", "three"]).put_i32s("a.ints", &[1, -2, 3]);
    writer.tensor("t.one", &[32, 2], TensorType::Q8_0).tensor("t.two", &[3], TensorType::F32);
    let mut file = Vec::new();
    writer.write(&mut file, |index, out| out.write_all(&vec![index as u8 + 1; [68, 12][index]])).unwrap();
    file
}

/// Touches everything that a parsed file offers.
fn walk(gguf: &Gguf<'_>) -> usize {
    let mut sum = 0;
    for (key, value) in gguf.metadata() {
        sum += key.len() + value.describe().len();
        if let Value::Array(array) = value {
            sum += array.strings().map_or(0, |strings| strings.map(<[u8]>::len).sum());
            sum += array.u32s().map_or(0, Iterator::count);
        }
    }
    sum + gguf.tensors().iter().map(|t| t.data.len() + t.elements() as usize % 7).sum::<usize>()
}

#[test]
fn a_written_file_reads_back() {
    let file = sample();
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.string("general.architecture").unwrap(), Some("llama"));
    assert_eq!(gguf.get("a.i64"), Some(Value::I64(-5)));
    let strings: Vec<_> = gguf.array("a.strings").unwrap().unwrap().strings().unwrap().collect();
    assert_eq!(strings, [b"one".as_slice(), b"two", b"three"]);
    let ints: Vec<_> = gguf.array("a.ints").unwrap().unwrap().u32s().unwrap().collect();
    assert_eq!(ints, [1, -2i32 as u32, 3]);
    let tensor = gguf.tensor("t.one").unwrap();
    assert_eq!((tensor.columns(), tensor.rows(), tensor.data), (32, 2, [1u8; 68].as_slice()));
    assert_eq!(gguf.tensor("t.two").unwrap().data, [2u8; 12]);
    assert!(walk(&gguf) > 0);
}

#[test]
fn every_truncation_is_refused() {
    let file = sample();
    // The last tensor ends before its padding: only a file that keeps all of its data is whole.
    let whole = file.len() - 20;
    for len in 0..whole {
        assert!(
            Gguf::parse(&file[..len]).is_err(),
            "a file cut to {len} of {} bytes was accepted",
            file.len()
        );
    }
    assert!(Gguf::parse(&file[..whole]).is_ok());
}

fn with_u64(file: &[u8], at: usize, value: u64) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    file
}

#[test]
fn absurd_counts_are_refused_before_anything_is_allocated() {
    for at in [8, 16] {
        for count in [u64::MAX, u64::MAX / 8, 1 << 40, 1 << 20] {
            let file = with_u64(&sample(), at, count);
            let error = Gguf::parse(&file).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{error}");
        }
    }
}

fn position(file: &[u8], needle: &[u8]) -> usize {
    file.windows(needle.len()).position(|window| window == needle).expect("the sample holds it")
}

#[test]
fn absurd_dimensions_strings_and_offsets_are_refused() {
    let file = sample();
    let dims = position(&file, b"t.one") + 5 + 4;
    for value in [0, 33, u64::MAX, 1 << 62, 1 << 33] {
        assert!(Gguf::parse(&with_u64(&file, dims, value)).is_err(), "rows of {value} were accepted");
    }
    let offset = dims + 16 + 4;
    for value in [1, u64::MAX - 31, 1 << 40] {
        assert!(Gguf::parse(&with_u64(&file, offset, value)).is_err(), "an offset of {value} was accepted");
    }
    let length = position(&file, b"a.strings") - 8;
    assert!(Gguf::parse(&with_u64(&file, length, u64::MAX)).is_err());
}

#[test]
fn an_unknown_tensor_type_is_named_with_the_known_ones() {
    let mut file = sample();
    let at = position(&file, b"t.one") + 5 + 4 + 16;
    file[at..at + 4].copy_from_slice(&4242u32.to_le_bytes());
    let error = Gguf::parse(&file).unwrap_err().to_string();
    assert!(error.contains("t.one") && error.contains("4242") && error.contains("Q8_0"), "{error}");
}

#[test]
fn doubled_names_and_overlapping_tensors_are_refused() {
    let mut writer = Writer::new();
    writer.tensor("same", &[1], TensorType::F32).tensor("same", &[1], TensorType::F32);
    let mut file = Vec::new();
    writer.write(&mut file, |_, out| out.write_all(&[0; 4])).unwrap();
    assert!(Gguf::parse(&file).unwrap_err().to_string().contains("two tensors are named same"));

    let mut writer = Writer::new();
    writer.put("key", Value::U8(1)).put("key", Value::U8(2));
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    assert!(Gguf::parse(&file).unwrap_err().to_string().contains("key appears twice"));

    let file = sample();
    let second_offset = position(&file, b"t.two") + 5 + 4 + 8 + 4;
    let error = Gguf::parse(&with_u64(&file, second_offset, 0)).unwrap_err().to_string();
    assert!(error.contains("overlap"), "{error}");
}

#[test]
fn other_files_and_versions_are_named() {
    assert!(Gguf::parse(b"PK\x03\x04 something").unwrap_err().to_string().contains("not a GGUF file"));
    let mut file = sample();
    // Version 1 has lengths of 32 bits, version 2 is laid out as version 3.
    file[4] = 1;
    assert!(Gguf::parse(&file).unwrap_err().to_string().contains("version 1"));
    file[4] = 2;
    assert_eq!(Gguf::parse(&file).unwrap().string("general.architecture").unwrap(), Some("llama"));
    file[4..8].copy_from_slice(&[0, 0, 0, 3]);
    assert!(Gguf::parse(&file).unwrap_err().to_string().contains("big-endian"));
}

#[test]
fn an_odd_alignment_is_refused() {
    for value in [0, 3, 1 << 40] {
        let mut file = sample();
        let key = "a.i64";
        // Reuse a 64-bit value of the sample under the alignment's name by writing a fresh file by hand.
        let at = position(&file, key.as_bytes());
        let mut named = file[..at - 8].to_vec();
        named.extend(("general.alignment".len() as u64).to_le_bytes());
        named.extend(b"general.alignment");
        file[at + key.len() + 4..at + key.len() + 12].copy_from_slice(&u64::to_le_bytes(value));
        named.extend(&file[at + key.len()..]);
        let error = Gguf::parse(&named).unwrap_err().to_string();
        assert!(error.contains("general.alignment"), "{error}");
    }
}

proptest! {
    #[test]
    fn flipped_bits_never_panic(flips in proptest::collection::vec((0usize..4096, 0u8..8), 1..6)) {
        let mut file = sample();
        for (at, bit) in flips {
            let at = at % file.len();
            file[at] ^= 1 << bit;
        }
        if let Ok(gguf) = Gguf::parse(&file) {
            walk(&gguf);
        }
    }

    #[test]
    fn noise_after_the_magic_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(noise);
        if let Ok(gguf) = Gguf::parse(&file) {
            walk(&gguf);
        }
    }

    #[test]
    fn a_long_field_written_anywhere_never_panics(at in 0usize..4096, value: u64) {
        let file = sample();
        let at = at % (file.len() - 8);
        let file = with_u64(&file, at, value);
        if let Ok(gguf) = Gguf::parse(&file) {
            walk(&gguf);
        }
    }
}
