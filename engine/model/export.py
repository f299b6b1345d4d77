"""Write the model as GGUF: the Q8_0 file that ships, and an F32 file that holds the same function.

Why two files: llama.cpp and the engine quantise activations differently in Q8_0 kernels, so a check of "the same
function" between programs needs weights that every program multiplies in plain float32. The F32 file therefore does
not hold the weights of training. It holds the *dequantised Q8_0 weights*, value for value, and is made from the Q8_0
file alone:

    python export.py q8_0 CHECKPOINT.pt embedded-q8_0.gguf      after training
    python export.py f32  embedded-q8_0.gguf embedded-f32.gguf  any time; needs neither torch nor the checkpoint

The tokenizer in both is GPT-2's byte-level kind with a vocabulary of exactly the 256 bytes, in byte order and in
GPT-2's printable spelling, one control token, and no merges: any text tokenises to its UTF-8 bytes, and a token's
id is the byte's value.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

#: The file that ships must stay below this many bytes.
SIZE_LIMIT = 3_000_000


class Writer(gguf.GGUFWriter):
    """The library's writer, able to store an array of no strings.

    The library derives an array's element type from its first element and so refuses an empty one, but a byte-level
    vocabulary has no merges and llama.cpp requires the key.
    """

    def add_key_value(self, key, val, vtype, sub_type=None):
        if vtype == gguf.GGUFValueType.ARRAY and len(val) == 0:
            val = EmptyStrings()
        super().add_key_value(key, val, vtype, sub_type)

    def _pack_val(self, val, vtype, add_vtype, sub_type=None):
        if isinstance(val, EmptyStrings):
            kind = self._pack("I", vtype) if add_vtype else b""
            return kind + self._pack("I", gguf.GGUFValueType.STRING) + self._pack("Q", 0)
        return super()._pack_val(val, vtype, add_vtype, sub_type)


class EmptyStrings(list):
    """Marks an array of strings that has no elements."""


def byte_spellings() -> list[str]:
    """GPT-2's printable character for each of the 256 byte values, in byte order.

    Printable Latin-1 bytes spell themselves; the others take, in ascending order, the code points from 256 up
    (Radford et al. 2019, the byte-level vocabulary of GPT-2).
    """
    printable = set(range(0x21, 0x7F)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
    spellings, spare = [], 256
    for byte in range(256):
        if byte in printable:
            spellings.append(chr(byte))
        else:
            spellings.append(chr(spare))
            spare += 1
    return spellings


def add_header(writer: Writer, shape: dict, file_type: gguf.LlamaFileType) -> None:
    """Hyperparameters and tokenizer, the same in both files but for the file type."""
    writer.add_type("model")
    writer.add_name("zinc-barrier embedded byte model")
    writer.add_description(
        "Byte-level English model for barrier experiments; trained on public-domain text only"
    )
    writer.add_license("MIT OR Apache-2.0 OR CC0-1.0")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_file_type(file_type)
    writer.add_vocab_size(shape["vocab"])
    writer.add_context_length(shape["context"])
    writer.add_embedding_length(shape["dim"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["ff"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_key_length(shape["head_dim"])
    writer.add_value_length(shape["head_dim"])
    writer.add_rope_dimension_count(shape["head_dim"])
    writer.add_rope_freq_base(shape["rope_base"])
    writer.add_layer_norm_rms_eps(shape["norm_eps"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(byte_spellings() + ["<|endoftext|>"])
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL])
    writer.add_key_value(gguf.Keys.Tokenizer.MERGES, [], gguf.GGUFValueType.ARRAY)
    # llama.cpp takes 11 for both ids in a gpt2 vocabulary that names none, which is an ordinary byte here.
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(256)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)


def write(
    path: Path,
    shape: dict,
    tensors: dict[str, tuple[np.ndarray, gguf.GGMLQuantizationType]],
    quiet: bool = False,
) -> None:
    """Write a GGUF whole or not at all: tensors maps a name to float32 values or packed blocks, and their type."""
    quantised = any(kind == gguf.GGMLQuantizationType.Q8_0 for _, kind in tensors.values())
    file_type = gguf.LlamaFileType.MOSTLY_Q8_0 if quantised else gguf.LlamaFileType.ALL_F32
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    os.close(handle)
    try:
        writer = Writer(temporary, "llama")
        add_header(writer, shape, file_type)
        for name, (values, kind) in tensors.items():
            writer.add_tensor(name, values, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    if not quiet:
        print(f"{path}: {path.stat().st_size} bytes, {len(tensors)} tensors")


def tensor_order(layers: int) -> list[str]:
    """Tensor names in file order; every one must be present."""
    parts = [
        "attn_norm",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_output",
        "ffn_norm",
        "ffn_gate",
        "ffn_up",
        "ffn_down",
    ]
    blocks = [f"blk.{layer}.{part}.weight" for layer in range(layers) for part in parts]
    return ["token_embd.weight", *blocks, "output_norm.weight"]


def quantise(weights: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, gguf.GGMLQuantizationType]]:
    """Matrices to Q8_0 blocks by ggml's reference rule, vectors kept in float32."""
    q8_0, f32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
    return {
        name: (gguf.quants.quantize(w, q8_0), q8_0) if w.ndim == 2 else (w.astype(np.float32), f32)
        for name, w in weights.items()
    }


