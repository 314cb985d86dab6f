"""Merge several sorted streams of requests into one trace; ties keep the order of the streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .columns import FloatArray, IntArray, slo_column
from .trace import Trace

__all__ = ["merge", "merge_streams"]


def merge_streams(streams: Sequence[FloatArray], models: tuple[str, ...], slo: Any, where: str) -> Trace:
    """One trace of the ascending arrivals ``streams[i]`` of each ``models[i]``; at a tie, the first first.

    Raises
    ------
    InputError
        If no stream holds a request; the message begins with `where`.
    """
    lengths = [len(stream) for stream in streams]
    if not any(lengths):
        raise InputError(f"{where}: no request arrives; raise the rate or the duration")
    if len(streams) == 1:
        arrival, index = streams[0], np.zeros(lengths[0], dtype=np.int32)
    else:
        unsorted = np.concatenate(streams)
        order = np.argsort(unsorted, kind="stable")  # merges the sorted runs, so it costs n log(streams)
        index = np.repeat(np.arange(len(models), dtype=np.int32), lengths)[order]
        arrival = unsorted[order]
    return Trace.trusted(arrival, index, models, slo_column(slo, models, index))


def merge(*traces: Trace) -> Trace:
    """All requests of `traces` in order of arrival; at one instant, those of the first trace first.

    Models of the same name become one; they are ordered by first appearance among the traces' models.

    Raises
    ------
    InputError
        If no trace is given, or a column (tokens, prefix) is in some traces and not in others.
    """
    if not traces:
        raise InputError("merge: expected at least one trace")
    names = tuple(dict.fromkeys(name for trace in traces for name in trace.models))
    position = {name: i for i, name in enumerate(names)}
    index = np.concatenate(
        [np.array([position[m] for m in trace.models], dtype=np.int32)[trace.model] for trace in traces]
    )
    arrival = np.concatenate([trace.arrival for trace in traces])
    order = np.argsort(arrival, kind="stable")  # stable: at one instant the first trace's requests stay first
    extra = {name: _joined(traces, name, order) for name in ("prompt_tokens", "output_tokens", "prefix")}
    slo = np.concatenate([trace.slo for trace in traces])[order]
    model: IntArray = index[order]
    return Trace.trusted(arrival[order], model, names, slo, **extra)


def _joined(traces: Sequence[Trace], column: str, order: npt.NDArray[np.int64]) -> npt.NDArray[Any] | None:
    parts = [getattr(trace, column) for trace in traces]
    held = [part for part in parts if part is not None]
    if held and len(held) < len(parts):
        raise InputError(f"merge: some traces have the column {column!r} and some have not")
    return np.concatenate(held)[order] if held else None
