"""Seconds of a pipeline's iteration: 1F1B and interleaved 1F1B in closed form, with uneven ends and transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .words import DUALPIPE, ONE_F_ONE_B, ZB_H1, ZB_V

__all__ = ["PipelineTime", "bubble_fraction", "pipeline_time", "shorter_bubble", "vee_bubble"]

Floats = NDArray[np.float64]


def bubble_fraction(pp: Any, microbatches: Any, interleave: Any = 1) -> Floats:
    """Idle over ideal time of even stages: ``(p - 1) / (m v)`` (Narayanan et al. 2021, section 2.2)."""
    p, m, v = (np.asarray(x, dtype=float) for x in (pp, microbatches, interleave))
    return (p - 1) / (m * v)


@dataclass(frozen=True, slots=True, eq=False)
class PipelineTime:
    """Seconds of the pipeline part of an iteration; its parts add up to it.

    Parameters
    ----------
    work : array
        The slowest stage's forward and backward passes of all microbatches.
    bubble : array
        Its wait for the pipeline to fill and drain.
    transfer : array
        Sends between stages that no work hides.
    """

    work: Floats
    bubble: Floats
    transfer: Floats

    @property
    def total(self) -> Floats:
        """All parts."""
        return self.work + self.bubble + self.transfer


def pipeline_time(
    stage: Any,
    first_extra: Any,
    last_extra: Any,
    send: Any,
    pp: Any,
    interleave: Any,
    microbatches: Any,
    *,
    overlap: bool,
    spread: Any = 0.0,
) -> PipelineTime:
    """Time of m microbatches through p stages in 1F1B, with v chunks of layers per stage.

    The slowest stage works without a pause once the pipeline is full: ``m x max``. One chunk of every other stage is
    before and after it: ``(p - 1) / v`` of a middle stage, and what the ends take more, which is in one chunk each. In
    the steady state a middle stage waits for two exchanges per chunk, one forward and one backward, and the ends for
    one less per microbatch, unless they are hidden. Filling and draining cross every border once each way in any case;
    a hidden exchange still delays every chunk of the first microbatch and of the last, between which nothing else can
    run.

    Parameters
    ----------
    stage : array
        Forward and backward seconds of a middle stage for one microbatch.
    first_extra, last_extra : array
        What the first stage (embedding) and the last one (output layer) take more; less than 0 where they have
        fewer layers.
    send : array
        Seconds of one activation to the next stage.
    pp, interleave, microbatches : array
        p, v and m.
    overlap : bool
        Whether interleaved schedules hide their exchanges.
    spread : array
        Of what both ends take more, what all of their chunks share; the rest is in one chunk.
    """
    t, e0, e1, x = (np.asarray(a, dtype=float) for a in (stage, first_extra, last_extra, send))
    p, v, m = (np.asarray(a, dtype=float) for a in (pp, interleave, microbatches))
    ends = np.maximum(e0, e1)
    slowest = t + np.where(p == 1, e0 + e1, np.where(p > 2, np.maximum(ends, 0.0), ends))
    bubble = (p - 1) * t / v + e0 + e1 - np.asarray(spread, dtype=float) * (1 - 1 / v) - (slowest - t)
    hidden = (v > 1) & overlap
    waiting = t + np.maximum(ends + (2 * v - 1) * x, np.where(p > 2, 2 * v * x, -np.inf))
    steady = np.where(hidden, 0.0, m * (waiting - slowest))
    transfer = np.where(p > 1, steady + 2 * (np.where(hidden, p * v, p) - 1) * x, 0.0)
    return PipelineTime(m * slowest, bubble, transfer)


def shorter_bubble(schedule: Any, pp: Any, passes: tuple[Floats, Floats], weight: Floats, bubble: Floats) -> Floats:
    """Bubbles of schedules that put weight gradients, or microbatches of the other direction, where 1F1B waits.

    ZB-H1, ``(p - 1)(F + B - 2W)``; DualPipe, ``(p / 2 - 1)(FB + B - 3W)`` with FB the time of a forward and a backward
    pass beside each other, taken as their sum. Both as DeepSeek-V3's report has them (Table 2), where B holds W. ZB-V:
    `vee_bubble`. All never below 0, and with even stages: what the ends take more than 1F1B's own even bubble stays.

    Parameters
    ----------
    schedule : array
        Codes, as `columns` numbers them.
    pp : array
        p.
    passes : tuple of array
        F and B of a middle device and a microbatch.
    weight : array
        W of them: the part of B that gradients of weights take.
    bubble : array
        Seconds of 1F1B's bubble, uneven ends included.
    """
    p, code = np.asarray(pp, dtype=float), np.asarray(schedule)
    forward, backward = passes
    even = (p - 1) * (forward + backward) / np.where(code == ZB_V, 2.0, 1.0)
    half = (p - 1) * np.maximum(forward + backward - 2 * weight, 0.0)
    dual = np.maximum(p / 2 - 1, 0.0) * np.maximum(forward + 2 * backward - 3 * weight, 0.0)
    vee = vee_bubble(p, forward / 2, (backward - weight) / 2, weight / 2)
    less = np.select([code == ZB_H1, code == DUALPIPE, code == ZB_V], [half, np.minimum(dual, half), vee], even)
    return np.where(code == ONE_F_ONE_B, bubble, np.maximum(bubble - even + less, 0.0))


def vee_bubble(pp: Any, forward: Any, inputs: Any, weights: Any) -> Floats:
    """Seconds that ZB-V's hand-made order (Qi et al. 2023, section 6) waits in an iteration whose end is the same for
    all devices, with 2p - 1 microbatches or more.

    The paper's order has no bubble where F, B and W take the same and every device begins its optimizer's step by
    itself (their section 4); a step that waits for the norm of all gradients adds ``(p - 1) F``, with which the last
    device begins. Where passes differ, the order waits more: for the longest of eight paths through it, which are read
    off the program (`policy.kernels.there_and_back`; the tests hold the two against each other).

    Parameters
    ----------
    pp : array
        p.
    forward, inputs, weights : array
        F, B without W, and W of a chunk: half of a device's layers.
    """
    f, b, w = (np.asarray(x, dtype=float) for x in (forward, inputs, weights))
    n = np.asarray(pp, dtype=float) - 1
    paths = (
        (2 * n - 1) * f - (n - 1) * b, n * b, 2 * n * (b - w), b + (n - 1) * w, f + (n - 1) * w,
        (2 * n - 1) * f + b - 2 * n * w, 2 * n * f - n * b - w, 2 * n * f - (2 * n + 1) * w,
    )  # fmt: skip
    longest = paths[0]
    for path in paths[1:]:
        longest = np.maximum(longest, path)
    return np.where(n > 0, longest, 0.0)
