//! A prompt in batches against the same prompt token by token.

use zinc_engine::decode::{Matrices, Session, Setup, argmax};
use zinc_engine::embedded;
use zinc_engine::gguf::Gguf;
use zinc_engine::model::{Architecture, Model};
use zinc_engine::perplexity::{Score, Task, strip};
use zinc_engine::plan::{Cooperative, Fusion, Logits};
use zinc_engine::quant::WeightType;
use zinc_engine::tokenizer::Tokenizer;
use zinc_engine::vk::{Barriers, Levers};

use crate::support::{Tiny, cosine, device, with_model};

/// Float arithmetic, whatever the device has.
fn tracked() -> Setup {
    let levers = Levers { barriers: Barriers::Tracked, ..Levers::default() };
    Setup { levers, fusion: Fusion::None, matrices: Matrices::Plain, ..Setup::default() }
}

/// The logits behind the prompt, and eight times the likeliest token with the logits behind it.
fn continued(file: &[u8], setup: Setup, prompt: &[u32]) -> Vec<(Vec<f32>, u32)> {
    with_model(file, |model| {
        let mut session = Session::with(&device(), model, 64, &setup).unwrap();
        session.prompt(prompt).unwrap();
        assert_eq!(session.position() as usize, prompt.len());
        let mut all = Vec::new();
        for _ in 0..8 {
            let next = argmax(session.logits());
            all.push((session.logits().to_vec(), next));
            session.step(next).unwrap();
        }
        all
    })
}

/// The least cosine of the logits behind a prompt in batches with those token by token, over a greedy continuation that
/// must be the same up to a near tie.
fn agreement(shape: &Tiny, setup: Setup, batch: u32) -> f64 {
    let prompt: Vec<u32> = (0..41).map(|i| i * 37 % 257).collect();
    let file = shape.file();
    let plain = continued(&file, setup, &prompt);
    let batched = continued(&file, Setup { prompt_batch: batch, ..setup }, &prompt);
    let mut worst = 1f64;
    for ((logits, token), (got, got_token)) in plain.iter().zip(&batched) {
        worst = worst.min(cosine(logits, got));
        if token != got_token {
            let largest = logits.iter().fold(0f32, |m, v| m.max(v.abs()));
            let margin = logits[*token as usize] - logits[*got_token as usize];
            assert!(margin < 0.02 * largest, "{shape:?}: {token} and {got_token} differ by {margin}");
            break;
        }
    }
    worst
}

