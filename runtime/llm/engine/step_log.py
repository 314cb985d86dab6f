"""`StepLog`: where the time of every iteration of a real engine went."""

from __future__ import annotations

from array import array
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from ....simulator.llm.policy.work import Work
from .engine import StepOutput, StepTimes

__all__ = ["StepLog"]


class StepLog:
    """Where the time of every iteration went, in order.

    Parameters
    ----------
    seconds : dict of str to array
        ``schedule, build, forward, sample`` (see `StepTimes`) and ``total``: from the begin of the iteration
        to its end, what is kept for the record included.
    sequences, tokens, prefill : array of int
        Sequences and tokens of the batch, and those of its tokens that are prompts'.
    """

    def __init__(self) -> None:
        self.seconds = {f.name: array("d") for f in fields(StepTimes)} | {"total": array("d")}
        self.sequences, self.tokens, self.prefill = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self.tokens)

    def note(self, out: StepOutput, work: Work, total: float) -> None:
        """Keep an iteration."""
        for name, column in self.seconds.items():
            column.append(total if name == "total" else getattr(out.times, name))
        iteration = work.iteration
        decodes, tokens = (0, 0) if iteration is None else (iteration.decodes, iteration.tokens)
        self.sequences.append(0 if iteration is None else decodes + len(iteration.prefill))
        self.tokens.append(tokens)
        self.prefill.append(tokens - decodes)

    def means(self) -> dict[str, float]:
        """Mean seconds of each part; NaN without an iteration."""
        return {name: float(np.mean(column)) if column else float("nan") for name, column in self.seconds.items()}

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """One part of every iteration, seconds, shape (m,)."""
        return np.array(self.seconds[name])
