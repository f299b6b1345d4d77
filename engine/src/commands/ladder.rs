//! `engine ladder`: one lever after the other, on one model in one run.
//!
//! What a lever is worth shows beside the rung without it, and only if both were measured in turn: clocks, temperatures and
//! neighbours change within minutes. So all rungs are made first, share one upload of the weights, and each repetition goes
//! through all of them; a ratio is formed within its repetition. A rung is the very options that `engine bench` takes. Before
//! anything is timed each rung decodes the same greedy text, and the digest of its logits stands beside its rate.

use std::rc::Rc;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

use super::bench::Run;
use super::{
    device_line, identity, model_line, open_device, open_model, parse, print_json, print_text, progress,
};
use crate::cli::{Common, LadderArgs};
use crate::decode::{self, Session, argmax};
use crate::error::Error;
use crate::levers::LeverArgs;
use crate::model::Model;
use crate::plan::Fusion;
use crate::probe::is_blank;
use crate::results::{self, LadderRung, SCHEMA, Spread};
use crate::vk::{self, Device, Record, Submit};

/// Tokens of the text whose logits are hashed.
const HASHED: u32 = 16;

/// The rungs, in the order in which somebody would climb them, by the options of `engine bench`.
const RUNGS: [(&str, &str); 19] = [
    ("naive", "--fusion none --barriers every --record reuse"),
    ("each", "--record each"),
    ("each-no-once", "--record each --no-once"),
    ("pool", "--record each --descriptors pool"),
    ("realloc-op", "--record realloc --descriptors alloc --submit op"),
    ("op", "--submit op"),
    ("tracked", "--barriers tracked"),
    ("tracked-null", "--barriers tracked --null-kernels"),
    ("norm", "--barriers tracked --fusion norm"),
    ("rope", "--barriers tracked --fusion rope"),
    ("ffn", "--barriers tracked --fusion ffn"),
    ("all", "--barriers tracked --fusion all"),
    ("all-every", "--barriers every --fusion all"),
    ("all-each", "--barriers tracked --fusion all --record each"),
    ("all-op", "--barriers tracked --fusion all --submit op"),
    ("all-ahead", "--barriers tracked --fusion all --record ahead"),
    ("all-null", "--barriers tracked --fusion all --null-kernels"),
    ("all-values", "--barriers tracked --fusion all --handoff values --record ahead"),
    ("persistent", "--barriers tracked --fusion persistent --no-fallback --record ahead"),
];

/// The rungs with their options, for `--help`.
pub(crate) fn rungs() -> String {
    let lines = RUNGS.iter().map(|(name, options)| format!("\n  {name:13} {options}"));
    format!("Rungs, by the options of `engine bench` that they are:{}", lines.collect::<String>())
}

/// A rung's options, read as `engine bench` reads them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Options {
    #[command(flatten)]
    levers: LeverArgs,
}

/// A rung that was asked for.
struct Asked {
    name: String,
    options: String,
    levers: LeverArgs,
}

/// A rung that could be made.
struct Made {
    session: Session,
    run: Run,
    rates: Vec<f64>,
    /// Whether a token is one submission whose time on the device's clock is the token's.
    timed: bool,
}

