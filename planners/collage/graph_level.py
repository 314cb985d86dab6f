"""`collage`: both levels. The op level's placement, then an evolution that gives groups of it to a graph library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from .evolution import Evolution, EvolutionOptions, Evolved
from .exact import place
from .instance import Instance, Match, read_instance
from .placement import Placement, running_order

__all__ = ["Collaged", "GraphLevel", "Region", "collage"]


@dataclass(frozen=True, slots=True, repr=False)
class Region(Shown):
    """What is run as one unit: a match of the op level, or neighbouring ones joined to an engine of the graph library.

    Parameters
    ----------
    backend : str
        Who runs it.
    nodes : tuple of int
        Ids of its operators, in the instance's order.
    matches : tuple of int
        Indices of the op level's matches that it stands for.
    """

    backend: str
    nodes: tuple[int, ...]
    matches: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Collaged(Shown):
    """A plan of both levels.

    Parameters
    ----------
    time_ms : float
        What the fitness said of it.
    bits : str
        1 for each free group that the graph library has.
    regions : tuple of Region
        In an order in which they can run.
    op_level : Placement
        Where the search began.
    search : Evolved
        Everything that was evaluated.
    """

    time_ms: float
    bits: str
    regions: tuple[Region, ...]
    op_level: Placement
    search: Evolved


class GraphLevel:
    """The space of the graph level: strings of bits, and the regions that each stands for.

    Parameters
    ----------
    instance : Instance
        The graph.
    placement : Placement
        The op level's.
    library : str
        Name of the graph library.
    takes : callable of ids, optional
        Whether the library can run a group. By default it can run all.
    """

    def __init__(
        self, instance: Instance, placement: Placement, library: str,
        takes: Callable[[tuple[int, ...]], bool] | None = None,
    ) -> None:  # fmt: skip
        if placement.circular:
            raise InputError("placement: expected one that can run (it has a circle)")
        self.instance, self.placement, self.library = instance, placement, library
        chosen = placement.chosen
        self.free = tuple(k for k, m in enumerate(chosen) if m.backend != library and (takes is None or takes(m.nodes)))
        """Groups that have a bit, as places in the placement: those that are not on the library and that it can run."""
        owner = {v: k for k, match in enumerate(chosen) for v in match.nodes}
        self._sources = [sorted({owner[value] for value in instance.values_read(match)}) for match in chosen]

    def regions(self, bits: str) -> tuple[Region, ...]:
        """The regions of a string. Groups on the library that read each other become one region, as far as no region
        comes to wait for itself by that: producers first, in the order of the placement.

        Raises
        ------
        InputError
            If it is no string of as many bits as there are free groups.
        """
        if len(bits) != len(self.free) or not set(bits) <= {"0", "1"}:
            raise InputError(f"bits: expected {len(self.free)} of 0 and 1 (got {bits!r})")
        chosen = self.placement.chosen
        given = {k for k, bit in zip(self.free, bits, strict=True) if bit == "1"}
        given |= {k for k, match in enumerate(chosen) if match.backend == self.library}
        region = list(range(len(chosen)))  # of each group; its first group is its name
        for k in sorted(given):
            for source in self._sources[k]:
                a, b = sorted((region[source], region[k]))
                if source in given and a != b and not self._apart(region, a, b):
                    region = [a if name == b else name for name in region]
        held: dict[int, list[int]] = {}
        for k, name in enumerate(region):
            held.setdefault(name, []).append(k)
        return self._ordered(
            [(self.library if name in given else chosen[name].backend, those) for name, those in held.items()]
        )

    def _apart(self, region: Sequence[int], a: int, b: int) -> bool:
        """Whether a third region lies between two: it waits for one of them, and the other waits for it."""
        sources: dict[int, set[int]] = {}
        for k, those in enumerate(self._sources):
            sources.setdefault(region[k], set()).update(region[source] for source in those)
        for start, end in ((a, b), (b, a)):
            stack, seen = [x for x in sources[end] if x not in (start, end)], set[int]()
            while stack:
                x = stack.pop()
                if x == start:
                    return True
                if x not in seen:
                    seen.add(x)
                    stack += sources[x] - {x}
        return False

    def _ordered(self, held: Sequence[tuple[str, list[int]]]) -> tuple[Region, ...]:
        place = {node.id: k for k, node in enumerate(self.instance.nodes)}
        units = list[Match]()
        for backend, groups in held:
            nodes = sorted((v for k in groups for v in self.placement.chosen[k].nodes), key=place.__getitem__)
            units.append(Match(backend, tuple(nodes), nodes[-1], 0.0))
        order = running_order(Instance(self.instance.nodes, tuple(units)), range(len(units)))
        assert order is not None  # no join makes a circle
        return tuple(
            Region(units[k].backend, units[k].nodes, tuple(self.placement.matches[g] for g in held[k][1]))
            for k in order
        )


def collage(
    instance: Instance | Mapping[str, Any], library: str, fitness: Callable[[tuple[Region, ...]], float], *,
    takes: Callable[[tuple[int, ...]], bool] | None = None, options: EvolutionOptions | None = None,
    log: str | Path | None = None,
) -> Collaged:  # fmt: skip
    """Place at the op level, then search which groups the graph library should have.

    The op-level placement and everything on the library are evaluated first, so the answer is never slower than either.

    Parameters
    ----------
    instance : Instance or mapping
        See `read_instance`.
    library : str
        Name of the graph library.
    fitness : callable of a tuple of Region
        Milliseconds of a plan, measured end to end; inf if it cannot run.
    takes : callable of ids, optional
        Whether the library can run a group. By default it can run all.
    options : EvolutionOptions, optional
        Seed, population, budget, and so on.
    log : path, optional
        A file of what was evaluated; with it the same call goes on where it was stopped.

    Raises
    ------
    InputError, InfeasibleError, LimitError
        See `place` and `Evolution`.

    Notes
    -----
    Source: thesis 003 §2.4.3. The all-1 seed is the authors' program's; the text has only the all-0 one.
    """
    given = read_instance(instance)
    placed = place(given)
    level = GraphLevel(given, placed, library, takes)
    found = Evolution(len(level.free), lambda bits: fitness(level.regions(bits)), options, log=log).run()
    return Collaged(found.time_ms, found.bits, level.regions(found.bits), placed, found)
