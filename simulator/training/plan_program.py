"""From a `TrainingPlan` to what is simulated: its program, and what the program's actions take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .plan import TrainingPlan
from .plan_entries import TransferEntry
from .program import Program
from .program_messages import Pair
from .resharding import Method, Resharding, reshard_across
from .schedules import make_program
from .timing import Link, Timing

__all__ = ["PlanLinks", "is_tied", "plan_links", "plan_program", "plan_timing", "tied_stages"]


def is_tied(plan: TrainingPlan, transfer: TransferEntry) -> bool:
    """Whether a transfer is of a parameter that both stages keep: its gradient is exchanged once an iteration."""
    return all(transfer.value in plan.stages[s].parameters for s in (transfer.source, transfer.target))


def tied_stages(plan: TrainingPlan) -> dict[str, tuple[int, ...]]:
    """Each tied parameter and the stages that keep it, ascending."""
    found: dict[str, set[int]] = {}
    for t in plan.transfers:
        if is_tied(plan, t):
            found.setdefault(t.value, set()).update((t.source, t.target))
    return {name: tuple(sorted(stages)) for name, stages in sorted(found.items())}


def plan_program(plan: TrainingPlan) -> Program:
    """The program of a plan's schedule on its stages and meshes; a plan that names no transfers is a chain.

    Raises
    ------
    InputError
        If the schedule is unknown or cannot be had with these stages and meshes.
    """
    edges = [(t.source, t.target, t.gradient) for t in plan.transfers if not is_tied(plan, t)]
    return make_program(
        plan.schedule,
        len(plan.stages),
        plan.microbatches_of,
        mesh_of=[stage.mesh for stage in plan.stages],
        transfers=edges or None,
        tied=list(tied_stages(plan).values()),
        k=[stage.k for stage in plan.stages],
        warmup=[stage.warmup for stage in plan.stages],
        order=[stage.order for stage in plan.stages],
        slices=[len(entry.tokens) for entry in plan.slices for _ in range(entry.count)],
    )


@dataclass(frozen=True)
class PlanLinks:
    """The messages of a plan.

    Parameters
    ----------
    links : dict
        What one message of each pair of stages takes.
    reshardings : dict
        Of each pair, the tensors of a message in order: name and how it gets across.
    """

    links: dict[Pair, Link]
    reshardings: dict[Pair, tuple[tuple[str, Resharding], ...]]


def plan_links(plan: TrainingPlan, method: Method | None = None) -> PlanLinks:
    """How a plan's tensors get from mesh to mesh. A message carries all tensors of a pair of stages, one by one.

    It occupies the sending mesh's way out, the receiving mesh's way in, and the network adapters that it crosses.

    Parameters
    ----------
    plan : TrainingPlan
        The plan.
    method : {"send_recv", "scatter_gather", "local_all_gather"}, optional
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
            back = (t.value, t.bytes, t.target_spec, t.source_spec)
            tensors.setdefault(("backward", t.target, t.source), []).append(back)
    sizes = {t.value: t.bytes for t in plan.transfers}
    for name, stages in tied_stages(plan).items():
        for a, b in ((a, b) for a in stages for b in stages if a != b):
            across = (name, sizes[name], _kept(plan, a, name), _kept(plan, b, name))
            tensors.setdefault(("tied", a, b), []).append(across)
    links: dict[Pair, Link] = {}
    reshardings: dict[Pair, tuple[tuple[str, Resharding], ...]] = {}
    known: dict[tuple[float, int, str, int, str], Resharding] = {}
    for pair, carried in tensors.items():
        source, target = pair[1:]
        if plan.stages[source].mesh == plan.stages[target].mesh:
            continue  # the mesh has it
        ways: list[tuple[str, Resharding]] = []
        for name, n_bytes, have, need in carried:
            key = (n_bytes, source, have, target, need)
            if key not in known:
                known[key] = reshard_across(n_bytes, views[source], have, views[target], need, method=method)
            ways.append((name, known[key]))
        links[pair] = _link(plan, source, target, [way for _, way in ways])
        reshardings[pair] = tuple(ways)
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
    return Timing(
        [s.forward_s for s in stages],
        [s.backward_input_s for s in stages],
        [s.backward_weight_s for s in stages],
        [s.reduce_s for s in stages],
        [s.update_s for s in stages],
        links.links,
        plan.overlap if overlap is None else overlap,
    )