pub(super) fn execute(common: &Common, args: &LadderArgs) -> Result<(), Error> {
    let chosen = chosen(args)?;
    let file = open_model(common)?;
    let gguf = parse(&file)?;
    let model =
        Model::from_gguf(&gguf).map_err(|source| Error::Model { name: file.source().to_owned(), source })?;
    let context = super::context(&model, args.depth.max(HASHED), args.tokens)?;
    let device = open_device(common)?;

    let bar = progress(chosen.len() as u64 * (2 + u64::from(args.reps)), "steps");
    let mut made: Vec<Option<Made>> = Vec::new();
    let mut rungs = Vec::new();
    for Asked { name, options, levers } in chosen {
        let first = made.iter().flatten().next().map(|made| &made.session);
        let rung = make(&device, (&model, context), args, &levers, first)?;
        let mut row = LadderRung { name, options, ..LadderRung::default() };
        match rung {
            Ok(mut rung) => {
                if !levers.null_kernels {
                    row.digest = hashed(&mut rung)?;
                }
                made.push(Some(rung));
            }
            Err(why) => {
                row.failed = Some(why);
                made.push(None);
            }
        }
        rungs.push(row);
        bar.inc(1);
    }
    for repetition in 0..=args.reps {
        for rung in made.iter_mut().flatten() {
            rung.run.fill(&mut rung.session)?;
            rung.run.once(&mut rung.session)?;
            // The first one pays for cold caches and clocks.
            if repetition > 0 {
                rung.rates.push(rung.session.decode().tok_s);
            }
            bar.inc(1);
        }
    }
    let base = made.iter().flatten().next().map_or(Vec::new(), |first| first.rates.clone());
    for (row, rung) in rungs.iter_mut().zip(&mut made) {
        if let Some(rung) = rung {
            measured(row, rung, &base)?;
        }
    }
    bar.finish_and_clear();
    let result = results::Ladder {
        schema: SCHEMA,
        command: "ladder".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        model: identity(&file, &model),
        depth: args.depth.into(),
        tokens: args.tokens.into(),
        rungs,
    };
    if common.json { print_json(&result) } else { print_text(&table(&result)) }
}

/// The rungs that were asked for, those with own options last. What is wrong with options is said before anything is loaded.
fn chosen(args: &LadderArgs) -> Result<Vec<Asked>, Error> {
    let mut chosen = Vec::new();
    let mut add = |name: &str, options: &str| {
        let levers = read(options).map_err(|why| Error::Usage(format!("rung {name}: {why}")))?;
        if levers.sequences > 1 || levers.prompt_batch > 0 {
            return Err(Error::Usage(format!("rung {name}: a ladder is one sequence, token by token")));
        }
        chosen.push(Asked { name: name.to_owned(), options: options.to_owned(), levers });
        Ok(())
    };
    let known = RUNGS.map(|(name, _)| name);
    if let Some(name) = args.rungs.iter().flatten().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::Usage(format!("no rung is called {name:?}; there are {}", known.join(", "))));
    }
    for (name, options) in RUNGS {
        if args.rungs.as_ref().is_none_or(|wanted| wanted.iter().any(|w| w == name)) {
            add(name, options)?;
        }
    }
    for own in &args.rung {
        let (name, options) = own.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Error::Usage(format!("--rung {own:?}: a name, =, and options of `engine bench` are expected"))
        })?;
        add(name, options)?;
    }
    Ok(chosen)
}

fn read(options: &str) -> Result<LeverArgs, String> {
    let parsed = Options::try_parse_from(options.split_whitespace());
    parsed.map(|o| o.levers).map_err(|e| e.to_string().trim().replace('\n', " "))
}

