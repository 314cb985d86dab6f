"""`messages`: seconds of sending slices from stage to stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...profiles.graph import Graph
from ...simulator.training.resharding.crossing import Method, reshard_across
from ..alpa.inter.crossing import values_between
from .cells import Cell
from .layouts import Layout

__all__ = ["Message", "messages"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Message:
    """Seconds of sending a slice: how long the sender is busy, and how long the receiver gathers its pieces.

    Both have a fixed part, and a part that is proportional to samples · tokens / L.
    """

    fixed_s: float = 0.0
    sample_s: float = 0.0
    gather_fixed_s: float = 0.0
    gather_sample_s: float = 0.0

    def send_s(self, share: Floats) -> Floats:
        """Seconds of the sender, for a share of samples · tokens / L."""
        return self.fixed_s + self.sample_s * share

    def gather_s(self, share: Floats) -> Floats:
        """Seconds of the receiver, for a share of samples · tokens / L."""
        return self.gather_fixed_s + self.gather_sample_s * share


def messages(
    graph: Graph, layout: Layout, cells: Sequence[Cell], method: Method
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The messages between neighbouring stages, forward and backward.

    Parameters
    ----------
    graph : Graph
        The model with one sample on each replica.
    """
    between: dict[tuple[int, int], list[str]] = {}
    for source, target, value in values_between(graph, layout.bounds):
        between.setdefault((source, target), []).append(value)
    known: dict[object, tuple[Message, Message]] = {}
    pairs: list[tuple[Message, Message]] = []
    for s in range(layout.pipe - 1):
        one, two = layout.meshes[s], layout.meshes[s + 1]
        carried = tuple(
            (float(graph.bytes_of(value)), *_specs(graph, layout, cells, s, value))
            for value in between.get((s, s + 1), [])
        )
        key = (two.first_host - one.first_host, one.first_device, two.first_device, carried)
        if key not in known:
            known[key] = _message(layout, s, s + 1, carried, method), _message(layout, s + 1, s, carried, method)
        pairs.append(known[key])
    return tuple(x for x, _ in pairs), tuple(x for _, x in pairs)


def _specs(graph: Graph, layout: Layout, cells: Sequence[Cell], s: int, value: str) -> tuple[str, str]:
    """The sharding of a value on stage s, which makes it, and on the next stage.

    One cell stands for all stages that are alike, so the operator is looked up by its position in the stage.
    """

    def there(stage: int) -> str:
        at = graph.index[value] - layout.bounds[stage][0] + cells[stage].plan.first
        return graph.operators[at].name

    made = cells[s].plan.operators.get(there(s))
    return made.result if made is not None else "", cells[s + 1].plan.inputs.get(there(s + 1), "")


def _message(
    layout: Layout, source: int, target: int, carried: Sequence[tuple[float, str, str]], method: Method
) -> Message:
    """The straight line through the times of two sizes. It is exact, because links are modelled by latency + bytes /
    rate.
    """
    sizes: list[tuple[float, float]] = []
    for share in (0.5, 1.0):
        ways = [
            reshard_across(
                n_bytes * share, layout.views[source], *((have,) if source < target else (need,)),
                layout.views[target], need if source < target else have, method=method,
            )
            for n_bytes, have, need in carried
        ]  # fmt: skip
        sizes.append((sum(x.seconds for x in ways), sum(x.gather_s for x in ways)))
    (half, gather_half), (whole, gather_whole) = sizes
    gather_rate = 2 * (gather_whole - gather_half)
    return Message(2 * half - whole, 2 * (whole - half), gather_whole - gather_rate, gather_rate)
