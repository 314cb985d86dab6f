"""`Lead`: GraphPipe's throughput over PipeDream's, in any setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .points import measure
from .setting import Setting
from .systems import Point

__all__ = ["PAIR", "Case", "Lead"]

PAIR = ("GraphPipe", "PipeDream")


@dataclass(frozen=True, slots=True)
class Case:
    """What is trained on how many GPUs.

    Parameters
    ----------
    model : str
        Name in the zoo, without its number of branches.
    branches, gpus, batch : int
        Branches, GPUs, samples of an iteration.
    title : str
        Name in pictures.
    """

    model: str
    branches: int
    gpus: int
    batch: int
    title: str

    def point(self, system: str, setting: Setting, batch: float = 1.0) -> Point:
        """The point of one system, with the mini-batch multiplied by `batch`."""
        return Point(system, self.model, self.branches, self.gpus, int(self.batch * batch), None, setting)


@dataclass(frozen=True, slots=True)
class Lead:
    """GraphPipe's throughput over PipeDream's, the largest over some cases.

    Parameters
    ----------
    claim : str
        The claim, in short.
    paper : float
        The paper's figure.
    cases : sequence of Case
        What is compared.
    """

    claim: str
    paper: float
    cases: Sequence[Case]

    def at(self, setting: Setting, batch: float = 1.0) -> float:
        """The lead in a setting, with mini-batches multiplied by `batch`; NaN where PipeDream has no plan."""
        found: list[float] = []
        for case in self.cases:
            mine, other = (measure(case.point(s, setting, batch))["samples_per_s"] for s in PAIR)
            found.append(mine / other)
        return max((x for x in found if math.isfinite(x)), default=math.nan)
