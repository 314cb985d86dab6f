"""Fig. 6a's odd point: which readings of Eqs. 2.5 and 2.9 have 8 slices slower than 4 and 16, in setting (8)?

The paper measures 2.662, 1.241, 1.255 and 1.241 s with 1, 4, 8 and 16 uniform slices, and 1.111 s with the six slices
of its dynamic programme. Eq. 2.9 says what a slice takes, t(i, j) = t(i, 0) + a0 + a1 i + a2 j + a3 i j, and Eq. 2.5
what an iteration does. Both leave things open; a `Reading` settles them. Its coefficients are then free, non-negative,
and chosen so that the five latencies come out best: no model of ours, and no rate, is in it. So a reading that cannot
give the point with the best of all coefficients cannot give it at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ..report import Frame
from .tables import SETTINGS, Row, row

__all__ = ["POINTS", "READINGS", "Reading", "bump", "enumerated", "fitted", "said"]

Floats = npt.NDArray[np.float64]

SETTING, TOKENS = 8, 2048
POINTS: Mapping[str, Row] = MappingProxyType(
    {"1": row(SETTING, scheme="w/o"), **{n: row(SETTING, scheme=n) for n in ("4", "8", "16")}, "DP": row(SETTING)}
)
"""The latencies of Fig. 6a."""

FIRST: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "a line": lambda i: np.stack((np.ones_like(i), i), axis=-1),
        "flat below 256": lambda i: np.stack((np.ones_like(i), np.maximum(i, 256.0)), axis=-1),
        "tiles of 64": lambda i: np.stack((np.ones_like(i), 64 * np.ceil(i / 64)), axis=-1),
        "tiles of 128": lambda i: np.stack((np.ones_like(i), 128 * np.ceil(i / 128)), axis=-1),
        "tiles of 256": lambda i: np.stack((np.ones_like(i), 256 * np.ceil(i / 256)), axis=-1),
        "a line and squares": lambda i: np.stack((np.ones_like(i), i, i**2), axis=-1),
    }
)
"""t(i, 0), time without context: terms of the length. Fig. 3 says flat below 256; tiles: lengths rounded up; squares:
scores of the slice with itself."""

CONTEXT: Mapping[str, Callable[[Floats, Floats], Floats]] = MappingProxyType(
    {
        "tokens before": lambda i, j: j,
        "and its own": lambda i, j: i + j,
        "and half its own": lambda i, j: j + i / 2,
        "whole sequence": lambda i, j: np.full_like(j, float(TOKENS)),
    }
)
"""What j counts: Eq. 2.4 as printed; the rectangle with the slice's own keys; its triangle; caches as long as the
sequence, as the published program keeps them."""

WHERE = ("every slice", "slices with context")
PASSES = ("Eq. 2.5", "K stages")


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read both equations.

    Parameters
    ----------
    first, context : str
        Keys of `FIRST` and `CONTEXT`.
    where : str
        Which slices pay for context: one of `WHERE`.
    passes : str
        ``"Eq. 2.5"``: the sum and (K − 1) times the longest; ``"K stages"``: K times, as if one more hop waited.
    """

    first: str
    context: str
    where: str
    passes: str

    def terms(self, cut: tuple[int, ...]) -> Floats:
        """Terms of each slice of a sequence, a row each: those of t(i, 0), then 1, i, j and i j."""
        i = np.array(cut, dtype=float)
        j = CONTEXT[self.context](i, np.cumsum(i) - i)
        pays = np.ones_like(i)
        if self.where == "slices with context":
            pays[0] = 0.0
        overhead = np.stack((pays, pays * i, pays * j, pays * i * j), axis=-1)
        return np.concatenate((FIRST[self.first](i), overhead), axis=-1)

    def seconds(self, r: Row, coefficients: Floats) -> float:
        """Seconds of an iteration by Eq. 2.5."""
        times = self.terms(r.cut) @ coefficients
        waits = SETTINGS[r.setting].layout.pipe - (self.passes == "Eq. 2.5")
        return float(r.repetitions * times.sum() + waits * times.max())


READINGS: tuple[Reading, ...] = tuple(Reading(*one) for one in product(FIRST, CONTEXT, WHERE, PASSES))
"""All of them."""


