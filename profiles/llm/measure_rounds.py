"""Timings that stand a noisy machine: calls in shuffled rounds, laps that others disturbed left out, medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InputError
from ...seeds import generator

__all__ = ["OURS", "Ledger", "Rounds", "Samples", "run_rounds"]

OURS = 0.98
"""Share of its wall-clock time that a pass must have had its core, to count."""
ENOUGH = 3
"""Undisturbed passes from which on the others are left out."""


class Ledger:
    """Where the time of a forward pass goes: every stamp books the time since the one before under a name.

    So the parts add up to the whole: nothing runs between two stamps that is in neither. On CUDA stamps are events on
    the stream; their times are read when the pass is over.

    Parameters
    ----------
    device : str
        Torch device.
    clock : callable
        Gives the time of a stamp on a CPU, seconds.
    """

    def __init__(self, device: str = "cpu", clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.device, self.on_gpu = device, device.startswith("cuda")
        self.stamps: list[tuple[str, Any]] = []
        self.open = False

    def start(self) -> None:
        """Begin a pass: forget the last one."""
        self.stamps.clear()
        self.open = True
        self.stamp("")

    def stamp(self, name: str) -> None:
        """Book the time since the last stamp under `name`; nothing outside a pass."""
        if not self.open:
            return
        if self.on_gpu:
            import torch

            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.stamps.append((name, event))
        else:
            self.stamps.append((name, self.clock()))

    def stop(self) -> dict[str, list[float]]:
        """End the pass: seconds of every lap, by name, in order."""
        self.open = False
        found: dict[str, list[float]] = {}
        if self.on_gpu and self.stamps:
            self.stamps[-1][1].synchronize()
        for (_, before), (name, after) in zip(self.stamps, self.stamps[1:], strict=False):
            lap = before.elapsed_time(after) * 1e-3 if self.on_gpu else after - before
            found.setdefault(name, []).append(lap)
        return found

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose time is booked under `name`, and what came before it under ``<name``."""
        gap, stamp = f"<{name}", self.stamp

        def timed(*arguments: Any) -> Any:
            stamp(gap)
            result = function(*arguments)
            stamp(name)
            return result

        return timed


@dataclass
class Samples:
    """Passes of one call: seconds of each part in each, and the share of the core that each had."""

    shares: list[float] = field(default_factory=list[float])
    parts: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    round: list[int] = field(default_factory=list[int])

    @property
    def undisturbed(self) -> int:
        """Passes that had their core."""
        return sum(share >= OURS for share in self.shares)

    def kept(self) -> list[dict[str, float]]:
        """The undisturbed passes; if those are too few, all of them, by the time that they had their core."""
        pairs = list(zip(self.parts, self.shares, strict=True))
        if self.undisturbed >= min(ENOUGH, len(pairs)):
            return [parts for parts, share in pairs if share >= OURS]
        return [{name: share * seconds for name, seconds in parts.items()} for parts, share in pairs]

    def median(self, part: str) -> float:
        """Median seconds of a part over the kept passes; 0 where the pass had no such part."""
        return float(np.median([passed.get(part, 0.0) for passed in self.kept()]))

    def names(self) -> list[str]:
        """Parts that any pass had, in order."""
        return list(dict.fromkeys(name for passed in self.parts for name in passed))

    def whole(self) -> list[float]:
        """Seconds of each kept pass."""
        return [sum(passed.values()) for passed in self.kept()]


@dataclass(frozen=True)
class Rounds:
    """What the rounds gave.

    Parameters
    ----------
    samples : mapping
        Call -> its passes.
    taken : float
        Share of the core that other processes took over all passes.
    """

    samples: Mapping[Any, Samples]
    taken: float

    @property
    def spread(self) -> float:
        """Median over the calls of (90th percentile - median) / median of their kept passes."""
        found: list[float] = []
        for samples in self.samples.values():
            whole = samples.whole()
            middle = float(np.median(whole))
            found.append(float(np.percentile(whole, 90)) / middle - 1 if middle > 0 else 0.0)
        return float(np.median(found))

    @property
    def drift(self) -> float:
        """Slowest over fastest round, minus 1: median over the calls of each relative to its own mean."""
        by_round: dict[int, list[float]] = {}
        for samples in self.samples.values():
            whole = np.array([sum(p.values()) * had for p, had in zip(samples.parts, samples.shares, strict=True)])
            for at, pace in zip(samples.round, whole / whole.mean(), strict=True):
                by_round.setdefault(at, []).append(float(pace))
        # Rounds that only some calls took part in say little.
        pace = [float(np.median(values)) for values in by_round.values() if 2 * len(values) > len(self.samples)]
        return max(pace) / min(pace) - 1 if len(pace) > 1 else 0.0

    @property
    def repeats(self) -> int:
        """Fewest kept passes of a call."""
        return min(len(samples.kept()) for samples in self.samples.values())


def run_rounds(
    calls: Iterable[Hashable],
    once: Callable[[Any], Mapping[str, float]],
    *,
    rounds: int,
    extra: int = 0,
    seed: int = 0,
    warmup: Sequence[Any] = (),
    progress: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    core_clock: Callable[[], float] = time.thread_time,
) -> Rounds:
    """Time every call once in each round, in an order of the round's own.

    A machine that slows down for a while so slows a part of every call's passes, and no call's alone; and no call
    always follows the same one.

    Parameters
    ----------
    calls : iterable
        Keys of the calls to be timed, hashable.
    once : callable
        Runs a call and gives the seconds of its parts.
    rounds : int
        Passes of each call.
    extra : int
        Further rounds, at most, of the calls that had too few undisturbed passes.
    seed : int
        Seed of the orders in which calls are made.
    warmup : sequence
        Calls to run first, untimed.
    progress : callable, optional
        Called with the share that is done.
    clock, core_clock : callable
        Wall-clock time and the processor time of this thread, seconds.

    Raises
    ------
    InputError
        If there is nothing to time.
    """
    order = list(dict.fromkeys(calls))
    if not order or rounds < 1:
        raise InputError(f"measure: expected calls to time and one round or more (got {len(order)} and {rounds})")
    for call in warmup:
        once(call)
    samples: dict[Any, Samples] = {call: Samples() for call in order}
    stream = generator(seed, "llm", "measure", "rounds")
    wall_s = core_s = 0.0
    for number in range(rounds + extra):
        due = order if number < rounds else [call for call in order if samples[call].undisturbed < ENOUGH]
        if not due:
            break
        for index in stream.permutation(len(due)).tolist():
            call = due[index]
            wall, core = clock(), core_clock()
            parts = dict(once(call))
            wall, core = clock() - wall, core_clock() - core
            found = samples[call]
            found.parts.append(parts)
            found.shares.append(min(1.0, core / wall) if wall > 0 else 1.0)
            found.round.append(number)
            wall_s, core_s = wall_s + wall, core_s + core
        if progress is not None:
            progress(min(1.0, (number + 1) / rounds))
    return Rounds(samples, max(0.0, 1 - core_s / wall_s) if wall_s > 0 else 0.0)
