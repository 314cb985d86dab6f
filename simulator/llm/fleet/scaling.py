"""`Autoscaling`: engines are added and taken away. The decision is a `Scaler`, which knows no clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ....errors import InputError
from ....reprs import Shown
from ..policy.router import EngineLoad

__all__ = ["METRICS", "Autoscaling", "Scaler", "TargetTracking"]

METRICS: dict[str, Callable[[EngineLoad], float]] = {
    "outstanding": lambda engine: engine.outstanding,
    "outstanding_tokens": lambda engine: engine.outstanding_tokens,
    "waiting": lambda engine: engine.waiting,
    "running": lambda engine: engine.running,
    "kv_use": lambda engine: engine.kv_use,
}
"""What an engine's load can be measured by."""


class Scaler(Protocol):
    """Decides how many engines there should be, once each interval."""

    def __call__(self, serving: Sequence[EngineLoad], starting: int) -> int:
        """Engines that should serve or start, given those that serve and how many start."""
        ...


class TargetTracking:
    """As many engines as bring the mean load to its target: the rule of Kubernetes' horizontal pod autoscaler.

    ``ceil(sum of loads / target)``; nothing changes while the mean over all engines (those that start have no load yet)
    is within `tolerance` of the target. Down only to the largest answer of the last `patience` evaluations.
    """

    def __init__(self, metric: str, target: float, tolerance: float, patience: int) -> None:
        self.load, self.target, self.tolerance = METRICS[metric], target, tolerance
        self.answers: deque[int] = deque(maxlen=patience)

    def __call__(self, serving: Sequence[EngineLoad], starting: int) -> int:
        """Engines that there should be."""
        there, total = len(serving) + starting, 0.0
        for engine in serving:  # and not `sum`, which newer Pythons round in another way than compiled code
            total += self.load(engine)
        answer = math.ceil(total / self.target)
        if there and abs(total / there / self.target - 1) <= self.tolerance:
            answer = there
        self.answers.append(answer)
        return answer if answer >= there else min(there, max(self.answers))


@dataclass(frozen=True, slots=True, repr=False)
class Autoscaling(Shown):
    """A fleet that follows its load.

    Every `interval_s` a `Scaler` (by default `TargetTracking`) says how many engines there should be. If more are
    needed, engines that are being drained are taken back first; new ones serve after `start_s`. If fewer are needed,
    engines that still start are removed first, then those with the fewest requests: such an engine is drained, that is,
    it gets no more requests and is gone when it has none.

    Parameters
    ----------
    min_engines, max_engines : int
        Bounds of the number of engines that serve or start; drained ones come on top. The simulation begins with
        `engines` (or the pool's number), all serving.
    target : float
        Load of an engine to aim at, in terms of `metric`.
    metric : str
        A name of `METRICS`: ``"outstanding"`` (requests), ``"outstanding_tokens"`` (their prompts' tokens),
        ``"waiting"``, ``"running"``, ``"kv_use"`` (share of the KV memory).
    interval_s : float
        Seconds between evaluations; the first is one interval after the beginning.
    start_s : float
        Seconds until an added engine serves: getting a node, pulling the image, loading the model, CUDA graphs.
    tolerance : float
        Relative deviation of the mean load from `target` below which nothing changes.
    patience : int
        The fleet shrinks only to the largest number wanted by this many last evaluations; 1 removes engines at once.
    role : {"both", "prefill", "decode"}
        Which engines are scaled: all, or those of one of the `Pools`.
    scaler : callable, optional
        () -> a new `Scaler`, to use instead of target tracking.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    min_engines: int
    max_engines: int
    target: float
    metric: str = "outstanding"
    # Kubernetes' defaults: evaluated every 15 s, 10 % tolerance, 300 s (20 evaluations) before it scales down. The
    # minute until an engine serves is a guess; loading a model of 70 billion weights takes longer.
    interval_s: float = 15.0
    start_s: float = 60.0
    tolerance: float = 0.1
    patience: int = 20
    role: str = "both"
    scaler: Callable[[], Scaler] | None = None

    def __post_init__(self) -> None:
        for name in ("min_engines", "max_engines", "patience"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"scaling: {name}: expected an integer >= 1 (got {value!r})")
        if self.max_engines < self.min_engines:
            raise InputError(f"scaling: max_engines: {self.max_engines} is below min_engines {self.min_engines}")
        for name in ("target", "interval_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"scaling: {name}: expected a finite number > 0 (got {value})")
        for name in ("start_s", "tolerance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"scaling: {name}: expected a finite number >= 0 (got {value})")
        if self.metric not in METRICS:
            raise InputError(f"scaling: metric: expected one of {', '.join(METRICS)} (got {self.metric!r})")
        if self.role not in ("both", "prefill", "decode"):
            raise InputError(f"scaling: role: expected 'both', 'prefill' or 'decode' (got {self.role!r})")

    def fresh(self) -> Scaler:
        """A new scaler, without history."""
        if self.scaler is not None:
            return self.scaler()
        return TargetTracking(self.metric, self.target, self.tolerance, self.patience)
