"""A small language model with all that makes state dicts hard, and the loop that a user would write around it."""

from __future__ import annotations

from typing import Any

import torch
from meshwright.profiles.graph import Graph, from_torch
from meshwright.profiles.graph.module_loss import ModuleLoss
from torch import nn

VOCAB, SEQ, WIDTH = 24, 8, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=i == 3) for i in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1))

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        q, k, v = (part(y).unflatten(-1, (2, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = (q @ k.mT / (WIDTH // 2) ** 0.5).masked_fill(self.mask, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    """Output tied to the embedding, a table of positions that is a buffer, a layer that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(VOCAB, WIDTH), nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", torch.linspace(-1, 1, SEQ * WIDTH).reshape(SEQ, WIDTH).sin())
        self.unread = nn.Linear(3, 3)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def made() -> tuple[Graph, ModuleLoss]:
    torch.manual_seed(3)
    tokens = torch.zeros(2, SEQ, dtype=torch.int64)
    module = ModuleLoss(Language().double(), (tokens,), "cross_entropy", tokens)
    graph = from_torch(module.module, module.inputs, loss=module.loss, labels=module.labels, name="language")
    return graph, module


def batches(count: int, samples: int, seed: int = 5) -> list[dict[str, Any]]:
    random = torch.Generator().manual_seed(seed)
    drawn = [torch.randint(VOCAB, (samples, SEQ + 1), generator=random) for _ in range(count)]
    return [{"tokens": x[:, :-1], "labels": x[:, 1:]} for x in drawn]


def loss_of(module: nn.Module, batch: dict[str, Any]) -> Any:
    return nn.functional.cross_entropy(module(batch["tokens"]).flatten(0, -2), batch["labels"].flatten())


def loop(
    module: nn.Module, data: list[dict[str, Any]], optimizer: Any, clip: float | None, schedule: Any = None
) -> list[float]:  # fmt: skip
    """The user's own: one device, torch alone."""
    losses = []
    for batch in data:
        optimizer.zero_grad()
        loss = loss_of(module, batch)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        if schedule is not None:
            schedule.step()
        losses.append(float(loss.detach()))
    return losses
