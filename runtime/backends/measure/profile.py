"""`profile`: what every offer of some backends costs in a network, measured or kept from before."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ....profiles.backends import (
    Backend,
    Conversion,
    CostTable,
    Kept,
    Machine,
    Match,
    Offer,
    Pattern,
    Provenance,
    Refused,
    Used,
    cost_key,
    load_kept,
    merge_kept,
    offers,
    this_cpu,
    unit_key,
)
from ..capture import Captured
from ..transfer import stored
from .job import Job, Layout, Unit
from .options import MeasureOptions
from .process import Findings, Verdict, measured
from .setting import chosen_backends, pickled

__all__ = ["profile"]

SAVE_S = 2.0
"""Between two writings of kept costs; a kill loses no more."""

DONE = Kept(0.0, 0.0, 1, 0.0)


def profile(
    captured: Captured,
    backends: Sequence[str | Backend],
    *,
    model: str = "network",
    options: MeasureOptions | None = None,
    kept: str | Path | None = None,
    added: Mapping[str, Sequence[Pattern]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> CostTable:
    """Compile, check and time everything that backends offer to run of a network.

    Units that compute the same (operators, attributes, shapes, types, strides) are measured once, in the place of one
    of them. Compiling and measuring is done by a process of its own, pinned to one core, with one thread.

    Parameters
    ----------
    captured : Captured
        The network.
    backends : sequence of str or Backend
        By name, or as objects of an importable class.
    model : str
        The network's name, for the table.
    options : MeasureOptions, optional
        How to measure.
    kept : path, optional
        File of costs that are kept between calls, and between networks; after a kill the same call goes on from there.
    added : mapping of str to sequence of Pattern, optional
        Backend's name -> further patterns that it takes.
    progress : function, optional
        Called with a line for people.

    Raises
    ------
    InputError
        If a backend is unknown or cannot be used, takes nothing, a rule raises, an operator is taken by none, or the
        file of kept costs is damaged.
    RunError
        If the measuring process ends without a unit that is to blame.
    """
    options = options or MeasureOptions()
    chosen = chosen_backends(backends)
    graph, machine = captured.graph, Machine(this_cpu())
    known = {} if kept is None else load_kept(kept)
    offered = offers(graph, chosen, added)
    versions = {one.name: one.version() for one in chosen}
    units, key_of = _units(captured, offered, versions, machine)
    layouts = _layouts(captured)
    context_keys = [cost_key("context", one.name, versions[one.name], machine) for one in chosen]
    layout_keys = [_layout_key(one, machine) for one in layouts]
    keys = {unit.number: key for key, unit in units.items()}
    todo = tuple(unit for key, unit in units.items() if key not in known)
    contexts = tuple(one.name for one, key in zip(chosen, context_keys, strict=True) if key not in known)
    new_layouts = tuple(one for one, key in zip(layouts, layout_keys, strict=True) if key not in known)
    found = Findings()
    if todo or contexts or new_layouts:
        held = stored(captured)
        tensors = {"parameters": held.tensors, "example": list(held.example)}
        job = Job(
            replace(held, tensors={}, example=()), pickled(chosen), todo, contexts, new_layouts, options
        )  # fmt: skip

        unsaved, saved_at = dict[str, Kept](), [time.monotonic()]

        def learnt(so_far: Findings) -> None:
            fresh = _kept(so_far, keys, known)
            known.update(fresh)
            unsaved.update(fresh)
            if kept is not None and time.monotonic() - saved_at[0] > SAVE_S:
                merge_kept(kept, unsaved)
                unsaved.clear()
                saved_at[0] = time.monotonic()

        try:
            found = measured(job, tensors, learnt, progress)
        finally:
            if kept is not None and unsaved:
                merge_kept(kept, unsaved)
        others = {_layout_key(new_layouts[k], machine): replace(DONE, cost_ms=ms) for k, ms in found.layouts.items()}
        by_name = dict(zip([one.name for one in chosen], context_keys, strict=True))
        others |= {by_name[contexts[k]]: replace(DONE, cost_ms=ms) for k, ms in found.contexts.items()}
        known |= others
        if kept is not None and others:
            merge_kept(kept, others)
    verdicts = {keys[n]: verdict for n, verdict in found.verdicts.items()}
    matches, refused = _judged(offered, key_of, known, verdicts)
    used = tuple(
        Used(one.name, one.kind, versions[one.name], known[key].cost_ms or 0.0)
        for one, key in zip(chosen, context_keys, strict=True)
    )
    conversions = tuple(
        Conversion(one.shape, one.dtype, one.to, known[key].cost_ms or 0.0)
        for one, key in zip(layouts, layout_keys, strict=True)
    )
    provenance = _provenance(captured, model, machine, (len(todo), len(units) - len(todo)), found.cpu_s)
    return CostTable(graph, used, matches, refused, conversions, provenance).check_covered()


def _units(
    captured: Captured, offered: Sequence[Offer], versions: Mapping[str, str], machine: Machine
) -> tuple[dict[str, Unit], dict[Offer, str]]:
    """Units by their keys, and the key of every offer."""
    graph, places, key_of = captured.graph, dict[str, list[int]](), dict[Offer, str]()
    backend_of, computed = dict[str, str](), dict[int, str]()
    for offer in offered:
        bits = graph.bits(offer.nodes)
        if bits not in computed:
            computed[bits] = unit_key(graph, bits)
        key = cost_key(computed[bits], offer.backend, versions[offer.backend], machine)
        places.setdefault(key, []).append(bits)
        key_of[offer], backend_of[key] = key, offer.backend
    return {key: Unit(k, backend_of[key], tuple(at)) for k, (key, at) in enumerate(places.items())}, key_of


def _layouts(captured: Captured) -> tuple[Layout, ...]:
    found = dict[Layout, None]()
    for node in captured.graph.nodes:
        if len(node.result.shape) == 4 and node.result.dtype == "float32":
            for to in ("channels_last", "contiguous"):
                found[Layout(node.result.shape, node.result.dtype, to)] = None
    return tuple(found)


def _layout_key(layout: Layout, machine: Machine) -> str:
    import torch

    return cost_key(f"layout {layout.shape} {layout.dtype} {layout.to}", "torch", torch.__version__, machine)


def _kept(found: Findings, keys: Mapping[int, str], known: Mapping[str, Kept]) -> dict[str, Kept]:
    """What was found and is not kept yet."""
    out = dict[str, Kept]()
    for number, verdict in found.verdicts.items():
        key = keys[number]
        if key in known or not verdict.certain:
            continue
        out[key] = (
            Kept(error=verdict.error, reason=verdict.reason)
            if verdict.reason
            else Kept(verdict.cost_ms, verdict.spread, verdict.rounds, verdict.error)
        )
    return out


def _judged(
    offered: Sequence[Offer],
    key_of: Mapping[Offer, str],
    known: Mapping[str, Kept],
    verdicts: Mapping[str, Verdict],
) -> tuple[tuple[Match, ...], tuple[Refused, ...]]:
    matches, refused = list[Match](), list[Refused]()
    for offer in offered:
        one = known.get(key_of[offer])
        if one is None:  # its backend was asked no more
            refused.append(Refused(offer.backend, offer.nodes, offer.root, verdicts[key_of[offer]].reason))
        elif one.reason:
            refused.append(Refused(offer.backend, offer.nodes, offer.root, one.reason, one.error))
        else:
            assert one.cost_ms is not None
            assert one.spread is not None
            assert one.error is not None
            matches.append(
                Match(offer.backend, offer.nodes, offer.root, one.cost_ms, one.spread, one.rounds or 0, one.error)
            )
    return tuple(matches), tuple(refused)


def _provenance(captured: Captured, model: str, machine: Machine, counted: tuple[int, int], cpu_s: float) -> Provenance:
    import torch

    from .... import __version__

    versions = (("meshwright", __version__), ("torch", torch.__version__), ("python", platform.python_version()))
    shape = captured.graph.inputs[0].shape
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(model, shape[0] if shape else 1, machine, versions, now, *counted, cpu_s)
