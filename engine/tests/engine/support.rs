//! Small models, a device, and the command itself.

use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;

use zinc_engine::gguf::{Gguf, Value, Writer};
use zinc_engine::model::{Architecture, Model};
use zinc_engine::quant::WeightType;
use zinc_engine::synth::{Shape, Synth, Types, Vocabulary};
use zinc_engine::vk::{Device, Instance, choose};

/// The device that the engine chooses.
pub fn device() -> Rc<Device> {
    let open = || {
        let instance = Instance::new()?;
        let mut physical = instance.devices()?;
        let described: Vec<_> = physical.iter().map(|p| p.device.clone()).collect();
        let index = choose(&described, None, None)?;
        Device::new(instance, physical.swap_remove(index))
    };
    open().unwrap_or_else(|error| {
        panic!(
            "these tests need a Vulkan device, and there is none: {error}\n\
             On Debian and Ubuntu: apt-get install libvulkan1 mesa-vulkan-drivers"
        )
    })
}

/// Runs the command with these arguments.
pub fn engine(args: &[&str]) -> Output {
    command(args).output().expect("the engine starts")
}

/// The command with these arguments, to be changed further.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.args(args);
    command
}

/// Standard output of a run that must succeed.
pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Asserts that a run failed with this status, printed nothing on standard output, did not panic, and named all of
/// `words` in its message.
pub fn assert_fails(output: &Output, status: i32, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{message}");
    assert!(output.stdout.is_empty(), "printed {:?} before failing", String::from_utf8_lossy(&output.stdout));
    assert!(message.contains("error:") && !message.contains("panicked"), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

/// A small model with random weights: what tests vary, the rest as it is.
#[derive(Debug, Clone)]
pub struct Tiny {
    pub architecture: Architecture,
    pub layers: u32,
    pub embedding: u32,
    pub feed_forward: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub rope_dim: u32,
    pub context: u32,
    pub ty: WeightType,
    /// Type of a separate output head; tied if there is none.
    pub output: Option<WeightType>,
    pub rope_factors: bool,
    pub output_bias: bool,
    pub window: u32,
    pub logit_cap: Option<f32>,
    pub leading_token: bool,
    pub chat_template: Option<&'static str>,
}

impl Default for Tiny {
    fn default() -> Self {
        Self {
            architecture: Architecture::Llama,
            layers: 2,
            embedding: 64,
            feed_forward: 96,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            rope_dim: 16,
            context: 64,
            ty: WeightType::Q8_0,
            output: None,
            rope_factors: false,
            output_bias: false,
            window: 0,
            logit_cap: None,
            leading_token: false,
            chat_template: None,
        }
    }
}

/// 256 bytes and one control token.
pub const VOCABULARY: u32 = 257;

impl Tiny {
    /// The smallest model of one layer with all of its matrices in this format.
    pub fn of(ty: WeightType) -> Self {
        let columns = ty.block_elements().max(32) as u32;
        Self {
            embedding: columns,
            feed_forward: 2 * columns,
            head_dim: columns / 4,
            rope_dim: columns / 4,
            layers: 1,
            output: Some(ty),
            ty,
            ..Self::default()
        }
    }

    /// The complete GGUF file.
    pub fn file(&self) -> Vec<u8> {
        let mut vocabulary = Vocabulary::bytes();
        vocabulary.set_leading_token(self.leading_token);
        vocabulary.set_chat_template(self.chat_template);
        let shape = Shape {
            architecture: self.architecture,
            layers: self.layers,
            embedding: self.embedding,
            feed_forward: self.feed_forward,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            rope_dim: self.rope_dim,
            rope_base: 1e4,
            rope_factors: self.rope_factors,
            rope_linear: if self.rope_factors { 2.0 } else { 1.0 },
            window: self.window,
            logit_cap: self.logit_cap,
            epsilon: 1e-5,
            context: self.context,
            vocabulary: VOCABULARY,
            tied: self.output.is_none(),
            output_bias: self.output_bias,
        };
        let types = Types { weights: self.ty, head: self.output.unwrap_or(self.ty) };
        let synth = Synth { name: "tiny".to_owned(), shape, types, vocabulary: &vocabulary, seed: 7 };
        let mut file = Vec::new();
        synth.write(&mut file, |_| ()).expect("writing to memory");
        file
    }
}

/// A change to a file's metadata: a value that takes the key's place or is new, or none to take the key out.
pub type Change<'v> = (&'v str, Option<Value<'v>>);

/// The file with changed metadata and the same tensors.
pub fn changed(file: &[u8], changes: &[Change<'_>]) -> Vec<u8> {
    let gguf = Gguf::parse(file).expect("a sound file");
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().filter(|(key, _)| changes.iter().all(|change| change.0 != *key)) {
        writer.put(key, value);
    }
    for (key, value) in changes {
        value.iter().for_each(|value| _ = writer.put(key, *value));
    }
    for tensor in gguf.tensors() {
        writer.tensor(tensor.name, &tensor.dims, tensor.ty);
    }
    let mut out = Vec::new();
    writer
        .write(&mut out, |index, out| out.write_all(gguf.tensors()[index].data))
        .expect("writing to memory");
    out
}

/// Parses a file and hands its model to `f`.
pub fn with_model<T>(file: &[u8], f: impl FnOnce(&Model<'_>) -> T) -> T {
    let gguf = Gguf::parse(file).expect("a sound file");
    f(&Model::from_gguf(&gguf).expect("a sound model"))
}

/// Where a tensor's type number is in a file.
pub fn type_offset(file: &[u8], tensor: &str, dims: usize) -> usize {
    let at = file.windows(tensor.len()).position(|w| w == tensor.as_bytes()).expect("the tensor is there");
    at + tensor.len() + 4 + 8 * dims
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Cosine of the angle between two vectors of the same length.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
