"""Modules that the tracer was not written for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Vit(nn.Module):
    """A vision transformer's encoder: patches by convolution, class token, nn.MultiheadAttention-free blocks."""

    def __init__(self, image: int = 8, patch: int = 4, hidden: int = 16, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, hidden, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, hidden))
        self.positions = nn.Parameter(torch.randn(1, 1 + (image // patch) ** 2, hidden))
        self.blocks = nn.ModuleList(VitBlock(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class VitBlock(nn.Module):
    """Fused qkv by one linear, split by reshape and unbind; fused attention."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(approximate="tanh"), nn.Dropout(0.0),
                                 nn.Linear(2 * hidden, hidden))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class Convnet(nn.Module):
    """Depthwise and grouped convolutions, group norm, in-place activations, squeeze and excitation, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding="same"), nn.GroupNorm(2, 8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
            nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=4), nn.BatchNorm2d(12), nn.SiLU(), nn.AvgPool2d(2),
        )  # fmt: skip
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(12, 4, 1), nn.ReLU6(), nn.Conv2d(4, 12, 1),
                                     nn.Hardsigmoid())  # fmt: skip
        self.head = nn.Linear(12 * 4, 6)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.features(images)
        x = x * self.squeeze(x)
        x += 0.5
        return self.head(x.flatten(1))


class Mixer(nn.Module):
    """An MLP mixer: tokens mixed by a transposed linear."""

    def __init__(self, tokens: int = 6, hidden: int = 8) -> None:
        super().__init__()
        self.embed = nn.Linear(5, hidden)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"n1": nn.LayerNorm(hidden), "t": nn.Linear(tokens, tokens),
                           "n2": nn.RMSNorm(hidden, eps=1e-6), "c": nn.Linear(hidden, hidden, bias=False)})
            for _ in range(2)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = x + layer["t"](layer["n1"](x).mT).mT.tanh()
            x = x + F.softplus(layer["c"](layer["n2"](x))) * torch.sigmoid(x)
        return ((x - x.mean(1, keepdim=True)) ** 2).sum((1, 2)).add(1).log().mean()


class Hf(nn.Module):
    """A decoder as Hugging Face writes them: fused qkv by split, a mask buffer, shapes by view, tied head, Conv1D-like
    addmm, grouped keys by repeat_interleave, rotary embeddings from buffers."""

    def __init__(self, vocab: int = 20, hidden: int = 16, heads: int = 4, seq: int = 6) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.h = nn.ModuleList([HfBlock(hidden, heads, seq, i % 2 == 1) for i in range(2)])
        self.ln_f = nn.LayerNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(input_ids.size(-1), device=input_ids.device).unsqueeze(0)
        x = self.wte(input_ids) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class HfBlock(nn.Module):
    """One decoder layer; `rotary` takes grouped keys and rotary positions instead of one fused projection."""

    def __init__(self, hidden: int, heads: int, seq: int, rotary: bool) -> None:
        super().__init__()
        self.heads, self.hidden, self.rotary = heads, hidden, rotary
        self.ln = nn.LayerNorm(hidden, elementwise_affine=False)
        self.weight, self.bias = (
            nn.Parameter(torch.randn(hidden, 3 * hidden) / 4),
            nn.Parameter(torch.zeros(3 * hidden)),
        )
        self.kv = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)
        self.register_buffer(
            "mask", torch.tril(torch.ones(seq, seq, dtype=torch.bool)).view(1, 1, seq, seq), persistent=False
        )
        angle = torch.outer(
            torch.arange(seq).float(), 10000.0 ** (-torch.arange(0, hidden // heads, 2) / (hidden // heads))
        )
        self.register_buffer("cos", torch.cat((angle, angle), -1).cos())
        self.register_buffer("sin", torch.cat((angle, angle), -1).sin())

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-second, first), dim=-1) * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, h = x.size()
        size = h // self.heads
        y = torch.addmm(self.bias, self.ln(x).view(-1, h), self.weight).view(b, s, 3 * h)
        q, k, v = y.split(h, dim=2)
        q, k, v = (t.view(b, s, self.heads, size).transpose(1, 2) for t in (q, k, v))
        if self.rotary:
            k, v = self.kv(x).view(b, s, 2, -1, size).permute(2, 0, 3, 1, 4)
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            q, k = self.turn(q), self.turn(k)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(size)
        lowest = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=x.device)
        scores = torch.where(self.mask[:, :, :s, :s], scores, lowest)
        y = torch.matmul(scores.softmax(dim=-1, dtype=scores.dtype), v).transpose(1, 2).contiguous().view(b, s, h)
        return x + F.gelu(self.out(y))


