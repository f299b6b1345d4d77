//! What each command does: load, run, and print one result.

mod bench;
mod export;
mod fetch;
mod info;
mod ladder;
mod micro;
mod ops;
mod output;
mod perplexity;
mod profile;
mod run;
mod synth;
mod tokenize;

pub use fetch::FetchArgs;
pub(crate) use ladder::rungs;
pub use synth::SynthArgs;
pub use tokenize::TokenizeArgs;

use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use clap::CommandFactory;

use crate::cli::{Cli, Command, Common, Require};
use crate::decode::{self, Session, Setup};
use crate::embedded;
use crate::error::Error;
use crate::gguf::{self, Gguf, ModelFile};
use crate::hub;
use crate::levers::LeverArgs;
use crate::model::Model;
use crate::packages::Package;
use crate::plan;
use crate::probe;
use crate::progress::count as progress;
use crate::results::{self, DeviceKind};
use crate::tokenizer::Tokenizer;
use crate::vk::{self, Device, Instance, Physical, choose};

/// Runs the command that was asked for.
pub fn execute(cli: &Cli) -> Result<(), Error> {
    match &cli.command {
        Command::Run(args) => run::execute(&cli.common, args),
        Command::Perplexity(args) => perplexity::execute(&cli.common, args),
        Command::Bench(args) => bench::execute(&cli.common, args),
        Command::Ladder(args) => ladder::execute(&cli.common, args),
        Command::Profile(args) => profile::execute(&cli.common, args),
        Command::Micro(args) => micro::execute(&cli.common, args),
        Command::Ops(args) => ops::execute(&cli.common, args),
        Command::Info => info::execute(&cli.common),
        Command::Export(args) => export::execute(&cli.common, args),
        Command::Fetch(args) => fetch::execute(&cli.common, args),
        Command::Synth(args) => synth::execute(&cli.common, args),
        Command::Tokenize(args) => tokenize::execute(&cli.common, args),
        Command::Completions { shell } => completions(*shell),
    }
}

/// Writes the completion script into memory first: a reader that has seen enough is an error like any other.
fn completions(shell: clap_complete::Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "engine", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// The model that the options name: a file if there is one of that name, else something fetched.
fn open_model(common: &Common) -> Result<ModelFile, Error> {
    let Some(path) = &common.model else { return Ok(ModelFile::embedded(embedded::MODEL)) };
    let given = path.display().to_string();
    let mut path = path.clone();
    if !path.exists() {
        if let Some(name) = hub::Name::parse(&given) {
            path = name?.fetch()?;
        } else if let Some(package) = Package::named(&given).filter(|package| package.is_model) {
            if !package.is_there() {
                return Err(Error::Absent(format!(
                    "the model {given} is not there: run `engine fetch {given}`"
                )));
            }
            path = package.path()?;
        }
    }
    ModelFile::open(&path).map_err(|source| Error::Gguf { name: given, source })
}

fn parse(file: &ModelFile) -> Result<Gguf<'_>, Error> {
    let name = || file.source().to_owned();
    file.parse().or_else(|source| {
        // A type of tensors that only some other kind of model has: that is the better reason.
        let cause = if let gguf::Error::Part { source, .. } = &source { source } else { &source };
        if let (gguf::Error::UnknownType { .. }, Ok(known)) = (cause, file.metadata()) {
            Model::refuse(&known).map_err(|source| Error::Model { name: name(), source })?;
        }
        Err(Error::Gguf { name: name(), source })
    })
}

/// A model with its tokenizer and its identity.
struct Loaded<'a> {
    model: Model<'a>,
    tokenizer: Tokenizer,
    identity: results::Model,
}

fn load(file: &ModelFile) -> Result<Loaded<'_>, Error> {
    let name = || file.source().to_owned();
    let gguf = parse(file)?;
    let model = Model::from_gguf(&gguf).map_err(|source| Error::Model { name: name(), source })?;
    let tokenizer = tokenizer(&gguf, &model).map_err(|source| Error::Tokenizer { name: name(), source })?;
    for text in tokenizer.remarks() {
        remark(&format!("warning: {text}"));
    }
    let identity = identity(file, &model);
    Ok(Loaded { model, tokenizer, identity })
}

/// The model's tokenizer, which must have as many tokens as the model.
fn tokenizer(gguf: &Gguf<'_>, model: &Model<'_>) -> Result<Tokenizer, crate::tokenizer::Error> {
    let tokenizer = Tokenizer::from_gguf(gguf)?;
    if tokenizer.len() != model.config.vocabulary as usize {
        let what = format!("{} tokens in a vocabulary of {}", tokenizer.len(), model.config.vocabulary);
        return Err(crate::tokenizer::Error::Vocabulary(what));
    }
    Ok(tokenizer)
}

fn identity(file: &ModelFile, model: &Model<'_>) -> results::Model {
    let file_name =
        || std::path::Path::new(file.source()).file_name().map(|n| n.to_string_lossy().into_owned());
    results::Model {
        name: model.name.map(str::to_owned).or_else(file_name).unwrap_or_else(|| file.source().to_owned()),
        source: file.source().to_owned(),
        blake3: file.blake3(),
        architecture: model.architecture.to_owned(),
        parameters: model.parameters,
        bytes: file.len(),
    }
}

