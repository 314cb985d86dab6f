"""`Progress`: how far a study is, as the session says it and the command line shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["OnProgress", "Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is.

    Parameters
    ----------
    done, kept, failed : int
        Points that are in the store; of these, those that an earlier run left there; of these, those that failed.
    total : int
        Points that are asked for by now; a question adds to them as it goes.
    elapsed_s : float
        Seconds since the session began to evaluate.
    what : str
        What is being done, such as the question under way.
    """

    done: int
    kept: int
    failed: int
    total: int
    elapsed_s: float
    what: str = ""

    @property
    def eta_s(self) -> float | None:
        """Seconds that the rest will take at the pace so far; None before the first point is done here."""
        fresh = self.done - self.kept
        return None if fresh < 1 else (self.total - self.done) * self.elapsed_s / fresh


OnProgress = Callable[[Progress], None]
