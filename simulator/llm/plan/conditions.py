"""What befalls a plan's engines: devices and nodes that fail, and engines that are given back and started by load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....errors import InputError
from ....reprs import Shown
from ....seeds import seed_sequence
from ...failures.script import ScriptedFailure
from ..fleet.faults import Fault, Faults
from ..fleet.scaling import METRICS, Autoscaling
from ..options import SimulateOptions
from .entries import Deployment
from .file import LLMPlan

__all__ = ["Conditions", "ScalingRule"]


@dataclass(frozen=True, slots=True, repr=False)
class ScalingRule(Shown):
    """How many of a deployment's engines serve, by their load: the rule of `TargetTracking`.

    Parameters
    ----------
    least : int
        Engines that always serve; of a deployment with fewer all of them.
    target : float
        Load of an engine to aim at, > 0.
    by : str
        What the load is: a name of `fleet.scaling.METRICS`.
    every_s : float
        Seconds between evaluations.
    hold_s : float
        Seconds for which fewer engines must have been enough before one is drained.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    least: int
    target: float
    by: str = "outstanding"
    every_s: float = 15.0  # Kubernetes' defaults, as of `Autoscaling`
    hold_s: float = 300.0

    def __post_init__(self) -> None:
        if isinstance(self.least, bool) or self.least < 1:
            raise InputError(f"scaling: least: expected an integer >= 1 (got {self.least!r})")
        if not (math.isfinite(self.target) and self.target > 0):
            raise InputError(f"scaling: target: expected a finite load > 0 (got {self.target})")
        if self.by not in METRICS:
            raise InputError(f"scaling: by: expected one of {', '.join(METRICS)} (got {self.by!r})")
        for name in ("every_s", "hold_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"scaling: {name}: expected finite seconds > 0 (got {getattr(self, name)})")


@dataclass(frozen=True, slots=True, repr=False)
class Conditions(Shown):
    """Failures and scaling of a plan's engines.

    An engine fails with any of its devices, and is away until that is repaired and the model is loaded again. One that
    is away does not fail.

    Parameters
    ----------
    mtbf_s, mttr_s : float, optional
        Mean time between failures of a device, and to its repair, seconds, both exponential; both or none.
    script : tuple of ScriptedFailure
        Failures at known times: of a device, a node, or (``group``) an engine, numbered through the plan's deployments.
    start_s : float
        Seconds until an engine serves, loading aside: after a repair, or when it is started by load.
    disk_bytes_per_s : float, optional
        At which a node's disk gives its devices their weights, all together; without it loading takes no time.
    tokens : {"lose", "keep"}
        What becomes of the tokens that a request had (`Faults`).
    retries : int
        A request that is hit by more failures than this is given up.
    notice_s : float
        Seconds until the requests of a failed engine are sent elsewhere.
    scaling : ScalingRule, optional
        How many engines serve; without it all do.

    Raises
    ------
    InputError
        If nothing is said, or on a value out of its range.
    """

    mtbf_s: float | None = None
    mttr_s: float | None = None
    script: tuple[ScriptedFailure, ...] = ()
    start_s: float = 0.0
    disk_bytes_per_s: float | None = None
    tokens: str = "lose"
    retries: int = 3
    notice_s: float = 0.0
    scaling: ScalingRule | None = None

    def __post_init__(self) -> None:
        if not self.failing and self.scaling is None:
            raise InputError("conditions: nothing fails, and nothing is scaled")
        if self.failing:
            events = (Fault(0, 1.0),) if self.script else ()
            self._faults(events, self.mtbf_s, self.start_s)

    @property
    def failing(self) -> bool:
        """Whether anything fails."""
        return bool(self.script) or self.mtbf_s is not None or self.mttr_s is not None

    def options(self, options: SimulateOptions, plan: LLMPlan, mine: Sequence[Deployment]) -> SimulateOptions:
        """Options of one simulation, with what befalls the engines of its deployments.

        Raises
        ------
        InputError
            Where that is not simulated: a batch in flight of a pipeline does not fail alone.
        """
        piped = next((d.name for d in mine if d.schedulers > 1), None)
        if piped is not None:
            raise InputError(
                f"{piped}: each batch in flight of its pipelines is simulated as an engine, and none fails or is "
                "drained alone; give engine.scheduler pipeline_parallel_size, one scheduler for all"
            )
        return replace(options, faults=self.faults(plan, mine), scaling=self.rule(plan, mine))

    def faults(self, plan: LLMPlan, mine: Sequence[Deployment]) -> Faults | None:
        """Failures of the engines of one simulation; None if nothing befalls them.

        Raises
        ------
        InputError
            On a failure of what the plan has not, or engines of unlike sizes.
        """
        if not self.failing:
            return None
        sizes, loads = {d.devices_per_engine for d in mine}, {self.load_s(plan, d) for d in mine}
        if (len(sizes) > 1 and self.mtbf_s is not None) or len(loads) > 1:
            what = "fail at unlike rates" if len(loads) == 1 else "load for unlike times"
            raise InputError(
                f"failures: engines for prompts and for decodes that {what} are not simulated; take equal engines, or "
                "give a script and no disk"
            )
        events = tuple(self._events(plan, mine))
        if not events and self.mtbf_s is None:
            return None
        mean = None if self.mtbf_s is None else self.mtbf_s / sizes.pop()  # any of its devices
        return self._faults(events, mean, loads.pop())

    def rule(self, plan: LLMPlan, mine: Sequence[Deployment]) -> tuple[Autoscaling, ...] | None:
        """How the engines of one simulation are scaled: those of each of its deployments by their own load.

        Raises
        ------
        InputError
            On engines with shares of the requests.
        """
        said = self.scaling
        if said is None:
            return None
        if any(d.share is not None for d in mine):
            raise InputError("scaling: of engines with shares of the requests is not simulated; leave it out")
        return tuple(
            Autoscaling(
                min(said.least, d.replicas), d.replicas, said.target, said.by, said.every_s, self.load_s(plan, d),
                patience=max(1, round(said.hold_s / said.every_s)), role=d.role,
            )
            for d in mine
        )  # fmt: skip

    def load_s(self, plan: LLMPlan, deployment: Deployment) -> float:
        """Seconds until an engine that is there serves: its start, and weights from the disk of its fullest node."""
        if self.disk_bytes_per_s is None:
            return self.start_s
        nodes = [plan.mixed.on_node(x)[0] for x in deployment.devices[0]]
        most = max(map(nodes.count, nodes))
        return self.start_s + most * plan.capacity(deployment).weight_bytes / self.disk_bytes_per_s

    def seed(self, plan: LLMPlan, first: Deployment, seed: int) -> int:
        """Seed of a simulation: other deployments draw other failures."""
        number = plan.deployments.index(first)
        return seed if not number else int(seed_sequence(seed, "llm", "conditions", number).generate_state(1)[0])

    def _faults(self, events: tuple[Fault, ...], mtbf_s: float | None, load_s: float) -> Faults:
        return Faults(events, mtbf_s, self.mttr_s, load_s, self.tokens, self.retries, self.notice_s)

    def _events(self, plan: LLMPlan, mine: Sequence[Deployment]) -> Iterator[Fault]:
        """The script's failures of these deployments' engines, which are numbered through them."""
        mixed = plan.mixed
        nodes = sum(pool.nodes for pool in mixed.pools)
        every = [(d.name, row) for d in plan.deployments for row in d.devices]
        there = {"group": len(every), "device": mixed.n_devices, "node": nodes}
        numbers: dict[Any, int] = {}
        for d in mine:
            for row in d.devices:
                numbers[d.name, row] = len(numbers)
        for event in self.script:
            if event.number >= there[event.kind]:
                what = "engine (group)" if event.kind == "group" else event.kind
                raise InputError(
                    f"failures.script: {what} {event.number} does not exist; there are {there[event.kind]}, from 0 on"
                )
            if not event.at_s > 0:
                raise InputError("failures.script: engines fail after the beginning; expected at > 0 (got 0)")
            for number, (name, row) in enumerate(every):
                hit = {
                    "group": number == event.number,
                    "device": event.number in row,
                    "node": event.number in {mixed.on_node(x)[0] for x in row},
                }[event.kind]
                if hit and (name, row) in numbers:
                    yield Fault(numbers[name, row], event.at_s, event.repair_s)