#[test]
fn a_prompt_in_batches_agrees_with_the_prompt_token_by_token_in_every_architecture() {
    let shapes = [
        Tiny::default(),
        Tiny { output_bias: true, ..Tiny::default() },
        Tiny { architecture: Architecture::Qwen2, output: Some(WeightType::Q4_0), ..Tiny::default() },
        Tiny { architecture: Architecture::Qwen3, rope_dim: 8, ..Tiny::default() },
        Tiny {
            architecture: Architecture::Gemma3,
            layers: 7,
            window: 9,
            logit_cap: Some(5.0),
            ..Tiny::default()
        },
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
    for shape in &shapes {
        // Batches that end in the middle, at the end and behind the prompt.
        for batch in [16, 41, 64] {
            let worst = agreement(shape, tracked(), batch);
            assert!(worst >= 0.9999, "{shape:?} in batches of {batch}: cosine {worst}");
        }
    }
}

#[test]
fn a_prompt_in_batches_fills_the_cache_that_fused_attention_reads() {
    for architecture in [Architecture::Llama, Architecture::Gemma3] {
        let window = if architecture == Architecture::Gemma3 { 9 } else { 0 };
        let shape = Tiny { architecture, layers: 3, window, ..Tiny::default() };
        let worst = agreement(&shape, Setup { fusion: Fusion::Rope, ..tracked() }, 16);
        assert!(worst >= 0.999, "{architecture:?}: cosine {worst}");
    }
}

#[test]
fn every_format_gives_the_same_prompt_in_batches() {
    for ty in WeightType::ALL {
        let worst = agreement(&Tiny::of(ty), tracked(), 24);
        assert!(worst >= 0.9999, "{ty}: cosine {worst}");
    }
}

#[test]
fn another_token_early_in_the_prompt_is_noticed() {
    let file = Tiny::default().file();
    let prompt: Vec<u32> = (0..41).map(|i| i * 37 % 257).collect();
    let mut other = prompt.clone();
    other[3] ^= 1;
    let setup = Setup { prompt_batch: 16, ..tracked() };
    let (a, b) = (continued(&file, setup, &prompt), continued(&file, setup, &other));
    assert!(cosine(&a[0].0, &b[0].0) < 0.9999, "the comparison is blind");
}

#[test]
fn a_batch_has_the_same_bits_with_a_barrier_after_every_step_and_only_where_one_is_due() {
    let file = Tiny::default().file();
    let prompt: Vec<u32> = (0..41).map(|i| i * 37 % 257).collect();
    let every = Setup { prompt_batch: 16, matrices: Matrices::Plain, ..Setup::default() };
    let tracked = Setup { prompt_batch: 16, ..tracked() };
    let run = |setup: Setup| {
        with_model(&file, |model| {
            let mut session = Session::with(&device(), model, 64, &setup).unwrap();
            session.prompt(&prompt).unwrap();
            (session.digest(), session.batches().unwrap())
        })
    };
    let ((a, many), (b, few)) = (run(every), run(tracked));
    assert_eq!(a, b);
    assert!(few.barriers < many.barriers && few.dispatches == many.dispatches, "{few:?} of {many:?}");
}

/// Perplexity of a stretch of the held-out text, in chunks of 96.
fn perplexity(setup: &Setup) -> (Score, String) {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let tokens = tokenizer.encode(strip(embedded::HELD_OUT_TEXT)).unwrap();
    let task = Task::new(&tokens, tokenizer.leading_token(), 96, Some(192)).unwrap();
    let mut session = Session::with(&device(), &model, task.ctx, setup).unwrap();
    let score = task.run(&tokenizer, |tokens, score| {
        session.reset();
        session.score(tokens, score)
    });
    (score.unwrap(), session.digest())
}

#[test]
fn the_perplexity_of_a_text_in_batches_is_that_of_the_text_token_by_token() {
    let (plain, plain_digest) = perplexity(&tracked());
    // A batch that does not divide a chunk, and one larger than it.
    for prompt_batch in [40, 128] {
        let setup = Setup { prompt_batch, prompt_logits: Logits::All, ..tracked() };
        let (batched, digest) = perplexity(&setup);
        assert_eq!((batched.scored, batched.bytes), (plain.scored, plain.bytes));
        let off = (batched.perplexity.value / plain.perplexity.value - 1.0).abs();
        assert!(off < 1e-4, "batches of {prompt_batch}: {off} of {plain:?}");
        // Sums in another order: what is compared was not computed by the same kernels.
        assert_ne!(digest, plain_digest);
        // A session that was not made for all logits scores token by token.
        assert_eq!(perplexity(&Setup { prompt_logits: Logits::Last, ..setup }).1, plain_digest);
    }
}

#[test]
fn cooperative_matrices_agree_with_float_arithmetic_or_are_refused_with_the_reason() {
    let cooperative = Setup { matrices: Matrices::Cooperative, ..tracked() };
    if let Cooperative::Lacks(why) = device().cooperative() {
        let file = Tiny::default().file();
        let start = |setup: Setup| {
            with_model(&file, |model| {
                Session::with(&device(), model, 64, &Setup { prompt_batch: 16, ..setup })
                    .map(|session| session.batches().unwrap().matrices)
                    .map_err(|error| error.to_string())
            })
        };
        let refused = start(cooperative).unwrap_err();
        assert!(refused.contains("--matrix coop") && refused.contains(why), "{refused}");
        let auto = start(Setup { matrices: Matrices::Auto, ..tracked() });
        assert_eq!(auto, Ok(format!("float arithmetic ({why})")));
        assert_eq!(start(tracked()), Ok("float arithmetic (as asked)".to_owned()));
        return;
    }
    for ty in WeightType::ALL {
        let worst = agreement(&Tiny::of(ty), cooperative, 24);
        assert!(worst >= 0.9999, "{ty}: cosine {worst}");
    }
    for architecture in [Architecture::Qwen2, Architecture::Qwen3, Architecture::Gemma3] {
        let window = if architecture == Architecture::Gemma3 { 9 } else { 0 };
        let shape = Tiny { architecture, window, ..Tiny::default() };
        let worst = agreement(&shape, cooperative, 16);
        assert!(worst >= 0.9999, "{architecture:?}: cosine {worst}");
    }
    let (plain, plain_digest) = perplexity(&tracked());
    let setup = Setup { prompt_batch: 40, prompt_logits: Logits::All, ..cooperative };
    let (batched, digest) = perplexity(&setup);
    let off = (batched.perplexity.value / plain.perplexity.value - 1.0).abs();
    assert!(off < 1e-2 && digest != plain_digest, "{off} of {plain:?}");
}
