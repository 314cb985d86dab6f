"""`interval_costs`: the costs of every run of layers on one logical mesh, for several prices of memory at once.

The objective has a price λ for each byte of state and of activations. With λ = 0 the result is that of the stage's ILP
without a memory bound. With λ > 0 no other choice that needs at most as much memory is cheaper, and
cost + λ·(memory − M) is a lower bound of the ILP with memory M (the Lagrangian bound). Several prices give a front of
time against memory: the configurations of the stage programme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .....errors import InputError
from .....profiles.graph import CostModel, Graph
from .....simulator.mesh import LogicalMesh
from ...solver.problem import Floats
from ..analysis import Analysis
from ..options import IntraOptions
from ..plan import IntraPlan, evaluate
from ..pricing import Pricing
from ..solve import solve_priced
from ..stage_model import build_stage
from ..strategies import Ints
from .chain import Chain
from .eliminate import TooWideError
from .segment_table import PARTS
from .segments import Segments

__all__ = ["IntervalTable", "interval_costs"]

FACTORS = ((0, 1), (1 / 16, 1), (1 / 4, 1), (1, 1), (4, 1), (64, 1), (1 / 16, 8), (1 / 2, 8))
"""Default prices, as pairs: price per byte of state, in units of the layers' own seconds per byte of state; and price
per byte of activations, relative to the first. The steps are guesses that spread the front; a price of 8 for
activations stands for stages that hold eight microbatches."""


@dataclass(frozen=True, eq=False, slots=True)
class IntervalTable:
    """What runs of layers take on one logical mesh. Arrays are [L, L, price]: layers i … j inclusive.

    Parameters
    ----------
    prices : tuple of (float, float)
        Seconds per byte of state and of activations that each configuration was found with.
    objective : ndarray
        The least seconds + prices · bytes; inf where j < i.
    seconds : ndarray
        Forward and backward of one microbatch.
    iteration_s : ndarray
        Gradient reduction and update, once an iteration.
    state_bytes, activation_bytes, work_bytes : ndarray
        On one device: weights, gradients, optimiser states; kept for one microbatch; temporaries, which are approximate
        where a cut runs through what is computed again together.
    exact : bool
        Whether every entry is the optimum at its price. It is, unless a cut separates operators that share a copy of a
        value, such as q from k and v: each side then counts the copy, where a stage of both makes one.
    """

    prices: tuple[tuple[float, float], ...]
    objective: Floats
    seconds: Floats
    iteration_s: Floats
    state_bytes: Floats
    activation_bytes: Floats
    work_bytes: Floats
    exact: bool
    _plan: Callable[[int, int, int], IntraPlan]

    def bound(self, i: int, j: int, memory_bytes: float, in_flight: int = 1) -> float:
        """No sharding of layers i … j that fits the memory has a smaller objective, if the table is exact.

        The Lagrangian bound: the best of the prices whose activations cost at most `in_flight` times what state costs.
        """
        bounds = [
            self.objective[i, j, c] - state * memory_bytes
            for c, (state, activation) in enumerate(self.prices)
            if activation <= state * in_flight
        ]
        return float(max(bounds, default=0.0))

    def plan(self, i: int, j: int, price: int) -> IntraPlan:
        """The plan of layers i … j behind an entry.

        Raises
        ------
        InputError
            If there is no such entry.
        """
        n = len(self.objective)
        if not (0 <= i <= j < n and 0 <= price < len(self.prices)):
            raise InputError(f"interval table: expected layers i ≤ j < {n} and a price (got {i}, {j}, {price})")
        return self._plan(i, j, price)


def interval_costs(
    graph: Graph,
    layers: Sequence[tuple[int, int]],
    mesh: LogicalMesh,
    costs: CostModel,
    options: IntraOptions | None = None,
    *,
    prices: Sequence[tuple[float, float]] | None = None,
    analysis: Analysis | None = None,
) -> IntervalTable:
    """What every run of layers takes on one logical mesh.

    Parameters
    ----------
    graph, mesh, costs, options, analysis
        As for `solve_stage`; the memory bound is not looked at.
    layers : sequence of (int, int)
        Consecutive ranges of operators.
    prices : sequence of (float, float), optional
        Seconds per byte of state and of activations of one microbatch. By default 0 and several that are spread around
        the seconds per byte of the layers themselves.

    Raises
    ------
    InputError
        If the layers are not consecutive, or a price is negative.
    """
    options = options or IntraOptions()
    pricing = Pricing(analysis or Analysis(graph), mesh, costs, options)
    segments = Segments(pricing.analysis, layers, options.recompute)
    found = tuple(prices) if prices is not None else _default_prices(pricing, segments)
    if not found or any(not (0 <= x < np.inf) for pair in found for x in pair):
        raise InputError(f"prices: expected pairs of seconds per byte ≥ 0 (got {found})")
    try:
        chain = Chain(pricing, segments, found)
    except TooWideError:
        return _one_by_one(pricing, segments, found)
    n, p = len(segments.layers), len(found)
    parts = np.full((n, n, p, len(PARTS)), np.inf)
    work = np.full((n, n, p), np.inf)
    for j in range(n):
        parts[: j + 1, j], work[: j + 1, j] = 0.0, 0.0
        _add_up(chain, j, parts[:, j], work[:, j])
    microbatch, backward, reduce, update, state, activation = np.moveaxis(parts, -1, 0)
    if options.overlap:
        reduce = np.maximum(0.0, reduce - np.where(np.isfinite(backward), backward, 0.0))

    def plan(i: int, j: int, price: int) -> IntraPlan:
        model = build_stage(pricing, layers[i][0], layers[j][1])
        names = [model.names[leader] for leader in model.leader]
        chosen = chain.choice(i, j, price, names)
        # Only what was found without a price is known to be the fastest of all.
        free = exact and found[price] == (0.0, 0.0)
        bound = float(chain.cost[i, j, found.index((0.0, 0.0))]) if exact and (0.0, 0.0) in found else 0.0
        choice = [chosen[name] for name in names]
        return evaluate(pricing, model, choice, bound, "optimal" if free else "feasible")

    exact = not segments.separates_twins
    return IntervalTable(found, chain.cost, microbatch, reduce + update, state, activation, work, exact, plan)


def _one_by_one(pricing: Pricing, segments: Segments, prices: tuple[tuple[float, float], ...]) -> IntervalTable:
    """The same by an ILP for each entry, for cuts that too much crosses."""
    layers = segments.layers
    n = len(layers)
    plans: dict[tuple[int, int, int], IntraPlan] = {}
    columns = [np.full((n, n, len(prices)), np.inf) for _ in range(6)]
    for i in range(n):
        for j in range(i, n):
            for c, (state, activation) in enumerate(prices):
                plan = plans[i, j, c] = solve_priced(pricing, layers[i][0], layers[j][1], state, activation)
                found = (
                    plan.objective + state * plan.state_bytes + activation * plan.activation_bytes,
                    *(plan.seconds, plan.reduce_s + plan.update_s),
                    *(plan.state_bytes, plan.activation_bytes, plan.work_bytes),
                )
                for column, value in zip(columns, found, strict=True):
                    column[i, j, c] = value
    objective, seconds, iteration_s, state_bytes, activation_bytes, work_bytes = columns
    return IntervalTable(
        *(prices, objective, seconds, iteration_s, state_bytes, activation_bytes, work_bytes, True),
        lambda i, j, c: plans[i, j, c],
    )


def _add_up(chain: Chain, j: int, parts: Floats, work: Floats) -> None:
    """Add what each segment takes to the runs that end with layer j."""
    for s, prices, firsts, enters, leaves in chain.runs(j):
        step = chain.steps[s]
        rows = np.stack([prices, *enters, leaves], axis=1)
        ways, which = np.unique(rows, axis=0, return_inverse=True)
        found = [step.table.parts(int(w[0]), w[1:-1].tolist(), int(w[-1])) for w in ways]
        which = which.reshape(-1)
        np.add.at(parts, (firsts, prices), np.stack([f[0] for f in found])[which])
        np.maximum.at(work, (firsts, prices), np.array([f[1] for f in found])[which])
        begins: Ints = np.array(chain.begins)[firsts]
        for at, own in enumerate(step.table.own_parts):
            due = np.array(step.counts[at])[begins]
            if due.any():
                np.add.at(parts, (firsts[due], prices[due]), own[enters[at][due]])


def _default_prices(pricing: Pricing, segments: Segments) -> tuple[tuple[float, float], ...]:
    """FACTORS in units of the seconds per byte of state of the fastest strategy of each node."""
    seconds = state = 0.0
    seen: dict[int, tuple[float, float]] = {}
    for segment in segments.segments:
        if segment.kind not in seen:
            model = build_stage(pricing, segment.first, segment.last)
            best = [int(np.argmin(s)) for s in model.seconds]
            seen[segment.kind] = (
                sum(float(s.min()) for s in model.seconds),
                sum(float(m[k]) for m, k in zip(model.state, best, strict=True)),
            )
        seconds += seen[segment.kind][0]
        state += seen[segment.kind][1]
    unit = seconds / state if state > 0 else 0.0
    return tuple(dict.fromkeys((f * unit, f * unit * ratio) for f, ratio in FACTORS))
