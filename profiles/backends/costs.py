"""`CostTable`: what each backend takes of a graph and what that costs, as measured; all that a planner needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...errors import InputError
from .contract import GRAPH_LIBRARY, KINDS
from .graph import InferenceGraph
from .keys import Machine

__all__ = ["Conversion", "CostTable", "Match", "Provenance", "Refused", "Used"]


@dataclass(frozen=True, slots=True)
class Match:
    """A group of operators that a backend runs as one, checked and measured.

    Parameters
    ----------
    backend : str
        Its name.
    nodes : tuple of str
        The group, in the graph's order.
    root : str
        The last of them.
    cost_ms : float
        CPU time of a call in its place in the network, milliseconds; the median over rounds.
    spread : float
        How uncertain that median is: half of its 94 % interval or more, as a part of it.
    rounds : int
        Rounds that it was measured in.
    error : float
        Largest difference from eager over the largest value, over 3 random inputs.
    """

    backend: str
    nodes: tuple[str, ...]
    root: str
    cost_ms: float
    spread: float
    rounds: int
    error: float

    def __post_init__(self) -> None:
        if not self.nodes or self.root not in self.nodes:
            raise InputError(f"match on {self.backend!r}: expected its root {self.root!r} among its nodes {self.nodes}")
        for name in ("cost_ms", "spread", "error"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise InputError(f"match on {self.backend!r} at {self.root!r}: {name}: expected >= 0 (got {value!r})")


@dataclass(frozen=True, slots=True)
class Refused:
    """A group that a backend offered and may not have.

    Parameters
    ----------
    backend, nodes, root
        As of `Match`.
    reason : str
        It is wrong, raises, crashes or hangs.
    error : float or None
        Its difference from eager over the largest value, where it is wrong.
    """

    backend: str
    nodes: tuple[str, ...]
    root: str
    reason: str
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """A backend that was measured.

    Parameters
    ----------
    name, kind, version : str
        As of `Backend`.
    context_ms : float
        ε: CPU time that each of its groups takes besides its own call, when the group before is on another backend.
    """

    name: str
    kind: str
    version: str
    context_ms: float

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.context_ms >= 0:
            raise InputError(f"backend {self.name!r}: expected a kind of {KINDS} and context_ms >= 0 (got {self})")


@dataclass(frozen=True, slots=True)
class Conversion:
    """What it costs to lay a tensor out anew.

    Parameters
    ----------
    shape : tuple of int
        Of the tensor.
    dtype : str
        Its type.
    to : str
        ``"channels_last"``: from contiguous; ``"contiguous"``: from channels last.
    cost_ms : float
        CPU time, milliseconds.
    """

    shape: tuple[int, ...]
    dtype: str
    to: str
    cost_ms: float


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who measured what, where and when.

    Parameters
    ----------
    model : str
        The network's name.
    batch : int
        First extent of its first input.
    machine : Machine
        Processor and threads.
    versions : tuple of (str, str)
        Of meshwright, torch and Python.
    taken_at : str
        UTC, ISO 8601.
    measured, kept : int
        Units that were measured for this table, and units whose costs were kept from before.
    cpu_s : float
        CPU time of the measuring processes, seconds.
    """

    model: str
    batch: int
    machine: Machine
    versions: tuple[tuple[str, str], ...]
    taken_at: str
    measured: int = 0
    kept: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class CostTable:
    """All that was measured of a graph.

    Parameters
    ----------
    graph : InferenceGraph
        Its operators.
    used : tuple of Used
        The backends.
    matches : tuple of Match
        What may be chosen.
    refused : tuple of Refused
        What was offered and may not.
    conversions : tuple of Conversion
        Costs of other layouts for the graph's 4-D values.
    provenance : Provenance
        Where the numbers are from.
    """

    graph: InferenceGraph
    used: tuple[Used, ...]
    matches: tuple[Match, ...]
    refused: tuple[Refused, ...]
    conversions: tuple[Conversion, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        known = {one.name for one in self.used}
        for match in (*self.matches, *self.refused):
            if match.backend not in known:
                raise InputError(f"cost table: a match is on backend {match.backend!r}, which is not in the table")
            self.graph.bits(match.nodes)

    @cached_property
    def backends(self) -> Mapping[str, Used]:
        """The backends by their names."""
        return {one.name: one for one in self.used}

    def uncovered(self) -> tuple[str, ...]:
        """Nodes that no match takes: no placement can run them."""
        taken = {name for match in self.matches for name in match.nodes}
        return tuple(node.id for node in self.graph.nodes if node.id not in taken)

    def check_covered(self) -> CostTable:
        """The table, if every operator is in a match.

        Raises
        ------
        InputError
            If not; it names the first such operator, and why backends may not have it.
        """
        missing = self.uncovered()
        if missing:
            node = self.graph.nodes[self.graph.index[missing[0]]]
            why = [f"{one.backend}: {one.reason}" for one in self.refused if one.nodes == (node.id,)]
            raise InputError(
                f"no backend of {', '.join(self.backends)} takes operator {node.id!r} ({node.op})"
                f"{f' ({why[0]})' if why else ''}, {len(missing)} operators in all; add torch-onednn, which takes all"
            )
        return self

    def whole(self) -> Mapping[str, Match]:
        """Backend -> its match of the whole graph, for the graph libraries that can run it."""
        every = len(self.graph.nodes)
        kinds = {one.name: one.kind for one in self.used}
        return {m.backend: m for m in self.matches if len(m.nodes) == every and kinds[m.backend] == GRAPH_LIBRARY}

    def instance(self) -> dict[str, Any]:
        """The table as `planners.collage.place` takes it: nodes by their positions, -1 for what the graph is given.

        Parameters of the graph are no inputs. ``eps`` is the least context cost; what a backend's is above it is part
        of the costs of its matches.
        """
        at = self.graph.index
        nodes: list[dict[str, Any]] = []
        for k, node in enumerate(self.graph.nodes):
            read = [at.get(name, -1) for name in node.inputs if name not in self.graph.constants]
            nodes.append({"id": k, "op": node.op, "inputs": read})
        least = min((one.context_ms for one in self.used), default=0.0)
        above = {one.name: one.context_ms - least for one in self.used}
        matches = [
            {
                "backend": m.backend,
                "nodes": [at[name] for name in m.nodes],
                "root": at[m.root],
                "cost": m.cost_ms + above[m.backend],
            }
            for m in self.matches
        ]
        return {"nodes": nodes, "matches": matches, "eps": least}
