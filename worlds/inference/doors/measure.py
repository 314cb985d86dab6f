"""Measuring: what backends take of a network and what that costs; or a plan at several batches, for serving."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import cast

import pandas as pd

from ....errors import InputError
from ....profiles import ModelProfile, ParallelConfig, ProfileSet, Provenance, save
from ....profiles.backends.costs import CostTable
from ....profiles.backends.document import save_costs
from ....runtime.backends.registry import backends
from ....runtime.collage.placed import Compiler, Placed, Unit
from ....runtime.collage.rounds import in_rounds
from ...door import Answer, Asked
from ...words import table
from ..case import InferenceCase
from ..data import graphs_folder
from ..network import captured_network
from ..options import MeasureOptions
from ..plan import InferencePlan
from ..solve import singles
from .costs import costs_here
from .here import checked, compiler_of, units_of

__all__ = ["measured"]

DEVICE = "cpu-core"


def measured(asked: Asked) -> Answer:
    """Of a case its costs, into a cost table; of a plan its latency at several batches, into profiles."""
    return _profiles(asked) if asked.plans else _costs(asked)


def _costs(asked: Asked) -> Answer:
    """Measure a network.

    Raises
    ------
    InputError
        If there is no such network or backend, the case names costs already, or an operator is taken by none.
    """
    case, options = cast(InferenceCase, asked.case), cast(MeasureOptions, asked.options)
    if case.costs is not None:
        raise InputError("costs: is what measuring makes; leave it out, and say --out FILE")
    captured = captured_network(case.model, case.workload.batch, asked.folder, graphs_folder(options.kept))
    found = costs_here(case, asked, captured, options.kept, options.timeout)
    rows = [
        {
            "backend": used.name, "kind": used.kind, "version": used.version.split()[0],
            "matches": sum(m.backend == used.name for m in found.matches),
            "refused": sum(m.backend == used.name for m in found.refused), "context_us": 1e3 * used.context_ms,
        }
        for used in found.used
    ]  # fmt: skip
    alone = {name: sum(_ms(found, backend, nodes) for backend, nodes in choice.groups)
             for name, choice in singles(found).items()}  # fmt: skip
    text = [
        f"{case.model}, batch {case.workload.batch}: {len(found.graph.nodes)} operators, {len(found.matches)} matches",
        table(pd.DataFrame(rows)),
        *(f"refused: {one.backend} at {one.root}: {one.reason}" for one in found.refused[:10]),
        *([f"… and {len(found.refused) - 10} more"] if len(found.refused) > 10 else []),
        "predicted of one backend alone, ms: " + ", ".join(f"{name} {ms:.4g}" for name, ms in alone.items()),
    ]
    written = ()
    if asked.out is not None:
        save_costs(found, asked.out)
        written = (asked.out,)
    document = {"backends": rows, "alone_ms": alone, "operators": len(found.graph.nodes)}
    return Answer("\n".join(text), document, found, written=written)


def _ms(costs: CostTable, backend: str, nodes: tuple[str, ...]) -> float:
    """What a group takes, its context included."""
    return costs.backends[backend].context_ms + next(
        m.cost_ms for m in costs.matches if m.backend == backend and m.nodes == nodes
    )


def _profiles(asked: Asked) -> Answer:
    """Time a plan, and each backend alone, at several batches: a profile set for the serving world.

    Raises
    ------
    InputError
        If the plan is not of this machine, or the network cannot be captured at a batch.
    RunError
        If a result is not that of eager.
    """
    options, plan = cast(MeasureOptions, asked.options), cast(InferencePlan, next(iter(asked.plans.values())))
    if len(asked.plans) > 1:
        raise InputError(f"measure: expected one plan (got {len(asked.plans)})")
    ways = {plan.model: units_of(plan)}
    for name, choice in singles(plan.table).items():
        ways[f"{plan.model}.{name}"] = tuple(Unit(backend, nodes) for backend, nodes in choice.groups)
    latency: dict[str, dict[int, float]] = {name: {} for name in ways}
    weights = 0.0
    for batch in sorted(set(options.batches)):
        asked.progress(f"batch {batch}")
        captured = captured_network(plan.model, batch, asked.folder)
        weights = float(sum(t.numel() * t.element_size() for t in captured.module.buffers()))
        compiler_of(plan, captured)  # says if this is another machine
        compiler = Compiler(captured, backends(plan.table.backends))
        placed = dict[str, Placed]()
        for name, units in ways.items():
            placed[name] = compiler.placed(units)
            checked(placed[name])
        timed = in_rounds(placed, captured.example, options.rounds)
        for name in ways:
            latency[name][batch] = timed.median(name) / 1e3
    source = Provenance(
        f"placement of {plan.planner.name}, measured end to end: CPU time of one core, median of {options.rounds}",
        DEVICE, datetime.datetime.now(datetime.UTC).date().isoformat(), dict(plan.machine.versions), plan.machine.cpu,
    )  # fmt: skip
    config = ParallelConfig()
    profiles = ProfileSet(
        f"{plan.model} placed", DEVICE,
        {
            name: ModelProfile.from_stages(
                name, {config: {batch: (s,) for batch, s in by.items()}}, {config: (weights,)}, provenance=source
            )
            for name, by in latency.items()
        },
        source,
    )  # fmt: skip
    rows = [{"profile": name, **{f"batch {b}, ms": 1e3 * s for b, s in by.items()}} for name, by in latency.items()]
    written: tuple[Path, ...] = ()
    if asked.out is not None:
        save(profiles, asked.out)
        written = (asked.out,)
    document = {"latency_s": {name: {str(b): s for b, s in by.items()} for name, by in latency.items()}}
    return Answer(table(pd.DataFrame(rows)), document, profiles, written=written)
