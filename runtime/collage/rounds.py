"""`in_rounds`: several ways to compute the same, timed in turn on one core, so that what disturbs one disturbs all."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import InputError

__all__ = ["CONTROL", "Rounds", "in_rounds", "one_core"]

CONTROL = "control"
"""Name of the first way, once more: what lies within its ratio to itself is noise."""

WARM = 5
"""Calls before the first round: torch's TorchScript compiles on the first four (docs/backends.md)."""


@dataclass(frozen=True)
class Rounds:
    """What each way took in each round.

    Parameters
    ----------
    ms : mapping of str to tuple of float
        Name -> CPU time of each round, milliseconds; all of the same rounds.
    """

    ms: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        """Milliseconds of a round, the median."""
        return statistics.median(self.ms[name])

    def ratio(self, name: str, to: str) -> float:
        """Median over rounds of what `name` takes over what `to` takes in the same round."""
        return statistics.median(a / b for a, b in zip(self.ms[name], self.ms[to], strict=True))

    @property
    def noise(self) -> float:
        """How far the first way is from itself: the larger of its ratio to its control and the inverse, less 1."""
        first = next(iter(self.ms))
        ratio = self.ratio(CONTROL, first)
        return max(ratio, 1 / ratio) - 1


def in_rounds(
    ways: Mapping[str, Callable[..., Any]], inputs: Sequence[Any], rounds: int, *, warm: int = WARM
) -> Rounds:
    """Time several ways, one call each a round; who goes first changes from round to round.

    The first way runs twice a round: as itself and as `CONTROL`. The process is pinned to one core and torch to one
    thread meanwhile.

    Parameters
    ----------
    ways : mapping of str to callable
        Name -> what is called with the inputs.
    inputs : sequence of torch.Tensor
        Of each call.
    rounds : int
        At least 1.
    warm : int
        Calls of each before.

    Raises
    ------
    InputError
        If there is no way, or one is called as the control is.
    """
    import torch

    if not ways or CONTROL in ways or rounds < 1:
        raise InputError(f"rounds: expected ways that are not called {CONTROL!r}, and a round (got {list(ways)})")
    every = {**ways, CONTROL: next(iter(ways.values()))}
    names, found = list(every), {name: list[float]() for name in every}
    with one_core(), torch.inference_mode():
        for name in ways:
            for _ in range(warm):
                ways[name](*inputs)
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                begun = time.process_time_ns()
                every[name](*inputs)
                found[name].append((time.process_time_ns() - begun) / 1e6)
    return Rounds({name: tuple(each) for name, each in found.items()})


@contextmanager
def one_core() -> Iterator[None]:
    """This process on the last of its cores, torch on one thread; as before afterwards."""
    import torch

    threads = torch.get_num_threads()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        torch.set_num_threads(1)
        if cores:
            os.sched_setaffinity(0, {max(cores)})
        yield
    finally:
        torch.set_num_threads(threads)
        if cores:
            os.sched_setaffinity(0, cores)
