"""`RecoveredRun`: what a run that was killed and went on did, and when."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....errors import RunError
from ....reprs import Shown
from ....simulator.summary import Figure, Summary
from .saving import JOURNAL

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Event", "RecoveredRun", "attempt_of"]


class Event(NamedTuple):
    """Something that all ranks have done.

    Parameters
    ----------
    what : {"begins", "iteration", "checkpoint"}
        An attempt is ready to compute; an iteration is done; a checkpoint counts.
    done : int
        Iterations that are done then.
    at_s : float
        Seconds of the machine's monotonic clock: on the rank that was last.
    loss : float
        Of an iteration; NaN of others.
    """

    what: str
    done: int
    at_s: float
    loss: float


def attempt_of(folder: Path, ranks: int, take: bool = True) -> list[Event]:
    """What the ranks wrote into their journals: what all of them did. Journals that are taken are emptied."""
    told: list[list[dict[str, float | str]]] = []
    for rank in range(ranks):
        path = folder / JOURNAL.format(rank=rank)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1].splitlines()  # a rank that is killed may leave half a line
        told.append([json.loads(line) for line in whole])
        if take:
            path.unlink(missing_ok=True)
    events: list[Event] = []
    for lines in zip(*told, strict=False):  # all ranks do the same in the same order, some not to the end
        loss = next((float(line["loss"]) for line in lines if "loss" in line), float("nan"))
        at = max(float(line["at_s"]) for line in lines)
        events.append(Event(str(lines[0]["what"]), int(lines[0]["done"]), at, loss))
    return events


@dataclass(frozen=True, eq=False, repr=False)
class RecoveredRun(Shown):
    """A run that was killed and went on.

    Parameters
    ----------
    ranks : int
        Processes.
    every, iterations : int
        Iterations between checkpoints, and in all.
    events : tuple of Event
        What was done, in order of time, over all attempts.
    struck : tuple of (float, int)
        When a rank was killed, seconds of the machine's clock, and which.
    """

    ranks: int
    every: int
    iterations: int
    events: tuple[Event, ...]
    struck: tuple[tuple[float, int], ...] = ()

    @property
    def begun_s(self) -> float:
        """When the first iteration began, seconds of the machine's clock."""
        return self.events[0].at_s

    @property
    def wall_s(self) -> float:
        """From the first iteration until the last checkpoint counts, seconds."""
        return self.events[-1].at_s - self.begun_s

    @property
    def losses(self) -> tuple[float, ...]:
        """Of every iteration.

        Raises
        ------
        RunError
            If an iteration that was done again had another loss than before.
        """
        found: dict[int, float] = {}
        for event in self.events:
            if event.what == "iteration":
                before = found.setdefault(event.done, event.loss)
                if before != event.loss:
                    raise RunError(f"run: iteration {event.done}: loss {event.loss!r}, {before!r} before it was killed")
        return tuple(found[done] for done in sorted(found))

    @property
    def iterations_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Seconds of every iteration that was done, those included that were done again."""
        return self._took("iteration")

    @property
    def checkpoints_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Seconds for which ranks stood still for each checkpoint."""
        return self._took("checkpoint")

    def _took(self, what: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        pairs = zip(self.events, self.events[1:], strict=False)
        return np.array([b.at_s - a.at_s for a, b in pairs if b.what == what])

    @property
    def starts_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Of each attempt that did an iteration, by how many seconds its first one took longer than the median one."""
        usual = float(np.median(self.iterations_s))
        pairs = zip(self.events, self.events[1:], strict=False)
        return np.array(
            [max(0.0, b.at_s - a.at_s - usual) for a, b in pairs if a.what == "begins" and b.what == "iteration"]
        )

    @property
    def restarts_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Seconds from each time a rank was killed until training goes on at its usual pace.

        Until all ranks are ready again, and by how much their first iteration takes longer. A restart that is itself
        struck is left out: it is not whole.
        """
        usual = float(np.median(self.iterations_s))
        firsts = [
            b.at_s - usual for a, b in zip(self.events, self.events[1:], strict=False)
            if a.what == "begins" and b.what == "iteration"
        ]  # fmt: skip
        kills = [at for at, _ in self.struck]
        found: list[float] = []
        for k, at in enumerate(kills):
            ready = min((b for b in firsts if b > at), default=float("inf"))
            if ready < min(kills[k + 1 : k + 2], default=float("inf")):
                found.append(ready - at)
        return np.array(found)

    def work_at(self, seconds: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[int]:
        """Iterations that are saved, or done since the last start, at times since the first iteration."""
        at = np.array([e.at_s - self.begun_s for e in self.events])
        done = np.array([e.done for e in self.events])
        return [int(done[max(0, int(np.searchsorted(at, s, side="right")) - 1)]) for s in seconds]

    def to_frame(self) -> pd.DataFrame:
        """One row per event: what, iterations done, seconds since the first iteration began, loss; kills too."""
        import pandas as pd

        rows = [(e.what, e.done, e.at_s - self.begun_s, e.loss) for e in self.events]
        rows += [(f"rank {rank} killed", -1, at - self.begun_s, float("nan")) for at, rank in self.struck]
        frame = pd.DataFrame(rows, columns=["what", "done", "at_s", "loss"])
        return frame.sort_values("at_s", kind="stable", ignore_index=True)

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        restarts, saves = self.restarts_s, self.checkpoints_s
        again = len(self.iterations_s) - self.iterations
        return Summary(
            repr(self),
            [
                Figure("wall_s", self.wall_s, "s", "from the first iteration until the last checkpoint counts"),
                Figure("iteration_s", float(np.median(self.iterations_s)), "s", "of one iteration, median"),
                Figure("checkpoint_s", float(np.median(saves)), "s", "for which ranks stand still, median"),
                Figure("restart_s", float(np.median(restarts)) if len(restarts) else float("nan"), "s", "median"),
                Figure("kills", float(len(self.struck)), "", "processes that were killed"),
                Figure("again", float(again), "", "iterations that were done again"),
            ],
        )

    def _headline(self) -> str:
        return (
            f"{self.iterations} iterations on {self.ranks} ranks, killed {len(self.struck)} times: {self.wall_s:.4g} s"
        )

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()
