"""Check the exported model against its training definition, and both against llama.cpp.

Why three parties: the engine's kernels and its CPU reference come from one author, so a shared misunderstanding of
the format would pass their own comparison. This file computes with the definition the model was *trained* with, in
PyTorch, and llama.cpp reads the same GGUF with code that has nothing to do with either.

    python check.py perplexity embedded-q8_0.gguf heldout.txt     nats a byte by both definitions below
    python check.py logits embedded-q8_0.gguf reference_logits.json
    python check.py sample embedded-q8_0.gguf --prompt "It was"   greedy text
    python check.py llama --runner ""                             llama.cpp's tokens and perplexity (see --help)

Two definitions of perplexity at context C, both exp(mean nats a byte):

* *all*: windows of C inputs side by side over the whole text; every byte after the first is predicted once, from the
  1 to C bytes before it in its window. It includes the costly first bytes of each window.
* *second half*: what llama-perplexity reports. The text is cut into whole chunks of C bytes (a shorter rest is left
  out); in each chunk the C - 1 - C/2 bytes at C/2 + 1 .. C - 1 are predicted from all bytes before them in the chunk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import export
from model import END_OF_TEXT, ByteModel, Shape

HERE = Path(__file__).resolve().parent
MODEL, HELDOUT = HERE / "embedded-q8_0.gguf", HERE / "heldout.txt"
#: The fixture's prompt: 48 bytes of our own making, in the kind of English the model knows.
PROMPT = "It was a very long time before she could speak, "
#: How many of the prompt's last positions the fixture holds, and how many bytes of greedy text.
POSITIONS, CONTINUATION = 4, 48
#: llama.cpp and PyTorch must agree on the perplexity within this share.
TOLERANCE = 1e-3


def load(path: Path, dtype: torch.dtype = torch.float32) -> ByteModel:
    """The network with the weights of a GGUF (dequantised where packed) or of a checkpoint."""
    if not path.is_file():
        raise SystemExit(f"{path}: no such file")
    shape, weights = export.read_checkpoint(path) if path.suffix == ".pt" else export.read_gguf(path)
    model = ByteModel(Shape(**shape))
    model.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in weights.items()})
    return model.eval().to(dtype)


@torch.no_grad()
def nats(model: ByteModel, inputs: Tensor, targets: Tensor) -> Tensor:
    """Nats of each target [windows, length] given its window's inputs up to and including the same column."""
    parts = []
    for x, y in zip(inputs.split(16), targets.split(16), strict=True):
        logits = model(x)
        parts.append(
            F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape).double()
        )
    return torch.cat(parts)