def fitted(reading: Reading, without: tuple[str, ...] = ()) -> dict[str, float]:
    """Latencies of `POINTS` by the coefficients that err least, relative, over all points but some.

    Which slice is the longest depends on the coefficients: those of the last fit choose it for the next, from each of
    some beginnings; the best fit is kept.
    """
    from scipy.optimize import nnls

    used = {name: r for name, r in POINTS.items() if name not in without}
    best: tuple[float, Floats] | None = None
    for start in ("first", "last", "longest"):
        slowest = {name: _slowest(start, r) for name, r in used.items()}
        for _ in range(20):
            rows = []
            for name, r in used.items():
                terms = reading.terms(r.cut)
                waits = SETTINGS[r.setting].layout.pipe - (reading.passes == "Eq. 2.5")
                rows.append((r.repetitions * terms.sum(axis=0) + waits * terms[slowest[name]]) / r.seconds)
            design = np.array(rows)
            scale = np.linalg.norm(design, axis=0)
            scale[scale == 0] = 1.0
            coefficients = nnls(design / scale, np.ones(len(rows)))[0] / scale
            error = max(abs(reading.seconds(r, coefficients) / r.seconds - 1) for r in used.values())
            if best is None or error < best[0]:
                best = error, coefficients
            again = {name: int((reading.terms(r.cut) @ coefficients).argmax()) for name, r in used.items()}
            if again == slowest:
                break
            slowest = again
    assert best is not None
    return {name: reading.seconds(r, best[1]) for name, r in POINTS.items()}


def bump() -> float:
    """What the point asks of t(i, 0) if it may be anything and context cost nothing: t(256) over the line from t(128)
    to t(512), less 1."""
    pipe = SETTINGS[SETTING].layout.pipe
    at = {r.cut[0]: r.seconds / (r.repetitions * len(r.cut) + pipe - 1) for r in (POINTS[n] for n in ("4", "8", "16"))}
    return at[256] / (at[128] + (at[512] - at[128]) / 3) - 1


def said(frame: Frame) -> str:
    """What `enumerated` found, in words."""
    point, best = POINTS["8"], frame[frame.others < 0.005]
    low, high = best.left_out.min(), best.left_out.max()
    return (
        f"Fig. 6a's 8 slices: of {len(frame)} readings of Eqs. 2.5 and 2.9 (what context counts, who pays for it, flat "
        f"or rounded lengths, hops), each with any non-negative coefficients, {(frame.slower >= 1).sum()} has them "
        f"slower than 4 and 16; the nearest has them {1 - frame.slower.max():.0%} faster than one of both. "
        f"{len(best)} readings give the other four latencies within 0.5 %, and for 8 slices "
        f"{point.seconds * (1 + low):.2f} to {point.seconds * (1 + high):.2f} s, {-high:.0%} to {-low:.0%} less than "
        f"was measured; the paper's ten runs scattered by {point.deviation / point.seconds:.1%}. So it is neither "
        "Eq. 2.9 nor the scatter of those runs, but something in that one measurement: as if 256 tokens took "
        f"{bump():.0%} longer than the line from 128 to 512 has it"
    )


def _slowest(start: str, r: Row) -> int:
    return {"first": 0, "last": len(r.cut) - 1, "longest": int(np.argmax(r.cut))}[start]


def enumerated() -> Frame:
    """A row for each reading.

    Returns
    -------
    DataFrame
        Columns first, context, where, passes; s_1, s_4, s_8, s_16, s_DP: seconds by the coefficients that fit all five
        latencies best; worst: largest relative error of the five; slower: least of the 8-slice latency over those of 4
        and of 16 (above 1 in the paper); others: largest error of the other four when the point is left out; left_out:
        the point's error then.
    """
    import pandas as pd

    made = []
    for reading in READINGS:
        s, rest = fitted(reading), fitted(reading, ("8",))
        off = {name: s[name] / r.seconds - 1 for name, r in POINTS.items()}
        off_rest = {name: rest[name] / r.seconds - 1 for name, r in POINTS.items()}
        made.append(
            {"first": reading.first, "context": reading.context, "where": reading.where, "passes": reading.passes}
            | {f"s_{name}": value for name, value in s.items()}
            | {
                "worst": max(map(abs, off.values())),
                "slower": min(s["8"] / s["4"], s["8"] / s["16"]),
                "others": max(abs(e) for name, e in off_rest.items() if name != "8"),
                "left_out": off_rest["8"],
            }
        )
    return pd.DataFrame(made)
