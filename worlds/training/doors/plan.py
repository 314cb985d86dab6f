"""Planning: how one model is trained on a cluster; several planners are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ....errors import InfeasibleError, InputError, LimitError
from ....files import check_target
from ....profiles.graph import Graph, in_zoo, zoo_graph
from ....profiles.graph.hf import is_hf, located, with_sequence
from ....simulator.training import simulate_training
from ....simulator.training.plan.file import TrainingPlan
from ...cases import called
from ...door import Answer, Asked
from ..case import TrainingCase
from ..data import is_search, load_data
from ..options import PlanOptions
from ..solve import plan as planned
from .authors import of_authors
from .search import searched

__all__ = ["decided"]

GIB = 2**30


def decided(asked: Asked) -> Answer:
    """Plan with every planner that is named; the answer's plan is that of the shortest iteration.

    Raises
    ------
    InputError
        On what is wrong with a case.
    InfeasibleError
        If no planner finds a plan; says what would make one.
    LimitError
        If a limit ended the search.
    """
    cases, options = cast("tuple[TrainingCase, ...]", asked.cases), cast(PlanOptions, asked.options)
    if options.authors is not None:
        return of_authors(asked, options.authors)
    if len(cases) == 1 and is_search(cases[0]):
        return searched(asked)
    for name in ("csv", "flags", "sweep", "days", "tokens", "top"):
        if name in options.model_fields_set and getattr(options, name):
            raise InputError(f"{name}: goes with planner search alone")
    if options.picture is not None and any(is_search(case) for case in cases):
        raise InputError("picture: shows operators, of which planner search knows none; leave it out")
    data = load_data(cases, asked.folder)
    found: dict[str, TrainingPlan] = {}
    failed: dict[str, InfeasibleError | LimitError] = {}
    for case in cases:
        name = called(case.planner)
        asked.progress(name)
        try:
            found[name] = planned(case, data, asked.progress)
        except (InfeasibleError, LimitError) as error:
            if len(cases) == 1:
                raise
            failed[name] = error
    if not found:
        kind = LimitError if any(isinstance(error, LimitError) for error in failed.values()) else InfeasibleError
        raise kind("; ".join(f"{name}: {error}" for name, error in failed.items()))
    best = min(found, key=lambda name: _iteration_s(found[name]))
    chosen = next(case for case in cases if called(case.planner) == best)
    text, plan, written = _table(found, failed), found[best], list[Path]()
    if is_search(chosen):
        text.append(plan.explain())
    else:
        graph = data.graph_of(chosen)
        plan = _with_own(plan, graph, asked.folder, chosen.model, chosen.workload.sequence)
        written = _beside(plan, asked.out)
        if options.picture is not None:
            from .picture import write_picture

            write_picture(plan, graph.with_batch(plan.microbatch), options.picture)
            written.append(options.picture)
        text.append(plan.explain(graph.with_batch(plan.microbatch), operators="heavy" if options.explain else "none"))
    return Answer("\n".join(text), _document(found, failed, best, plan), plan, plan, tuple(written))


def _with_own(plan: TrainingPlan, graph: Graph, folder: Path, model: str, sequence: int | None) -> TrainingPlan:
    """The plan with its graph, where the model is none of the zoo's."""
    if in_zoo(graph.name) and zoo_graph(graph.name).digest == graph.digest:
        return plan
    if is_hf(model):
        return plan.with_graph(graph, located(with_sequence(model, sequence), folder))
    return plan.with_graph(graph, str(folder / model) if (folder / model.rpartition(":")[0]).is_file() else "")


def _beside(plan: TrainingPlan, out: Path | None) -> list[Path]:
    """The file that the plan's graph is written to with the plan."""
    if out is None or plan.own_graph is None:
        return []
    beside = out.with_name(f"{out.stem}.graph.json")
    check_target(beside)
    return [beside]


def _iteration_s(plan: TrainingPlan) -> float:
    """Seconds of an iteration: simulated with transfers, where the planner did."""
    return plan.predicted.get("simulated_s", plan.predicted["seconds"])


def _metrics(plan: TrainingPlan) -> dict[str, float]:
    """What the planner predicts; what it does not, simulated."""
    said = dict(plan.predicted)
    if not {"pflops", "mfu", "peak_bytes"} <= set(said):
        result = simulate_training(plan)
        said = {"pflops": result.pflops, "mfu": result.mfu, "peak_bytes": float(result.peak_bytes.max())} | said
    return said


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low}-{high}"


def _document(
    found: Mapping[str, TrainingPlan],
    failed: Mapping[str, InfeasibleError | LimitError],
    best: str,
    plan: TrainingPlan,
) -> dict[str, Any]:
    return {
        "plans": [
            {"planner": name, "predicted": dict(p.predicted), "stages": len(p.stages), "microbatches": p.microbatches,
             "seconds": p.planner.seconds}
            for name, p in found.items()
        ],
        "infeasible": {name: str(error) for name, error in failed.items() if isinstance(error, InfeasibleError)},
        "ended_by_a_limit": {name: str(error) for name, error in failed.items() if isinstance(error, LimitError)},
        "best": best,
        "plan": json.loads(plan.to_json()),
    }  # fmt: skip


def _table(found: Mapping[str, TrainingPlan], failed: Mapping[str, InfeasibleError | LimitError]) -> list[str]:
    if len(found) + len(failed) == 1:
        return []
    width = max(len("planner"), *(len(name) for name in (*found, *failed))) + 2
    rows = [
        f"{'planner':<{width}}{'iteration s':>12}{'simulated s':>13}{'PFLOP/s':>10}{'MFU':>8}{'stages':>8}"
        f"{'microbatches':>14}{'peak GiB':>10}{'planned in s':>14}"
    ]
    for name, p in found.items():
        m = _metrics(p)
        rows.append(
            f"{name:<{width}}{m['seconds']:>12.4g}{_iteration_s(p):>13.4g}{m['pflops']:>10.4g}{m['mfu']:>8.1%}"
            f"{len(p.stages):>8}{_range(p.microbatches_of):>14}{m['peak_bytes'] / GIB:>10.2f}{p.planner.seconds:>14.2f}"
        )
    for name, error in failed.items():
        rows.append(f"{name:<{width}}{'infeasible' if isinstance(error, InfeasibleError) else 'limit':>12}  {error}")
    return [*rows, ""]
