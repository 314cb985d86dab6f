"""What the actions of a plan's program take: computations, and messages over the cluster's links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..program.messages import Pair
from ..resharding.crossing import Method, Resharding
from ..resharding.reuse import Reshardings
from ..timing import Link, Timing
from .file import TrainingPlan
from .program import is_tied, slice_share, tied_stages

__all__ = ["PlanLinks", "plan_links", "plan_timing"]


@dataclass(frozen=True)
class PlanLinks:
    """The messages of a plan.

    Parameters
    ----------
    links : dict
        Times of a message between each pair of stages; where microbatches are cut into slices, of each message.
    reshardings : dict
        For each pair, the tensors of a message, in order: name and resharding. Where slices are sent, these are for a
        whole microbatch of average size.
    """

    links: dict[Pair, Link]
    reshardings: dict[Pair, tuple[tuple[str, Resharding], ...]]


def plan_links(plan: TrainingPlan, method: Method | None = None) -> PlanLinks:
    """Plan how tensors get from mesh to mesh.

    A message carries all tensors of a pair of stages, one by one, for one microbatch of the sender or one token slice
    of it. It occupies the sending mesh's output, the receiving mesh's input, and the network adapters that it crosses.
    Where messages were measured while the plan ran, they take what was measured.

    Parameters
    ----------
    plan : TrainingPlan
        The plan.
    method : {"send_recv", "first_holder", "scatter_gather", "local_all_gather"}, optional
        Instead of the plan's.
    """
    method = method or plan.resharding
    views = [plan.mesh(s).view(stage.logical) for s, stage in enumerate(plan.stages)]
    tensors: dict[Pair, list[tuple[str, float, str, str]]] = {}
    for t in plan.transfers:
        if is_tied(plan, t):
            continue
        tensors.setdefault(("forward", t.source, t.target), []).append((t.value, t.bytes, t.source_spec, t.target_spec))
        if t.gradient:
            n_bytes = t.bytes * plan.microbatch_of(t.target) / plan.microbatch_of(t.source)
            back = (t.value, n_bytes, t.target_spec, t.source_spec)
            tensors.setdefault(("backward", t.target, t.source), []).append(back)
    sizes = {t.value: t.bytes for t in plan.transfers}
    for name, stages in tied_stages(plan).items():
        for a, b in ((a, b) for a in stages for b in stages if a != b):
            kept = (name, sizes[name], _kept(plan, a, name), _kept(plan, b, name))
            tensors.setdefault(("tied", a, b), []).append(kept)
    links: dict[Pair, Link] = {}
    reshardings: dict[Pair, tuple[tuple[str, Resharding], ...]] = {}
    across = Reshardings(method)
    share = slice_share(plan)
    parts, where = np.unique(np.zeros(0) if share is None else share, return_inverse=True)
    where = where if share is None else where.reshape(share.shape)
    for pair, carried in tensors.items():
        source, target = pair[1:]
        if plan.stages[source].mesh == plan.stages[target].mesh:
            continue  # the mesh has it
        asked = [(n_bytes, views[source], have, views[target], need) for _, n_bytes, have, need in carried]
        ways = [across(*one) for one in asked]
        links[pair] = _link(plan, source, target, ways)
        if share is not None and pair[0] != "tied":  # the seconds of each slice's message
            each = [across.scaled(*one, parts) for one in asked]
            seconds, gather_s = (np.sum([of[which] for of in each], axis=0)[where] for which in (0, 1))
            links[pair] = Link(seconds, gather_s, links[pair].resources)
        reshardings[pair] = tuple((name, way) for (name, *_), way in zip(carried, ways, strict=True))
    for message in plan.service.messages if plan.service is not None else ():
        pair = message.what, message.source, message.target
        if pair not in links:
            continue
        link = replace(links[pair], send_s=message.send_s, receive_s=message.receive_s)
        if message.seconds is not None and method == plan.resharding and not np.ndim(link.seconds):
            link = replace(link, seconds=message.seconds, gather_s=0.0)  # what was measured has the gather in it
        links[pair] = link
    return PlanLinks(links, reshardings)


def _kept(plan: TrainingPlan, stage: int, parameter: str) -> str:
    """The spec of a parameter's gradient on a stage."""
    entry = plan.stages[stage]
    return entry.optimizer_states.get(parameter, entry.parameters[parameter])


def _link(plan: TrainingPlan, source: int, target: int, ways: Iterable[Resharding]) -> Link:
    ways = list(ways)
    out = sorted({n for way in ways for n in way.adapters_out})
    into = sorted({n for way in ways for n in way.adapters_in})
    return Link(
        sum(way.seconds for way in ways),
        sum(way.gather_s for way in ways),
        (
            ("mesh out", plan.stages[source].mesh),
            ("mesh in", plan.stages[target].mesh),
            *(("adapter out", n) for n in out),
            *(("adapter in", n) for n in into),
        ),
    )


def plan_timing(plan: TrainingPlan, links: PlanLinks, overlap: bool | None = None) -> Timing:
    """What the actions of a plan's program take."""
    stages = plan.stages
    once = [s.reduce_s for s in stages], [s.update_s for s in stages]
    overlap = plan.overlap if overlap is None else overlap
    begin_s = plan.service.begin_s if plan.service is not None and plan.service.begin_s else 0.0
    if not plan.slices:
        passes = [s.forward_s for s in stages], [s.backward_input_s for s in stages]
        return Timing(*passes, [s.backward_weight_s for s in stages], *once, links.links, overlap, begin_s)
    rows = [e for e, entry in enumerate(plan.slices) for _ in range(entry.count)]
    width = max(len(entry.tokens) for entry in plan.slices)
    tables = np.zeros((2, len(stages), len(plan.slices), width))
    for s, stage in enumerate(stages):
        for table, seconds in zip(tables[:, s], (stage.slice_forward_s, stage.slice_backward_s), strict=True):
            for e, row in enumerate(seconds):
                table[e, : len(row)] = row
    return Timing(tables[0][:, rows], tables[1][:, rows], 0.0, *once, links.links, overlap, begin_s)