/// A session of the rung, beside the first one; or why this device can't have it.
fn make(
    device: &Rc<Device>,
    (model, context): (&Model<'_>, u32),
    args: &LadderArgs,
    levers: &LeverArgs,
    first: Option<&Session>,
) -> Result<Result<Made, String>, Error> {
    let setup = levers.setup(device.tuning())?;
    // Weights in an allocation a tensor, or in a single one, as the resident kernel needs them, are not the first rung's.
    let shares = first.filter(|_| !setup.tensor_allocations && setup.fusion != Fusion::Persistent);
    let session = match shares {
        Some(first) => first.beside(device, model, context, &setup),
        None => Session::with(device, model, context, &setup),
    };
    let ahead = setup.levers.record == Record::Ahead;
    Ok(match session {
        Ok(session) => Ok(Made {
            session,
            run: Run { vocabulary: model.config.vocabulary, depth: args.depth, tokens: args.tokens, ahead },
            rates: Vec::new(),
            timed: setup.levers.record == Record::Reuse && setup.levers.submit == Submit::Token,
        }),
        Err(why) => Err(why.to_string()),
    })
}

/// The digest of the logits of a greedy text; none where the device computes nothing.
fn hashed(rung: &mut Made) -> Result<Option<String>, Error> {
    let session = &mut rung.session;
    let mut token = rung.run.token(1);
    if rung.run.ahead {
        session.ahead(token, HASHED, true)?;
    } else {
        for _ in 0..HASHED {
            token = argmax(session.step(token)?);
        }
    }
    let digest = (!is_blank(session.logits())).then(|| session.digest());
    session.reset();
    Ok(digest)
}

/// Fills a row with what was measured; `base` is the first rung's rates.
fn measured(row: &mut LadderRung, rung: &mut Made, base: &[f64]) -> Result<(), Error> {
    let decode = rung.session.decode();
    row.dispatches = decode.dispatches_per_token;
    row.barriers = decode.barriers_per_token;
    row.submits = if rung.run.ahead { 1.0 / rung.run.tokens as f64 } else { decode.submits_per_token as f64 };
    row.cpu_us = decode.cpu_us_per_token;
    row.attention = decode.attention;
    row.tok_s = Spread::of(&rung.rates);
    let ratios: Vec<f64> = rung.rates.iter().zip(base).map(|(own, first)| own / first).collect();
    row.ratio = Spread::of(&ratios);
    if !rung.timed {
        return Ok(());
    }
    match rung.session.time_tokens() {
        // A device without a clock has the rest of the row.
        Err(decode::Error::Vulkan(vk::Error::NoTimestamps)) => {}
        other => {
            other?;
            rung.run.once(&mut rung.session)?;
            row.gpu_us = rung.session.decode().gpu_us_per_token;
        }
    }
    Ok(())
}

fn table(r: &results::Ladder) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let header = [
        "rung",
        "options",
        "dispatches",
        "barriers",
        "submits",
        "CPU us",
        "GPU us",
        "tok/s",
        "to the first",
        "digest",
    ];
    table.set_header(header);
    for rung in &r.rungs {
        let mut cells = vec![rung.name.clone(), rung.options.clone()];
        match (&rung.failed, rung.tok_s, rung.ratio) {
            (None, Some(rate), Some(ratio)) => cells.extend([
                rung.dispatches.to_string(),
                rung.barriers.to_string(),
                if rung.submits >= 1.0 {
                    format!("{:.0}", rung.submits)
                } else {
                    format!("{:.3}", rung.submits)
                },
                format!("{:.1}", rung.cpu_us),
                rung.gpu_us.map_or("-".to_owned(), |us| format!("{us:.1}")),
                spread(rate, 1),
                spread(ratio, 2),
                rung.digest.as_ref().map_or("-".to_owned(), |d| d[..8].to_owned()),
            ]),
            _ => cells.extend(["-"; 8].map(str::to_owned)),
        }
        table.add_row(cells);
    }
    table.column_iter_mut().skip(2).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    let lines = [
        model_line(&r.model),
        device_line(&r.device),
        format!(
            "A token at depth {}; {} of them timed in each of {} repetitions, rung by rung; median and range. CPU us: recording and \
             submitting, this thread's time. GPU us: a token on the device's clock.",
            r.depth,
            r.tokens,
            r.rungs.iter().find_map(|rung| rung.tok_s).map_or(0, |rate| rate.n)
        ),
        String::new(),
        table.to_string(),
        verdict(&r.rungs),
    ];
    let why = |rung: &LadderRung| Some(format!("{}: not measured: {}", rung.name, rung.failed.as_ref()?));
    lines.into_iter().chain(r.rungs.iter().filter_map(why)).collect::<Vec<_>>().join("\n")
}

fn spread(s: Spread, digits: usize) -> String {
    format!("{:.digits$} [{:.digits$}, {:.digits$}]", s.median, s.lo, s.hi)
}

