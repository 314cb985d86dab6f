"""Measuring: layers, links and whole stages of models on this machine, or a plan in service, into a profile set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ....errors import InputError
from ....files import write_text
from ....profiles import save
from ....profiles.measure.bandwidths import measure_bandwidths
from ....profiles.measure.models import take_measurement
from ....profiles.measure.record import Measurement
from ...door import Answer, Asked
from ..case import ServingCase
from ..options import MeasureOptions

__all__ = ["NOISY", "measured"]

NOISY = 0.05
"""Share of the cores that other processes may take before the figures are called doubtful."""


def measured(asked: Asked) -> Answer:
    """Measure, and write the profiles.

    Raises
    ------
    InputError
        On a wrong option or model, before anything is measured.
    RunError
        If a worker process dies.
    """
    options = cast(MeasureOptions, asked.options)
    if options.bandwidths:
        return _bandwidths(asked, options)
    if asked.plans:
        from .service import measured_in_service  # late: models are measured without what runs a plan

        return measured_in_service(asked)
    case = cast(ServingCase, asked.case)
    if options.rounds is not None:
        raise InputError("rounds: are of requests that a plan is measured with; name a plan, or leave it out")
    found = take_measurement(
        _names(case), options.on, options.batches, options.op, options.pp, seconds=options.seconds,
        fast=options.fast, seed=case.seed,
        progress=lambda share, what: asked.progress(f"{what} ({share:.0%})"),
    )  # fmt: skip
    if asked.out is not None:
        save(found.profiles, asked.out)
    written = () if asked.out is None else (asked.out,)
    return Answer("\n".join(_report(found)), _document(found), found.profiles, written=written)


def _bandwidths(asked: Asked, options: MeasureOptions) -> Answer:
    """How fast weights load on this machine."""
    if asked.plans:
        raise InputError("bandwidths: are of this machine, not of a plan; leave the plan out")
    found = measure_bandwidths(options.bandwidths, 1 << 26 if options.fast else 1 << 28, progress=asked.progress)
    document = found.to_dict()
    text = [f"{found.machine}; {found.n_bytes / 2**20:g} MiB, median of {len(found.rounds['disk'])} rounds"]
    for name, each in found.rounds.items():
        text.append(
            f"{name:<12}{getattr(found, name) / 1e9:8.2f} GB/s  ({min(each) / 1e9:.2f} to {max(each) / 1e9:.2f})"
        )
    said = " ".join(f"-s loading.{name}={value}" for name, value in document["loading"].items())
    text += [*found.notes, f"simulate plan.json {said}"]
    written = () if asked.out is None else (write_text(asked.out, json.dumps(document, indent=1) + "\n"),)
    return Answer("\n".join(text), document, found, written=written)


def _names(case: ServingCase) -> list[str]:
    """The models by name; how many instances there are of each costs nothing more to know."""
    return [case.models] if isinstance(case.models, str) else list(case.models or ())


def _report(found: Measurement) -> Iterable[str]:
    facts, here = found.facts, found.device
    yield f"{facts.name}; {facts.clock}; torch {facts.versions['torch']}; {found.seconds:.0f} s"
    yield (
        f"one device: {here.peak_flops / 1e9:.0f} GFLOP/s, {here.memory_bandwidth_bytes_per_s / 1e9:.1f} GB/s copy, "
        f"{here.usable_memory_bytes / 2**30:.1f} GiB for weights"
    )
    yield ""
    yield "Stages: sum of layers against the stage run whole"
    head = ("model", "config", "batch", "stage", "layers", "sum ms", "whole ms", "error", "hop ms")
    yield from _table(
        head,
        [
            (
                c.model, str(c.config), str(c.batch), str(c.stage), f"{c.layers[0]}-{c.layers[1] - 1}",
                f"{c.composed_s * 1e3:.2f}", f"{c.measured_s * 1e3:.2f}", f"{c.error:+.1%}",
                f"{c.hop_s * 1e3:.2f}" if c.hop_s else "",
            )
            for c in found.checks
        ],
    )  # fmt: skip
    yield ""
    yield "Interference: a device whose neighbours are busy against one whose neighbours are idle"
    yield from _table(
        ("model", "batch", "idle ms", "busy ms", "busy / idle"),
        [
            (i.model, str(i.batch), f"{i.idle_s * 1e3:.2f}", f"{i.busy_s * 1e3:.2f}", f"{i.slowdown:.3f}")
            for i in found.interference
        ],
    )
    yield ""
    yield "Links"
    for name, model in found.models.items():
        yield f"{name}: {model.comm.source}"
    if found.contention > NOISY:
        yield ""
        yield (
            f"doubtful: other processes took up to {found.contention:.0%} of the cores meanwhile; "
            "measure again on a quiet machine"
        )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _document(found: Measurement) -> Mapping[str, Any]:
    return {
        "device": found.facts.name,
        "clock": found.facts.clock,
        "versions": dict(found.facts.versions),
        "peak_flops": found.device.peak_flops,
        "memory_bandwidth_bytes_per_s": found.device.memory_bandwidth_bytes_per_s,
        "seconds": found.seconds,
        "contention": found.contention,
        "stages": [
            {
                "model": c.model, "config": str(c.config), "batch": c.batch, "stage": c.stage,
                "layers": list(c.layers), "composed_s": c.composed_s, "measured_s": c.measured_s,
                "error": c.error, "hop_s": c.hop_s, "n": c.n,
            }
            for c in found.checks
        ],
        "interference": [
            {"model": i.model, "batch": i.batch, "idle_s": i.idle_s, "busy_s": i.busy_s} for i in found.interference
        ],
        "links": {
            name: {kind: {"bytes": list(s.n_bytes), "seconds": list(s.seconds)} for kind, s in model.links.items()}
            for name, model in found.models.items()
        },
        "profiles_digest": found.profiles.digest(),
    }  # fmt: skip
