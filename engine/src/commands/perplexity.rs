//! `engine perplexity`.

use super::{
    batches_text, decode_lines, device_line, load, model_line, open_device, open_model, print_json,
    print_text, progress,
};
use crate::cli::{Common, PerplexityArgs, ViaArg};
use crate::decode::{Setup, update_digest};
use crate::embedded;
use crate::error::Error;
use crate::levers::RecordArg;
use crate::perplexity::{Score, Task, strip};
use crate::plan;
use crate::reference::Reference;
use crate::results::{self, SCHEMA, Via};

/// Refuses to record ahead.
fn check(args: &PerplexityArgs) -> Result<(), Error> {
    match args.levers.record {
        RecordArg::Ahead => Err(Error::Usage(
            "--record ahead: each token here is one of the text, which the device can't choose, so that nothing can be \
             submitted ahead; use --record reuse, or `engine bench` for the rate"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

pub(super) fn execute(common: &Common, args: &PerplexityArgs) -> Result<(), Error> {
    check(args)?;
    let file = open_model(common)?;
    let loaded = load(&file)?;
    let text = match &args.file {
        Some(path) => super::read_file(path)?,
        None => embedded::HELD_OUT_TEXT.to_vec(),
    };
    let trained = loaded.model.config.context;
    if args.ctx > trained {
        let error = plan::Error::Context { asked: args.ctx, trained };
        return Err(crate::decode::Error::from(error).into());
    }
    let tokens = loaded.tokenizer.encode(strip(&text))?;
    let task = Task::new(&tokens, loaded.tokenizer.leading_token(), args.ctx, args.tokens)?;
    let bar = progress(task.tokens(), "tokens");

    let mut records = args.record_digests.then(Records::default);
    let mut batches = None;
    let (device, score, logits_digest, decode, via);
    match args.via {
        ViaArg::Decode => {
            let opened = open_device(common)?;
            let own = args.levers.setup(opened.tuning())?;
            let setup = Setup { prompt_logits: plan::Logits::All, ..own };
            let mut session = super::start(&opened, &loaded.model, task.ctx, &setup, &args.levers)?;
            score = task.run(&loaded.tokenizer, |tokens, score| {
                session.reset();
                session.score(tokens, |i, logits| {
                    if let Some(records) = &mut records {
                        records.add(i == 0, logits);
                    }
                    score(i, logits);
                    bar.inc(1);
                })?;
                Ok::<_, Error>(())
            })?;
            super::remark_on_device(&opened, &mut session)?;
            device = Some(opened.describe().clone());
            logits_digest = session.digest();
            batches = session.batches();
            decode = Some(session.decode());
            via = Via::Decode;
        }
        ViaArg::Reference => {
            let mut reference = Reference::new(&loaded.model);
            let mut digest = blake3::Hasher::new();
            score = task.run(&loaded.tokenizer, |tokens, score| {
                reference.reset();
                for (i, &token) in tokens.iter().enumerate() {
                    let logits = reference.step(token);
                    update_digest(&mut digest, &logits);
                    if let Some(records) = &mut records {
                        records.add(i == 0, &logits);
                    }
                    score(i, &logits);
                    bar.inc(1);
                }
                Ok::<_, Error>(())
            })?;
            device = None;
            logits_digest = digest.finalize().to_hex().to_string();
            decode = None;
            via = Via::Reference;
        }
    }
    bar.finish_and_clear();
    let Score { scored, bytes, nll, perplexity, per_byte } = score;
    let result = results::Perplexity {
        schema: SCHEMA,
        command: "perplexity".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device,
        model: loaded.identity,
        via,
        ctx: task.ctx.into(),
        tokens: task.tokens(),
        scored,
        bytes,
        nll,
        perplexity,
        per_byte,
        logits_digest,
        record_digests: records.map(Records::finish),
        decode,
        batches,
    };
    let undefined = (!result.perplexity.value.is_finite()).then(|| Error::NotNumbers {
        what: format!("the perplexity of {} scored tokens is not a finite number", result.scored),
    });
    if common.json {
        // Programs that compare broken runs read the result, in which such a number is null.
        print_json(&result)?;
        undefined.iter().for_each(|error| super::remark(&format!("warning: {error}")));
        return Ok(());
    }
    print_text(&table(&result))?;
    undefined.map_or(Ok(()), Err)
}

/// Digests of the logits, chunk by chunk.
#[derive(Default)]
struct Records {
    done: Vec<String>,
    open: Option<blake3::Hasher>,
}

impl Records {
    /// Adds the logits of a step, which may be the `first` of its chunk.
    fn add(&mut self, first: bool, logits: &[f32]) {
        if first {
            self.close();
        }
        update_digest(self.open.get_or_insert_default(), logits);
    }

    fn close(&mut self) {
        self.done.extend(self.open.take().map(|open| open.finalize().to_hex().to_string()));
    }

    fn finish(mut self) -> Vec<String> {
        self.close();
        self.done
    }
}

fn table(r: &results::Perplexity) -> String {
    let mut lines = vec![model_line(&r.model)];
    lines.extend(r.device.as_ref().map(device_line));
    lines.push(format!(
        "perplexity  {:.4} +/- {:.4} a token, {:.4} a byte (mean {:.5} nats; {} of {} tokens scored, context {})",
        r.perplexity.value, r.perplexity.stderr, r.per_byte, r.nll, r.scored, r.tokens, r.ctx
    ));
    lines.push(format!("logits      BLAKE3 {}", r.logits_digest));
    lines.extend(r.decode.as_ref().map(|decode| match &r.batches {
        None => decode_lines(decode),
        Some(batches) => format!("prompt      {:.1} tok/s, {}", decode.tok_s, batches_text(batches)),
    }));
    lines.join("\n")
}
