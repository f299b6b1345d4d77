"""Train the embedded model on the corpus that texts.py wrote.

Why it is so short: the model has 2.6 million parameters and the corpus 15.5 MB, so one accelerator reads all of it
dozens of times in a few minutes. What needs care is not speed but honesty: the held-out novel is never read here, all
choices are made on a development text cut from the end of another novel, and the run leaves its curve (loss.csv) and
its settings (recipe.json). Another run gets another, equally good model: accelerators sum in no fixed order.

    python texts.py collect && python train.py --minutes 5 --out run

`--steps` fixes the length outright. `--minutes` fixes the time and lets the schedule follow the clock; the recipe it
writes names the steps it came to, and `--steps` with that number repeats the recipe on a slower or faster machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model import ByteModel, Shape

HERE = Path(__file__).resolve().parent
#: Steps of linear warm-up of the learning rate (a tenth of the run, if that is fewer).
WARMUP_STEPS = 300
#: With --minutes, steps between looks at the clock; each look waits for the device.
CLOCK_EVERY = 32
#: Every so many steps, windows are this long instead, so that positions beyond --context are trained too.
LONG_EVERY, LONG_CONTEXT = 8, 1024


class Corpus:
    """The training stream on the device, with a weighted choice of source for each window."""

    def __init__(self, folder: Path, device: torch.device, seed: int) -> None:
        if not (folder / "train.npy").exists():
            raise SystemExit(
                f"train.py: {folder}: no train.npy; run `python texts.py collect --out {folder}` first"
            )
        self.stream = torch.from_numpy(np.load(folder / "train.npy")).to(device)
        spans = json.loads((folder / "spans.json").read_text())
        self.starts = torch.tensor([s["start"] for s in spans.values()], device=device)
        self.ends = torch.tensor([s["end"] for s in spans.values()], device=device)
        self.weights = torch.tensor([s["weight"] for s in spans.values()], device=device)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.device = device

    def windows(self, count: int, length: int) -> Tensor:
        """`count` random windows of `length` + 1 ids: [count, length + 1] int64."""
        source = torch.multinomial(self.weights, count, replacement=True, generator=self.generator)
        room = self.ends[source] - self.starts[source] - length
        fraction = torch.rand(count, device=self.device, generator=self.generator, dtype=torch.float64)
        start = self.starts[source] + (fraction * room).long()
        return self.stream[start[:, None] + torch.arange(length + 1, device=self.device)].long()


@torch.no_grad()
def evaluate(model: ByteModel, ids: Tensor, context: int) -> float:
    """Mean nats a byte over `ids` in windows of `context`, each predicted from its own window only."""
    usable = (len(ids) - 1) // context * context
    inputs, targets = ids[:usable].view(-1, context), ids[1 : usable + 1].view(-1, context)
    model.eval()
    total = sum(
        F.cross_entropy(model(x).float().flatten(0, 1), y.flatten(), reduction="sum").item()
        for x, y in zip(inputs.split(64), targets.split(64), strict=True)
    )
    model.train()
    return total / usable


def learning_rate(step: int, warmup: int, progress: float, peak: float) -> float:
    """Linear warm-up, then a cosine of the run's progress (0 to 1) down to a hundredth of the peak."""
    decayed = peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
    return decayed * min(1.0, (step + 1) / warmup)


def optimizer_for(model: ByteModel, decay: float, device: torch.device) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), fused=device.type == "cuda")


def train(arguments: argparse.Namespace) -> None:
    device = torch.device(arguments.device)
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    shape = Shape()
    model = ByteModel(shape, arguments.dropout).to(device)
    optimizer = optimizer_for(model, arguments.decay, device)
    corpus = Corpus(arguments.corpus, device, arguments.seed)
    dev = torch.frombuffer(bytearray((arguments.corpus / "dev.txt").read_bytes()), dtype=torch.uint8)
    dev = dev.long().to(device)
    autocast = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
    network = torch.compile(model, dynamic=False) if arguments.compile else model

    def loss_of(ids: Tensor) -> Tensor:
        with autocast:
            logits = network(ids[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())

    arguments.out.mkdir(parents=True, exist_ok=True)
    warmup = min(WARMUP_STEPS, max(1, arguments.steps // 10)) if arguments.steps else WARMUP_STEPS
    running: list[Tensor] = []
    began = time.monotonic()
    with open(arguments.out / "loss.csv", "w", newline="") as handle:
        log = csv.writer(handle, lineterminator="\n")
        log.writerow(
            ["step", "tokens", "seconds", "learning_rate", "train_nats_per_byte", "dev_nats_per_byte"]
        )
        step, tokens, progress = 0, 0, 0.0
        while progress < 1.0:
            rate = learning_rate(step, warmup, progress, arguments.rate)
            for group in optimizer.param_groups:
                group["lr"] = rate
            context = LONG_CONTEXT if step % LONG_EVERY == LONG_EVERY - 1 else arguments.context
            ids = corpus.windows(max(1, arguments.batch_bytes // context), context)
            loss = loss_of(ids)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            tokens += ids.shape[0] * context
            running.append(loss.detach())
            if arguments.steps:
                progress = step / arguments.steps
            elif step % CLOCK_EVERY == 0:
                loss.item()  # waits for the device
                progress = (time.monotonic() - began) / (60 * arguments.minutes)
            if step % arguments.log_every == 0 or progress >= 1.0:
                mean = torch.stack(running).mean().item()
                running.clear()
                dev_loss = evaluate(model, dev, arguments.context)
                seconds = time.monotonic() - began
                log.writerow(
                    [step, tokens, f"{seconds:.1f}", f"{rate:.3e}", f"{mean:.5f}", f"{dev_loss:.5f}"]
                )
                handle.flush()
                print(
                    f"step {step}: train {mean:.4f}, dev {dev_loss:.4f} nats/byte, {seconds:.0f} s",
                    flush=True,
                )
    recipe = {k: v for k, v in vars(arguments).items() if not isinstance(v, Path)}
    recipe |= {
        "steps": step,
        "tokens": tokens,
        "torch": str(torch.__version__),
        "device_name": device_name(device),
    }
    weights = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    torch.save(
        {"shape": shape.as_dict(), "weights": weights, "recipe": recipe}, arguments.out / "checkpoint.pt"
    )
    (arguments.out / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n")


def device_name(device: torch.device) -> str:
    """What kind of machine trained, for the record."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the embedded model.")
    parser.add_argument(
        "--corpus", type=Path, default=HERE / "corpus", help="folder that `texts.py collect` wrote"
    )
    parser.add_argument(
        "--out", type=Path, default=HERE / "run", help="folder for checkpoint, CSV and recipe"
    )
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="train for about this long")
    length.add_argument("--steps", type=int, help="train for exactly this many steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--batch-bytes", type=int, default=65_536, help="bytes predicted in a step")
    parser.add_argument("--context", type=int, default=256, help="usual window, in bytes")
    parser.add_argument("--rate", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--decay", type=float, default=0.1, help="weight decay of the matrices")
    parser.add_argument("--dropout", type=float, default=0.08, help="residual dropout")
    parser.add_argument("--log-every", type=int, default=500, help="steps between lines of the CSV")
    parser.add_argument(
        "--compile", action="store_true", help="compile the network (needs a C++ compiler or Triton)"
    )
    arguments = parser.parse_args()
    for name in ("minutes", "steps", "batch_bytes", "context", "log_every"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive, not {value}")
    if arguments.context > Shape().context:
        parser.error(f"--context is at most {Shape().context}, the context length in the exported file")
    train(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