def perplexities(model: ByteModel, text: bytes, context: int) -> dict[str, tuple[float, int]]:
    """Mean nats a byte and the number of bytes scored, by both definitions of this file's comment."""
    ids = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    usable = (len(ids) - 1) // context * context
    whole = nats(model, ids[:usable].view(-1, context), ids[1 : usable + 1].view(-1, context)).flatten()
    if rest := len(ids) - 1 - usable:
        whole = torch.cat([whole, nats(model, ids[None, usable:-1], ids[None, usable + 1 :]).flatten()])
    assert len(whole) == usable + rest
    chunks = ids[: len(ids) // context * context].view(-1, context)
    half = nats(model, chunks[:, :-1], chunks[:, 1:])[:, context // 2 :].flatten()
    return {"all": (whole.mean().item(), len(whole)), "second half": (half.mean().item(), len(half))}


def show_perplexity(arguments: argparse.Namespace) -> int:
    if not arguments.text.is_file():
        raise SystemExit(f"{arguments.text}: no such file")
    text = arguments.text.read_bytes()
    if len(text) <= arguments.context:
        raise SystemExit(
            f"{arguments.text}: {len(text)} bytes, too short for a context of {arguments.context}"
        )
    model = load(arguments.model, getattr(torch, arguments.dtype))
    for name, (mean, count) in perplexities(model, text, arguments.context).items():
        print(
            f"{name}: {mean:.6f} nats/byte, exp {math.exp(mean):.4f}, {count} bytes, context {arguments.context}"
        )
    return 0


@torch.no_grad()
def write_logits(arguments: argparse.Namespace) -> int:
    """The fixture: logits in float64 rounded to float32, and how far PyTorch's own float32 is from them."""
    tokens = list(PROMPT.encode())
    ids = torch.tensor([tokens])
    double = load(arguments.model, torch.float64)
    exact, single = double(ids)[0, -POSITIONS:], load(arguments.model)(ids)[0, -POSITIONS:]
    continuation, margin = greedy(double, PROMPT.encode(), CONTINUATION)
    fixture = {
        "model": arguments.model.name,
        "model_sha256": hashlib.sha256(arguments.model.read_bytes()).hexdigest(),
        "weights": "dequantised Q8_0, the values of the F32 export",
        "arithmetic": "float64, rounded to float32",
        "prompt": PROMPT,
        "positions": list(range(len(tokens) - POSITIONS, len(tokens))),
        "largest_float32_difference": float(f"{(exact - single.double()).abs().max().item():.3g}"),
        "greedy_continuation": continuation.decode(),
        "smallest_greedy_margin": float(f"{margin:.3g}"),
        "logits": [[float(f"{v:.9g}") for v in row.float().tolist()] for row in exact],
    }
    print(
        f"{arguments.out}: {POSITIONS} rows; float32 differs by at most {fixture['largest_float32_difference']}"
    )
    # Lists on one line each: the file is read by people too.
    rows = ",\n  ".join(json.dumps(row) for row in fixture.pop("logits"))
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in fixture.items()]
    arguments.out.write_text("{\n" + ",\n".join([*lines, f' "logits": [\n  {rows}\n ]']) + "\n}\n")
    return 0


@torch.no_grad()
def greedy(model: ByteModel, prompt: bytes, count: int) -> tuple[bytes, float]:
    """`count` more bytes, each the most likely, and the smallest lead of a chosen one over the next in logits.

    Stops early at the control token or at the context's end.
    """
    ids, margin = list(prompt), math.inf
    while len(ids) < min(len(prompt) + count, model.shape.context):
        best = model(torch.tensor([ids]))[0, -1].topk(2)
        token = int(best.indices[0])
        margin = min(margin, float(best.values[0] - best.values[1]))
        if token >= END_OF_TEXT:
            break
        ids.append(token)
    return bytes(ids[len(prompt) :]), margin


def sample(arguments: argparse.Namespace) -> int:
    model = load(arguments.model)
    text, _ = greedy(model, arguments.prompt.encode(), arguments.bytes)
    print(arguments.prompt + text.decode(errors="replace"))
    return 0


def awkward_text(seed: int = 1) -> str:
    """Text of every sort that a tokenizer might join or drop: blanks, contractions, digits, many scripts."""
    dice = random.Random(seed)
    pieces = [
        "  two  blanks\t tabs\r\n\r\n lines\n\n\n",
        "it's I'll WE'VE 'tis don't",
        "3.14159 1234567890 ½ ²",
        "a\u00a0b",
    ]
    pieces += [
        "\u4e2d\u6587\u5b57",
        "\U0001f600\U0001f1eb\U0001f1f7",
        "e\u0301\u0327",
        "\u0627\u0644",
        "\u200b\u200d\ufeff",
    ]
    points = [p for p in range(1, 0x110000) if not 0xD800 <= p <= 0xDFFF]
    pieces += ["".join(map(chr, dice.sample(points, 40))) for _ in range(20)]
    pieces += ["".join(map(chr, range(1, 0x300)))]
    return " ".join(pieces) + "end"


def run(runner: str, *command: str) -> str:
    """Output of a llama.cpp program, its log included."""
    words = [*runner.split(), *command]
    try:
        done = subprocess.run(words, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise SystemExit(
            f"{words[0]}: not found; install llama.cpp or name a wrapper with --runner"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{' '.join(words)}: exit {error.returncode}\n{error.stderr.decode()[-2000:]}"
        ) from None
    return (done.stdout + done.stderr).decode(errors="replace")


def against_llama(arguments: argparse.Namespace) -> int:
    """Byte-exact tokens, and the perplexity of the F32 export within TOLERANCE."""
    if not arguments.model.is_file():
        raise SystemExit(f"{arguments.model}: no such file")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        exported, awkward = Path(folder) / "embedded-f32.gguf", Path(folder) / "awkward.txt"
        shape, weights = export.read_gguf(arguments.model)
        export.write_f32(exported, shape, weights, quiet=True)
        awkward.write_bytes(awkward_text().encode())
        for path in (awkward, HELDOUT):
            output = run(
                arguments.runner,
                "llama-tokenize",
                "-m",
                str(arguments.model),
                "-f",
                str(path),
                "--ids",
                "--no-escape",
                "--log-disable",
            )
            tokens = json.loads(output[output.index("[") : output.index("]") + 1])
            same = bytes(t for t in tokens if t < 256) == path.read_bytes() and max(tokens) < 256
            good &= same
            verdict = "equal to" if same else "NOT"
            print(f"llama-tokenize, {path.name}: {len(tokens)} tokens, {verdict} the text's bytes")
        ours = perplexities(load(exported), HELDOUT.read_bytes(), 256)["second half"]
        output = run(
            arguments.runner,
            "llama-perplexity",
            "-m",
            str(exported),
            "-f",
            str(HELDOUT),
            "-c",
            "256",
            "-b",
            "256",
            "-ctk",
            "f32",
            "-ctv",
            "f32",
            "-fa",
            "off",
            "-t",
            str(arguments.threads),
        )
    found = re.search(r"PPL = ([0-9.]+) \+/- ([0-9.]+)", output)
    if not found:
        raise SystemExit("llama-perplexity printed no final estimate")
    theirs, mine = float(found[1]), math.exp(ours[0])
    difference = abs(theirs / mine - 1)
    good &= difference < TOLERANCE
    print(
        f"perplexity, F32 export, second half: llama.cpp {theirs} +/- {found[2]}, PyTorch {mine:.4f}: "
        f"{difference:.4%} apart, {'within' if difference < TOLERANCE else 'NOT within'} {TOLERANCE:.1%}"
    )
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the embedded model against PyTorch and llama.cpp.")
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("perplexity", help="nats a byte of a text, by both definitions")
    sub.add_argument("model", type=Path, help="GGUF, or a checkpoint ending in .pt")
    sub.add_argument("text", type=Path)
    sub.add_argument("--context", type=int, default=256)
    sub.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    sub.set_defaults(action=show_perplexity)
    sub = commands.add_parser("logits", help="write the fixture of reference logits")
    sub.add_argument("model", type=Path)
    sub.add_argument("out", type=Path)
    sub.set_defaults(action=write_logits)
    sub = commands.add_parser("sample", help="print greedy text")
    sub.add_argument("model", type=Path)
    sub.add_argument("--prompt", default=PROMPT)
    sub.add_argument("--bytes", type=int, default=200)
    sub.set_defaults(action=sample)
    sub = commands.add_parser("llama", help="compare with llama.cpp's programs")
    sub.add_argument("--model", type=Path, default=MODEL)
    sub.add_argument(
        "--runner", default="", help="wrapper put before each program's name, e.g. a sysroot's runner"
    )
    sub.add_argument("--threads", type=int, default=2)
    sub.set_defaults(action=against_llama)
    arguments = parser.parse_args()
    torch.set_num_threads(max(1, min(torch.get_num_threads(), 4)))
    return arguments.action(arguments)


if __name__ == "__main__":
    sys.exit(main())
