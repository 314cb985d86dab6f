"""Requests as rows: the generic CSV and Parquet formats, one column per field of a `Trace`.

Columns: ``arrival`` and ``model``; and, where there are, ``slo``, ``prompt_tokens``, ``output_tokens``, ``prefix``
and ``id`` (checked to be distinct, then left behind). Others are ignored.
"""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..columns import LongArray, model_names, slo_column, unknown_model
from ..trace import Trace
from .cells import ID, SLO, TEXT, TIME, TOKENS, Kind
from .text import TraceWarning

__all__ = ["FIELDS", "REQUIRED", "UNITS", "Layout", "Options", "Rows", "build", "check_interval", "layout"]

FIELDS: dict[str, Kind] = {
    "arrival": TIME,
    "model": TEXT,
    "slo": SLO,
    "prompt_tokens": TOKENS,
    "output_tokens": TOKENS,
    "prefix": ID,
    "id": TEXT,
}
REQUIRED = ("arrival", "model")
DTYPES = {"slo": "float64", "prompt_tokens": "int32", "output_tokens": "int32", "prefix": "int64"}
Blame = Callable[[str, Callable[[str], str | None], str], str]
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""Parts of a second that arrivals may be given in."""


@dataclass(frozen=True)
class Options:
    """What a caller wants of a file of requests, CSV or Parquet.

    Parameters
    ----------
    models : sequence of str, optional
        The models and their order; without it those that the file tells of.
    slo : float, sequence or mapping, optional
        Seconds, as in `Trace`; without it the file's own, or none.
    sort : bool
        Whether requests are put in order of arrival; else a file that is out of order is an error.
    ignore_unknown : bool
        Whether requests of other models than `models` are left out with a warning; else they are an error.
    unit : {"s", "ms", "us", "ns"}
        Unit of the arrivals.
    start, stop : float
        Only requests in ``[start, stop)``, seconds; times count from `start`.
    columns : mapping, optional
        Field of a `Trace` -> name of its column in the file, where the two differ.

    Raises
    ------
    InputError
        On an unknown unit or an interval that is none.
    """

    models: Sequence[str] | None = None
    slo: Any = None
    sort: bool = False
    ignore_unknown: bool = False
    unit: str = "s"
    start: float = 0.0
    stop: float | None = None
    columns: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InputError(f"unit: unknown unit {self.unit!r}; expected one of {', '.join(UNITS)}")
        check_interval(self.start, self.stop)


def check_interval(start: float, stop: float | None) -> None:
    """Raise an `InputError` unless ``0 <= start < stop`` (None: no end), in seconds."""
    if not 0 <= start < np.inf:
        raise InputError(f"start: expected finite seconds >= 0 (got {start})")
    if stop is not None and not stop > start:
        raise InputError(f"stop: expected seconds after start = {start:g} (got {stop})")


@dataclass(frozen=True)
class Layout:
    """Which column of a file holds which field.

    Parameters
    ----------
    column : Mapping[str, str]
        Field -> name of its column in the file, for the fields that the file has.
    only_model : str or None
        The model of every request, where the file has no column that says.
    """

    column: Mapping[str, str]
    only_model: str | None

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of cell that each column to be read must hold."""
        return {name: FIELDS[field] for field, name in self.column.items()}


def layout(found: Sequence[str], options: Options) -> tuple[Layout, tuple[str, ...]]:
    """How to read a file with the columns `found`, and the names of the columns that it must have.

    Raises
    ------
    InputError
        If the options rename something that is no field.
    """
    renamed, models = dict(options.columns or {}), options.models
    for name in renamed:
        if name not in FIELDS:
            raise InputError(f"columns: {name!r} is no field of a trace; fields: {', '.join(FIELDS)}")
    wanted = {name: renamed.get(name, name) for name in FIELDS}
    required = tuple(wanted[name] for name in FIELDS if name in REQUIRED or name in renamed)
    only = models[0] if models is not None and len(models) == 1 and wanted["model"] not in found else None
    if only is not None and "model" not in renamed:
        required = tuple(name for name in required if name != wanted["model"])
    return Layout({k: name for k, name in wanted.items() if name in found}, only), required