def write_f32(path: Path, shape: dict, weights: dict[str, np.ndarray], quiet: bool = False) -> None:
    """Write weights that read_gguf dequantised as an all-F32 GGUF: the same function as the file they came from."""
    f32 = gguf.GGMLQuantizationType.F32
    write(path, shape, {name: (weights[name], f32) for name in tensor_order(shape["layers"])}, quiet)


def read_gguf(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Shape and float32 weights (dequantised where packed) of a GGUF that this script wrote."""
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError) as error:
        raise SystemExit(f"{path}: not a readable GGUF ({error})") from error

    def value(key: str):
        field = reader.get_field(key)
        if field is None:
            raise SystemExit(f"{path}: no key {key}; is it a GGUF that this script wrote?")
        return field.contents()

    shape = {
        "vocab": value("llama.vocab_size"),
        "dim": value("llama.embedding_length"),
        "layers": value("llama.block_count"),
        "heads": value("llama.attention.head_count"),
        "kv_heads": value("llama.attention.head_count_kv"),
        "head_dim": value("llama.rope.dimension_count"),
        "ff": value("llama.feed_forward_length"),
        "context": value("llama.context_length"),
        "rope_base": float(value("llama.rope.freq_base")),
        # Stored as float32; the nearest short decimal is what training used.
        "norm_eps": float(f"{value('llama.attention.layer_norm_rms_epsilon'):.6g}"),
    }
    weights = {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors
    }
    return shape, weights


def read_checkpoint(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Shape and float32 weights of a checkpoint that train.py wrote."""
    import pickle

    import torch  # only this subcommand needs it

    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        return saved["shape"], {name: w.float().numpy() for name, w in saved["weights"].items()}
    except (RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise SystemExit(f"{path}: not a checkpoint that train.py wrote ({type(error).__name__})") from error


def main() -> int:
    parser = argparse.ArgumentParser(description="Export the embedded model as GGUF.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, source in (("q8_0", "checkpoint written by train.py"), ("f32", "the Q8_0 GGUF")):
        sub = commands.add_parser(name, help=f"write {name.upper()} from {source}")
        sub.add_argument("source", type=Path, help=source)
        sub.add_argument("out", type=Path, help="the GGUF to write")
    arguments = parser.parse_args()
    if not arguments.source.is_file():
        parser.error(f"{arguments.source}: no such file")
    if arguments.command == "q8_0":
        shape, weights = read_checkpoint(arguments.source)
        write(arguments.out, shape, quantise({name: weights[name] for name in tensor_order(shape["layers"])}))
        if arguments.out.stat().st_size >= SIZE_LIMIT:
            print(
                f"{arguments.out}: above the limit of {SIZE_LIMIT} bytes; lower the shape's ff",
                file=sys.stderr,
            )
            return 1
    else:
        write_f32(arguments.out, *read_gguf(arguments.source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
