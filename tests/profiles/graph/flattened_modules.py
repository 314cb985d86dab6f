"""Small modules whose dimensions merge, part and meet again: attention over flattened positions, windows, groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Formed(nn.Module):
    """A function of an image and of layers, squared and averaged."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor], **layers: Any) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x).square().mean()


def conv(inputs: int, outputs: int, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, options.pop("kernel", 1), **options)


def positions(m: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [batch, h · w, channels]."""
    q, k, v = (t.flatten(2).transpose(1, 2) for t in m.qkv(x).chunk(3, 1))
    return q, k, v


def image(y: Tensor, x: Tensor) -> Tensor:
    return y.transpose(1, 2).reshape(x.shape)


def heads(t: Tensor) -> Tensor:
    return t.reshape(t.shape[0], t.shape[1], 2, -1).transpose(1, 2)


def matmul_attention(m: Any, x: Tensor) -> Tensor:
    q, k, v = positions(m, x)
    return image((q @ k.mT / 3).softmax(-1) @ v, x) + x


def fused_attention(m: Any, x: Tensor) -> Tensor:
    q, k, v = (t[:, None] for t in positions(m, x))
    return image(F.scaled_dot_product_attention(q, k, v)[:, 0], x) + x


def fused_heads(m: Any, x: Tensor) -> Tensor:
    y = F.scaled_dot_product_attention(*(heads(t) for t in positions(m, x)))
    return image(y.transpose(1, 2).flatten(2), x)


def fused_causal(m: Any, x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(*positions(m, x), is_causal=True)


def fused_bias(m: Any, x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(*positions(m, x), attn_mask=m.bias)


def masked_causal(m: Any, x: Tensor) -> Tensor:
    q, k, v = positions(m, x)
    later = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    return (q @ k.mT).masked_fill(later, float("-inf")).softmax(-1) @ v


def einsum_attention(m: Any, x: Tensor) -> Tensor:
    q, k, v = m.qkv(x).chunk(3, 1)
    p = torch.einsum("bchw,bcij->bhwij", q, k)
    p = p.flatten(3).softmax(-1).view_as(p)  # merged, softmax over both, apart again
    return torch.einsum("bhwij,bcij->bchw", p, v)


def non_local(m: Any, x: Tensor) -> Tensor:
    b, c = x.shape[:2]
    q, k, v = m.qkv(x).chunk(3, 1)
    q, k, v = q.reshape(b, c, -1).mT, F.max_pool2d(k, 2).reshape(b, c, -1), F.max_pool2d(v, 2).reshape(b, c, -1).mT
    return image(torch.matmul(F.softmax(q @ k, dim=-1), v), x) + x


def linear_attention(m: Any, x: Tensor) -> Tensor:
    q, k, v = positions(m, x)
    return torch.einsum("bnd,bde->bne", q.softmax(-1), torch.einsum("bnd,bne->bde", k.softmax(1), v))


def wide_keys(m: Any, x: Tensor) -> Tensor:
    """The size of a head is merged of two."""
    t = m.qkv(x).permute(0, 2, 1, 3).flatten(2)[:, None]
    return F.scaled_dot_product_attention(t, t, t)


def axial(m: Any, x: Tensor) -> Tensor:
    t = m.qkv(x).permute(0, 2, 3, 1).flatten(0, 1)  # rows are batches
    return F.scaled_dot_product_attention(t, t, t)


def vit_without_token(m: Any, x: Tensor) -> Tensor:
    y = m.patch(x).flatten(2).transpose(1, 2) + m.places
    b, n, c = y.shape
    q, k, v = m.qkv(y).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
    return m.norm(y + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)).mean(1)


def windows(m: Any, x: Tensor) -> Tensor:
    """Swin's: windows of 2 x 2, moved by one."""
    b, c, h, w = x.shape
    y = torch.roll(x, (-1, -1), (2, 3)).view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, c)
    q, k, v = m.line(y).reshape(-1, 4, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
    y = ((q @ k.mT + m.bias).softmax(-1) @ v).transpose(1, 2).reshape(b, h // 2, w // 2, 2, 2, c)
    return torch.roll(y.permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w), (1, 1), (2, 3))


def no_gradient(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        gate = m.one(x).sigmoid()
    return gate * m.one(x)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*shape))


