"""`Drawn`: the factors of one run's times, which both engines read alike.

The k-th action of a mesh (counted on over iterations) that starts t seconds after the run's start takes its time times
the largest of its devices' factors at (t, k): the devices of a stage wait for each other in every pass. The message
that the k-th action sends takes its time times the factor of the mesh's messages at (t, k), t being when its way is
free. Iterations follow each other on one clock, each from when all of the one before is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....jit import kernel
from ....reprs import Shown
from ...draws import Draws, draw
from ...ratio import ratio
from ..plan.file import TrainingPlan
from ..program.actions import Program
from .times import TrainingTimes

__all__ = ["STEADY", "Drawn", "draw_times", "streams_of"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_NONE, _NO, _NOBODY = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 1))
STEADY: tuple[Any, ...] = (0.0, 1.0, _NOBODY, _NO, _NO, _NONE, _NO, 0, 1.0, _NOBODY, _NONE, 0)
"""What the compiled engine is given where nothing varies."""


@dataclass(frozen=True, eq=False, repr=False)
class Drawn(Shown):
    """The factors of an iteration.

    Parameters
    ----------
    passes, messages : Draws
        Factors of devices, and of the messages of each mesh.
    devices : tuple of tuple of int
        For each mesh, its devices' streams in `passes`.
    since_s : float
        Seconds since the run's start at which the iteration begins.
    iteration : int
        Iterations before it; each counts the mesh's actions on.
    """

    passes: Draws
    messages: Draws
    devices: tuple[tuple[int, ...], ...]
    since_s: float = 0.0
    iteration: int = 0

    def __post_init__(self) -> None:
        streams = [d for mine in self.devices for d in mine]
        if not all(self.devices) or min(streams) < 0 or max(streams) >= len(self.passes):
            raise InputError(f"times: expected streams 0 to {len(self.passes) - 1} for the devices of each mesh")
        if len(self.messages) < len(self.devices):
            raise InputError(f"times: expected {len(self.devices)} streams of messages (got {len(self.messages)})")

    def at(self, since_s: float, iteration: int) -> Drawn:
        """The factors of another iteration."""
        return replace(self, since_s=since_s, iteration=iteration)

    def counted(self, action: int) -> int:
        """The number, over all iterations, of the action that is this iteration's `action`-th."""
        return (self.iteration << 32) + action

    def action(self, mesh: int, at_s: float, action: int) -> float:
        """The factor of a mesh's `action`-th action, which starts `at_s` seconds after the iteration."""
        visit, at = self.counted(action), self.since_s + at_s
        return max(self.passes.ratio(d, at, visit) for d in self.devices[mesh])

    def message(self, mesh: int, at_s: float, action: int) -> float:
        """The factor of the message that a mesh's `action`-th action sends, whose way is free at `at_s`."""
        return self.messages.ratio(mesh, self.since_s + at_s, self.counted(action))

    def arrays(self, program: Program) -> tuple[Any, ...]:
        """The same for the compiled engine: what each action draws for itself is drawn for all of them at once."""
        offsets, first = program.columns.offsets, self.counted(0)
        devices = np.array([d for mine in self.devices for d in mine], dtype=np.int64)
        mesh_of = np.repeat(np.arange(len(self.devices)), [len(mine) for mine in self.devices])
        bounds = np.concatenate(([0], np.cumsum([len(mine) for mine in self.devices]))).astype(np.int64)
        actions = np.diff(offsets)
        own, first_own = _own(self.passes, devices, actions[mesh_of], first)
        wires, _ = _own(self.messages, np.arange(len(actions), dtype=np.int64), actions, first)
        return (
            self.since_s, self.passes.window_s, self.passes.slow, devices, bounds, own, first_own, int(len(own) > 1),
            self.messages.window_s, self.messages.slow, wires, int(len(wires) > 1),
        )  # fmt: skip


def _own(draws: Draws, streams: Integers, counts: Integers, first: int) -> tuple[Floats, Integers]:
    """What `counts` visits of each stream draw for themselves, stream after stream, and where each stream's begin.

    One number stands for all where visits do not differ.
    """
    begins = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
    if len(draws.visits) == 1:
        return draws.visits.copy(), begins
    out = np.ones(max(2, int(counts.sum())))
    _visits(draws.keys, draws.visits, streams, counts, begins, first, _LEVEL, out)
    return out, begins


_LEVEL = np.ones((1, 1))


@kernel
def _visits(keys, visits, streams, counts, begins, first, level, out):
    """`level` is a path that never varies: a visit's factor is then its own."""
    for k in range(len(streams)):
        mine = keys[streams[k] : streams[k] + 1]
        for j in range(counts[k]):
            out[begins[k] + j] = ratio(level, 1.0, mine, visits, 0, 0.0, first + j)


def streams_of(plan: TrainingPlan) -> tuple[tuple[int, ...], ...]:
    """For each mesh of a plan, the streams of its devices: numbers of the plan's devices, in ascending order."""
    stage_of = {stage.mesh: s for s, stage in reversed(list(enumerate(plan.stages)))}
    used = [plan.mesh(stage_of[m]).device_ids for m in range(len(plan.meshes))]
    number = {device: k for k, device in enumerate(sorted({d for mine in used for d in mine}))}
    return tuple(tuple(number[d] for d in mine) for mine in used)


def draw_times(times: TrainingTimes, plan: TrainingPlan, horizon_s: float, seed: int, *names: int) -> Drawn:
    """Draw the factors of one run of a plan.

    Streams are numbered by the devices that the plan uses, in ascending order, so that plans on the same devices meet
    the same slow seconds under one seed.

    Parameters
    ----------
    times : TrainingTimes
        How times vary.
    plan : TrainingPlan
        What is run.
    horizon_s : float
        Seconds that the run takes, about.
    seed : int
        Seed.
    *names : int
        Which run under that seed.

    Raises
    ------
    InputError
        On a seed that is no integer >= 0.
    """
    devices = streams_of(plan)
    return Drawn(
        draw(times.passes, 1 + max(map(max, devices)), horizon_s, seed, "training", "passes", *names),
        draw(times.messages, len(devices), horizon_s, seed, "training", "messages", *names),
        devices,
    )
