//! The device's numbers against plain code, and against themselves.

use zinc_engine::decode::{Session, argmax};
use zinc_engine::gguf::Gguf;
use zinc_engine::model::{Architecture, Model};
use zinc_engine::perplexity::{Task, strip};
use zinc_engine::plan::{Cooperative, Tuning};
use zinc_engine::quant::WeightType;
use zinc_engine::reference::Reference;
use zinc_engine::tokenizer::Tokenizer;
use zinc_engine::vk::Record;
use zinc_engine::{embedded, ops};
use zinc_shaders::Capability;

use crate::support::{Tiny, cosine, device, with_model};

/// The largest difference between logits of device and reference, relative to the largest logit, over all steps.
fn worst_difference(model: &Model<'_>, tokens: &[u32]) -> f64 {
    let mut session = Session::new(&device(), model, tokens.len() as u32, Record::Reuse).unwrap();
    let mut reference = Reference::new(model);
    let mut worst = 0f64;
    for &token in tokens {
        let expected = reference.step(token);
        session.step(token).unwrap();
        let got = session.logits();
        assert_eq!(got.len(), expected.len());
        let cosine = cosine(got, &expected);
        assert!(cosine >= 0.9999, "cosine {cosine} at position {}", session.position() - 1);
        let largest = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
        let off = got.iter().zip(&expected).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        worst = worst.max(f64::from(off / largest));
    }
    worst
}

/// f32 sums of some hundred terms, a dozen of them one after the other: a few hundred roundings of 6e-8, not more.
const RELATIVE: f64 = 1e-4;

#[test]
fn every_kernel_agrees_with_the_reference_and_every_control_is_caught() {
    // Workgroup shapes of both kinds of device, whichever is there: each fits the limits of any.
    for tuning in [Tuning::CPU, Tuning::GPU] {
        let cases = ops::cases(&device(), &tuning, |_| true).unwrap();
        let result = ops::run(&device(), &cases, |_| ()).unwrap();
        let failed: Vec<_> = result.cases.iter().filter(|case| !case.passed).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!((result.passed, result.controls_caught), (result.total, result.controls));
        let alone = |name: &str| {
            ["persistent", "best", "advance", "nothing", "coop_places"].iter().all(|n| !name.starts_with(n))
        };
        let cooperative = matches!(device().cooperative(), Cooperative::Has(_));
        // Blocks are how a cache lies that cooperative matrices read.
        let there = |kernel: &&&zinc_shaders::Kernel| {
            let needs = kernel.capabilities.contains(&Capability::CooperativeMatrixKHR);
            alone(kernel.name) && (cooperative || !(needs || kernel.name.ends_with("_blocks")))
        };
        let kernels = zinc_shaders::KERNELS.iter().filter(there).count();
        assert_eq!(result.controls, kernels as u64);
    }
}

#[test]
fn the_device_computes_and_its_logits_are_not_blank() {
    assert!(zinc_engine::probe::computes(&device()).unwrap());
    with_model(embedded::MODEL, |model| {
        let mut session = Session::new(&device(), model, 4, Record::Reuse).unwrap();
        assert_eq!(session.is_blank(), None);
        session.step(1).unwrap();
        assert_eq!(session.is_blank(), Some(false));
    });
}

#[test]
fn the_embedded_model_agrees_with_the_reference_at_every_position() {
    with_model(embedded::MODEL, |model| {
        let tokens: Vec<u32> = embedded::HELD_OUT_TEXT[..100].iter().map(|b| u32::from(*b)).collect();
        let worst = worst_difference(model, &tokens);
        assert!(worst < RELATIVE, "logits differ by {worst} of the largest");
    });
}

/// `model/reference_logits.json`: logits and a greedy continuation computed by PyTorch; MODEL_CARD.md describes it.
#[derive(serde::Deserialize)]
struct Published {
    prompt: String,
    positions: Vec<usize>,
    logits: Vec<Vec<f32>>,
    largest_float32_difference: f32,
    greedy_continuation: String,
}

