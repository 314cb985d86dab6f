"""Planning with the configuration search: every combination of the means, for the fastest that fits."""

from __future__ import annotations

import json
from typing import Any, cast

from ....errors import InfeasibleError, InputError
from ....planners.megatron import (
    Configuration,
    DeviceCount,
    SearchOptions,
    SearchResult,
    devices_for,
    megatron_flags,
    sweep_devices,
)
from ....planners.megatron.means import NAMES
from ....simulator import Cluster
from ....simulator.training import TrainingPlan
from ...door import Answer, Asked
from ..case import TrainingCase
from ..clusters import cluster_of
from ..data import TrainingData, load_data, model_key
from ..options import PlanOptions
from ..solve import laid_out
from ..solve import plan as planned

__all__ = ["searched"]

GIB = 2**30


def searched(asked: Asked) -> Answer:
    """Search on the cluster of the case, or on several sizes of it.

    Raises
    ------
    InputError
        On what is wrong with the case or the options.
    InfeasibleError
        If nothing fits.
    """
    case, options = cast(TrainingCase, asked.case), cast(PlanOptions, asked.options)
    for name in ("picture", "explain"):
        if getattr(options, name):
            raise InputError(f"{name}: shows operators, of which planner search knows none; leave it out")
    if options.flags and (options.sweep or options.days is not None):
        raise InputError("flags: does not go with sweep or days; it prints one configuration")
    if (options.days is None) != (options.tokens is None):
        raise InputError("days, tokens: give both or none: how long the run may take, and how long it is")
    data = load_data([case], asked.folder)
    chosen = SearchOptions.of(data.options_of(case))
    if options.days is not None:
        if options.csv is not None or asked.out is not None:
            raise InputError("csv, out: do not go with days, which searches several clusters; take sweep")
        return _count(case, data, options, asked, chosen)
    if options.sweep:
        return _sweep(case, data, options, asked, chosen)
    tables = None if case.kernels is None else data.tables[case.kernels]
    shape, where = data.shapes[model_key(case)], cluster_of(case)
    found = chosen.run(
        shape, where, case.workload.global_batch, top=options.top, tables=tables, progress=asked.progress
    )
    if options.csv is not None:
        found.to_csv(options.csv)
    written = () if options.csv is None else (options.csv,)
    made = _laid_out(case, data, found, chosen, needed=asked.out is not None)
    document = {
        "combinations": found.combinations, "impossible": dict(found.impossible), "repeats": found.repeats,
        "evaluated": found.evaluated, "out_of_memory": found.out_of_memory, "fit": found.fit,
        "memory_bytes": found.memory_bytes, "seconds": found.seconds, "best": [_parts(one) for one in found.best],
        "front": [_row(one) for one in found.front], "plan": made and json.loads(made.to_json()),
    }  # fmt: skip
    text = (
        found.explain()
        if not options.flags
        else "\n".join(
            megatron_flags(
                found.best[0],
                found.model,
                found.global_batch,
                dtype=chosen.dtype,
                stack=chosen.stack(found.best[0].stack),
            )
        )
    )
    return Answer(text, document, found, made, written)


def _laid_out(
    case: TrainingCase, data: TrainingData, found: SearchResult, chosen: SearchOptions, *, needed: bool
) -> TrainingPlan | None:
    """The fastest as a plan; none where its meshes are no rectangles of devices, unless a plan is needed."""
    try:
        return laid_out(case, data, found, chosen) if found.best else planned(case, data)
    except InfeasibleError:
        if needed:
            raise
        return None


def _said(chosen: SearchOptions, where: Cluster, options: PlanOptions, asked: Asked) -> dict[str, Any]:
    return {
        **{name: getattr(chosen, name) for name in NAMES}, "dtype": chosen.dtype, "stack": chosen.stacks,
        "memory": where.spec.memory_bytes * chosen.memory_fraction, "top": options.top, "progress": asked.progress,
    }  # fmt: skip


def _sweep(case: TrainingCase, data: TrainingData, options: PlanOptions, asked: Asked, chosen: SearchOptions) -> Answer:
    """The fastest on each of several numbers of devices."""
    shape, where, batch = data.shapes[model_key(case)], cluster_of(case), case.workload.global_batch
    if (options.csv is not None or asked.out is not None) and len(options.sweep) > 1:
        raise InputError("csv, out: expected one number of devices in sweep (got several)")
    several = sweep_devices(shape, where, batch, options.sweep, **_said(chosen, where, options, asked))
    results = [result for result in several.values() if result is not None]
    if options.csv is not None and results:
        results[0].to_csv(options.csv)
    best = {size: result.best[0] if result and result.best else None for size, result in several.items()}
    if not any(best.values()):
        raise InfeasibleError(f"sweep: nothing fits on any of {', '.join(map(str, several))} devices")
    rows = ["devices  s/iteration    MFU    peak GiB  configuration"]
    for size, one in best.items():
        if one is None:
            why = "no combination is possible" if several[size] is None else "nothing fits"
            rows.append(f"{size:>7}            -      -           -  {why}")
        else:
            rows.append(f"{size:>7}  {one.seconds:>11.4g}  {one.mfu:>5.1%}  {one.peak_bytes / GIB:>10.1f}  {one}")
    document = {str(size): None if one is None else _parts(one) for size, one in best.items()}
    written, made = () if options.csv is None else (options.csv,), None
    if asked.out is not None:
        made = _laid_out(case, data, results[0], chosen, needed=True)
    return Answer("\n".join(rows), document, several, made, written)


def _count(case: TrainingCase, data: TrainingData, options: PlanOptions, asked: Asked, chosen: SearchOptions) -> Answer:
    """The fewest devices that finish in time."""
    shape, where, batch = data.shapes[model_key(case)], cluster_of(case), case.workload.global_batch
    found: DeviceCount = devices_for(
        shape, where, batch, days=cast(float, options.days), tokens=options.tokens, devices=options.sweep or None,
        **_said(chosen, where, options, asked),
    )  # fmt: skip
    price = f", {found.price:,.0f} at {where.spec.price_per_hour:g} per device-hour" if found.price else ""
    rows = [f"{found.devices} x {where.spec.name}: {found.iterations:,} iterations in {found.days:.4g} days{price}"]
    for size, took in found.tried.items():
        rows.append(f"  {size:>6} devices: " + ("nothing fits" if took is None else f"{took:.4g} days"))
    rows.append(f"{found.configuration}\n{found.configuration.estimate.explain()}")
    document = {
        "devices": found.devices, "days": found.days, "iterations": found.iterations, "price": found.price,
        "tried": found.tried, "configuration": _parts(found.configuration),
    }  # fmt: skip
    return Answer("\n".join(rows), document, found)


def _row(one: Configuration) -> dict[str, Any]:
    return {
        **one.settings, "stack": one.stack, "seconds": one.seconds, "peak_bytes": one.peak_bytes,
        "device_bytes": one.breakdown.memory.device, "mfu": one.mfu,
    }  # fmt: skip


def _parts(one: Configuration) -> dict[str, Any]:
    time, held = one.breakdown.time, one.breakdown.memory
    return {
        **_row(one),
        "time": {name: getattr(time, name) for name in time.__slots__},
        "memory": {name: getattr(held, name) for name in held.__slots__},
    }