QKV: dict[str, Callable[[], nn.Module]] = {"qkv": lambda: conv(4, 12)}
ONE: dict[str, Callable[[], nn.Module]] = {"one": lambda: conv(4, 4)}


def written(m: Any, x: Tensor) -> Tensor:
    y = m.one(x)
    y[:, 0].mul_(2.0)
    return y


def read(m: Any, x: Tensor) -> Tensor:
    y = m.one(x)
    first = y[:, 0]
    y.mul_(2.0)
    return first


RIGHT: dict[str, tuple[Callable[[Any, Tensor], Tensor], dict[str, Callable[[], Any]]]] = {
    "attention by matmul": (matmul_attention, QKV),
    "fused attention": (fused_attention, QKV),
    "fused attention with heads": (fused_heads, QKV),
    "fused causal attention": (fused_causal, QKV),
    "fused attention with a bias": (fused_bias, QKV | {"bias": lambda: parameter(24, 24)}),
    "causal by a mask": (masked_causal, QKV),
    "einsum, merged and apart": (einsum_attention, QKV),
    "non-local block": (non_local, QKV),
    "linear attention": (linear_attention, QKV),
    "wide keys": (wide_keys, ONE | {"qkv": lambda: conv(4, 4)}),
    "axial": (axial, {"qkv": lambda: conv(4, 4)}),
    "ViT without class token": (vit_without_token, {
        "patch": lambda: conv(4, 8, kernel=2, stride=2), "places": lambda: parameter(1, 6, 8),
        "qkv": lambda: nn.Linear(8, 24), "norm": lambda: nn.LayerNorm(8)}),
    "windows": (windows, {"line": lambda: nn.Linear(4, 12), "bias": lambda: parameter(2, 4, 4)}),
    "no_grad": (no_gradient, ONE),
    "cumsum of what is merged": (lambda m, x: m.one(x).flatten(2).cumsum(-1), ONE),
    "tril of what is merged": (lambda m, x: (lambda t: (t.mT @ t).tril())(m.one(x).flatten(2)), ONE),
    "softmax of all that is merged": (lambda m, x: m.one(x).flatten(1).log_softmax(1), ONE),
    "groups of what is merged": (
        lambda m, x: m.wide(x.unflatten(1, (2, 2)).transpose(1, 2).flatten(1, 2)),
        {"wide": lambda: conv(4, 8, kernel=3, groups=2)}),
    "classes of what is merged": (
        lambda m, x: F.cross_entropy(m.one(x).flatten(1), (x[:, 0, 0, 0] > 0).long(), reduction="none"), ONE),
    "nll": (lambda m, x: F.nll_loss(m.one(x).log_softmax(1), (x[:, 0] > 0).long()), ONE),
    "padding index": (
        lambda m, x: m.rows((x[:, 0] > 0).long()), {"rows": lambda: nn.Embedding(3, 4, padding_idx=0)}),
    "dropout": (lambda m, x: F.dropout(m.one(x), 0.3), ONE),
    "batch norm": (lambda m, x: m.norm(m.one(x)), ONE | {"norm": lambda: nn.BatchNorm2d(4)}),
    "constant": (lambda m, x: m.one(x).flatten(2).mT * torch.tensor([1.0, 2.0, 3.0, 4.0]), ONE),
    "written in part": (written, ONE),
    "read in part": (read, ONE),
    "complex": (lambda m, x: torch.fft.rfft(m.one(x)).abs(), ONE),
    "lstm": (lambda m, x: m.steps(x.flatten(2))[0], {"steps": lambda: nn.LSTM(24, 4, batch_first=True)}),
}  # fmt: skip
"""Name -> function and layers of modules that trace, and rightly."""


REFUSED: dict[str, tuple[Callable[[Any, Tensor], Tensor], dict[str, Callable[[], Any]], str]] = {
    "autocast": (lambda m, x: _autocast(m, x), ONE, "autocast in module '(root)': not known to graphs"),
    "normed by its spectrum": (
        lambda m, x: m.line(x.flatten(1)),
        {"line": lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(96, 4))}, "is"),
}  # fmt: skip
"""Name -> function and layers of modules that do not, and what the error says."""


def _autocast(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return m.one(x).float()


def formed(entry: tuple[Any, ...]) -> Formed:
    """The module of an entry, with layers of its own."""
    return Formed(entry[0], **{name: make() for name, make in entry[1].items()})