#[test]
fn the_embedded_model_agrees_with_logits_computed_by_another_program() {
    let published: Published =
        serde_json::from_str(include_str!("../../model/reference_logits.json")).unwrap();
    // PyTorch's own float32 is off by this much; another order of summation may be off by some times as much.
    let tolerance = 20.0 * published.largest_float32_difference;
    with_model(embedded::MODEL, |model| {
        let length = published.prompt.len() + published.greedy_continuation.len();
        let mut session = Session::new(&device(), model, length as u32, Record::Reuse).unwrap();
        let mut reference = Reference::new(model);
        for (position, byte) in published.prompt.bytes().enumerate() {
            let plain = reference.step(byte.into());
            session.step(byte.into()).unwrap();
            let Some(row) = published.positions.iter().position(|p| *p == position) else { continue };
            for (name, ours) in [("reference", plain.as_slice()), ("device", session.logits())] {
                let theirs = &published.logits[row];
                assert_eq!(ours.len(), theirs.len());
                let off = ours.iter().zip(theirs).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
                assert!(
                    off <= tolerance,
                    "{name} is off by {off} at position {position}, allowed are {tolerance}"
                );
            }
        }
        let mut text = String::new();
        while text.len() < published.greedy_continuation.len() {
            let next = argmax(session.logits());
            text.push(char::from(u8::try_from(next).expect("a byte token")));
            session.step(next).unwrap();
        }
        assert_eq!(text, published.greedy_continuation);
    });
}

fn agrees_with_the_reference(shape: &Tiny) {
    let file = shape.file();
    with_model(&file, |model| {
        let tokens: Vec<u32> = (0..24).map(|i| i * 37 % 257).collect();
        let worst = worst_difference(model, &tokens);
        assert!(worst < RELATIVE, "{shape:?}: logits differ by {worst} of the largest");
    });
}

#[test]
fn small_models_of_every_shape_and_type_agree_with_the_reference() {
    let shapes = [
        Tiny { ty: WeightType::F32, ..Tiny::default() },
        Tiny { ty: WeightType::Q4_0, ..Tiny::default() },
        Tiny { output: Some(WeightType::Q4_0), ..Tiny::default() },
        Tiny { ty: WeightType::Q4_0, output: Some(WeightType::F32), layers: 1, ..Tiny::default() },
        Tiny { rope_dim: 8, rope_factors: true, ..Tiny::default() },
        Tiny { output_bias: true, ..Tiny::default() },
        Tiny { heads: 3, kv_heads: 1, head_dim: 32, embedding: 160, ..Tiny::default() },
        Tiny {
            heads: 5,
            kv_heads: 5,
            head_dim: 20,
            embedding: 100,
            feed_forward: 60,
            ty: WeightType::F32,
            ..Tiny::default()
        },
    ];
    shapes.iter().for_each(agrees_with_the_reference);
}

#[test]
fn every_architecture_agrees_with_the_reference() {
    let shapes = [
        Tiny { architecture: Architecture::Qwen2, ..Tiny::default() },
        Tiny { architecture: Architecture::Qwen3, rope_dim: 8, ..Tiny::default() },
        // Seven layers: five with a window, one that sees everything, and one with a window again.
        Tiny {
            architecture: Architecture::Gemma3,
            layers: 7,
            window: 9,
            logit_cap: Some(5.0),
            ..Tiny::default()
        },
        Tiny { architecture: Architecture::Gemma3, layers: 1, ..Tiny::default() },
    ];
    shapes.iter().for_each(agrees_with_the_reference);
}

#[test]
fn every_format_agrees_with_the_reference() {
    for ty in WeightType::ALL {
        let file = Tiny::of(ty).file();
        with_model(&file, |model| {
            assert!(model.matrices().iter().any(|matrix| matrix.ty == ty));
            let tokens: Vec<u32> = (0..12).map(|i| i * 37 % 257).collect();
            let worst = worst_difference(model, &tokens);
            assert!(worst < RELATIVE, "{ty}: logits differ by {worst} of the largest");
        });
    }
}

#[test]
fn a_window_hides_what_is_before_it() {
    // One layer with a window of 4: the fifth token sees nothing of the first.
    let file = Tiny { architecture: Architecture::Gemma3, layers: 1, window: 4, ..Tiny::default() }.file();
    let logits = |tokens: &[u32]| {
        with_model(&file, |model| {
            let mut session = Session::new(&device(), model, 8, Record::Reuse).unwrap();
            for token in tokens {
                session.step(*token).unwrap();
            }
            session.logits().to_vec()
        })
    };
    assert_eq!(logits(&[1, 2, 3, 4, 5]), logits(&[9, 2, 3, 4, 5]));
    assert_ne!(logits(&[1, 2, 3, 4]), logits(&[9, 2, 3, 4]));
}

