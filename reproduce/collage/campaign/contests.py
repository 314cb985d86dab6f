"""The parts of a campaign: a network's contest, what planning takes, backends one by one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ....planners.collage.evolution import EvolutionOptions
from ....profiles.backends.costs import CostTable
from ....runtime.backends import MeasureOptions, profile
from ....worlds.inference.case import InferenceCase
from ....worlds.inference.data import table_of
from ....worlds.inference.doors.measuring import named_groups, op_level, searched
from ....worlds.inference.network import captured_network
from ....worlds.inference.solve import choose, singles
from ..systems import COLLAGE, FRAMEWORKS, OP_LEVEL
from .records import Contest, Planning, Profiled, Search, Steps, Unit, Way
from .timing import Placed, Watch, same_again, timed, usable

__all__ = ["contest", "one_by_one", "planning"]

EVALUATIONS = 600
"""Most placements of a search; the authors' program had 560 on ResNet-50 in 26 minutes."""
CONTROL = "control"
CHOOSING = 7
"""Least rounds in which the plan is chosen."""
FOUND, COVER, ALONE = "Collage, graph level", "Collage, whole networks among the groups", "alone: "
Tell = Callable[[str], None]


def contest(
    model: str, batch: int, backends: Sequence[str], kept: Path | None, watch: Watch, tell: Tell,
    how: MeasureOptions | None = None,
) -> Contest:  # fmt: skip
    """A network at a batch: costs, placements, the evolution, and all of them with the frameworks by turns.

    The plan is chosen as `meshwright plan inference` does: the fastest of Collage's placements and of each backend
    alone. It is chosen in rounds of their own, so the contest's rounds are not what it was chosen by.
    """
    captured = captured_network(model, batch, Path())
    costs = profile(captured, backends, model=model, options=how, kept=kept, progress=tell)
    whole = costs.whole()
    start = _started(costs)
    search, best = None, start
    if whole and watch.search_s:
        library = min(whole, key=lambda name: whole[name].cost_ms)
        found = searched(captured, costs, library, EvolutionOptions(evaluations=EVALUATIONS), watch.search_s, tell)
        search = Search(library, found.bits, found.start_ms, found.at_s, found.ratio, watch.search_s)
        best = found.placed
    cover = choose(_case(model, batch, backends, "collage-op"), costs).groups
    tell("choosing the plan: placements and single backends by turns")
    candidates: dict[str, Placed] = {OP_LEVEL: start, FOUND: best, COVER: cover}
    candidates |= {f"{ALONE}{name}": one.groups for name, one in singles(costs).items()}
    first = same_again(candidates)
    before = timed(captured, backends, {n: candidates[n] for n in dict.fromkeys(first.values())}, costs, CHOOSING)
    running = [way for way in before if way.ms]
    chosen = min(running, key=lambda way: way.median).name
    tell("the contest: frameworks and placements by turns")
    every = tuple(node.id for node in captured.graph.nodes)
    frameworks = usable(FRAMEWORKS)
    ways: dict[str, Placed] = {name: ((name, every),) for name in frameworks}
    ways = {**ways, CONTROL: ways[next(iter(frameworks))], OP_LEVEL: start, FOUND: best, COLLAGE: candidates[chosen]}
    made = costs.provenance
    return Contest(
        model, batch, len(every), len(costs.matches),
        Profiled(tuple(backends), made.measured, made.kept, made.cpu_s),
        timed(captured, tuple(dict.fromkeys((*backends, *frameworks))), ways, costs, watch.rounds),
        chosen, _units(costs, start), search, datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def planning(model: str, backends: Sequence[str], tell: Tell) -> Planning:
    """What planning a network takes from scratch, and once its costs are kept."""
    captured = captured_network(model, 1, Path())
    seconds = list[float]()
    units = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            begun = time.process_time()
            costs = profile(captured, backends, model=model, kept=Path(folder) / "kept.json", progress=tell)
            seconds.append(time.process_time() - begun + costs.provenance.cpu_s)
            units += costs.provenance.measured
            begun = time.process_time()
            op_level(costs)
            seconds.append(time.process_time() - begun)
    return Planning(model, tuple(backends), units, *seconds)


def one_by_one(model: str, added: Sequence[str], kept: Path | None, watch: Watch, tell: Tell) -> Steps:
    """Op-level placements with backends added one after another; a whole network on a library is among the groups."""
    captured = captured_network(model, 1, Path())
    costs = profile(captured, added, model=model, kept=kept, progress=tell)
    placed: dict[str, Placed] = {}
    for k, name in enumerate(added):
        case = _case(model, 1, added[: k + 1], "collage-op")
        placed[name] = choose(case, table_of(case, costs)).groups
    first = same_again(placed)
    tell("backends one by one: placements by turns")
    found = timed(captured, added, {name: placed[name] for name in dict.fromkeys(first.values())}, costs, watch.rounds)
    by_name = {way.name: way for way in found}
    ways = tuple(_called(by_name[first[name]], name) for name in added)
    return Steps(model, tuple(added), ways)


def _started(costs: CostTable) -> Placed:
    return named_groups(costs, [(match.backend, match.nodes) for match in op_level(costs)[1].chosen])


def _called(way: Way, name: str) -> Way:
    return Way(name, way.backends, way.groups, way.predicted_ms, way.ms, way.reason)


def _case(model: str, batch: int, backends: Sequence[str], planner: str) -> InferenceCase:
    return InferenceCase.model_validate(
        {"model": model, "workload": {"batch": batch}, "backends": list(backends), "planner": {"name": planner}}
    )


def _units(costs: CostTable, placed: Placed) -> tuple[Unit, ...]:
    known = {(match.backend, frozenset(match.nodes)): match.cost_ms for match in costs.matches}
    graph = costs.graph
    return tuple(
        Unit(backend, tuple(graph.nodes[graph.index[n]].op for n in nodes), known[backend, frozenset(nodes)])
        for backend, nodes in placed
    )
