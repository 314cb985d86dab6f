"""The stage's sharding problem in the form that `solve_sharding` takes (Alpa §4.2, Eq. 1).

Memory rows: at the time of each operator's backward pass the device holds all state, the activations of the
microbatches in flight, what its group has computed again, and the operator's temporaries.
"""

from __future__ import annotations

import numpy as np

from ..solver.problem import Floats, ShardingProblem
from .pricing import Pricing
from .stage_model import StageModel

__all__ = ["least_bytes", "sharding_problem"]


def sharding_problem(pricing: Pricing, model: StageModel, bounded: bool = True) -> ShardingProblem:
    """Nodes, edges and memory rows. The first nodes are the model's; temporaries follow them as nodes of their own."""
    options = pricing.options
    bound = options.memory_bytes if bounded else 0.0
    leader = list(model.leader)
    seconds: list[Floats] = list(model.seconds)
    held = [s + options.in_flight * a for s, a in zip(model.state, model.activation, strict=True)]
    live: list[tuple[int, ...]] = []
    if bound > 0:
        base = [v for v, m in enumerate(held) if m.any()]
        live = [tuple(base)]
        extra: dict[str, list[int]] = {"": []}

        def add(node: int, n_bytes: Floats) -> int:
            leader.append(model.leader[node])
            seconds.append(np.zeros(len(n_bytes)))
            held.append(n_bytes)
            return len(leader) - 1

        for group, values in model.again.items():
            extra[group] = [add(node, n_bytes) for node, n_bytes in values]
        for node, n_bytes in model.work.items():
            live.append((*base, *extra.get(model.group[node], ()), add(node, n_bytes)))
    sizes = tuple(len(s) for s in seconds)
    return ShardingProblem(
        len(leader),
        bound,
        sizes,
        tuple(-1 if at == own else at for own, at in enumerate(leader)),
        tuple((e.source, e.target) for e in model.edges),
        (),
        tuple(live),
        tuple(seconds),
        tuple(held),
        tuple(e.table.total for e in model.edges),
        (),
    )


def least_bytes(pricing: Pricing, model: StageModel) -> tuple[float, float, float, str]:
    """What no choice needs less than: all bytes on a device; of them state, activations; and the largest node."""
    flight = pricing.options.in_flight
    total: dict[int, Floats] = {}
    parts: dict[int, list[int]] = {}
    for v, leader in enumerate(model.leader):
        need = model.state[v] + flight * model.activation[v]
        total[leader] = total[leader] + need if leader in total else need
        parts.setdefault(leader, []).append(v)
    state = activation = 0.0
    largest, name = -1.0, ""
    for leader, need in total.items():
        need = np.where(np.isfinite(model.seconds[leader]), need, np.inf)
        k = int(np.argmin(need))
        state += sum(float(model.state[v][k]) for v in parts[leader])
        activation += sum(float(model.activation[v][k]) for v in parts[leader])
        if float(need[k]) > largest:
            largest, name = float(need[k]), model.names[leader]
    return state + flight * activation, state, activation, name