/// The context that `tokens` after a sequence of `depth` take.
fn context(model: &Model<'_>, depth: u32, tokens: u32) -> Result<u32, Error> {
    let (asked, trained) = (depth.saturating_add(tokens), model.config.context);
    if asked > trained {
        return Err(decode::Error::from(plan::Error::Context { asked, trained }).into());
    }
    Ok(asked)
}

/// Opens the device that the options name, and says so if it is none to measure speed on.
fn open_device(common: &Common) -> Result<Rc<Device>, Error> {
    open_device_by(common, Device::new)
}

/// As [`open_device`], made by `open`.
fn open_device_by(
    common: &Common,
    open: impl FnOnce(Rc<Instance>, Physical) -> Result<Rc<Device>, vk::Error>,
) -> Result<Rc<Device>, Error> {
    let instance = Instance::new()?;
    if let Some(seconds) = common.submit_timeout {
        instance.set_patience(Duration::from_secs(seconds));
    }
    let mut physical = instance.devices()?;
    let described: Vec<_> = physical.iter().map(|p| p.device.clone()).collect();
    let index = choose(&described, common.device.as_ref(), common.require.map(Into::into))?;
    let device = open(instance, physical.swap_remove(index))?;
    if device.describe().kind == DeviceKind::Cpu {
        remark(&format!(
            "note: {} is a CPU driver: its rates say nothing about any GPU",
            device.describe().name
        ));
    }
    if common.require == Some(Require::Gpu) && !probe::computes(&device)? {
        return Err(vk::Error::ComputesNothing { name: device.describe().name.clone() }.into());
    }
    Ok(device)
}

/// Says that a device computed nothing, where that shows in a session's logits.
fn remark_on_device(device: &Device, session: &mut Session) -> Result<(), Error> {
    if session.is_blank().is_none() {
        session.reset();
        session.step(0)?;
    }
    if session.is_blank() == Some(true) {
        remark(&format!(
            "WARNING: the logits are all one number: {} computes nothing (a driver that only records?), and rates, times and \
             perplexities say nothing about any GPU",
            device.describe().name
        ));
    }
    Ok(())
}

/// A session as the levers say. Where the resident kernel does not do the model on the device, one line says why, and the
/// fused plan takes its place, unless that was forbidden or the kernel is wanted as a control.
fn start(
    device: &Rc<Device>,
    model: &Model<'_>,
    context: u32,
    setup: &Setup,
    levers: &LeverArgs,
) -> Result<Session, Error> {
    let session = match Session::with(device, model, context, setup) {
        Err(decode::Error::Plan(plan::Error::NotResident { what }))
            if !levers.no_fallback && !setup.no_grid_barrier =>
        {
            remark(&format!("note: --fusion persistent does not do {what}; this is --fusion all"));
            let setup = Setup { fusion: plan::Fusion::All, ..*setup };
            Session::with(device, model, context, &setup)?
        }
        result => result?,
    };
    if let Some(why) = session.attention_refused() {
        remark(&format!("note: attention is not computed on cooperative matrices: {why}"));
    }
    Ok(session)
}

fn read_file(path: &std::path::Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.display().to_string(), source })
}

/// A line on standard error. That nobody reads it is no reason to fail.
fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// The text with every control character but line ends and tabs spelled out: names in a model's file are not the
/// engine's own, and a terminal obeys them.
pub fn printable(text: &str) -> String {
    let spelled = |c: char| -> String {
        if c.is_control() && !matches!(c, '\n' | '\t') { c.escape_default().collect() } else { c.into() }
    };
    text.chars().map(spelled).collect()
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    // JSON spells out the control characters of ASCII by itself; a terminal obeys others, too.
    let text = serde_json::to_string(value).map_err(std::io::Error::from)?;
    let spelled = |c: char| if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { String::from(c) };
    print_text(&text.chars().map(spelled).collect::<String>())
}

fn print_text(text: &str) -> Result<(), Error> {
    writeln!(std::io::stdout().lock(), "{}", printable(text))?;
    Ok(())
}

fn device_line(device: &results::Device) -> String {
    let results::Device { index, name, driver, driver_version, api_version, kind } = device;
    format!("device      {index} {name} ({kind}), driver {driver} [{driver_version}], Vulkan {api_version}")
}

fn model_line(model: &results::Model) -> String {
    let results::Model { name, source, architecture, parameters, bytes, .. } = model;
    let millions = *parameters as f64 / 1e6;
    let megabytes = *bytes as f64 / 1e6;
    format!("model       {name} ({source}), {architecture}, {millions:.1} M weights, {megabytes:.1} MB")
}

fn batches_text(batches: &results::Batches) -> String {
    let results::Batches { tokens, dispatches, barriers, matrices } = batches;
    format!("batches of {tokens}: {dispatches} dispatches, {barriers} barriers each; {matrices}")
}

fn decode_lines(decode: &results::Decode) -> String {
    let d = decode;
    let shape = d.attention.as_ref().map(|shape| format!("\nattention   on cooperative matrices of {shape}"));
    format!(
        "decode      {:.1} tok/s ({} tokens in {:.2} s)\n\
         per token   {} dispatches, {} barriers, {} submits, {:.0} us of CPU time to record and submit{}",
        d.tok_s,
        d.tokens,
        d.seconds,
        d.dispatches_per_token,
        d.barriers_per_token,
        d.submits_per_token,
        d.cpu_us_per_token,
        shape.unwrap_or_default()
    )
}
