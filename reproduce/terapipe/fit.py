"""Rates of V100s from latencies of TeraPipe's paper: from few, from all, and from all but one setting's.

``python -m meshwright.reproduce.terapipe.fit`` finds `planners.terapipe.v100.cell.CALIBRATED` again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import cache

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...planners.terapipe.v100.cell import CALIBRATED, V100Cell, V100Rates
from ...planners.terapipe.v100.iteration import iteration_s
from .tables import ROWS, SETTINGS, Row, row

__all__ = ["BOUNDS", "FEW", "calibrate", "predicted_s", "without"]

Floats = npt.NDArray[np.float64]

BOUNDS = (V100Rates(0.2, 0.3, 10e9, 1e-6, 0.5e9), V100Rates(0.95, 0.95, 150e9, 1e-3, 3.1e9))
"""What the rates may be: shares of data-sheet figures, NVLink's rate, the network adapter's."""

FEW = (*(row(k, scheme="w/o") for k in (6, 7, 8, 9, 10)), row(8, scheme="16"), row(9, scheme="128"))
"""The two largest models unsliced, and their finest uniform slicings: nothing that TeraPipe chose. Unsliced, what
counts is multiplications, all-reduces and gradients; finely sliced, weights and small collectives. Picked among eight
sets with the other latencies in view."""

_MODEL_ERROR = 0.04  # added to the paper's deviation of a row, to weigh it


def predicted_s(r: Row, rates: V100Rates = CALIBRATED) -> float:
    """Our latency of a row, by the paper's slicing."""
    return iteration_s(V100Cell(SETTINGS[r.setting].layout, r.tokens, rates), r.slices)


def calibrate(rows: Sequence[Row] = ROWS, start: V100Rates = CALIBRATED) -> V100Rates:
    """The rates that fit latencies best: least squares of their logarithms, those that err much counting less.

    Parameters
    ----------
    rows : sequence of Row
        At least as many as there are rates. Those that varied more between the paper's runs weigh less.
    start : V100Rates
        Where the search begins.

    Raises
    ------
    InputError
        If there are too few rows.
    """
    from scipy.optimize import least_squares

    n = len(astuple(start))
    if len(rows) < n:
        raise InputError(f"calibrate: {n} rates need at least so many latencies (got {len(rows)})")
    weights = np.array([_MODEL_ERROR / np.hypot(_MODEL_ERROR, r.deviation / r.seconds) for r in rows])

    def errors(logs: Floats) -> Floats:
        rates = V100Rates(*map(float, np.exp(logs)))
        return weights * np.log([predicted_s(r, rates) / r.seconds for r in rows])

    low, high = (np.log(astuple(b)) for b in BOUNDS)
    # Logarithms, since rates must be positive and errors are relative. The soft loss lets one latency that is off by
    # more than 5 % (a guess at the model's own error) not drag all rates with it.
    found = least_squares(errors, np.log(astuple(start)), bounds=(low, high), loss="soft_l1", f_scale=0.05, ftol=1e-7)
    return V100Rates(*map(float, np.exp(found.x)))


@cache
def without(setting: int) -> V100Rates:
    """Rates from the latencies of all other settings."""
    return calibrate([r for r in ROWS if r.setting != setting])


def main() -> None:
    """Print the rates, what they miss by in all, and the error of each latency."""
    few = calibrate(FEW)
    fits = (("few", few), ("all", calibrate()), *((f"all but ({k})", without(k)) for k in SETTINGS))
    for name, rates in fits:
        errors = np.array([abs(predicted_s(r, rates) / r.seconds - 1) for r in ROWS])
        print(f"{name:13} mean error {errors.mean():.1%}, largest {errors.max():.1%}: {rates}")
    print("\nsetting  tokens  slices  paper (s)  few (s)          left out (s)")
    for r in ROWS:
        ours, left_out = predicted_s(r, few), predicted_s(r, without(r.setting))
        fitted = " fitted" if r in FEW else ""
        print(
            f"({r.setting}){'':{5 - len(str(r.setting))}} {r.tokens:6}  {len(r.cut):6}  {r.seconds:9.3f}  {ours:6.3f} "
            f"{ours / r.seconds - 1:+7.1%}  {left_out:6.3f} {left_out / r.seconds - 1:+7.1%}{fitted}"
        )


if __name__ == "__main__":
    main()