@dataclass
class Rows:
    """Columns as they are gathered, chunk by chunk; model names become numbers in order of first appearance."""

    parts: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict[str, list[npt.NDArray[Any]]])
    names: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, chunk: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append one chunk, given as a mapping from field to its cells."""
        import pandas as pd

        library: Any = pd

        for name, cells in chunk.items():
            if name == "model":
                codes, uniques = library.factorize(cells)
                numbers = [self.names.setdefault(str(u), len(self.names)) for u in uniques]
                cells = np.array(numbers, dtype=np.int32)[codes]
            elif name == "id":
                cells = library.util.hash_array(np.asarray(cells, dtype=object))
            self.parts.setdefault(name, []).append(cells)

    def take(self, name: str) -> npt.NDArray[Any] | None:
        """Return one field as a whole column, and free its chunks."""
        parts = self.parts.pop(name, None)
        return None if parts is None else np.concatenate(parts)


def build(
    rows: Rows,
    where: str,
    blame: Blame,
    options: Options,
    *,
    only_model: str | None,
    stored_models: Sequence[str] | None,
) -> Trace:
    """A trace of gathered rows.

    Parameters
    ----------
    rows : Rows
        The columns; used up.
    where : str
        The file, to begin messages with.
    blame : callable
        ``blame(field, wrong, more)``: the message that lists the rows where ``wrong(cell)`` finds fault.
    options : Options
        Options of the reader.
    only_model : str or None
        The model of every request, where the file has no column that says.
    stored_models : sequence of str or None
        Names and order of the models as the file itself tells them.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        On no request, a repeated id, an unknown model, or arrivals out of order that are not to be sorted.
    """
    arrival = rows.take("arrival")
    if arrival is None or len(arrival) == 0:
        raise InputError(f"{where}: holds a header and no request")
    _check_ids(rows, blame)
    columns: dict[str, npt.NDArray[Any]] = {"arrival": arrival}
    if options.unit != "s":
        columns["arrival"] = arrival / UNITS[options.unit]
    if only_model is None:
        names, columns["model"] = _models(rows, where, blame, options, stored_models)
    else:
        names, columns["model"] = model_names([only_model]), np.zeros(len(arrival), dtype=np.int32)
    for name, dtype in DTYPES.items():
        column = rows.take(name)
        if column is not None:
            columns[name] = column.astype(dtype, copy=False)
    columns = _in_order(columns, blame, options.sort)
    if bool((columns["model"] < 0).any()):
        keep = columns["model"] >= 0
        columns = {name: column[keep] for name, column in columns.items()}
    if options.slo is not None or "slo" not in columns:
        slo = np.inf if options.slo is None else options.slo
        columns["slo"] = slo_column(slo, names, columns["model"])
    trace = Trace.trusted(models=names, **columns)
    if options.start > 0 or options.stop is not None:
        trace = trace.slice(options.start, np.inf if options.stop is None else options.stop)
    _warn_if_times_look_wrong(trace, where, options.unit)
    return trace


def _check_ids(rows: Rows, blame: Blame) -> None:
    ids = rows.take("id")
    if ids is None or len(np.unique(ids)) == len(ids):
        return
    seen: set[str] = set()

    def again(cell: str) -> str | None:
        if cell in seen:
            return "was given before; ids must be distinct"
        seen.add(cell)
        return None

    message = blame("id", again, "")
    if message:  # else two ids merely share a 64-bit hash
        raise InputError(message)


def _models(
    rows: Rows, where: str, blame: Blame, options: Options, stored_models: Sequence[str] | None
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Names of the models, and the index of each request's among them; -1 for a request to be left out."""
    found = tuple(rows.names)
    known = model_names(options.models if options.models is not None else (stored_models or found))
    position = {name: i for i, name in enumerate(known)}
    renumber = np.array([position.get(name, -1) for name in found], dtype=np.int32)
    index = renumber[rows.take("model")]
    unknown = [name for name in found if name not in position]
    if unknown and not options.ignore_unknown:
        more = f"\n{unknown_model(unknown[0], known)}; ignore_unknown=True leaves such requests out"
        raise InputError(blame("model", lambda cell: None if cell in position else "is no known model", more))
    if unknown:
        dropped = int((index < 0).sum())
        if dropped == len(index):
            raise InputError(f"{where}: no request is of a known model; {unknown_model(unknown[0], known)}")
        shown = ", ".join(unknown[:5]) + (" …" if len(unknown) > 5 else "")
        warnings.warn(
            f"{where}: left out {dropped} of {len(index)} requests, of {len(unknown)} unknown model(s): {shown}",
            TraceWarning,
            stacklevel=2,
        )
    return known, index


def _in_order(columns: dict[str, npt.NDArray[Any]], blame: Blame, sort: bool) -> dict[str, npt.NDArray[Any]]:
    arrival = columns["arrival"]
    if bool((arrival[1:] >= arrival[:-1]).all()):
        return columns
    if sort:
        order: LongArray = np.argsort(arrival, kind="stable")
        return {name: column[order] for name, column in columns.items()}
    last = -np.inf

    def earlier(cell: str) -> str | None:
        nonlocal last
        previous, last = last, float(cell)
        return f"is earlier than the line before, {previous:g}" if last < previous else None

    raise InputError(blame("arrival", earlier, "\nsort=True (--sort) puts requests in order of arrival"))


def _warn_if_times_look_wrong(trace: Trace, where: str, unit: str) -> None:
    """Milliseconds taken for seconds and the like: nobody serves a million requests per second, or for no time."""
    span = float(trace.arrival[-1] - trace.arrival[0])
    if len(trace) > 1 and (span < 1.0 or len(trace) / span > 1e6):
        warnings.warn(
            f"{where}: times look like another unit than {unit!r}: {len(trace)} requests within {span:g} s; "
            f"if so, read with unit={'|'.join(name for name in UNITS if name != unit)}",
            TraceWarning,
            stacklevel=2,
        )