/// Whether levers that must change no bit changed none: rungs of one fusion, with attention computed alike, have one digest.
fn verdict(rungs: &[LadderRung]) -> String {
    let fusion = |rung: &LadderRung| -> String {
        let words: Vec<_> = rung.options.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "--fusion");
        at.and_then(|at| words.get(at + 1))
            .map_or("none", |fusion| match *fusion {
                // The resident kernel does the sums of the fused ones in their order.
                "persistent" => "all",
                other => other,
            })
            .to_owned()
    };
    let computes = |r: &&LadderRung| r.failed.is_none() && !r.options.contains("--null-kernels");
    let blank: Vec<_> =
        rungs.iter().filter(computes).filter(|r| r.digest.is_none()).map(|r| r.name.as_str()).collect();
    if !blank.is_empty() {
        return format!(
            "WARNING: the logits are all one number in {}: nothing was computed there (a driver that only records?). \
             Counts and CPU us stand; rates, GPU us and digests mean nothing.",
            blank.join(", ")
        );
    }
    let hashed: Vec<_> =
        rungs.iter().filter_map(|r| Some(((fusion(r), &r.attention), r.digest.as_ref()?, &r.name))).collect();
    let differing: Vec<_> = hashed
        .iter()
        .filter(|(own, digest, _)| {
            hashed.iter().find(|(first, ..)| first == own).is_some_and(|(_, first, _)| first != digest)
        })
        .map(|(.., name)| name.as_str())
        .collect();
    match differing.is_empty() {
        true => format!(
            "{} digests: rungs of one fusion have the same bits, where attention is computed alike.",
            hashed.len()
        ),
        false => format!(
            "WARNING: other bits than the first rung of the same fusion: {}. Their rates are worth nothing.",
            differing.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(name: &str, options: &str, digest: &str) -> LadderRung {
        let (name, options, digest) = (name.to_owned(), options.to_owned(), Some(digest.to_owned()));
        LadderRung { name, options, digest, ..LadderRung::default() }
    }

    #[test]
    fn every_rung_has_options_that_bench_understands_and_a_name_of_its_own() {
        for (i, (name, options)) in RUNGS.iter().enumerate() {
            assert!(read(options).is_ok(), "{name}");
            assert!(RUNGS[..i].iter().all(|(other, _)| other != name), "{name}");
        }
        assert!(read("--fusion everything").unwrap_err().contains("everything"));
    }

    #[test]
    fn logits_of_a_device_that_computes_nothing_have_no_digest_and_that_is_said() {
        assert!(is_blank(&[0.0; 4]) && !is_blank(&[0.0, -0.0]) && !is_blank(&[1.0, 1.0, 2.0]));
        let blank = LadderRung { digest: None, ..rung("a", "--record each", "") };
        let null = LadderRung { digest: None, ..rung("null", "--null-kernels", "") };
        assert!(verdict(&[blank, null.clone()]).contains("one number in a: nothing was computed"));
        assert!(verdict(&[rung("a", "", "1"), null]).starts_with("1 digests"), "on purpose");
    }

    #[test]
    fn other_bits_within_one_fusion_are_said_and_between_fusions_they_are_not() {
        let same =
            [rung("a", "", "1"), rung("b", "--fusion all", "2"), rung("c", "--fusion persistent", "2")];
        assert!(verdict(&same).starts_with("3 digests"), "{}", verdict(&same));
        let coop = LadderRung { attention: Some("16x8x16".to_owned()), ..rung("d", "--fusion all", "3") };
        let apart = [rung("b", "--fusion all", "2"), coop.clone(), rung("c", "--fusion persistent", "2")];
        assert!(verdict(&apart).starts_with("3 digests"), "{}", verdict(&apart));
        let alike = [coop.clone(), LadderRung { digest: Some("4".to_owned()), ..coop }];
        assert!(verdict(&alike).contains("WARNING"), "{}", verdict(&alike));
        let other =
            [rung("a", "--submit op", "1"), rung("b", "--fusion all", "2"), rung("c", "--record each", "3")];
        assert!(
            verdict(&other).contains("WARNING") && verdict(&other).contains(": c."),
            "{}",
            verdict(&other)
        );
    }
}
