"""Time callables on a device: warm-up, repeats within a time budget, median. On CUDA by events."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["Lap", "Timing", "clock_note", "synchronize", "time_callable", "time_chain"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Summary of repeated timings of one thing.

    Parameters
    ----------
    median_s, min_s, p90_s : float
        Median, smallest and 90th percentile, seconds.
    n : int
        Number of timed calls.
    clock : str
        What timed them, and how fast the device ran: ``perf_counter``, or ``cuda events, SM 1980 MHz``.
    """

    median_s: float
    min_s: float
    p90_s: float
    n: int
    clock: str

    @classmethod
    def of(cls, seconds: Sequence[float], clock: str) -> Timing:
        """Summarise timings.

        Raises
        ------
        ValueError
            If there are none.
        """
        if not seconds:
            raise ValueError("Timing: no timed call (got an empty sequence); time at least one")
        ordered = sorted(seconds)
        n = len(ordered)
        median = 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])
        return cls(median, ordered[0], ordered[min(n - 1, (9 * n) // 10)], n, clock)


def clock_note(device: str) -> str:
    """What times work on `device`, with the current clock rate where the driver tells it."""
    if not device.startswith("cuda"):
        return "perf_counter"
    rate = _sm_clock_mhz(device)
    return "cuda events" if rate is None else f"cuda events, SM {rate} MHz"


def _sm_clock_mhz(device: str) -> int | None:
    """Current SM clock of a CUDA device by nvidia-smi; None where it is absent or does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    index = device.partition(":")[2] or "0"
    query = [tool, "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-i", index]
    try:
        # A healthy driver answers within a second. The clock is a remark beside the times: not worth waiting for.
        answer = subprocess.run(query, capture_output=True, text=True, timeout=5, check=True).stdout
    except (
        OSError,
        subprocess.SubprocessError,
    ):  # a driver without the tool's counters: the note leaves it out
        return None
    text = answer.strip()
    return int(text) if text.isdigit() else None


def synchronize(device: str) -> None:
    """Wait until all work queued on `device` is done (CPU work always is)."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)


def time_callable(
    fn: Callable[[], object],
    device: str = "cpu",
    warmup: int = 3,
    repeats: int = 20,
    *,
    budget_s: float = float("inf"),
) -> Timing:
    """Time ``fn()`` on `device`.

    Parameters
    ----------
    fn : callable
        The work; on CUDA it may return before its kernels end.
    device : str
        Torch device.
    warmup, repeats : int
        Untimed and timed calls.
    budget_s : float
        Stop early once this many seconds have gone by, warm-up included; at least one call is timed.

    Raises
    ------
    ValueError
        If `repeats` is below 1 or `warmup` below 0.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(f"time_callable: expected repeats >= 1 and warmup >= 0 (got {repeats} and {warmup})")
    deadline = time.perf_counter() + budget_s
    for _ in range(warmup):
        fn()
        if time.perf_counter() > deadline:
            break
    synchronize(device)
    once = _cuda_once if device.startswith("cuda") else _cpu_once
    seconds = [once(fn, device)]
    while len(seconds) < repeats and time.perf_counter() < deadline:
        seconds.append(once(fn, device))
    return Timing.of(seconds, clock_note(device))


def _cpu_once(fn: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def _cuda_once(fn: Callable[[], object], device: str) -> float:
    import torch

    with torch.cuda.device(device):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        fn()
        end.record()
        end.synchronize()
    # CUDA events count milliseconds
    return start.elapsed_time(end) * 1e-3


class Lap(NamedTuple):
    """One timed piece of work.

    Parameters
    ----------
    seconds : float
        Wall-clock time (device time on CUDA).
    share : float
        Processor time of the calling thread over wall-clock time: 1.0 if no other process was given the core
        meanwhile. Always 1.0 on CUDA.
    """

    seconds: float
    share: float


def time_chain(layers: Sequence[Callable[[Any], Any]], x: Any, device: str = "cpu") -> list[Lap]:
    """Run `layers` one after another on `x` and time each in its place.

    "In its place" means: with the caches as the layer before left them, and weights as cold as in a real forward pass.
    A layer that is timed over and over by itself looks faster than it is.

    Returns
    -------
    list of Lap
        One per layer, in order.
    """
    if not device.startswith("cuda"):
        stamps = [(time.perf_counter(), time.thread_time())]
        for layer in layers:
            x = layer(x)
            stamps.append((time.perf_counter(), time.thread_time()))
        return [Lap(b - a, min(1.0, (had_b - had_a) / (b - a))) for (a, had_a), (b, had_b) in pairwise(stamps)]
    import torch

    with torch.cuda.device(device):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(layers) + 1)]
        events[0].record()
        for layer, event in zip(layers, events[1:], strict=True):
            x = layer(x)
            event.record()
        events[-1].synchronize()
    return [Lap(a.elapsed_time(b) * 1e-3, 1.0) for a, b in pairwise(events)]
