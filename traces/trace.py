"""`Trace`: an immutable, columnar log of requests."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["Trace"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]


def _first(mask: npt.NDArray[np.bool_]) -> str:
    rows = np.flatnonzero(mask)
    shown = ", ".join(str(i) for i in rows[:5])
    return f"{len(rows)} row(s), first at index {shown}"


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in order of arrival, as columns.

    Parameters
    ----------
    arrival : array_like of float, shape (n,)
        Arrival times, seconds, non-decreasing, finite and >= 0.
    model : array_like of int or str, shape (n,)
        Index into `models`, or the model's name.
    models : sequence of str
        Distinct model names.
    slo : float or array_like of float, shape (n,) or (len(models),)
        Seconds within which a request must finish; ``inf`` for none. One figure for all, one per model
        (a mapping from name to seconds), or one per request (an array of length n).

    Raises
    ------
    InputError
        On unsorted, negative, NaN or infinite arrivals, an unknown model, a non-positive or NaN SLO, columns of
        different lengths, or no request at all.
    """

    arrival: FloatArray
    model: IntArray
    models: tuple[str, ...]
    slo: FloatArray

    def __init__(
        self,
        arrival: npt.ArrayLike,
        model: npt.ArrayLike,
        models: Sequence[str],
        slo: Any = np.inf,
    ) -> None:
        names = tuple(str(name) for name in models)
        _check_names(names)
        arrivals = np.array(arrival, dtype=np.float64)
        if arrivals.ndim != 1:
            raise InputError(f"Trace.arrival: expected one dimension (got shape {arrivals.shape})")
        if len(arrivals) == 0:
            raise InputError("Trace.arrival: the trace is empty; expected at least one request")
        bad = ~np.isfinite(arrivals)
        if bad.any():
            raise InputError(f"Trace.arrival: times must be finite seconds ({_first(bad)}, got {arrivals[bad][0]})")
        if arrivals[0] < 0 or (arrivals < 0).any():
            bad = arrivals < 0
            raise InputError(f"Trace.arrival: times must be >= 0 seconds ({_first(bad)}, got {arrivals[bad][0]})")
        bad = np.diff(arrivals) < 0
        if bad.any():
            raise InputError(
                f"Trace.arrival: times must not decrease ({_first(np.concatenate(([False], bad)))}); "
                "sort the requests by arrival"
            )
        index = _model_index(model, names, len(arrivals))
        slos = _slo_column(slo, names, index, len(arrivals))
        for array in (arrivals, index, slos):
            array.flags.writeable = False
        object.__setattr__(self, "arrival", arrivals)
        object.__setattr__(self, "model", index)
        object.__setattr__(self, "models", names)
        object.__setattr__(self, "slo", slos)

    def __len__(self) -> int:
        return len(self.arrival)

    def __repr__(self) -> str:
        return f"Trace({len(self)} requests of {len(self.models)} models over {self.duration:.6g} s)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return (
            self.models == other.models
            and np.array_equal(self.arrival, other.arrival)
            and np.array_equal(self.model, other.model)
            and np.array_equal(self.slo, other.slo)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def duration(self) -> float:
        """Seconds from time 0 to the last arrival."""
        return float(self.arrival[-1])

    @property
    def rate(self) -> float:
        """Mean arrival rate over `duration`, requests per second."""
        return len(self) / self.duration if self.duration > 0 else float("inf")

    def counts(self) -> npt.NDArray[np.int64]:
        """Requests of each model, shape ``(len(models),)``."""
        return np.bincount(self.model, minlength=len(self.models))

    def with_slo(self, slo: Any) -> Trace:
        """The same requests under another SLO (a figure, a mapping from model to seconds, or a column)."""
        return Trace(self.arrival, self.model, self.models, slo)

    def with_slo_scale(self, scale: float, latency: Any) -> Trace:
        """The same requests with SLO = `scale` times each model's single-device latency.

        Parameters
        ----------
        scale : float
            The SLO scale.
        latency : Mapping[str, float] or Mapping[str, ModelProfile]
            Model -> single-device latency in seconds, or a set of profiles that knows it.
        """
        slos = {}
        for name in self.models:
            if name not in latency:
                raise InputError(f"with_slo_scale: no latency for model {name!r}")
            value = latency[name]
            slos[name] = scale * float(value if isinstance(value, int | float) else value.single_device_latency())
        return self.with_slo(slos)

    def select(self, models: Iterable[str]) -> Trace:
        """Only the requests of `models`, times unchanged; models keep their order in this trace."""
        wanted = set(models)
        unknown = sorted(wanted - set(self.models))
        if unknown:
            raise InputError(f"Trace.select: unknown model {unknown[0]!r}; known: {', '.join(self.models)}")
        keep = [i for i, name in enumerate(self.models) if name in wanted]
        renumber = np.full(len(self.models), -1, dtype=np.int32)
        renumber[keep] = np.arange(len(keep), dtype=np.int32)
        mask = renumber[self.model] >= 0
        return Trace(
            self.arrival[mask], renumber[self.model[mask]], [self.models[i] for i in keep], self.slo[mask]
        )

    def slice(self, start: float, stop: float, *, rebase: bool = True) -> Trace:
        """Requests with ``start <= arrival < stop``; times counted from `start` if `rebase`."""
        low, high = np.searchsorted(self.arrival, [start, stop], side="left")
        if low == high:
            raise InputError(f"Trace.slice: no request arrives in [{start}, {stop}) s")
        shift = start if rebase else 0.0
        return Trace(self.arrival[low:high] - shift, self.model[low:high], self.models, self.slo[low:high])


