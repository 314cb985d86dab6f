"""A mixture of experts: the feed-forward block of every second layer of the ``moe`` family."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Shard, Weights
from .specs import ModelSpec

__all__ = ["Experts"]


class Experts(nn.Module):
    """Top-k routed experts with a fixed capacity, split over the devices; one all-reduce.

    Every token chooses its `top_k` experts; an expert takes the `ModelSpec.capacity` tokens that want it
    most, and what it leaves out passes through the residual connection (GShard §2.2). Capacity is fixed, so
    latency does not depend on the data. The tokens of all requests in a batch compete for it.
    """

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard) -> None:
        super().__init__()
        self.spec, self.shard = spec, shard
        self.mine = shard.slice(spec.experts)
        h, f = spec.hidden, spec.ffn
        self.gate = weights.draw("gate", (spec.experts, h), h**-0.5)
        numbers = range(self.mine.start, self.mine.stop)
        self.w_in = self._stack([weights.draw(f"expert {e} in", (h, f), h**-0.5) for e in numbers])
        self.b_in = self._stack([weights.draw(f"expert {e} in bias", (1, f), 0.02) for e in numbers])
        self.w_out = self._stack([weights.draw(f"expert {e} out", (f, h), f**-0.5) for e in numbers])
        self.b_out = self._stack([weights.draw(f"expert {e} out bias", (1, h), 0.02) for e in numbers])

    @staticmethod
    def _stack(parts: list[nn.Parameter]) -> nn.Parameter:
        return nn.Parameter(torch.stack(list(parts)), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.spec.hidden)
        gates = F.softmax(F.linear(flat, self.gate).float(), dim=-1)
        weight, chosen = gates.topk(self.spec.top_k, dim=-1)
        routed = torch.zeros_like(gates).scatter_(1, chosen, weight / weight.sum(dim=-1, keepdim=True))
        # Per expert: the tokens that want it most. Slots that nobody wants have weight zero and add nothing.
        slot_weight, slot_token = routed[:, self.mine].topk(self.spec.capacity(flat.shape[0]), dim=0)
        token = slot_token.T
        inner = F.gelu(torch.baddbmm(self.b_in, flat[token], self.w_in))
        outer = torch.baddbmm(self.b_out, inner, self.w_out) * slot_weight.T.unsqueeze(-1).to(x.dtype)
        partial = torch.zeros_like(flat).index_add_(0, token.reshape(-1), outer.reshape(-1, self.spec.hidden))
        return self.shard.add_up(partial).view_as(x)
