"""`Line`: one kind of prediction held against one set of measurements, and how far off it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ...errors import InputError
from ...reprs import Shown

__all__ = ["KINDS", "SAMPLES", "Errors", "Kind", "Line", "Sample"]

Kind = Literal["published", "here", "files"]
KINDS: tuple[Kind, ...] = ("published", "here", "files")
"""Measurements that others published and the package carries; those made on this machine while the command runs; and
those in files that a user gives."""

Sample = Literal["out", "in", "partly"]
SAMPLES: tuple[Sample, ...] = ("out", "in", "partly")
"""Out of sample: nothing that the prediction rests on was chosen with these measurements in view. In: it was fitted to
them. Partly: something was chosen with some of them, or with the errors, in view."""


@dataclass(frozen=True, slots=True, repr=False)
class Errors(Shown):
    """How far predictions were off, predicted less measured.

    Parameters
    ----------
    unit : {"%", "points"}
        Percent of what was measured; or percentage points, where what is predicted is a share.
    n : int
        Predictions, >= 1.
    median, worst : float
        Of the errors without their sign; `worst` keeps the sign of the one that is farthest off.
    bias : float
        Median of the errors with their sign.
    inside : int, optional
        How many measurements lie in their prediction interval; None where predictions have none.
    """

    unit: Literal["%", "points"]
    n: int
    median: float
    worst: float
    bias: float
    inside: int | None = None

    def __post_init__(self) -> None:
        if self.n < 1 or not all(math.isfinite(x) for x in (self.median, self.worst, self.bias)):
            raise InputError(f"accuracy: expected one finite error or more (got {self.n}: {self.median}, {self.worst})")
        if self.inside is not None and not 0 <= self.inside <= self.n:
            raise InputError(f"accuracy: expected 0 to {self.n} inside (got {self.inside})")

    @classmethod
    def of(cls, errors: Sequence[float], unit: Literal["%", "points"], inside: Sequence[bool] | None = None) -> Errors:
        """Sum up errors in the unit; NaN (nothing to compare) is an error of the caller.

        Raises
        ------
        InputError
            On no error, one that is not finite, or another number of intervals.
        """
        found = np.asarray(list(errors), dtype=np.float64)
        if not found.size or not np.isfinite(found).all():
            raise InputError(f"accuracy: expected finite errors, at least one (got {found.tolist()})")
        if inside is not None and len(inside) != found.size:
            raise InputError(f"accuracy: expected an interval for each error (got {len(inside)} for {found.size})")
        return cls(
            unit, int(found.size), float(np.median(np.abs(found))), float(found[np.argmax(np.abs(found))]),
            float(np.median(found)), None if inside is None else int(np.sum(np.asarray(inside))),
        )  # fmt: skip

    @classmethod
    def relative(
        cls, predicted: Sequence[float], measured: Sequence[float], inside: Sequence[bool] | None = None
    ) -> Errors:
        """Percent of what was measured."""
        return cls.of([100 * (p / m - 1) for p, m in zip(predicted, measured, strict=True)], "%", inside)

    def words(self) -> tuple[str, str, str, str]:
        """Median, worst, bias, and share inside, for a table."""
        unit = " %" if self.unit == "%" else " points"
        held = "" if self.inside is None else f"{self.inside} of {self.n}"
        return f"{self.median:.1f}{unit}", f"{self.worst:+.1f}{unit}", f"{self.bias:+.1f}{unit}", held


@dataclass(frozen=True, slots=True, repr=False)
class Line(Shown):
    """What was predicted, what was measured, by whom, on what, when, in or out of sample, and the errors.

    Parameters
    ----------
    kind : {"published", "here", "files"}
        Where the measurements come from.
    world : str
        The world that predicts.
    what : str
        What is predicted.
    model : str
        What it is predicted with: model, profile, engine.
    measured_by : str
        Who measured.
    on : str
        On which hardware.
    date : str
        When: a year, or a day.
    sample : {"out", "in", "partly"}
        Whether the prediction had these measurements in view.
    why : str
        Why it is so, in a sentence.
    source : str
        Where the measurements stand, and what prints every cell.
    errors : Errors, optional
        None if it was not run: `missing` says why.
    missing : str
        Why there are no errors.
    """

    kind: Kind
    world: str
    what: str
    model: str
    measured_by: str
    on: str
    date: str
    sample: Sample
    why: str
    source: str
    errors: Errors | None = None
    missing: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.sample not in SAMPLES:
            raise InputError(
                f"accuracy: {self.what}: kind {self.kind!r}, sample {self.sample!r}: one of {KINDS}, {SAMPLES}"
            )
        said = ("world", "what", "model", "measured_by", "on", "date", "why", "source")
        empty = [name for name in said if not getattr(self, name)]
        if empty:
            raise InputError(f"accuracy: {self.what or self.world}: a line says everything (nothing in {empty[0]})")
        if (self.errors is None) != bool(self.missing):
            raise InputError(f"accuracy: {self.what}: a line has errors, or says why it has none")

    def _headline(self) -> str:
        return f"{self.world}, {self.what}: " + (
            self.missing if self.errors is None else ", ".join(self.errors.words())
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)
