//! Every lever: another way to the device, the same numbers.

use zinc_engine::decode::{Matrices, Session, Setup, argmax};
use zinc_engine::embedded;
use zinc_engine::model::Architecture;
use zinc_engine::plan::{Cooperative, Fusion, Handoff, Tuning};
use zinc_engine::quant::WeightType;
use zinc_engine::vk::{Barriers, Descriptors, Levers, Record, Submit};

use crate::support::{Tiny, cosine, device, with_model};

/// Negative log-likelihood of `target`, nats.
fn nats(logits: &[f32], target: u32) -> f64 {
    zinc_engine::perplexity::negative_log_likelihood(logits, target)
}

/// Logits of every step.
fn logits(file: &[u8], tokens: &[u32], setup: &Setup) -> Vec<Vec<f32>> {
    with_model(file, |model| {
        let mut session = Session::with(&device(), model, tokens.len() as u32, setup).unwrap();
        tokens.iter().map(|t| session.step(*t).unwrap().to_vec()).collect()
    })
}

fn digest(file: &[u8], tokens: &[u32], setup: &Setup) -> String {
    with_model(file, |model| {
        let mut session = Session::with(&device(), model, model.config.context.min(160), setup).unwrap();
        for token in tokens {
            session.step(*token).unwrap();
        }
        session.digest()
    })
}

fn levers(levers: Levers) -> Setup {
    Setup { levers, ..Setup::default() }
}

#[test]
fn no_lever_of_recording_submission_descriptors_or_memory_changes_a_bit() {
    let file = Tiny::default().file();
    // Past a step of the context, so that a recording has to be made anew.
    let tokens: Vec<u32> = (0..40).map(|i| i * 31 % 257).collect();
    for fusion in [Fusion::None, Fusion::All] {
        let base = Setup { fusion, ..Setup::default() };
        let first = digest(&file, &tokens, &base);
        let change = |levers: Levers| digest(&file, &tokens, &Setup { levers, ..base });
        let d = Levers::default();
        for record in [Record::Each, Record::Realloc, Record::Ahead] {
            for once in [true, false] {
                assert_eq!(change(Levers { record, once, ..d }), first, "{record:?} {once}");
            }
        }
        for barriers in [Barriers::Every, Barriers::Tracked] {
            assert_eq!(change(Levers { submit: Submit::Op, barriers, ..d }), first, "op {barriers:?}");
        }
        assert_eq!(change(Levers { barriers: Barriers::Tracked, ..d }), first);
        for descriptors in [Descriptors::Alloc, Descriptors::Pool] {
            let l = Levers { descriptors, record: Record::Each, ..d };
            assert_eq!(change(l), first, "{descriptors:?}");
        }
        assert_eq!(change(Levers { sequences: 3, barriers: Barriers::Tracked, ..d }), first);
        assert_eq!(digest(&file, &tokens, &Setup { tensor_allocations: true, ..base }), first);
    }
}

#[test]
fn kernels_that_do_nothing_give_another_digest() {
    let file = Tiny::default().file();
    let tokens = [1, 2, 3];
    let null = levers(Levers { null_kernels: true, ..Levers::default() });
    assert_ne!(digest(&file, &tokens, &null), digest(&file, &tokens, &Setup::default()));
}

#[test]
fn a_recording_is_made_anew_for_a_longer_context_or_other_outputs_and_not_otherwise() {
    let file = Tiny { context: 256, ..Tiny::default() }.file();
    with_model(&file, |model| {
        let setup = Setup {
            levers: Levers { record: Record::Ahead, ..Levers::default() },
            fusion: Fusion::All,
            ..Setup::default()
        };
        let mut session = Session::with(&device(), model, 200, &setup).unwrap();
        session.step(1).unwrap();
        session.step(2).unwrap();
        assert_eq!(session.program().recordings(), 1);
        // Tokens without logits are another recording.
        session.ahead(3, 4, false).unwrap();
        assert_eq!(session.program().recordings(), 2);
        session.ahead(3, 4, false).unwrap();
        assert_eq!(session.program().recordings(), 2);
        // Grids for 64 positions do not cover 100.
        session.ahead(3, 90, false).unwrap();
        assert_eq!(session.program().recordings(), 3);
        // Going back needs no new one: a larger grid covers less.
        session.rewind(4);
        session.ahead(3, 4, false).unwrap();
        assert_eq!(session.program().recordings(), 3);
    });
}

