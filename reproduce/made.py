"""A figure that was made, as its JSON tells of it: what the gallery shows, and what need not be made again."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..files import readable
from .claims import Claim
from .report import Report
from .rules import expectations
from .sensitivity import Sensitivity, Swing

__all__ = ["Made", "of_report", "read"]


@dataclass(frozen=True)
class Made:
    """What ``<name>.json`` says.

    Parameters
    ----------
    name : str
        Key of `FIGURES`.
    fast : bool
        Whether it is the short version.
    seed : int
        Seed of the run.
    meshwright : str
        Version that ran.
    seconds, cpu_s : float
        What it took.
    claims : tuple of Claim
        The claims, judged.
    notes : tuple of str
        Assumptions.
    sensitivity : tuple of Sensitivity
        Headlines and what moves them.
    pictures : tuple of Path
        The PNG files that it wrote.
    """

    name: str
    fast: bool
    seed: int
    meshwright: str
    seconds: float
    cpu_s: float
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    sensitivity: tuple[Sensitivity, ...]
    pictures: tuple[Path, ...]

    def current(self, fast: bool, seed: int) -> bool:
        """Whether it is of this version and these rules, its pictures there; a full run is a fast one, too."""
        rules = {one.text: (one.rule.text, one.kind) for one in expectations(self.name)}
        return (
            (self.seed, self.meshwright) == (seed, __version__)
            and (not self.fast or fast)
            and all(rules.get(claim.text) == (claim.rule, claim.kind) for claim in self.claims)
            and all(picture.is_file() for picture in self.pictures)
        )


def of_report(report: Report) -> Made:
    """A report without its tables."""
    return Made(
        report.name,
        report.fast,
        report.seed,
        __version__,
        report.seconds,
        report.cpu_s,
        report.claims,
        report.notes,
        report.sensitivity,
        tuple(path for path in report.files if path.suffix == ".png"),
    )


def read(out: Path, name: str) -> Made | None:
    """What a folder has of a figure, None if nothing.

    Raises
    ------
    InputError
        If its JSON is not what a run writes.
    """
    path = out / f"{name}.json"
    if not path.exists():
        return None
    try:
        told: dict[str, Any] = json.loads(readable(path).read_text("utf-8"))
        return Made(
            name,
            told["mode"] == "fast",
            told["seed"],
            told["meshwright"],
            told["seconds"],
            told["cpu_seconds"],
            tuple(Claim(**{**one, "value": _number(one["value"])}) for one in told["claims"]),
            tuple(told["notes"]),
            tuple(_sensitivity(one) for one in told.get("sensitivity", ())),
            tuple(path.parent / file for file in told["files"] if file.endswith(".png")),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: expected what reproduce writes ({error!r}); delete the file") from None


def _sensitivity(one: dict[str, Any]) -> Sensitivity:
    swings = (
        Swing(**{**swing, "at_low": _number(swing["at_low"]), "at_high": _number(swing["at_high"])})
        for swing in one["swings"]
    )
    return Sensitivity(**{**one, "swings": tuple(swings)})


def _number(value: float | None) -> float:
    return math.nan if value is None else value