fn digest(file: &[u8], tokens: &[u32], record: Record) -> String {
    with_model(file, |model| {
        let mut session = Session::new(&device(), model, 32, record).unwrap();
        for chunk in tokens.chunks(32) {
            session.reset();
            for token in chunk {
                session.step(*token).unwrap();
            }
        }
        session.digest()
    })
}

#[test]
fn the_same_run_gives_the_same_bits_recorded_once_or_each_time() {
    let file = Tiny::default().file();
    let tokens: Vec<u32> = (0..60).map(|i| i * 31 % 257).collect();
    let first = digest(&file, &tokens, Record::Reuse);
    assert_eq!(digest(&file, &tokens, Record::Reuse), first);
    assert_eq!(digest(&file, &tokens, Record::Each), first);
}

#[test]
fn another_token_or_another_weight_gives_another_digest() {
    let mut file = Tiny::default().file();
    let tokens: Vec<u32> = (0..20).collect();
    let first = digest(&file, &tokens, Record::Reuse);
    let mut other = tokens.clone();
    other[7] = 200;
    assert_ne!(digest(&file, &other, Record::Reuse), first);
    let last = file.len() - 400; // within the weights
    file[last] ^= 1;
    assert_ne!(digest(&file, &tokens, Record::Reuse), first);
}

#[test]
fn counts_are_those_of_the_plan_one_barrier_a_dispatch_and_one_for_the_host() {
    let file = Tiny::default().file();
    with_model(&file, |model| {
        let mut session = Session::new(&device(), model, 8, Record::Each).unwrap();
        session.step(1).unwrap();
        session.step(2).unwrap();
        let decode = session.decode();
        assert_eq!(decode.dispatches_per_token, 2 * 22 + 4);
        assert_eq!(decode.barriers_per_token, decode.dispatches_per_token + 1);
        assert_eq!((decode.submits_per_token, decode.tokens), (1, 2));
    });
}

#[test]
fn perplexity_through_decode_equals_perplexity_through_the_reference() {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let tokens = tokenizer.encode(strip(embedded::HELD_OUT_TEXT)).unwrap();
    let task = Task::new(&tokens, tokenizer.leading_token(), 48, Some(144)).unwrap();
    let mut session = Session::new(&device(), &model, task.ctx, Record::Reuse).unwrap();
    let decoded = task
        .run(&tokenizer, |tokens, score| {
            session.reset();
            session.score(tokens, score)
        })
        .unwrap();
    let mut reference = Reference::new(&model);
    let expected = task
        .run(&tokenizer, |tokens, score| {
            reference.reset();
            tokens.iter().enumerate().for_each(|(i, token)| score(i, &reference.step(*token)));
            Ok::<_, ()>(())
        })
        .unwrap();
    assert_eq!((decoded.scored, decoded.bytes), (3 * 23, 3 * 23));
    assert!((decoded.nll / expected.nll - 1.0).abs() < 1e-5, "{decoded:?} {expected:?}");
    // The model has learned something: far better than one byte in 257.
    assert!(decoded.per_byte < 10.0, "{decoded:?}");
}

#[test]
fn a_full_context_and_a_foreign_token_are_errors() {
    let file = Tiny::default().file();
    with_model(&file, |model| {
        let mut session = Session::new(&device(), model, 2, Record::Reuse).unwrap();
        assert!(session.step(257).unwrap_err().to_string().contains("257"));
        session.step(0).unwrap();
        session.step(1).unwrap();
        assert!(session.step(2).unwrap_err().to_string().contains("full"));
    });
}

#[test]
fn a_scale_that_is_not_finite_is_refused_with_the_tensor_and_block() {
    let mut file = Tiny::default().file();
    let (start, name) = {
        let gguf = Gguf::parse(&file).unwrap();
        let tensor = gguf.tensor("blk.1.ffn_up.weight").unwrap();
        (tensor.data.as_ptr() as usize - file.as_ptr() as usize, tensor.name.to_owned())
    };
    file[start + 34 * 5..start + 34 * 5 + 2].copy_from_slice(&half::f16::NAN.to_le_bytes());
    with_model(&file, |model| {
        let error = Session::new(&device(), model, 4, Record::Reuse).map(drop).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("block 5"), "{error}");
    });
}
