"""A mixture of experts, spread over ranks: tokens go to the ranks of their experts and come back, none is dropped."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.tensor import DTensor, Partial
from torch.nn import functional

from .config import Shape

__all__ = ["Bank", "Experts"]


class Bank(nn.Module):
    """The experts' weights, or those of this rank."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        experts, hidden, inner = shape.experts, shape.hidden, shape.expert_ffn
        self.gate = nn.Parameter(torch.empty(experts, hidden, inner)) if shape.gated else None
        self.up = nn.Parameter(torch.empty(experts, hidden, inner))
        self.down = nn.Parameter(torch.empty(experts, inner, hidden))

    def forward(self, rows: Tensor, counts: list[int]) -> Tensor:
        """Rows, expert by expert, through theirs; none is left out, so that each has a gradient on every rank."""
        out = list[Tensor]()
        for k, part in enumerate(rows.split(counts)):
            gate = None if self.gate is None else part @ self.gate[k]
            out.append(_inner(part @ self.up[k], gate) @ self.down[k])
        return torch.cat(out)


class Experts(nn.Module):
    """The router, experts, and an MLP that every token goes through besides (`Shape.shared_ffn`).

    A token's experts are those of the largest probabilities of a softmax over all, weighted by these, which are divided
    by their sum (Mixtral; Jiang et al. 2024, §2.1). Balancing losses are left out.

    Attributes
    ----------
    group : ProcessGroup, optional
        The ranks that the experts are spread over; none: all are here.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.experts, self.top_k, hidden = shape.experts, shape.top_k, shape.hidden

        def weight(*sizes: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(sizes))

        self.router = weight(shape.experts, hidden)
        self.bank = Bank(shape)
        shared = shape.shared_ffn
        self.shared_gate = weight(shared, hidden) if shared and shape.gated else None
        self.shared_up = weight(shared, hidden) if shared else None
        self.shared_down = weight(hidden, shared) if shared else None
        self.group: dist.ProcessGroup | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(samples, tokens, hidden) to the same."""
        tokens = x.flatten(0, 1)
        chances = functional.softmax(functional.linear(tokens, _own(self.router)), -1)
        weights, chosen = chances.topk(self.top_k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)  # places (token, choice), by expert
        counts = torch.bincount(chosen.flatten(), minlength=self.experts)
        done = self._computed(tokens[order // self.top_k], counts)
        back = torch.zeros_like(done).index_copy(0, order, done).view(*chosen.shape, -1)
        mixed = (back * weights.unsqueeze(-1)).sum(1)
        if self.shared_up is not None and self.shared_down is not None:
            up = functional.linear(tokens, _own(self.shared_up))
            gate = None if self.shared_gate is None else functional.linear(tokens, _own(self.shared_gate))
            mixed = mixed + functional.linear(_inner(up, gate), _own(self.shared_down))
        return mixed.view_as(x)

    def _computed(self, sent: Tensor, counts: Tensor) -> Tensor:
        """What experts make of rows that lie expert by expert."""
        if self.group is None:
            return self.bank(sent, counts.tolist())
        ranks = self.group.size()
        per_rank = counts.view(ranks, -1)
        theirs = torch.empty_like(per_rank)
        dist.all_to_all_single(theirs, per_rank.contiguous(), group=self.group)
        away, here = per_rank.sum(1).tolist(), theirs.sum(1).tolist()
        came = _exchanged(sent, here, away, self.group)
        # Rows came rank by rank, each expert by expert; they are laid expert by expert.
        local = theirs.shape[1]
        expert_of = torch.arange(local, device=sent.device).repeat(ranks).repeat_interleave(theirs.flatten())
        order = expert_of.argsort(stable=True)
        made = self.bank(came[order], theirs.sum(0).tolist())
        laid = torch.zeros_like(made).index_copy(0, order, made)
        return _exchanged(laid, away, here, self.group)


def _inner(up: Tensor, gate: Tensor | None) -> Tensor:
    return functional.gelu(up) if gate is None else functional.silu(gate) * up


def _own(weight: Tensor) -> Tensor:
    """A weight that ranks with other tokens have, too: its gradient is the sum of theirs."""
    return weight.to_local(grad_placements=[Partial()]) if isinstance(weight, DTensor) else weight


def _exchanged(rows: Tensor, come: list[int], go: list[int], group: dist.ProcessGroup) -> Tensor:
    came = collectives.all_to_all_single_autograd(rows, come, go, group)
    return came.wait() if isinstance(came, collectives.AsyncCollectiveTensor) else came
