"""Shards of gradients and weights, each with its place in the whole, and wholes that are put together of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...errors import RunError
from .wires.messages import Place, region

if TYPE_CHECKING:
    from torch import Tensor

    from .stage.runner import StageRunner

__all__ = ["Shard", "shards_of", "whole_weights"]

What = Literal["gradient", "weight"]


@dataclass(frozen=True, eq=False, slots=True)
class Shard:
    """A part of a gradient or weight.

    Parameters
    ----------
    what : {"gradient", "weight"}
        Which.
    name : str
        The parameter.
    stage : int
        The stage that holds it.
    part : tuple of (int, int)
        For each dimension, where the part begins and ends.
    full : tuple of int
        Shape of the whole.
    first : bool
        Whether, of the stage's devices that hold this part, it is the first.
    values : Tensor
        The part.
    """

    what: What
    name: str
    stage: int
    part: tuple[tuple[int, int], ...]
    full: tuple[int, ...]
    first: bool
    values: Tensor


def shards_of(runners: Mapping[int, StageRunner], rank: int) -> Iterator[Shard]:
    """What a rank holds."""
    for number, runner in runners.items():
        comm = runner.comm
        device = comm.ranks.index(rank)
        for name, p in runner.layout.parameters.items():
            master = runner.masters.get(name)
            weight = runner.weights[name] if master is None else master
            half = weight.is_floating_point() and weight.element_size() == 2  # frozen: there is no master
            for what, layout, x in (
                ("gradient", p.state, runner.gradients.get(name)),
                ("weight", p.storage if master is None else p.state, weight.float() if half else weight),
            ):
                if x is not None:
                    place = region(p.full, Place(comm.ranks, comm.shape, layout), device)
                    part = tuple((int(a), int(b)) for a, b in place)
                    cut = {axis for axes in layout for axis in axes}
                    first = all(at == 0 for axis, at in enumerate(comm.place) if axis not in cut)
                    yield Shard("gradient" if what == "gradient" else "weight", name, number, part, p.full, first, x)


def whole_weights(shards: Iterable[Shard], what: What) -> dict[str, Tensor]:
    """Wholes by name; of several copies of a part, one counts.

    Raises
    ------
    RunError
        If a part is missing.
    """
    found: dict[str, Tensor] = {}
    filled: dict[str, set[tuple[tuple[int, int], ...]]] = {}
    count: dict[str, int] = {}
    for shard in shards:
        if shard.what != what:
            continue
        if shard.name not in found:
            found[shard.name] = shard.values.new_zeros(shard.full)
            filled[shard.name], count[shard.name] = set(), 0
        if shard.part not in filled[shard.name]:
            filled[shard.name].add(shard.part)
            found[shard.name][tuple(slice(a, b) for a, b in shard.part)] = shard.values.detach()
            count[shard.name] += shard.values.numel()
    # Stages that share a parameter may cut it differently: then parts overlap, and the count is above.
    short = next((name for name, n in count.items() if n < found[name].numel()), None)
    if short is not None:
        raise RunError(f"run: no rank holds some part of the {what} of {short!r}")
    return found
