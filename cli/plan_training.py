"""`meshwright plan --planner alpa`: how one model is trained on a cluster; several planners are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InfeasibleError, InputError, LimitError
from ..wording import nearest
from ..worlds.training.models import graph_of
from .status import status
from .trace_io import print_json
from .workload import cluster_from

if TYPE_CHECKING:
    from ..profiles.graph import Graph
    from ..simulator.training.plan.file import TrainingPlan

__all__ = ["TrainingOptions", "plan_training", "training_planners"]

DEFAULT_DEVICE = "v100-16gb"
GIB = 2**30
SHORT = {"layers": "n_layers"}
"""Short names of options."""


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Options of the verb `plan` that only training has; None where the command line says nothing."""

    global_batch: int | None = None
    microbatches: str | None = None
    explain: bool | None = None
    picture: Path | None = None
    slice_profile: Path | None = None

    def refuse(self, planner: str) -> None:
        """Other planners take none of these.

        Raises
        ------
        InputError
            If one was given.
        """
        for field in fields(self):
            if getattr(self, field.name) is not None:
                option = "--" + field.name.replace("_", "-")
                near = nearest(planner, training_planners())
                hint = f"; did you mean {near!r}?" if near else ""
                raise InputError(f"{option}: is for training plans (--planner alpa), not for {planner!r}{hint}")


def training_planners() -> tuple[str, ...]:
    """Names of the planners of training."""
    from ..planners.training import TRAINING_PLANNERS

    return TRAINING_PLANNERS


def plan_training(
    said: TrainingOptions,
    options: Mapping[str, Any],
    planners: Sequence[str],
    *,
    cluster: str | None,
    devices: int | None,
    device: str | None,
    models: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan, print, write.

    Raises
    ------
    InputError
        On what is wrong on the command line.
    InfeasibleError
        If no planner finds a plan; says what would make one.
    """
    from ..files import check_target

    for target in (out, said.picture):
        if target is not None:
            check_target(target)
    chosen = _planners(planners)
    if models is None:
        raise InputError(
            "--models: which model? A name of the zoo (see meshwright graph), a graph file or FILE.py:NAME"
        )
    if said.global_batch is None:
        raise InputError("--global-batch: how many samples has an iteration? Such as --global-batch 1024")
    if said.global_batch < 1:
        raise InputError(f"--global-batch: expected a positive integer (got {said.global_batch})")
    microbatches = _microbatches(said.microbatches, said.global_batch)
    where = cluster_from(cluster, devices, device, DEFAULT_DEVICE)
    graph = graph_of(models)
    given = {SHORT.get(name, name): value for name, value in options.items()}
    if said.slice_profile is not None:
        if list(chosen) != ["terapipe"] or "slice_profile" in given:
            raise InputError("--slice-profile: goes with --planner terapipe alone, and without -o slice_profile")
        given["slice_profile"] = str(said.slice_profile)
    found: dict[str, TrainingPlan] = {}
    failed: dict[str, InfeasibleError | LimitError] = {}
    for name, search in chosen.items():
        with status(f"planning with {name}") as say:
            try:
                found[name] = search(
                    graph, where, global_batch=said.global_batch, microbatches=microbatches, options=given,
                    progress=say,
                )  # fmt: skip
            except (InfeasibleError, LimitError) as error:
                if len(chosen) == 1:
                    raise
                failed[name] = error
    if not found:
        kind = LimitError if any(isinstance(error, LimitError) for error in failed.values()) else InfeasibleError
        raise kind("; ".join(f"{name}: {error}" for name, error in failed.items()))
    best = min(found, key=lambda name: _iteration_s(found[name]))
    plan = _saved(found[best], graph, out, models)
    if said.picture is not None:
        from .plan_picture import write_picture

        write_picture(plan, graph.with_batch(plan.microbatch), said.picture)
    if as_json:
        print_json(_document(found, failed, best, plan, out))
        return
    _print(found, failed)
    planned = graph.with_batch(plan.microbatch)
    typer.echo(plan.explain(planned, operators="heavy" if said.explain else "none"))
    for written in (out, said.picture):
        if written is not None:
            typer.echo(f"written: {written}")


def _planners(names: Sequence[str]) -> dict[str, Callable[..., TrainingPlan]]:
    from ..planners.training import training_planner

    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--planner: {twice} is named twice")
    return {name: training_planner(name) for name in names}


def _microbatches(text: str | None, batch: int) -> int | None:
    if text is None or text == "auto":
        return None
    if not text.isdecimal() or not 0 < int(text) <= batch:
        raise InputError(f"--microbatches: expected auto, or 1 … {batch}, the global batch (got {text!r})")
    if batch % int(text):
        near = min((m for m in range(1, batch + 1) if batch % m == 0), key=lambda m: abs(m - int(text)))
        raise InputError(
            f"--microbatches: {text} do not divide the global batch of {batch}; the nearest that do: {near}"
        )
    return int(text)


def _saved(plan: TrainingPlan, graph: Graph, out: Path | None, models: str) -> TrainingPlan:
    """Write the plan, and beside it the graph where the model is none of the zoo's."""
    from ..profiles.graph import in_zoo, save_graph, zoo_graph

    if out is None:
        return plan
    if not in_zoo(graph.name) or zoo_graph(graph.name).digest != graph.digest:
        beside = out.with_name(f"{out.stem}.graph.json")
        save_graph(graph, beside)
        named = {"graph": beside.name} | ({"module": models} if ".py:" in models else {})
        plan = plan.model_copy(update={"model": plan.model.model_copy(update=named)})
    plan.save(out)
    return plan


def _iteration_s(plan: TrainingPlan) -> float:
    """Seconds of an iteration: simulated with transfers, where the planner did."""
    return plan.predicted.get("simulated_s", plan.predicted["seconds"])


def _metrics(plan: TrainingPlan) -> dict[str, float]:
    """What the planner predicts; what it does not, simulated."""
    from ..simulator.training import simulate_training

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
    out: Path | None,
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
        "out": None if out is None else str(out),
    }  # fmt: skip


def _print(found: Mapping[str, TrainingPlan], failed: Mapping[str, InfeasibleError | LimitError]) -> None:
    if len(found) + len(failed) == 1:
        return
    width = max(len("planner"), *(len(name) for name in (*found, *failed))) + 2
    typer.echo(
        f"{'planner':<{width}}{'iteration s':>12}{'simulated s':>13}{'PFLOP/s':>10}{'MFU':>8}{'stages':>8}"
        f"{'microbatches':>14}{'peak GiB':>10}{'planned in s':>14}"
    )
    for name, p in found.items():
        m = _metrics(p)
        typer.echo(
            f"{name:<{width}}{m['seconds']:>12.4g}{_iteration_s(p):>13.4g}{m['pflops']:>10.4g}{m['mfu']:>8.1%}"
            f"{len(p.stages):>8}{_range(p.microbatches_of):>14}{m['peak_bytes'] / GIB:>10.2f}{p.planner.seconds:>14.2f}"
        )
    for name, error in failed.items():
        typer.echo(f"{name:<{width}}{'infeasible' if isinstance(error, InfeasibleError) else 'limit':>12}  {error}")
    typer.echo("")
