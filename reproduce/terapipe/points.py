"""Points of TeraPipe's figures: latencies by the paper's slicings and by those of our dynamic programme, simulated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from ...planners.terapipe import Slice, slice_tokens
from ...planners.terapipe.v100.cell import CALIBRATED, V100Cell, V100Rates
from ...planners.terapipe.v100.iteration import iteration_s, simulated_s
from ..report import Frame
from .fit import FEW, without
from .tables import ROWS, SETTINGS, SPEEDUPS, Row, printed_tflops, row, true_tflops

__all__ = [
    "UNIT", "cell_of", "coarser", "joint_gain", "latencies", "own_slices", "sliced", "speedups", "uniform", "written",
]  # fmt: skip

UNIT = 8
"""Tokens of a unit: the paper's slices are multiples of 8."""


def cell_of(setting: int, tokens: int = 2048, rates: V100Rates = CALIBRATED) -> V100Cell:
    """A stage of a setting."""
    return V100Cell(SETTINGS[setting].layout, tokens, rates)


@cache
def own_slices(setting: int, tokens: int = 2048, rates: V100Rates = CALIBRATED, samples: int = 1) -> tuple[Slice, ...]:
    """What our dynamic programme makes of one replica's batch: slices of up to so many sequences, exact (ε = 0)."""
    return sliced(setting, cell_of(setting, tokens, rates), samples)


def sliced(setting: int, cell: V100Cell, samples: int = 1) -> tuple[Slice, ...]:
    """The same on a stage that may be another than `cell_of`'s."""
    batch = row(setting, cell.tokens).repetitions
    times = cell.table(UNIT, range(1, min(samples, batch) + 1))
    found = slice_tokens(times, cell.layout.pipe, batch).slices
    return tuple(Slice(piece.samples, tuple(UNIT * n for n in piece.tokens)) for piece in found)


def coarser(setting: int, tokens: int, epsilon: float) -> tuple[bool, float, float]:
    """With thresholds at least so many seconds apart: whether the slicing is the exact one, its excess, and the bound.

    Excess and bound are of Eq. 2.5, relative to the exact optimum; the bound is the paper's K · ε.
    """
    cell, batch = cell_of(setting, tokens), row(setting, tokens).repetitions
    exact, found = (slice_tokens(cell.table(UNIT), cell.layout.pipe, batch, epsilon=e) for e in (0.0, epsilon))
    excess = found.seconds / exact.seconds - 1
    return found.slices == exact.slices, excess, cell.layout.pipe * epsilon / exact.seconds


def uniform(setting: int, slices: int) -> tuple[Slice, ...]:
    """Every sequence in so many equal slices."""
    tokens = 2048
    return (Slice(1, (tokens // slices,) * slices),) * row(setting, tokens).repetitions


def joint_gain(setting: int, samples: int) -> tuple[float, tuple[Slice, ...]]:
    """Speed-up of the joint slicing, of up to so many sequences and tokens, over no slicing; and that slicing."""
    cell, whole = cell_of(setting), row(setting, scheme="w/o").slices
    found = own_slices(setting, samples=samples)
    return iteration_s(cell, whole) / iteration_s(cell, found), found


def latencies(rows: Iterable[Row] = ROWS) -> Frame:
    """A row for each latency: the paper's, ours simulated by its slicing, and the TFLOP/s that it prints."""
    import pandas as pd

    made: list[dict[str, Any]] = []
    for r in rows:
        ours = simulated_s(cell_of(r.setting, r.tokens), r.slices)
        left_out = iteration_s(cell_of(r.setting, r.tokens, without(r.setting)), r.slices)
        made.append(
            {
                "setting": r.setting,
                "model": SETTINGS[r.setting].model,
                "tokens": r.tokens,
                "scheme": r.scheme,
                "slicing": written(r.slices),
                "paper_s": r.seconds,
                "deviation_s": r.deviation,
                "ours_s": ours,
                "error": ours / r.seconds - 1,
                "calibrated_on": r in FEW,
                "left_out_s": left_out,
                "left_out_error": left_out / r.seconds - 1,
                "tflops": r.tflops,
                "tflops_as_printed": printed_tflops(r),
                "tflops_counted": true_tflops(r),
            }
        )
    return pd.DataFrame(made)


def speedups(points: Iterable[tuple[int, int]] = SPEEDUPS) -> Frame:
    """A row for each speed-up of TeraPipe: by the paper's slicing and by ours, and both with the setting left out."""
    import pandas as pd

    made: list[dict[str, Any]] = []
    for setting, tokens in points:
        base, sliced = row(setting, tokens, "w/o"), row(setting, tokens, "w/")
        paper = base.seconds / sliced.seconds
        point: dict[str, Any] = {
            "setting": setting, "model": SETTINGS[setting].model, "tokens": tokens, "paper": paper,
            "paper_s": base.seconds, "paper_sliced_s": sliced.seconds,
            "deviation_s": base.deviation, "sliced_deviation_s": sliced.deviation,
        }  # fmt: skip
        for name, rates in (("", CALIBRATED), ("left_out_", without(setting))):
            cell = cell_of(setting, tokens, rates)
            seconds = [simulated_s(cell, s) for s in (base.slices, sliced.slices, own_slices(setting, tokens, rates))]
            if not name:
                point |= dict(zip(("ours_s", "ours_sliced_s", "ours_own_s"), seconds, strict=True))
            for way, took in zip(("scheme", "own"), seconds[1:], strict=True):
                point[f"{name}{way}"] = seconds[0] / took
                point[f"{name}{way}_error"] = seconds[0] / took / paper - 1
        own = own_slices(setting, tokens)
        point["paper_slices"], point["own_slices"] = len(sliced.cut), len(own[0].tokens)
        made.append(point | {"own_slicing": written(own)})
    return pd.DataFrame(made)


def written(slices: Iterable[Slice]) -> str:
    """A slicing as the paper writes it, such as ``[(1, [64] * 26 + [48])] * 2``."""
    parts: list[str] = []
    for piece, same in groupby(slices):
        runs = [(length, len(list(group))) for length, group in groupby(piece.tokens)]
        text = " + ".join(f"[{length}]" + (f" * {n}" if n > 1 else "") for length, n in runs)
        if all(n == 1 for _, n in runs):
            text = f"[{', '.join(str(length) for length, _ in runs)}]"
        parts.append(f"[({piece.samples}, {text})] * {len(list(same))}")
    return " + ".join(parts)


def median_error(frame: Frame, column: str) -> float:
    """Median of the absolute values of a column of errors."""
    return float(np.median(np.abs(frame[column])))
