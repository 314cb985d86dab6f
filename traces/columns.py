"""Check the columns of a `Trace`: one cheap pass if all is well, and a precise message if not."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = [
    "FloatArray",
    "IntArray",
    "LongArray",
    "arrival_column",
    "model_column",
    "model_names",
    "prefix_column",
    "slo_column",
    "token_column",
    "unknown_model",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]


def _rows(mask: npt.NDArray[np.bool_]) -> str:
    rows = np.flatnonzero(mask)
    shown = ", ".join(str(i) for i in rows[:5])
    return f"{len(rows)} row(s), first at index {shown}"


def _numbers(values: npt.ArrayLike, where: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    try:
        return np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: expected numbers ({error})") from None


def model_names(models: Sequence[str]) -> tuple[str, ...]:
    """`models` as a tuple of distinct, non-empty names.

    Raises
    ------
    InputError
        On no name, an empty one, one given twice, or a bare string in place of a sequence.
    """
    if isinstance(models, str):
        raise InputError(f"Trace.models: expected a sequence of names (got the string {models!r}); write [{models!r}]")
    names = tuple(str(name) for name in models)
    if not names:
        raise InputError("Trace.models: expected at least one model name")
    if "" in names:
        raise InputError(f"Trace.models: names must not be empty (got one at position {names.index('')})")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"Trace.models: names must be distinct (got {twice!r} twice)")
    return names


def arrival_column(arrival: npt.ArrayLike) -> FloatArray:
    """A checked copy of arrival times: seconds, finite, >= 0, non-decreasing, at least one.

    Raises
    ------
    InputError
        Naming the rule that is broken, the rows, and the first offending value.
    """
    times = _numbers(arrival, "Trace.arrival", np.float64)
    if times.ndim != 1:
        raise InputError(f"Trace.arrival: expected one dimension (got shape {times.shape})")
    if len(times) == 0:
        raise InputError("Trace.arrival: the trace is empty; expected at least one request")
    # Comparisons with NaN are false, so this one pass proves every entry finite, >= 0 and in order.
    if times[0] >= 0 and np.isfinite(times[-1]) and bool((times[1:] >= times[:-1]).all()):
        return times
    bad = ~np.isfinite(times)
    if bad.any():
        raise InputError(f"Trace.arrival: times must be finite seconds ({_rows(bad)}, got {times[bad][0]})")
    bad = times < 0
    if bad.any():
        raise InputError(f"Trace.arrival: times must be >= 0 seconds ({_rows(bad)}, got {times[bad][0]})")
    bad = np.concatenate(([False], np.diff(times) < 0))
    row = int(np.flatnonzero(bad)[0])
    raise InputError(
        f"Trace.arrival: times must not decrease ({_rows(bad)}, got {times[row]} after {times[row - 1]}); "
        "sort the requests by arrival"
    )


def unknown_model(name: str, names: Sequence[str]) -> str:
    """The part of a message that says that `name` is not among `names`, and which ones are."""
    near = difflib.get_close_matches(name, names, n=1)
    known = ", ".join(names[:10]) + (f", … ({len(names)} in all)" if len(names) > 10 else "")
    return f"unknown model {name!r}; " + (f"did you mean {near[0]!r}? " if near else "") + f"known models: {known}"


def model_column(model: npt.ArrayLike, names: tuple[str, ...], n: int) -> IntArray:
    """Indices into `names`, shape ``(n,)``, from indices or names.

    Raises
    ------
    InputError
        On a wrong length, an index out of range, or a name that is not in `names`.
    """
    column = np.asarray(model)
    if column.shape != (n,):
        raise InputError(f"Trace.model: expected {n} entries, one per arrival (got shape {column.shape})")
    if column.dtype.kind in "UTO":
        position = {name: i for i, name in enumerate(names)}
        try:
            return np.fromiter((position[name] for name in column.tolist()), dtype=np.int32, count=n)
        except KeyError:
            missing = next(str(name) for name in column.tolist() if name not in position)
            raise InputError(f"Trace.model: {unknown_model(missing, names)}") from None
    if column.dtype.kind not in "iu":
        raise InputError(f"Trace.model: expected integers or names (got {column.dtype})")
    if n and (column.min() < 0 or column.max() >= len(names)):
        bad = (column < 0) | (column >= len(names))
        raise InputError(
            f"Trace.model: unknown model index {column[bad][0]} ({_rows(bad)}); expected 0 … {len(names) - 1}"
        )
    return column.astype(np.int32)


def slo_column(slo: Any, names: tuple[str, ...], index: IntArray) -> FloatArray:
    """SLOs in seconds, one per request, from one figure, one per model or one per request.

    Raises
    ------
    InputError
        On a model without SLO, a wrong length, or an SLO that is not > 0.
    """
    n = len(index)
    if isinstance(slo, Mapping):
        missing = [name for name in names if name not in slo]
        if missing:
            raise InputError(f"Trace.slo: no SLO for model {missing[0]!r}")
        by_model = cast("Mapping[str, Any]", slo)
        column = _numbers([by_model[name] for name in names], "Trace.slo", np.float64)[index]
    else:
        given = _numbers(slo, "Trace.slo", np.float64)
        if given.ndim == 0:
            column = np.full(n, float(given))
        elif given.shape == (n,):
            column = given
        elif given.shape == (len(names),):
            column = given[index]
        else:
            raise InputError(
                f"Trace.slo: expected one figure, one per model ({len(names)}) or one per request ({n}) "
                f"(got shape {given.shape})"
            )
    if n and not column.min() > 0:
        bad = ~(column > 0)
        raise InputError(f"Trace.slo: SLOs must be > 0 seconds ({_rows(bad)}, got {column[bad][0]})")
    return column


def token_column(tokens: npt.ArrayLike | None, n: int, name: str) -> IntArray | None:
    """Token counts, integers >= 1, shape ``(n,)``; None stays None.

    Raises
    ------
    InputError
        On a wrong length, a fraction, or a count below 1.
    """
    if tokens is None:
        return None
    column = _numbers(tokens, f"Trace.{name}", np.float64)
    if column.shape != (n,):
        raise InputError(f"Trace.{name}: expected {n} entries, one per arrival (got shape {column.shape})")
    bad = ~((column >= 1) & (column <= np.iinfo(np.int32).max) & (column == np.floor(column)))
    if bad.any():
        raise InputError(f"Trace.{name}: token counts must be integers >= 1 ({_rows(bad)}, got {column[bad][0]:g})")
    return column.astype(np.int32)


def prefix_column(prefix: npt.ArrayLike | None, n: int) -> LongArray | None:
    """Prefix ids, integers, shape ``(n,)``; None stays None."""
    if prefix is None:
        return None
    column = np.asarray(prefix)
    if column.dtype.kind not in "iu":
        raise InputError(f"Trace.prefix: expected integer ids (got {column.dtype})")
    if column.shape != (n,):
        raise InputError(f"Trace.prefix: expected {n} entries, one per arrival (got shape {column.shape})")
    return column.astype(np.int64)
