"""`PiperProblem`: an instance as arrays for the compiled loops; and the options of the nodes of a chosen stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...reprs import Shown
from .downsets import Downsets, downsets
from .instance import PiperInstance, PiperOption

__all__ = ["PiperProblem", "PiperStage", "Recompute"]

Recompute = Literal["any", "never", "always"]
RECOMPUTED = "activation recomp"
"""Name that the authors' instances give to the option that computes activations again in the backward pass."""


@dataclass(frozen=True, slots=True, repr=False)
class PiperStage(Shown):
    """One stage of Piper's pipeline.

    Parameters
    ----------
    nodes : tuple of int
        Ids of its nodes, in a topological order.
    tensor_parallel, data_parallel : int
        The stage's degrees t and d.
    options : tuple of str
        The chosen option of each node.
    """

    nodes: tuple[int, ...]
    tensor_parallel: int
    data_parallel: int
    options: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PiperProblem:
    """An instance as arrays, nodes in a topological order.

    Parameters
    ----------
    instance : PiperInstance
        The instance.
    order : tuple of int
        Its nodes in a topological order. The other fields number the nodes by this order.
    states : Downsets
        Sets of nodes that the last stages of a pipeline may hold.
    tensor : tuple of int
        Tensor-parallel degrees that some node has an option for.
    names : tuple of tuple of tuple of str
        Names of the options, for each node and degree.
    arrays : tuple of ndarray
        The arrays of nodes and edges that `stage_steps` takes.
    """

    instance: PiperInstance
    order: tuple[int, ...]
    states: Downsets
    tensor: tuple[int, ...]
    names: tuple[tuple[tuple[str, ...], ...], ...]
    arrays: tuple[Any, ...]

    @classmethod
    def of(
        cls, instance: PiperInstance, recompute: Recompute, tensor_parallel: bool, devices: int, limit: int
    ) -> PiperProblem:
        """Turn an instance into arrays, without the options that are not allowed."""
        order = instance.order()
        place = {instance.nodes[k].number: n for n, k in enumerate(order)}
        edges = [(place[a], place[b], c) for a, b, c in instance.edges]
        states = downsets(
            len(order), [(a, b) for a, b, _ in edges], limit, "piper: the instance", option="max_downsets"
        )
        known = sorted(
            {t for node in instance.nodes for t in node.options if t <= devices and (tensor_parallel or t == 1)}
        )
        n, m, n_t = len(order), len(edges), len(known)
        seconds, param = np.full((n, n_t, 2), np.inf), np.zeros((n, n_t))
        a, b = np.zeros((n, n_t, 2)), np.zeros((n, n_t, 2))
        sync_in, sync_out = np.zeros((m, n_t, 2)), np.zeros((m, n_t, 2))
        names: list[list[tuple[str, ...]]] = [[() for _ in known] for _ in order]
        for v, k in enumerate(order):
            for ti, t in enumerate(known):
                options = _allowed(instance.nodes[k].options.get(t, ()), recompute)
                names[v][ti] = tuple(o.name for o in options)
                for o, option in enumerate(options):
                    seconds[v, ti, o], param[v, ti] = option.seconds, option.parameter_bytes
                    a[v, ti, o], b[v, ti, o] = option.memory_a, option.memory_b
                    for e, (x, y, _) in enumerate(edges):
                        if x == v:
                            sync_out[e, ti, o] = option.sync_backward[instance.nodes[order[y]].number]
                        elif y == v:
                            sync_in[e, ti, o] = option.sync_forward[instance.nodes[order[x]].number]
        ends = np.array([(x, y) for x, y, _ in edges], np.int64).reshape(-1, 2)
        sizes = np.array([c for _, _, c in edges])
        arrays = (ends[:, 0].copy(), ends[:, 1].copy(), sizes, sync_in, sync_out, seconds, a, b, param)
        return cls(instance, order, states, tuple(known), tuple(map(tuple, names)), arrays)

    def stage(
        self, nodes: Sequence[int], t: int, d: int, y: int, upto: int, bandwidth: float, memory: float
    ) -> PiperStage:
        """The stage behind a step of `stage_steps`, with the options chosen for the largest y to which it applies."""
        heads, tails, sizes, sync_in, sync_out, seconds, a, b, _ = self.arrays
        inside = set(nodes)
        cost = {v: seconds[v, t].copy() for v in nodes}
        for e, (x, z) in enumerate(zip(heads.tolist(), tails.tolist(), strict=True)):
            if (x in inside) != (z in inside):
                at, sync = (x, sync_out) if x in inside else (z, sync_in)
                cost[at] += 2 * (sizes[e] + sync[e, t]) / bandwidth
        pick = {v: int(cost[v][1] < cost[v][0]) for v in nodes}

        def kept(v: int, o: int) -> float:
            return float(a[v, t, o] * max(y, upto) + b[v, t, o])

        shave = sum(kept(v, o) for v, o in pick.items()) - memory
        if sum(float(a[v, t, o] * y + b[v, t, o]) for v, o in pick.items()) > memory:
            saving = {v: kept(v, o) - kept(v, 1 - o) for v, o in pick.items() if np.isfinite(cost[v][1 - o])}
            price = {v: (cost[v][1 - pick[v]] - cost[v][pick[v]]) / s for v, s in saving.items() if s > 1e-9}
            for v in sorted(price, key=lambda v: (price[v], v)):
                if shave < 1e-9:
                    break
                shave -= saving[v]
                pick[v] = 1 - pick[v]
        return PiperStage(
            tuple(self.instance.nodes[self.order[v]].number for v in nodes), self.tensor[t], d,
            tuple(self.names[v][t][pick[v]] for v in nodes),
        )  # fmt: skip


def _allowed(options: Sequence[PiperOption], recompute: Recompute) -> list[PiperOption]:
    if recompute == "any" or len(options) < 2:
        return list(options)
    return [o for o in options if (o.name == RECOMPUTED) == (recompute == "always")] or list(options)
