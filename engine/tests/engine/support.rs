//! Small models, a device, and the command itself.

use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;

use zinc_engine::gguf::{Gguf, TensorType, Value, Writer};
use zinc_engine::model::Model;
use zinc_engine::quant::WeightType;
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

/// Hyper-parameters of a small model with random weights.
#[derive(Debug, Clone)]
pub struct Tiny {
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
    pub leading_token: bool,
}

impl Default for Tiny {
    fn default() -> Self {
        Self {
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
            leading_token: false,
        }
    }
}

/// 256 bytes and one control token.
pub const VOCABULARY: u32 = 257;

impl Tiny {
    /// The complete GGUF file.
    pub fn file(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.put("general.architecture", Value::String("llama"));
        writer.put("general.name", Value::String("tiny"));
        let sizes = [
            ("block_count", self.layers),
            ("embedding_length", self.embedding),
            ("feed_forward_length", self.feed_forward),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.rope_dim),
            ("context_length", self.context),
        ];
        for (key, value) in sizes {
            writer.put(&format!("llama.{key}"), Value::U32(value));
        }
        writer.put("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
        writer.put("tokenizer.ggml.model", Value::String("gpt2"));
        writer.put("tokenizer.ggml.pre", Value::String("gpt-2"));
        writer.put_strings("tokenizer.ggml.tokens", &vocabulary());
        let mut types = vec![1; 256];
        types.push(3);
        writer.put_i32s("tokenizer.ggml.token_type", &types);
        writer.put("tokenizer.ggml.bos_token_id", Value::U32(256));
        writer.put("tokenizer.ggml.add_bos_token", Value::Bool(self.leading_token));

        let tensors = self.tensors();
        for (name, dims, ty) in &tensors {
            writer.tensor(name, dims, *ty);
        }
        let mut rng = fastrand::Rng::with_seed(7);
        let mut file = Vec::new();
        writer
            .write(&mut file, |index, out| {
                let (name, dims, ty) = &tensors[index];
                let elements: u64 = dims.iter().product();
                let data = match name.as_str() {
                    "rope_freqs.weight" => floats(elements, || 1.0 + rng.f32() * 3.0),
                    _ if name.contains("norm") => floats(elements, || 0.5 + rng.f32()),
                    _ => weights(*ty, elements, dims[0], &mut rng),
                };
                out.write_all(&data)
            })
            .expect("writing to memory");
        file
    }

    fn tensors(&self) -> Vec<(String, Vec<u64>, TensorType)> {
        let size = |v: u32| u64::from(v);
        let (e, ff) = (size(self.embedding), size(self.feed_forward));
        let (q, kv) = (size(self.heads * self.head_dim), size(self.kv_heads * self.head_dim));
        let ty = self.ty.tensor_type();
        let mut tensors = vec![("token_embd.weight".to_owned(), vec![e, size(VOCABULARY)], ty)];
        for layer in 0..self.layers {
            let parts = [
                ("attn_norm", vec![e], TensorType::F32),
                ("attn_q", vec![e, q], ty),
                ("attn_k", vec![e, kv], ty),
                ("attn_v", vec![e, kv], ty),
                ("attn_output", vec![q, e], ty),
                ("ffn_norm", vec![e], TensorType::F32),
                ("ffn_gate", vec![e, ff], ty),
                ("ffn_up", vec![e, ff], ty),
                ("ffn_down", vec![ff, e], ty),
            ];
            tensors.extend(parts.map(|(part, dims, ty)| (format!("blk.{layer}.{part}.weight"), dims, ty)));
        }
        tensors.push(("output_norm.weight".to_owned(), vec![e], TensorType::F32));
        if let Some(output) = self.output {
            tensors.push(("output.weight".to_owned(), vec![e, size(VOCABULARY)], output.tensor_type()));
        }
        if self.rope_factors {
            tensors.push(("rope_freqs.weight".to_owned(), vec![size(self.rope_dim / 2)], TensorType::F32));
        }
        tensors
    }
}

fn floats(count: u64, mut next: impl FnMut() -> f32) -> Vec<u8> {
    (0..count).flat_map(|_| next().to_le_bytes()).collect()
}

/// Weights of about the size that keeps activations near one.
fn weights(ty: TensorType, elements: u64, columns: u64, rng: &mut fastrand::Rng) -> Vec<u8> {
    let spread = 1.7 / (columns as f32).sqrt();
    if ty == TensorType::F32 {
        return floats(elements, || (rng.f32() * 2.0 - 1.0) * spread);
    }
    let levels = if ty == TensorType::Q8_0 { 127.0 } else { 8.0 };
    let mut data = Vec::new();
    for _ in 0..elements / 32 {
        let scale = half::f16::from_f32(spread / levels * (0.5 + rng.f32()));
        data.extend(scale.to_le_bytes());
        data.extend((2..ty.block_bytes()).map(|_| rng.u8(..)));
    }
    data
}

/// The 256 byte tokens as byte-level vocabularies spell them, and one control token.
fn vocabulary() -> Vec<String> {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    let mut tokens: Vec<String> = (0..256u32)
        .map(|b| {
            let code = if printable(b) {
                b
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).expect("a character").to_string()
        })
        .collect();
    tokens.push("<|endoftext|>".to_owned());
    tokens
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
