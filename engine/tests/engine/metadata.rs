//! Metadata that changes results: read as llama.cpp reads it, or refused by name.
//!
//! What llama.cpp makes of the same keys is in `tests/tests/llama_files.rs`, where it runs.

use zinc_engine::gguf::{Gguf, Value, ValueType};
use zinc_engine::model::{Architecture, Config, Model};
use zinc_engine::reference::Reference;

use crate::support::{Change, Tiny, changed, with_model};

fn config(tiny: &Tiny, changes: &[Change<'_>]) -> Result<Config, String> {
    let file = changed(&tiny.file(), changes);
    let gguf = Gguf::parse(&file).unwrap();
    Model::from_gguf(&gguf).map(|model| model.config).map_err(|error| error.to_string())
}

fn llama(changes: &[Change<'_>]) -> Result<Config, String> {
    config(&Tiny::default(), changes)
}

fn gemma(changes: &[Change<'_>]) -> Result<Config, String> {
    let window = 9;
    config(&Tiny { architecture: Architecture::Gemma3, layers: 7, window, ..Tiny::default() }, changes)
}

/// An array of scalars as a value, through a file.
fn with_array<T>(values: &[Value<'_>], f: impl FnOnce(Value<'_>) -> T) -> T {
    let mut writer = zinc_engine::gguf::Writer::new();
    writer.put_scalars("x", values);
    let mut file = Vec::new();
    writer.write(&mut file, |_, _| Ok(())).unwrap();
    f(Gguf::parse(&file).unwrap().get("x").unwrap())
}

#[test]
fn rotations_are_scaled_as_the_file_says_and_linearly_where_it_names_no_type() {
    let (factor, ty) = ("llama.rope.scaling.factor", "llama.rope.scaling.type");
    let old = "llama.rope.scale_linear";
    let number = |v| Some(Value::F32(v));
    let text = |s| Some(Value::String(s));
    let cases: [(&[Change<'_>], f64); 8] = [
        (&[], 1.0),
        (&[(factor, number(4.0))], 0.25),
        (&[(factor, number(4.0)), (ty, text("linear"))], 0.25),
        (&[(factor, number(4.0)), (ty, text("none"))], 1.0),
        (&[(factor, number(0.0)), (ty, text("linear"))], 1.0),
        (&[(old, number(4.0))], 0.25),
        (&[(old, number(4.0)), (factor, number(2.0))], 0.5),
        (&[(old, number(4.0)), (factor, number(0.0))], 1.0),
    ];
    for (changes, scale) in cases {
        assert_eq!(llama(changes).unwrap().ropes[0].scale, scale, "{changes:?}");
    }
    for ty_name in ["yarn", "longrope", "other"] {
        let error = llama(&[(ty, text(ty_name))]).unwrap_err();
        assert!(error.contains("rope scaling") && error.contains(ty_name), "{error}");
    }
    for (key, value) in [(factor, -1.0), (factor, f32::NAN), ("llama.rope.scaling.attn_factor", 0.0)] {
        let error = llama(&[(key, number(value))]).unwrap_err();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn the_magnitude_of_what_is_rotated_is_read() {
    let key = "llama.rope.scaling.attn_factor";
    let doubled = llama(&[(key, Some(Value::F32(2.0)))]).unwrap();
    let [cos, sin] = doubled.rope_cos_sin(doubled.ropes[0], 3, 1);
    assert!(((cos * cos + sin * sin).sqrt() - 2.0).abs() < 1e-12);
    // The first position turns nothing, so its scores are four times as large and its logits the same; later ones differ.
    let logits = |changes: &[Change<'_>]| {
        with_model(&changed(&Tiny::default().file(), changes), |model| {
            let mut reference = Reference::new(model);
            [reference.step(1), reference.step(2)]
        })
    };
    let (plain, doubled) = (logits(&[]), logits(&[(key, Some(Value::F32(2.0)))]));
    assert_eq!(plain[0], doubled[0]);
    assert_ne!(plain[1], doubled[1]);
}

#[test]
fn gemma_3_has_the_defaults_of_llama_cpp() {
    let without = gemma(&[("gemma3.rope.freq_base", None)]).unwrap();
    assert_eq!((without.ropes[0].base, without.ropes[1].base), (1e4, 1e4));
    let stretched = gemma(&[
        ("gemma3.rope.freq_base", Some(Value::F32(1e6))),
        ("gemma3.rope.scaling.factor", Some(Value::F32(8.0))),
        ("gemma3.rope.scaling.attn_factor", Some(Value::F32(2.0))),
    ])
    .unwrap();
    let ropes = stretched.ropes.iter().map(|rope| (rope.base, rope.scale, rope.magnitude));
    assert_eq!(ropes.collect::<Vec<_>>(), [(1e6, 0.125, 2.0), (1e4, 1.0, 2.0)]);
}

#[test]
fn a_window_pattern_is_a_period_or_a_flag_for_each_layer() {
    let key = "gemma3.attention.sliding_window_pattern";
    let seen = |config: Result<Config, String>| -> String {
        let config = config.unwrap();
        (0..7).map(|layer| if config.layer_window(layer).is_some() { 'w' } else { '.' }).collect()
    };
    assert_eq!(seen(gemma(&[])), "wwwww.w");
    assert_eq!(seen(gemma(&[(key, Some(Value::U32(3)))])), "ww.ww.w");
    assert_eq!(seen(gemma(&[(key, Some(Value::U32(0)))])), "wwwwwww");
    let flags = [1, 0, 0, 1, 1, 1, 0];
    let bools = flags.map(|flag| Value::Bool(flag == 1));
    let numbers = flags.map(Value::U32);
    for values in [&bools, &numbers] {
        let pattern = with_array(values, |array| seen(gemma(&[(key, Some(array))])));
        assert_eq!(pattern, "w..www.");
    }
    let error = with_array(&numbers[..3], |array| gemma(&[(key, Some(array))]).unwrap_err());
    assert!(error.contains(key) && error.contains("7 layers"), "{error}");
}

#[test]
fn one_value_a_layer_loads_where_all_are_equal() {
    for (key, value) in [
        ("llama.attention.head_count", 4),
        ("llama.attention.head_count_kv", 2),
        ("llama.feed_forward_length", 96),
    ] {
        let plain = llama(&[]).unwrap();
        let each = |a: i32, b: i32| {
            with_array(&[Value::I32(a), Value::I32(b)], |array| llama(&[(key, Some(array))]))
        };
        assert_eq!(each(value, value).unwrap(), plain, "{key}");
        let error = each(value, value / 2).unwrap_err();
        assert!(error.contains(key) && error.contains("differs between layers"), "{error}");
        let short = with_array(&[Value::I32(value)], |array| llama(&[(key, Some(array))]).unwrap_err());
        assert!(short.contains(key) && short.contains("2 layers"), "{short}");
    }
}

#[test]
fn a_key_that_would_be_ignored_is_refused_with_its_value() {
    let refused: [(&str, Value<'_>, &str); 12] = [
        ("llama.attention.causal", Value::Bool(false), "false"),
        ("llama.attention.scale", Value::F32(0.5), "0.5"),
        ("llama.attention.sliding_window", Value::U32(16), "16"),
        ("llama.attention.key_length_swa", Value::U32(8), "8"),
        ("llama.rope.dimension_count_swa", Value::U32(8), "8"),
        ("llama.logit_scale", Value::F32(0.5), "0.5"),
        ("llama.residual_scale", Value::F32(0.25), "0.25"),
        ("llama.attention.clamp_kqv", Value::F32(8.0), "8"),
        ("llama.attn_logit_softcapping", Value::F32(5.0), "5"),
        ("llama.final_logit_softcapping", Value::F32(5.0), "5"),
        ("llama.hidden_activation", Value::String("gelu"), "gelu"),
        ("llama.something.new", Value::U32(0), "0"),
    ];
    for (key, value, said) in refused {
        let error = llama(&[(key, Some(value))]).unwrap_err();
        assert!(error.contains(key) && error.contains(said), "{error}");
    }
    // The control: what says the same as the engine computes anyway, and other names that begin alike.
    for (key, value) in [
        ("llama.attention.causal", Value::Bool(true)),
        ("llama.attention.scale", Value::F32(0.25)),
        ("llama.attention.sliding_window", Value::U32(64)),
        ("llama.attention.key_length_swa", Value::U32(16)),
        ("llama.hidden_activation", Value::String("silu")),
        ("llama2.attention.causal", Value::Bool(false)),
    ] {
        llama(&[(key, Some(value))]).unwrap();
    }
}

/// What llama.cpp 0.7.0's own saver writes below the name of each of the four architectures, without the sizes. Made by
/// `test-llama-archs --arch llama --out FOLDER` of Debian's package llama.cpp-tests; the same for qwen2 and qwen3, and for
/// gemma3 but for the bound of the logits (0), the window, its pattern as an array, and the scale.
const SAVED: &str = include_str!("saved-keys.txt");

fn saved(line: &str) -> (&str, ValueType, Vec<Value<'_>>) {
    let mut words = line.splitn(3, ' ');
    let (suffix, ty, text) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or(""));
    let float = || text.parse::<f64>().unwrap() as f32;
    let (ty, value) = match ty.trim_end_matches("[]") {
        "uint32" => (ValueType::U32, Value::U32(text.parse().unwrap())),
        "int32" => (ValueType::I32, Value::I32(text.parse().unwrap())),
        "float32" => (ValueType::F32, Value::F32(float())),
        "bool" => (ValueType::Bool, Value::Bool(text == "true")),
        "string" => (ValueType::String, Value::String(text)),
        other => panic!("{other}"),
    };
    let array = line.split(' ').nth(1).unwrap().ends_with("[]");
    let count = if array { if text.is_empty() { 0 } else { 2 } } else { 1 };
    (suffix, ty, vec![value; count])
}

#[test]
fn what_llama_cpp_s_saver_writes_loads_and_changes_nothing() {
    for architecture in Architecture::ALL {
        let window = if architecture == Architecture::Gemma3 { 9 } else { 0 };
        let tiny = Tiny { architecture, window, ..Tiny::default() };
        let plain = config(&tiny, &[]).unwrap();
        let mut file = tiny.file();
        for line in SAVED.lines() {
            let (suffix, ty, values) = saved(line);
            let key = format!("{}.{suffix}", architecture.name());
            let value = values.first().copied().filter(|_| !line.contains("[] "));
            file = match value {
                Some(_) if architecture == Architecture::Gemma3 && suffix == "final_logit_softcapping" => {
                    changed(&file, &[(&key, Some(Value::F32(0.0)))])
                }
                Some(value) => changed(&file, &[(&key, Some(value))]),
                None if ty == ValueType::String => changed(&file, &[]),
                None => with_array(&values, |array| changed(&file, &[(&key, Some(array))])),
            };
        }
        let scale = Value::F32(if window > 0 { plain.attention_scale as f32 } else { 0.0 });
        file = changed(&file, &[(&format!("{}.attention.scale", architecture.name()), Some(scale))]);
        let gguf = Gguf::parse(&file).unwrap();
        assert!(gguf.metadata().count() > 120);
        let model = Model::from_gguf(&gguf).map_err(|error| format!("{architecture:?}: {error}")).unwrap();
        assert_eq!(model.config, plain, "{architecture:?}");
    }
}
