"""`solve_chosen`: the sharding of a chosen stage under its memory bound, with a proven gap, however large the stage.

If the stage is small, its ILP with the memory row is solved to optimality. A large stage is solved through prices of
memory. With a price λ per byte of state and held · λ per byte of one microbatch's activations, the best sharding is
found exactly (`interval_costs`), and for every λ objective + λ · (bytes − memory) is a lower bound of the ILP. The
smallest price whose sharding fits is searched; the rest between its objective and the best bound is the duality gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .....errors import InfeasibleError, RunError
from .....profiles.graph import CostModel, Graph
from .....simulator.mesh import LogicalMesh
from ...intra import Analysis, IntraOptions, IntraPlan, interval_costs, solve_stage
from ...intra.pricing import Pricing
from ...intra.stage_model import build_stage
from ..clustering import Layer

__all__ = ["SMALL", "solve_chosen"]

SMALL = 48
"""Most operators for which the ILP with its memory row is solved directly: a few blocks of a transformer, seconds. A
guess at where prices become the quicker way."""
NEAR = 1e-6
"""Relative gap that counts as closed: far below what any cost model is worth, far above rounding errors."""


def solve_chosen(
    graph: Graph,
    layers: Sequence[Layer],
    mesh: LogicalMesh,
    costs: CostModel,
    options: IntraOptions,
    *,
    analysis: Analysis,
    small: int = SMALL,
    solve_s: float = 0.0,
) -> IntraPlan:
    """The best sharding that fits, and a bound that no sharding that fits is under.

    Parameters
    ----------
    graph : Graph
        At the size of one microbatch.
    layers : sequence of (int, int)
        The stage: consecutive runs of operators, half-open; repeated ones are solved once.
    mesh : LogicalMesh
        The logical mesh of devices.
    costs : CostModel
        Seconds of operators.
    options : IntraOptions
        With the memory bound and the microbatches that are held.
    analysis : Analysis
        Facts about the graph.
    small : int
        Operators up to which the exact ILP is solved.
    solve_s : float
        Seconds that the ILP of a larger stage may take where prices leave a gap; 0: it is not tried.

    Raises
    ------
    InfeasibleError
        If nothing fits.
    """
    first, last = layers[0][0], layers[-1][1]
    best, bound = _priced(graph, layers, mesh, costs, options, analysis)
    if best is not None and best.objective - bound <= NEAR * best.objective:
        return replace(best, bound=bound, status="optimal")
    if last - first <= small or best is None or solve_s > 0:
        timed = options if last - first <= small or solve_s == 0 else replace(options, time_limit_s=solve_s)
        try:
            exact = solve_stage(graph, first, last, mesh, costs, timed, analysis=analysis)
        except RunError:  # time ran out before any plan was found
            if best is None:
                raise InfeasibleError(
                    f"operators {first} to {last} of {graph.name!r}: no sharding was found that fits"
                ) from None
        else:
            bound = max(bound, exact.bound)
            best = exact if best is None or exact.objective <= best.objective else best
    return replace(best, bound=min(bound, best.objective))


def _priced(
    graph: Graph, layers: Sequence[Layer], mesh: LogicalMesh, costs: CostModel, options: IntraOptions,
    analysis: Analysis,
) -> tuple[IntraPlan | None, float]:  # fmt: skip
    """The best plan that fits over several prices of memory, and the best bound; None where nothing found fits."""
    held, memory = options.in_flight, options.memory_bytes or np.inf
    end = len(layers) - 1
    room = memory - _least_work(graph, layers, mesh, costs, options, analysis)
    best: IntraPlan | None = None
    bound = 0.0

    def tried(prices: list[float]) -> tuple[list[bool], float]:
        """Whether what each price makes fits; of the first one, seconds per byte of state."""
        nonlocal best, bound
        pairs = [(x, x * held) for x in prices]
        table = interval_costs(graph, layers, mesh, costs, options, prices=pairs, analysis=analysis)
        used = table.state_bytes[0, end] + held * table.activation_bytes[0, end] + table.work_bytes[0, end]
        fits = (used <= memory).tolist()
        if table.exact and np.isfinite(memory):
            bounds = [float(table.objective[0, end, c]) - x * room for c, x in enumerate(prices)]
            bound = max(bound, *bounds)
        elif table.exact:
            bound = max(bound, float(table.objective[0, end, 0]))
        cost = table.seconds[0, end] + table.iteration_s[0, end] / options.microbatches
        at = min((c for c in range(len(prices)) if fits[c]), key=lambda c: cost[c], default=-1)
        if at >= 0:
            plan = table.plan(0, end, at)
            best = plan if best is None or plan.objective < best.objective else best
        return fits, float(table.objective[0, end, 0]) / max(float(table.state_bytes[0, end, 0]), 1.0)

    fits, unit = tried([0.0])
    if fits[0]:
        return best, bound
    # Prices from 1/1024 to 256 times the stage's own seconds per byte: a wide guess, as all are solved in one pass.
    grid = [unit * 4.0**k for k in range(-5, 5)]
    fits, _ = tried(grid)
    if any(fits):
        k = fits.index(True)
        low = grid[k - 1] if k else grid[0] / 4
        # Eight prices evenly between the last that does not fit and the first that does: one further pass.
        tried([low * (grid[k] / low) ** (x / 9) for x in range(1, 9)])
    return best, bound


def _least_work(
    graph: Graph, layers: Sequence[Layer], mesh: LogicalMesh, costs: CostModel, options: IntraOptions,
    analysis: Analysis,
) -> float:  # fmt: skip
    """Bytes of temporaries that every sharding needs at least."""
    model = build_stage(Pricing(analysis, mesh, costs, options), layers[0][0], layers[-1][1])
    return max((float(w.min()) for w in model.work.values()), default=0.0)
