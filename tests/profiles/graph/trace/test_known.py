"""Values that follow from buffers while a module is traced: picks by them are kept, others refused with their line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from meshwright.errors import InputError
from meshwright.profiles.graph import from_torch
from torch import nn

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 1, 3, 3, 0, 4]])  # two of them end where they begin


class Graphs(nn.Module):
    """Messages over edges without loops, each weighed by its end's degree, as torch_geometric's GCNConv makes them."""

    def __init__(self, laid_out: bool = False) -> None:
        super().__init__()
        self.line, self.laid_out = nn.Linear(3, 4), laid_out
        self.register_buffer("edges", EDGES.clone())

    def passed(self, x: Any, edges: Any) -> Any:
        edges = edges[:, edges[0] != edges[1]]
        count = int(edges.max()) + 1 if not self.laid_out else x.shape[-2]
        loops = torch.arange(count)
        edges = torch.cat([edges, torch.stack([loops, loops])], 1)
        degree = torch.zeros(count).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
        weight = (degree[edges[0]] * degree[edges[1]]).pow(-0.5)
        return torch.zeros_like(x).index_add(-2, edges[1], x.index_select(-2, edges[0]) * weight[:, None])

    def forward(self, x: Any) -> Any:
        x = self.line(x)
        if not self.laid_out:
            return self.passed(x, self.edges).square().mean()
        edges = self.edges + 5 * torch.arange(x.shape[0])[:, None, None]
        x = self.passed(x.flatten(0, 1), edges.transpose(0, 1).flatten(1))
        return x.square().mean()


class Given(Graphs):
    """Edges that are an input."""

    def forward(self, x: Any, edges: Any) -> Any:
        return self.passed(self.line(x), edges[0]).square().mean()


def test_picks_by_buffers_are_kept() -> None:
    """The check against the module, loss and gradients, is `from_torch`'s own; buffers are left as they are."""
    module = Graphs()
    graph = from_torch(module, (torch.zeros(2, 5, 3),))
    assert "the loss and 2 gradients" in graph.source
    assert torch.equal(module.edges, EDGES)
    assert "x" in {t.name for t in graph.inputs}
    assert any(t.name.endswith("lifted_tensor_0") and t.shape == (4,) for t in graph.parameters)


def test_picks_that_are_others_at_another_batch_are_refused() -> None:
    with pytest.raises(InputError, match=r"picks by values, other ones at batch 4 than at 2, at .*test_known.py:\d+;"):
        from_torch(Graphs(laid_out=True), (torch.zeros(2, 5, 3),))


def test_picks_by_inputs_are_refused_with_their_line_and_a_way_round() -> None:
    with pytest.raises(InputError, match=r"test_known.py:\d+.*(add self loops before|by torch.where or a mask)"):
        from_torch(Given(), (torch.zeros(2, 5, 3), EDGES.expand(2, -1, -1)))