def _check_names(names: tuple[str, ...]) -> None:
    if not names:
        raise InputError("Trace.models: expected at least one model name")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"Trace.models: names must be distinct (got {twice!r} twice)")


def _model_index(model: npt.ArrayLike, names: tuple[str, ...], n: int) -> IntArray:
    column = np.asarray(model)
    if column.shape != (n,):
        raise InputError(f"Trace.model: expected {n} entries, one per arrival (got shape {column.shape})")
    if column.dtype.kind in "US" or column.dtype == object:
        position = {name: i for i, name in enumerate(names)}
        unknown = [str(x) for x in np.unique(column.astype(str)) if str(x) not in position]
        if unknown:
            near = difflib.get_close_matches(unknown[0], names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known models: {', '.join(names[:10])}"
            raise InputError(f"Trace.model: unknown model {unknown[0]!r}; {hint}")
        return np.array([position[str(x)] for x in column], dtype=np.int32)
    if column.dtype.kind not in "iu":
        raise InputError(f"Trace.model: expected integers or names (got {column.dtype})")
    bad = (column < 0) | (column >= len(names))
    if bad.any():
        raise InputError(
            f"Trace.model: unknown model index {column[bad][0]} ({_first(bad)}); expected 0 … {len(names) - 1}"
        )
    return column.astype(np.int32)


def _slo_column(slo: Any, names: tuple[str, ...], index: IntArray, n: int) -> FloatArray:
    if isinstance(slo, dict):
        missing = [name for name in names if name not in slo]
        if missing:
            raise InputError(f"Trace.slo: no SLO for model {missing[0]!r}")
        column = np.array([float(slo[name]) for name in names])[index]
    else:
        given = np.asarray(slo, dtype=np.float64)
        if given.ndim == 0:
            column = np.full(n, float(given))
        elif given.shape == (n,):
            column = given.copy()
        elif given.shape == (len(names),):
            column = given[index]
        else:
            raise InputError(
                f"Trace.slo: expected one figure, one per model ({len(names)}) or one per request ({n}) "
                f"(got shape {given.shape})"
            )
    bad = ~(column > 0)
    if bad.any():
        raise InputError(f"Trace.slo: SLOs must be > 0 seconds ({_first(bad)}, got {column[bad][0]})")
    return column
