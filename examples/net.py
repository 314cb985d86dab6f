"""A module of one's own, for `meshwright plan training --model examples/net.py:net`: module, example inputs, loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    """A classifier of short sequences: one transformer layer between an embedding and a linear head.

    Parameters
    ----------
    words, hidden, classes : int
        Size of the vocabulary, width, and number of classes.
    """

    def __init__(self, words: int = 64, hidden: int = 32, classes: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.layer = nn.TransformerEncoderLayer(hidden, 4, 4 * hidden, dropout=0.0, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the classes, shape (batch, classes)."""
        return self.head(self.layer(self.embedding(tokens)).mean(dim=1))


def net() -> dict[str, Any]:
    """What `profiles.graph.from_torch` takes. Of inputs and labels only shapes and dtypes count."""
    tokens, labels = torch.zeros(4, 16, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    return {"module": Net(), "inputs": (tokens,), "loss": "cross_entropy", "labels": labels}