class Encoder(nn.Module):
    """torch's own transformer layer, with its fused in-projection."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x).amax(1))


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    # Of x [batch, 6, 8], a table [5, 8] that is trained, and indices [3].
    "glu": lambda x, t, i: F.glu(x, -1),
    "swiglu": lambda x, t, i: F.silu(x[..., :4]) * x[..., 4:],
    "normalize": lambda x, t, i: F.normalize(x, dim=-1),
    "var": lambda x, t, i: x.var(-1, keepdim=True) + x.std(dim=1).unsqueeze(1),
    "logsumexp": lambda x, t, i: x.logsumexp(-1),
    "index": lambda x, t, i: x[:, i] + x.index_select(1, i) + t[i],
    "windows": lambda x, t, i: torch.roll(x, (1,), (1,)).view(-1, 3, 2, 8).reshape(-1, 2, 8).mT.softmax(-1),
    "ellipsis": lambda x, t, i: torch.einsum("...i,...j->...ij", x, x),
    "three": lambda x, t, i: torch.einsum("bsh,vh,vk->bsk", x, t, t) + torch.einsum("bsh->bh", x).unsqueeze(1),
    "outer": lambda x, t, i: torch.outer(t[0], t[1]) * x[:, :1].mT,
    "upsample": lambda x, t, i: F.interpolate(x, scale_factor=2),
    "extremes": lambda x, t, i: x.max(-1)[0] + x.amin(2) + torch.maximum(x, -x).sum(-1),
    "where": lambda x, t, i: torch.where(x > 0, x, 0.5) + torch.where(x < 0.1, 2.0, x) + torch.where(x > 1, 1.0, -1.0),
    "numbers": lambda x, t, i: (1 - x) / (x.abs() + 1) + 1 / (x * x + 2) + 2.0**x + (x - 3).pow(2),
    "group": lambda x, t, i: F.group_norm(x.mT, 4) + F.instance_norm(x).mT,
    "pools": lambda x, t, i: F.avg_pool1d(x, 2) * F.adaptive_avg_pool1d(x, 4) + F.max_pool1d(x, 2),
    "joined": lambda x, t, i: torch.cat(torch.stack([x, x * 2], 1).flatten(1, 2).chunk(3, 1)[::-1], 1).flip(1),
    "repeated": lambda x, t, i: F.pad(x.repeat(1, 2, 1), (1, 2, 0, 1)) + torch.tile(x[:, ::2, :1], (1, 1, 11))[:, :1],
    "cumulative": lambda x, t, i: x.cumsum(1) * (x @ x.mT).tril()[..., :1] * F.softmin(x, -1),
    "activations": lambda x, t, i: F.logsigmoid(x) + F.mish(x) + F.selu(x) + F.elu(x) + F.leaky_relu(x, 0.2),
    "losses": lambda x, t, i: F.l1_loss(x, x * 0.5) + F.smooth_l1_loss(x, x * 0.3) + F.mse_loss(x, x * 2)
    + F.binary_cross_entropy_with_logits(x, torch.ones_like(x)) + F.kl_div(x.log_softmax(-1), x.softmax(-1)),
    "fused": lambda x, t, i: torch.addcmul(x, x, x, value=0.5) + torch.lerp(x, x * 2, 0.3),
    "one of a range": lambda x, t, i: x * torch.arange(3, 3 + x.shape[1] // x.shape[1]),
    "grids": lambda x, t, i: x + torch.meshgrid(torch.arange(6), torch.arange(8), indexing="ij")[0],
    "in place": lambda x, t, i: (x * 1).mul_(2).add_(1).relu_(),
    "pixels": lambda x, t, i: F.pixel_shuffle(x.view(-1, 4, 3, 4), 2).flatten(1),
    "products": lambda x, t, i: torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5, alpha=2.0) + (x @ t[0]).unsqueeze(1),
    "masked": lambda x, t, i: F.scaled_dot_product_attention(
        x[:, None], x[:, None], x[:, None], attn_mask=torch.ones(6, 6, dtype=torch.bool).tril()),
    "biased": lambda x, t, i: F.scaled_dot_product_attention(
        x[:, None], x[:, None], x[:, None], attn_mask=t[:1, :6] + t[1, 0]),
    "grouped": lambda x, t, i: F.scaled_dot_product_attention(
        x.view(-1, 6, 4, 2).transpose(1, 2), x[..., :4].view(-1, 6, 2, 2).transpose(1, 2),
        x[..., 4:].reshape(-1, 6, 2, 2).transpose(1, 2), is_causal=True, enable_gqa=True),
    "single": lambda x, t, i: x[:, :1].softmax(1) * x + x[..., :1].log_softmax(-1) * x + x[:, :1].cumsum(1)
    + F.layer_norm(x[..., :1], (1,), t[0, :1], t[1, :1]) + F.rms_norm(x[..., :1], (1,), t[2, :1])
    + (x[:, :1].max(1)[0] + x[:, 1:2].argmax(1) + x[..., :1].logsumexp(-1)[:, :1]).unsqueeze(1),
    "checkpoint": lambda x, t, i: checkpoint(lambda y: y.tanh() * 2, x, use_reentrant=False),
}  # fmt: skip


class Functions(nn.Module):
    """Some of `FUNCTIONS`, summed."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names, self.linear = names, nn.Linear(8, 8)
        self.table = nn.Parameter(torch.randn(5, 8))
        self.register_buffer("index", torch.tensor([2, 0, 1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, loss = checkpoint(self.linear, x, use_reentrant=False) + self.table[0], 0.0
        for name in self.names:
            y = FUNCTIONS[name](x, self.table, self.index)
            loss = loss + (y * y).mean() + (0.1 * y).mean()
        return loss
