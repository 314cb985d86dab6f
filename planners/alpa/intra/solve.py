"""`solve_stage`: the best sharding of a stage on a logical mesh (Alpa §4); `score`: what given choices take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....errors import InfeasibleError, InputError
from ....profiles.graph import CostModel, Graph
from ....simulator.mesh import LogicalMesh
from ..solver.sharding import solve_sharding
from .algorithms import Algorithm
from .analysis import Analysis
from .options import IntraOptions
from .plan import IntraPlan, evaluate
from .pricing import Pricing
from .problem import least_bytes, sharding_problem
from .stage_model import StageModel, build_stage

__all__ = ["Choice", "score", "solve_stage"]

Choice = Mapping[str, "str | tuple[str, str] | Algorithm"]
"""What is fixed: operator -> loops that axes 0 and 1 cut (empty: none), or a whole algorithm; parameter -> spec of the
weight, or (weight, gradient and state); stage input -> spec."""
GIB = 2**30


def solve_stage(
    graph: Graph,
    first: int,
    last: int,
    mesh: LogicalMesh,
    costs: CostModel,
    options: IntraOptions | None = None,
    *,
    analysis: Analysis | None = None,
) -> IntraPlan:
    """The sharding of operators first … last − 1 with the least time, within the memory.

    Parameters
    ----------
    graph : Graph
        At the size of one microbatch.
    first, last : int
        Operators.
    mesh : LogicalMesh
        The logical mesh of devices.
    costs : CostModel
        Seconds of computing.
    options : IntraOptions, optional
        Options of the pass; see `IntraOptions`.
    analysis : Analysis, optional
        Of the graph, to be shared by several calls.

    Raises
    ------
    InputError
        If the range, the mesh or the batch is wrong, or a link has no bandwidth.
    InfeasibleError
        If nothing fits the memory; the message says what is needed at least, and by what.
    RunError
        If time ran out before any plan was found.
    """
    return score(graph, first, last, mesh, costs, {}, options, analysis=analysis)


def score(
    graph: Graph,
    first: int,
    last: int,
    mesh: LogicalMesh,
    costs: CostModel,
    choice: Choice,
    options: IntraOptions | None = None,
    *,
    analysis: Analysis | None = None,
) -> IntraPlan:
    """What a stage takes with given choices; what they leave open is chosen best.

    Parameters
    ----------
    graph, first, last, mesh, costs, options, analysis
        As for `solve_stage`.
    choice : mapping
        See `Choice`. Operators that follow another may be named as well.

    Raises
    ------
    InputError
        Also if a name is not in the stage, or has no such strategy.
    InfeasibleError, RunError
        As for `solve_stage`.
    """
    pricing = Pricing(analysis or Analysis(graph), mesh, costs, options or IntraOptions())
    model = build_stage(pricing, first, last)
    for name, wanted in choice.items():
        _fix(pricing, model, name, wanted)
    return solve_model(pricing, model)


def solve_model(pricing: Pricing, model: StageModel) -> IntraPlan:
    """Solve a stage's problem and say what its solution takes."""
    try:
        solution = solve_sharding(sharding_problem(pricing, model), pricing.options.time_limit_s)
    except InfeasibleError as error:
        raise InfeasibleError(_why(pricing, model)) from error
    return evaluate(pricing, model, solution.choice, solution.bound, solution.status, solution.seconds)


def solve_priced(pricing: Pricing, first: int, last: int, per_state: float, per_activation: float) -> IntraPlan:
    """The least objective + prices · bytes of a stage, without a memory bound."""
    model = build_stage(pricing, first, last)
    plain = list(model.seconds)
    for v, seconds in enumerate(plain):
        model.seconds[v] = seconds + per_state * model.state[v] + per_activation * model.activation[v]
    solution = solve_sharding(sharding_problem(pricing, model, bounded=False), pricing.options.time_limit_s)
    model.seconds = plain
    if per_state == per_activation == 0:
        return evaluate(pricing, model, solution.choice, solution.bound, solution.status, solution.seconds)
    return evaluate(pricing, model, solution.choice, 0.0, "feasible", solution.seconds)


def _fix(pricing: Pricing, model: StageModel, name: str, wanted: str | tuple[str, str] | Algorithm) -> None:
    """Forbid all strategies of a node but those that are wanted."""
    if name not in model.node:
        raise InputError(
            f"choice: {name!r} is no operator, parameter or input of operators {model.first} to {model.last}"
        )
    node = model.node[name]
    at = pricing.analysis.graph.index.get(name, -1)
    specs = [str(s) for s in pricing.specs(name).specs]
    if at in model.choices:
        algorithms = model.choices[at].algorithms
        fits = [wanted in (a, a.axes) for a in algorithms]
        known = sorted({str(a.axes) for a in algorithms})
    elif name in model.storage:
        weights: list[int] = model.storage[name].weight.tolist()
        states: list[int] = model.storage[name].state.tolist()
        stored = [(specs[w], specs[s]) for w, s in zip(weights, states, strict=True)]
        fits = [wanted in (pair, pair[0]) for pair in stored]
        known = sorted({str(w) for w, _ in stored})
    else:
        fits, known = [wanted == s for s in specs], specs
    if not any(fits):
        raise InputError(f"choice: {name!r} has no strategy {wanted!s} on this mesh; it has {', '.join(known)}")
    leader = model.leader[node]
    model.seconds[leader] = np.where(fits, model.seconds[leader], np.inf)


def _why(pricing: Pricing, model: StageModel) -> str:
    options, graph = pricing.options, pricing.analysis.graph
    if not all(np.isfinite(s).any() for s in model.seconds):
        return f"operators {model.first} to {model.last}: the given choices contradict each other; drop one of them"
    total, state, activation, largest = least_bytes(pricing, model)
    work = max(float(w.min()) for w in model.work.values())
    a, b = pricing.mesh.shape
    mend = [
        *(["zero=3"] if options.zero != 3 else []),
        *(["recompute='full'"] if options.recompute != "full" and activation else []),
        *(["fewer microbatches in flight"] if options.in_flight > 1 else []),
        *(["a smaller microbatch"] if graph.batch > 1 and activation else []),
        "fewer operators, more devices or larger ones",
    ]
    return (
        f"operators {model.first} to {model.last} of {graph.name!r} on a {a} x {b} mesh: no sharding fits"
        f" {options.memory_bytes / GIB:.4g} GiB a device; at least {(total + work) / GIB:.4g} GiB are needed:"
        f" {state / GIB:.4g} GiB of weights, gradients and optimiser states, {options.in_flight} x"
        f" {activation / GIB:.4g} GiB of activations, {work / GIB:.4g} GiB of temporaries (most by {largest!r});"
        f" try {', '.join(mend)}"
    )