#[test]
fn tokens_chosen_on_the_device_are_those_that_the_host_would_choose() {
    for (fusion, shape) in [
        (Fusion::None, Tiny::default()),
        (Fusion::All, Tiny::default()),
        (Fusion::All, Tiny { ty: WeightType::Q4_0, context: 160, ..Tiny::default() }),
    ] {
        let file = shape.file();
        with_model(&file, |model| {
            let plain = Setup { fusion, ..Setup::default() };
            let mut host = Session::with(&device(), model, 60, &plain).unwrap();
            let mut next = 7;
            let expected: Vec<u32> = (0..50)
                .map(|_| {
                    next = argmax(host.step(next).unwrap());
                    next
                })
                .collect();
            let ahead = Setup { levers: Levers { record: Record::Ahead, ..Levers::default() }, ..plain };
            let mut session = Session::with(&device(), model, 60, &ahead).unwrap();
            let mut chosen = session.ahead(7, 20, false).unwrap();
            chosen.extend(session.ahead(chosen[19], 30, true).unwrap());
            assert_eq!(chosen, expected, "{fusion:?} {shape:?}");
            assert_eq!(session.position(), 50);
        });
    }
}

#[test]
fn of_equal_logits_the_device_chooses_the_first() {
    // Weights of zero make every logit zero.
    let mut file = Tiny { ty: WeightType::F32, ..Tiny::default() }.file();
    let start = {
        let gguf = zinc_engine::gguf::Gguf::parse(&file).unwrap();
        let data = gguf.tensor("token_embd.weight").unwrap().data;
        (data.as_ptr() as usize - file.as_ptr() as usize, data.len())
    };
    file[start.0..start.0 + start.1].fill(0);
    with_model(&file, |model| {
        let setup = levers(Levers { record: Record::Ahead, ..Levers::default() });
        let mut session = Session::with(&device(), model, 8, &setup).unwrap();
        assert_eq!(session.ahead(200, 3, false).unwrap(), [0, 0, 0]);
        assert!(session.ahead(0, 6, false).unwrap_err().to_string().contains("full"));
    });
}

#[test]
fn only_a_session_made_for_it_runs_ahead() {
    let file = Tiny::default().file();
    with_model(&file, |model| {
        let mut session = Session::new(&device(), model, 8, Record::Reuse).unwrap();
        assert!(session.ahead(0, 1, false).unwrap_err().to_string().contains("--record ahead"));
    });
}

/// Fused kernels quantise activations to eight bits, so their logits differ; not by more than this on average, nor, in
/// a model as narrow as the embedded one, by more than that anywhere.
const COSINE: f64 = 0.9999;
/// See [`COSINE`].
const WORST_COSINE: f64 = 0.9995;
/// Mean change of the negative log-likelihood of a text, nats a token.
const NATS: f64 = 0.02;

#[test]
fn fused_logits_of_the_embedded_model_are_those_of_the_unfused_one_but_for_quantised_activations() {
    let text: Vec<u32> = embedded::HELD_OUT_TEXT[..150].iter().map(|b| u32::from(*b)).collect();
    let plain = logits(embedded::MODEL, &text, &Setup::default());
    let mean = |all: &[Vec<f32>]| {
        let sum: f64 = all.iter().zip(&text[1..]).map(|(l, t)| nats(l, *t)).sum();
        sum / (text.len() - 1) as f64
    };
    for fusion in [Fusion::Norm, Fusion::Rope, Fusion::Ffn, Fusion::All] {
        let fused = logits(embedded::MODEL, &text, &Setup { fusion, ..Setup::default() });
        let cosines: Vec<f64> = plain.iter().zip(&fused).map(|(a, b)| cosine(a, b)).collect();
        let worst = cosines.iter().copied().fold(1.0, f64::min);
        let average = cosines.iter().sum::<f64>() / cosines.len() as f64;
        assert!(average >= COSINE && worst >= WORST_COSINE, "{fusion:?}: cosine {average}, at worst {worst}");
        let change = (mean(&fused) - mean(&plain)).abs();
        assert!(change < NATS, "{fusion:?}: {change} nats a token");
    }
}

/// The embedded model is narrower than any of use. In the widths of SmolLM2-135M, no logit vector is further off than this.
#[test]
fn in_the_widths_of_a_real_model_each_fused_logit_vector_is_within_a_cosine_of_0_9999_of_the_unfused_one() {
    let shape = Tiny {
        ty: WeightType::Q4_0,
        embedding: 576,
        feed_forward: 1536,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        rope_dim: 64,
        ..Tiny::default()
    };
    let file = shape.file();
    let tokens: Vec<u32> = (0..24).map(|i| i * 37 % 257).collect();
    let plain = logits(&file, &tokens, &Setup::default());
    for fusion in [Fusion::Norm, Fusion::Rope, Fusion::Ffn, Fusion::All] {
        let fused = logits(&file, &tokens, &Setup { fusion, ..Setup::default() });
        let worst = plain.iter().zip(&fused).map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
        assert!(worst >= COSINE, "{fusion:?}: cosine {worst}");
        for ((a, b), target) in plain.iter().zip(&fused).zip(&tokens[1..]) {
            let change = (nats(a, *target) - nats(b, *target)).abs();
            assert!(change < NATS, "{fusion:?}: {change} nats");
        }
    }
}

