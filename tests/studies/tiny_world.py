"""A world whose points cost nothing and misbehave to order; what is evaluated is written down."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from meshwright.errors import InfeasibleError
from meshwright.studies import Outcome, Study
from meshwright.studies.design.axes import Axis
from meshwright.studies.design.designs import Grid
from meshwright.studies.design.ranges import Range
from meshwright.worlds import Case
from pydantic import BaseModel


class TinyPlanner(BaseModel):
    name: str = "a"


class TinyCase(Case):
    x: int = 0
    how: str = "ok"
    sleep: float = 0.0
    planner: TinyPlanner = TinyPlanner()


@dataclass(frozen=True)
class Data:
    folder: Path
    digest: str


class TinyWorld:
    """``how`` says what a point does; ``log.txt`` in the study's folder gets a line for each that begins."""

    name = "tiny"
    case = TinyCase
    metrics: ClassVar[Mapping[str, str]] = {"attainment": "1 / (1 + x)", "cost": "x and the seed"}

    def share(self, cases: Sequence[TinyCase], folder: Path) -> Data:
        file = folder / "data.txt"
        return Data(folder, file.read_text() if file.exists() else "none")

    def digests(self, case: TinyCase, shared: Data) -> Mapping[str, str]:
        return {"data.txt": shared.digest}

    def evaluate(self, case: TinyCase, shared: Data) -> Outcome:
        if case.how != "quiet":
            with (shared.folder / "log.txt").open("a") as log:
                log.write(f"{case.x} {case.seed} {os.getpid()}\n")
        if case.sleep:
            time.sleep(case.sleep)
        if case.how == f"die {case.x}" and not (shared.folder / "mended").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if case.how == f"fail {case.x}" and not (shared.folder / "mended").exists():
            raise ValueError(f"no good\nat {object()!r}")
        if case.how == f"exit {case.x}":
            raise SystemExit(3)
        if case.how == f"infeasible {case.x}":
            try:
                raise InfeasibleError("nothing fits; 1 more device would")
            except InfeasibleError as error:
                return Outcome("infeasible", error=str(error))
        metrics = {"attainment": 1 / (1 + case.x), "cost": float(case.x + case.seed)}
        return Outcome(metrics=metrics, notes=("odd",) if case.x % 2 else (), decision=f"x → {case.x}")

    def panels(self, case: TinyCase, shared: Data) -> Sequence[Any]:
        return ()


TINY = TinyWorld()


def tiny_study(folder: Path, points: int = 20, replications: int = 1, **base: Any) -> Study:
    """`points` values of x, times `replications`."""
    axes = (Axis("x", Range(0, points - 1, points, whole=True)),)
    case = TinyCase(**base)
    planners = {"a": {"name": "a"}}
    return Study("tiny", TINY, case, planners, axes, Grid(axes), (), replications, 0, 0.95, folder, "study: tiny\n")


def evaluated(folder: Path) -> list[tuple[int, int, int]]:
    """x, seed and process of every evaluation that began."""
    log = folder / "log.txt"
    return [tuple(map(int, line.split())) for line in log.read_text().splitlines()] if log.exists() else []
