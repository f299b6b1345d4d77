"""The embedded model's network, in plain PyTorch.

Why a definition of our own: the engine, its CPU reference and llama.cpp all read this model from a GGUF, so the
training side must compute exactly what the GGUF architecture `llama` means, and nothing that a GGUF cannot say. So:

* RMSNorm without bias before each half of a block, and one more before the output;
* rotary embedding over *interleaved* pairs (2i, 2i+1) of each head, which is what llama.cpp applies to architecture
  `llama`; training with it directly means that the weights need no permutation on export;
* grouped-query attention, SwiGLU, no biases anywhere;
* the output matrix is the embedding matrix.

Parameter names are the GGUF tensor names, so that a checkpoint and an export can be compared line by line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Token id of the single control token; ids 0..255 are the byte values.
END_OF_TEXT = 256


@dataclass(frozen=True)
class Shape:
    """Sizes of the network; each row of each matrix is a multiple of 32 wide, the block size of Q8_0."""

    vocab: int = 257
    dim: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    ff: int = 576
    context: int = 1024
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    def as_dict(self) -> dict:
        """The sizes as a plain dictionary, for checkpoints and reports."""
        return asdict(self)


def rope_tables(shape: Shape, length: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding, each [length, head_dim / 2]."""
    exponent = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angle = torch.arange(length, dtype=torch.float64)[:, None] * shape.rope_base ** -exponent[None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (2i, 2i+1) of x [batch, heads, length, head_dim] by the tables' angles."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class RmsNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, computed in at least float32."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


class Block(nn.Module):
    """One transformer block: attention and SwiGLU, each behind a norm and added to the residual stream."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.shape = shape
        kv_dim = shape.kv_heads * shape.head_dim
        q_dim = shape.heads * shape.head_dim
        self.attn_norm = RmsNorm(shape.dim, shape.norm_eps)
        self.attn_q = nn.Linear(shape.dim, q_dim, bias=False)
        self.attn_k = nn.Linear(shape.dim, kv_dim, bias=False)
        self.attn_v = nn.Linear(shape.dim, kv_dim, bias=False)
        self.attn_output = nn.Linear(q_dim, shape.dim, bias=False)
        self.ffn_norm = RmsNorm(shape.dim, shape.norm_eps)
        self.ffn_gate = nn.Linear(shape.dim, shape.ff, bias=False)
        self.ffn_up = nn.Linear(shape.dim, shape.ff, bias=False)
        self.ffn_down = nn.Linear(shape.ff, shape.dim, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        shape = self.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, length, heads, shape.head_dim).transpose(1, 2)

        h = self.attn_norm(x)
        q = rotate(split(self.attn_q(h), shape.heads), cos, sin)
        k = rotate(split(self.attn_k(h), shape.kv_heads), cos, sin)
        v = split(self.attn_v(h), shape.kv_heads)
        # Query head h reads key/value head h // group, as GGUF's head_count_kv means it.
        group = shape.heads // shape.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        mixed = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.drop(self.attn_output(mixed.transpose(1, 2).reshape(batch, length, -1)))
        h = self.ffn_norm(x)
        return x + self.drop(self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h)))


class ByteModel(nn.Module):
    """The whole network: byte ids in, logits over the 257 tokens out."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.dim)
        self.blk = nn.ModuleList(Block(shape, dropout) for _ in range(shape.layers))
        self.output_norm = RmsNorm(shape.dim, shape.norm_eps)
        self.drop = nn.Dropout(dropout)
        cos, sin = rope_tables(shape, shape.context)
        self.register_buffer("rope_cos", cos, persistent=False)
        self.register_buffer("rope_sin", sin, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # Matrices that write to the residual stream start smaller, so that depth does not inflate it.
                writes_residual = name.endswith(("attn_output.weight", "ffn_down.weight"))
                std = 0.02 if name.startswith("token_embd") else shape.dim**-0.5
                nn.init.normal_(parameter, std=std * ((2 * shape.layers) ** -0.5 if writes_residual else 1.0))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [batch, length, vocab] for ids [batch, length]; row t predicts the id at t + 1."""
        length = ids.shape[1]
        cos, sin = self.rope_cos[:length], self.rope_sin[:length]
        x = self.drop(self.token_embd(ids))
        for block in self.blk:
            x = block(x, cos, sin)
        # Never in half precision: rounded logits would be noise on the very quantity that is trained and measured.
        with torch.autocast(ids.device.type, enabled=False):
            return F.linear(self.output_norm(x), self.token_embd.weight)
