"""Small modules in plain torch that stand for families of architectures, with inputs, loss and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BATCH = 4


def classes(result: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(result, labels)


class Swin(nn.Module):
    """Attention in shifted windows, which merge with the batch; a table of relative positions; patches are merged."""

    def __init__(self, shift: int = 1) -> None:
        super().__init__()
        self.shift, self.patch = shift, nn.Conv2d(3, 8, 2, 2)
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.table = nn.Parameter(torch.zeros(9, 2))
        self.merge, self.head = nn.Linear(32, 8, bias=False), nn.Linear(8, 5)
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + 1
        self.register_buffer("places", apart[0] * 3 + apart[1])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        y = y.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        q, k, v = self.qkv(y).reshape(y.shape[0], 4, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        scores = q * 0.5 @ k.transpose(-2, -1) + self.table[self.places.view(-1)].view(4, 4, 2).permute(2, 0, 1)
        scores = scores.view(b, (h // 2) * (w // 2), 2, 4, 4) + self.mask(h, w)[None, :, None]
        y = (scores.view(-1, 2, 4, 4).softmax(-1) @ v).transpose(1, 2).reshape(y.shape)
        y = self.out(y).view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        x = torch.cat([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1)
        return self.head(self.merge(x).mean((1, 2)))

    def mask(self, h: int, w: int) -> Tensor:
        """Windows that a shift put together from both edges: their parts do not see each other."""
        region = torch.zeros(h, w)
        for n, (i, j) in enumerate((i, j) for i in (0, 1) for j in (0, 1)):
            region[slice(-self.shift, None) if i else slice(0, -self.shift),
                   slice(-self.shift, None) if j else slice(0, -self.shift)] = n  # fmt: skip
        parts = region.view(h // 2, 2, w // 2, 2).permute(0, 2, 1, 3).reshape(-1, 4)
        return (parts[:, None] != parts[:, :, None]).float() * -100.0


class UNet(nn.Module):
    """Convolutions with norms, pooling, a transposed convolution, bilinear upsampling, skips."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (self.pair(i, o) for i, o in ((3, 4), (4, 8), (8, 8)))
        self.up, self.four = nn.ConvTranspose2d(8, 8, 2, 2), self.pair(16, 4)
        self.wide, self.out = nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 3, 1)

    @staticmethod
    def pair(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        a = self.one(x)
        b = self.two(F.max_pool2d(a, 2))
        y = self.four(torch.cat([self.up(self.three(F.max_pool2d(b, 2))), b], 1))
        return self.out(torch.cat([self.wide(y), a], 1))


class Tagger(nn.Module):
    """A bidirectional LSTM and a GRU over it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(12, 6), nn.Linear(8, 5)
        self.lstm = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.gru(self.lstm(self.table(ids))[0])[0])


class Gcn(nn.Module):
    """A graph convolution over edges that all samples share, and a message passing over edges of each sample's own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(3, 8), nn.Linear(16, 8), nn.Linear(8, 5)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 0, 2]]))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = self.edges
        x = F.relu(self.one(x))
        degree = torch.zeros(5).index_add(0, target, torch.ones(6)).clamp(min=1).rsqrt()
        x = torch.zeros_like(x).index_add(1, target, x[:, source] * (degree[source] * degree[target])[:, None])
        i, j = (e[..., None].expand(-1, -1, 8) for e in edges.unbind(1))
        message = F.relu(self.two(torch.cat([x.gather(1, i), x.gather(1, j)], -1)))
        return self.head(torch.zeros_like(x).scatter_add(1, j, message).mean(1))


class S4(nn.Module):
    """A state-space model as a convolution by FFT."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head, self.skip = nn.Linear(3, 4), nn.Linear(4, 5), nn.Parameter(torch.ones(4))
        self.rate, self.mix = nn.Parameter(torch.zeros(4, 2)), nn.Parameter(torch.ones(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        u = self.inner(x).mT
        n = u.shape[-1]
        kernel = (self.mix[..., None] * torch.exp(-F.softplus(self.rate)[..., None] * torch.arange(n) / n)).sum(1)
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * n) * torch.fft.rfft(kernel, n=2 * n), n=2 * n)[..., :n]
        return self.head(F.gelu(y + u * self.skip[:, None]).mean(-1))


class Dense(nn.Module):
    """A DenseNet block: each layer reads all before it; its norms are frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(3 + 2 * k).eval(), nn.ReLU(), nn.Conv2d(3 + 2 * k, 2, 3, padding=1))
            for k in range(3)
        )
        self.head = nn.Linear(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(x.mean((2, 3)))


class Vae(nn.Module):
    """A loss of its own in two parts, divided by the batch size; noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 8), nn.Linear(4, 6)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        mean, spread = self.inner(x).chunk(2, -1)
        y = self.outer(mean + torch.exp(0.5 * spread) * noise)
        apart = F.binary_cross_entropy_with_logits(y, x.sigmoid(), reduction="sum")
        return (apart - 0.5 * torch.sum(1 + spread - mean.square() - spread.exp())) / x.shape[0]


class DropPath(nn.Module):
    """Residual paths that are dropped for whole samples, as timm and as early versions of it write it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1), nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        x = x + y * y.new_empty((y.shape[0], 1, 1, 1)).bernoulli_(0.8).div_(0.8)
        y = self.two(x)
        x = x + y.div(0.7) * (0.7 + torch.rand(y.shape[0], 1, 1, 1)).floor_()
        return self.head(F.dropout2d(x, 0.2).mean((2, 3)))


def made(name: str) -> tuple[nn.Module, tuple[Tensor, ...], Callable[..., Any] | str | None, Tensor | None]:
    """A module, its inputs, its loss and labels."""
    torch.manual_seed(0)
    image, five = torch.randn(BATCH, 3, 8, 8), torch.randint(0, 5, (BATCH,))
    words = torch.randint(0, 12, (BATCH, 6))
    return {
        "swin": lambda: (Swin(), (image,), classes, five),
        "unet": lambda: (UNet(), (image,), classes, torch.randint(0, 3, (BATCH, 8, 8))),
        "tagger": lambda: (Tagger(), (words,), "cross_entropy", torch.randint(0, 5, (BATCH, 6))),
        "gcn": lambda: (Gcn(), (torch.randn(BATCH, 5, 3), torch.randint(0, 5, (BATCH, 2, 7))), classes, five),
        "s4": lambda: (S4(), (torch.randn(BATCH, 8, 3),), classes, five),
        "dense": lambda: (Dense(), (image,), classes, five),
        "vae": lambda: (Vae(), (torch.randn(BATCH, 6), torch.randn(BATCH, 4)), None, None),
        "drop path": lambda: (DropPath(), (image,), classes, five),
    }[name]()


FAMILIES = ("swin", "unet", "tagger", "gcn", "s4", "dense", "vae", "drop path")
