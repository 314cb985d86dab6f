"""Schedules of token slices (TeraPipe, §2.3): the slices of a microbatch follow each other through the pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import kernels as schedule_kernels
from .pipeline import Order, Pipeline

__all__ = ["terapipe", "terapipe_1f1b"]

_compiled: Any = schedule_kernels  # numba functions have no types


def terapipe(pipeline: Pipeline) -> list[Order]:
    """Forward passes of all slices of all microbatches as they are fed, then all backward passes, the last first."""
    forward = _slices(pipeline)
    backward = np.ascontiguousarray(forward[::-1])
    return [_laid(s, forward, backward, len(forward)) for (s,) in pipeline.stages]


def terapipe_1f1b(pipeline: Pipeline) -> list[Order]:
    """A forward and a backward slice in turn: gradients are accumulated over microbatches in bounded memory.

    A microbatch goes backward from its last slice to its first, once it went forward whole. So the last stage begins
    backward after as many forward passes as the microbatch of most slices has, and each stage before it one more.
    """
    forward = _slices(pipeline)
    backward = forward[np.lexsort((-forward[:, 2], forward[:, 1]))]
    most = max(pipeline.slices, default=1)
    return [_laid(s, forward, backward, min(len(forward), most + pipeline.depth[s] - 1)) for (s,) in pipeline.stages]


def _slices(pipeline: Pipeline) -> npt.NDArray[np.int32]:
    """Rows (0, microbatch, slice), as they are fed."""
    cuts = pipeline.slices or (1,) * pipeline.microbatches
    starts = np.repeat(np.cumsum(cuts) - cuts, cuts)
    microbatch = np.repeat(np.arange(len(cuts)), cuts)
    rows = np.column_stack((np.zeros_like(microbatch), microbatch, np.arange(len(microbatch)) - starts))
    return rows.astype(np.int32)


def _laid(stage: int, forward: npt.NDArray[np.int32], backward: npt.NDArray[np.int32], warmup: int) -> Order:
    rows: Order = _compiled.in_turn(forward, backward, warmup, 1)
    rows[:, 1] = stage
    return rows