#[test]
fn fused_logits_agree_for_every_format_and_shape() {
    let shapes = [
        Tiny { ty: WeightType::F32, ..Tiny::default() },
        Tiny { ty: WeightType::Q4_0, ..Tiny::default() },
        Tiny { output: Some(WeightType::Q4_0), ..Tiny::default() },
        Tiny { rope_dim: 8, rope_factors: true, ..Tiny::default() },
        Tiny { output_bias: true, ..Tiny::default() },
        Tiny { heads: 3, kv_heads: 1, head_dim: 32, embedding: 160, ..Tiny::default() },
        // Heads of 20 are not whole octets: attention stays unfused.
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
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 257).collect();
    for shape in shapes {
        let file = shape.file();
        let plain = logits(&file, &tokens, &Setup::default());
        let fused = logits(&file, &tokens, &Setup { fusion: Fusion::All, ..Setup::default() });
        // A few dozen columns leave an eight-bit step more weight than in a model of any use.
        for (a, b) in plain.iter().zip(&fused) {
            let cosine = cosine(a, b);
            assert!(cosine > 0.999, "{shape:?}: cosine {cosine}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_how_rows_are_dealt_to_workgroups() {
    let file = Tiny { ty: WeightType::Q4_0, ..Tiny::default() }.file();
    let tokens: Vec<u32> = (0..30).collect();
    let with = |wide_threads| {
        let mut tuning = Tuning::CPU;
        // So few that every step takes several passes.
        (tuning.fused.threads, tuning.fused.wide_threads) = (8, wide_threads);
        digest(&file, &tokens, &Setup { tuning: Some(tuning), fusion: Fusion::All, ..Setup::default() })
    };
    let first = with(32);
    for wide_threads in [8, 64, 256] {
        assert_eq!(with(wide_threads), first, "{wide_threads}");
    }
}

#[test]
fn reading_weights_ahead_changes_no_bit() {
    let file = Tiny { ty: WeightType::Q4_0, ..Tiny::default() }.file();
    let tokens: Vec<u32> = (0..20).collect();
    let with = |prefetch| {
        let mut tuning = Tuning::CPU;
        tuning.fused.prefetch = prefetch;
        digest(&file, &tokens, &Setup { tuning: Some(tuning), fusion: Fusion::All, ..Setup::default() })
    };
    assert_eq!(with(1), with(0));
}

#[test]
fn the_resident_kernel_gives_the_bits_of_the_fused_plan() {
    // One workgroup, as on a CPU driver; several need a GPU.
    for shape in [Tiny::default(), Tiny { ty: WeightType::Q4_0, heads: 4, kv_heads: 4, ..Tiny::default() }] {
        let file = shape.file();
        let tokens: Vec<u32> = (0..60).map(|i| i * 5 % 257).collect();
        // The order of sums in attention follows the size of its workgroups: the same for both.
        let mut tuning = Tuning::CPU;
        tuning.fused.attention_threads = tuning.fused.resident_threads;
        let with =
            |fusion| digest(&file, &tokens, &Setup { tuning: Some(tuning), fusion, ..Setup::default() });
        assert_eq!(with(Fusion::Persistent), with(Fusion::All), "{shape:?}");
    }
}

#[test]
fn steps_that_wait_for_values_give_the_bits_of_those_with_barriers_between() {
    let tokens: Vec<u32> = (0..40).map(|i| i * 43 % 200).collect();
    let d = Levers { barriers: Barriers::Tracked, ..Levers::default() };
    // Chains of whole tokens; of layers with steps between that are not of a chain; of single steps.
    for (architecture, ty, window) in [
        (Architecture::Llama, WeightType::Q4_0, 0),
        (Architecture::Llama, WeightType::F16, 0),
        (Architecture::Qwen2, WeightType::Q8_0, 0),
        (Architecture::Qwen3, WeightType::Q5_0, 0),
        (Architecture::Gemma3, WeightType::Q8_0, 9),
    ] {
        // A bias that only this architecture has.
        let output_bias = (architecture, ty) == (Architecture::Llama, WeightType::Q4_0);
        let file = Tiny { architecture, ty, window, output_bias, ..Tiny::default() }.file();
        let with = |handoff, levers, attention| {
            let fusion = Fusion::All;
            digest(&file, &tokens, &Setup { handoff, fusion, levers, attention, ..Setup::default() })
        };
        let barriers = with(Handoff::Barriers, d, Matrices::Plain);
        for levers in [
            d,
            Levers { barriers: Barriers::Every, ..d },
            Levers { record: Record::Ahead, ..d },
            Levers { record: Record::Each, descriptors: Descriptors::Pool, ..d },
            Levers { submit: Submit::Op, ..d },
            Levers { sequences: 3, ..d },
        ] {
            let values = with(Handoff::Values, levers, Matrices::Plain);
            assert_eq!(values, barriers, "{architecture:?} {ty:?} {levers:?}");
        }
        if matches!(device().cooperative(), Cooperative::Has(_)) {
            let coop = |handoff| with(handoff, d, Matrices::Cooperative);
            assert_eq!(coop(Handoff::Values), coop(Handoff::Barriers), "{architecture:?} {ty:?}");
        }
    }
    let unfused = Setup { handoff: Handoff::Values, ..Setup::default() };
    let said = with_model(&Tiny::default().file(), |model| {
        Session::with(&device(), model, 64, &unfused).map(|_| ()).unwrap_err().to_string()
    });
    assert!(said.contains("--handoff values") && said.contains("--fusion all"), "{said}");
}

#[test]
fn attention_on_cooperative_matrices_agrees_with_float_arithmetic_or_is_refused_with_the_reason() {
    let of = |attention, fusion| Setup { attention, fusion, ..Setup::default() };
    let refused = |setup: Setup| {
        with_model(&Tiny::default().file(), |model| {
            Session::with(&device(), model, 64, &setup).map(|_| ()).unwrap_err().to_string()
        })
    };
    // What needs no device to be wrong.
    for (setup, words) in [
        (of(Matrices::Cooperative, Fusion::None), "fused"),
        (of(Matrices::Cooperative, Fusion::Persistent), "fused"),
    ] {
        let said = refused(setup);
        assert!(said.contains("--attention coop") && said.contains(words), "{said}");
    }
    if let Cooperative::Lacks(why) = device().cooperative() {
        let said = refused(of(Matrices::Cooperative, Fusion::All));
        assert!(said.contains("--attention coop") && said.contains(why), "{said}");
        return;
    }
    // Tiles of 16 positions at most for these heads on a CPU driver: several of them, splits that are merged, windows.
    let tokens: Vec<u32> = (0..60).map(|i| i * 37 % 200).collect();
    for (architecture, kv_heads, window) in [
        (Architecture::Llama, 4, 0),
        (Architecture::Llama, 1, 0),
        (Architecture::Qwen2, 2, 0),
        (Architecture::Qwen3, 2, 0),
        (Architecture::Gemma3, 2, 9),
    ] {
        let file = Tiny { architecture, kv_heads, window, ..Tiny::default() }.file();
        let plain = logits(&file, &tokens, &of(Matrices::Plain, Fusion::All));
        let coop = logits(&file, &tokens, &of(Matrices::Cooperative, Fusion::All));
        let worst = plain.iter().zip(&coop).map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
        assert!(worst >= 0.9999, "{architecture:?} {kv_heads} {window}: cosine {worst}");
        assert_ne!(plain, coop, "{architecture:?}: computed by the same kernel");

        // A prompt in batches, which end within blocks, and what is decoded behind it: the batch adds up alike from both caches.
        let behind = |attention| {
            let setup = Setup { prompt_batch: 13, ..of(attention, Fusion::All) };
            with_model(&file, |model| {
                let mut session = Session::with(&device(), model, 60, &setup).unwrap();
                let first = session.prompt(&tokens[..41]).unwrap().to_vec();
                let rest: Vec<_> = tokens[41..].iter().map(|t| session.step(*t).unwrap().to_vec()).collect();
                (first, rest)
            })
        };
        let (plain, coop) = (behind(Matrices::Plain), behind(Matrices::Cooperative));
        assert_eq!(plain.0, coop.0, "{architecture:?}");
        let worst = plain.1.iter().zip(&coop.1).map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
        // What is behind other sums may round an activation the other way, as between other ways to fuse. What is written to the
        // cache is held to the bit by `ops`.
        assert!(worst >= 0.9995, "{architecture:?} behind a prompt: cosine {worst}");
        assert_ne!(plain.1, coop.1, "{architecture:?}: decoded by the same kernel");
    }
}
