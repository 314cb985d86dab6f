"""Draws are traced as operators that draw; code of torch that looks at values is traced without looking."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from meshwright.profiles.graph import from_torch
from torch import nn
from torch.nn import functional as F


class Noisy(nn.Module):
    """Every way to draw that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        h = F.dropout(self.one(x), 0.3)
        h = F.feature_alpha_dropout(F.dropout1d(F.alpha_dropout(h, 0.2, True)[..., None], 0.2), 0.1, True)[..., 0]
        h = h * torch.rand_like(h) + torch.randn(h.shape[0], 1) + torch.empty_like(h).uniform_(-1, 2)
        h = h + torch.empty_like(h).normal_(1, 3) * torch.randint(0, 3, (h.shape[0], 8))
        return self.two(h * torch.bernoulli(h.sigmoid()) * h.new_empty((h.shape[0], 1)).bernoulli_(0.8).div_(0.8))


def test_every_way_to_draw() -> None:
    labels = torch.randint(0, 5, (4,))
    graph = from_torch(Noisy(), (torch.randn(4, 6),), loss="cross_entropy", labels=labels)
    found = Counter(op.attributes.get("fn") for op in graph.operators)
    assert {name: found[name] for name in ("dropout", "bernoulli", "uniform", "normal")} == {
        "dropout": 1, "bernoulli": 4, "uniform": 4, "normal": 2,
    }  # fmt: skip
    assert "the loss and 4 gradients" in graph.source
    chances = [op.attributes["p"] for op in graph.operators if op.attributes.get("fn") == "bernoulli"]
    assert chances == pytest.approx([0.8, 0.8, 0.9, 0.8])


class Translator(nn.Module):
    """torch's own transformer, which looks whether a mask is causal; a distribution, which looks at what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.inner = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)

    def forward(self, source: Any, target: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        y = self.inner(self.table(source), self.table(target), tgt_mask=mask)
        mean, spread = y.chunk(2, -1)
        return -torch.distributions.Normal(mean, spread.exp()).log_prob(torch.ones(4)).mean()


def test_nothing_looks_at_values() -> None:
    words = torch.zeros(2, 5, dtype=torch.int64)
    graph = from_torch(Translator(), (words, words[:, :4]))
    attention = [op.attributes for op in graph.operators if op.kind == "attention"]
    assert [(a["causal"], a["dropout"]) for a in attention] == [(False, 0.1), (True, 0.1), (False, 0.1)]
    with pytest.raises(ValueError, match="constraint"):  # the checks are back
        torch.distributions.Normal(0.0, torch.tensor(-1.0))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, 2, dropout=0.2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(6, 4, 2, dropout=0.4, batch_first=True)

    def forward(self, x: Any) -> Any:
        y, (state, _) = self.lstm(x)
        return self.gru(y)[0].square().mean() + state.square().mean()


def test_recurrent_layers_drop_between_them() -> None:
    graph = from_torch(Layers(), (torch.zeros(4, 5, 4),))
    assert [op.attributes["p"] for op in graph.operators if op.attributes.get("fn") == "dropout"] == [0.2, 0.4]
    assert "the loss and 24 gradients" in graph.source
    assert torch._VF.lstm is torch._C._VariableFunctions.lstm  # as before


def test_a_loss_over_the_samples_of_a_batch() -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: Any, y: Any) -> Any:
            return F.cross_entropy(self.one(x) @ self.two(y).T, torch.arange(x.shape[0]))

    graph = from_torch(Towers(), (torch.zeros(4, 4), torch.zeros(4, 4)))
    assert sum(loop.batch for loop in graph.operators[-1].loops) == 2
