"""`RealSharing`: the outcome of a real run: a `SharingResult`, and what was measured beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from ...files import write_text
from ...reprs import Shown
from ...simulator.sharing.result.columns import AppRecord, Grant, SharingResult
from ...simulator.sharing.world import SharingWorld
from .arbiter.roster import Lost
from .documents import from_document, read_document, to_text
from .messages import Pause, Profiled
from .options import RunOptions

__all__ = ["Measured", "RealSharing"]


@dataclass(frozen=True, slots=True, repr=False)
class Measured(Shown):
    """Overheads of a real run.

    Parameters
    ----------
    pauses : tuple of Pause
        Each time that a job stood still because its GPUs changed, in real seconds.
    behind_s : float
        Largest delay of a training step after the time at which its job was entitled to it, real seconds. It says how
        well the cores keep up.
    steps : int
        Training steps that were run.
    rounds : int
        Number of rounds in which the arbiter asked its agents.
    longest_round_s : float
        Real seconds of the longest round; jobs go on meanwhile.
    profiled : tuple
        For each app, what its agent measured of iterations, by level; () of those that were lost.
    """

    pauses: tuple[Pause, ...] = ()
    behind_s: float = 0.0
    steps: int = 0
    rounds: int = 0
    longest_round_s: float = 0.0
    profiled: tuple[tuple[Profiled, ...], ...] = ()

    def pause_s(self, *, resumed: bool) -> float:
        """Median standstill of jobs that started, or that resumed, real seconds; NaN if none did."""
        found = [p.pause_s for p in self.pauses if p.resumed == resumed]
        return float(np.median(found)) if found else float("nan")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A `RealSharing` as it stands in a file."""

    world: SharingWorld
    policy: str
    records: tuple[AppRecord, ...]
    grants: tuple[Grant, ...]
    options: RunOptions
    measured: Measured
    lost: tuple[Lost, ...]


@dataclass(frozen=True, eq=False, repr=False)
class RealSharing(SharingResult):
    """Outcome of a real run: a `SharingResult` whose times were measured, in the world's seconds.

    Parameters
    ----------
    options : RunOptions
        Options of the run.
    measured : Measured
        Overheads of the run.
    lost : tuple of Lost
        Agents that were lost before their app was done, though the world has no such failure; their apps are not
        `completed`.
    """

    options: RunOptions = field(default_factory=RunOptions)
    measured: Measured = Measured()
    lost: tuple[Lost, ...] = ()

    @classmethod
    def from_run(
        cls, result: SharingResult, options: RunOptions, measured: Measured, lost: Sequence[Lost]
    ) -> RealSharing:
        """Put together."""
        columns = {f.name: getattr(result, f.name) for f in fields(SharingResult)}
        return cls(**columns, options=options, measured=measured, lost=tuple(lost))

    def save(self, path: Path | str) -> Path:
        """Write all of it to a JSON file.

        Raises
        ------
        InputError
            If nothing can be written there.
        """
        columns = (self.start, self.finish, self.completed, self.gpu_seconds, self.contention, self.placed)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        records = tuple(
            AppRecord(k, a, b, done, gpu, n, tuple(where)) for k, (a, b, done, gpu, n, where) in enumerate(rows)
        )
        kept = _Kept(self.world, self.policy, records, tuple(self.grants), self.options, self.measured, self.lost)
        return write_text(path, to_text(kept))

    @classmethod
    def load(cls, path: Path | str) -> RealSharing:
        """Read what `save` wrote.

        Raises
        ------
        InputError
            If it cannot be read, or is something else.
        """
        kept = from_document(_Kept, read_document(path), str(path))
        result = SharingResult.of(kept.world, kept.policy, {r.app: r for r in kept.records}, kept.grants)
        return cls.from_run(result, kept.options, kept.measured, kept.lost)

    def measured_world(self) -> SharingWorld:
        """The world with measured times of checkpoints and containers, to simulate what was run.

        Times that the run did not show stay as they are.
        """
        scale = self.options.time_scale
        start_s = self.measured.pause_s(resumed=False) * scale
        resume_s = self.measured.pause_s(resumed=True) * scale
        container_s = start_s if np.isfinite(start_s) else self.world.container_s
        checkpoint_s = max(resume_s - container_s, 0.0) if np.isfinite(resume_s) else self.world.checkpoint_s
        return replace(self.world, container_s=container_s, checkpoint_s=checkpoint_s)
