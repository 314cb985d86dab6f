"""`Trace`: an immutable, columnar log of requests."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..reprs import Shown
from .columns import (
    FloatArray,
    IntArray,
    LongArray,
    arrival_column,
    model_column,
    model_names,
    prefix_column,
    slo_column,
    token_column,
    unknown_model,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Trace"]

_COLUMNS = ("arrival", "model", "slo", "prompt_tokens", "output_tokens", "prefix")


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Shown):
    """Requests in order of arrival, as read-only columns.

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
        (a mapping from name to seconds, or an array), or one per request (an array of length n).
    prompt_tokens, output_tokens : array_like of int, shape (n,), optional
        Tokens of a language-model request, >= 1; None in worlds without tokens.
    prefix : array_like of int, shape (n,), optional
        Requests with the same id share a prompt prefix.

    Raises
    ------
    InputError
        On unsorted, negative, NaN or infinite arrivals, an unknown model, a non-positive or NaN SLO, columns
        of different lengths, or no request at all.
    """

    arrival: FloatArray
    model: IntArray
    models: tuple[str, ...]
    slo: FloatArray
    prompt_tokens: IntArray | None = None
    output_tokens: IntArray | None = None
    prefix: LongArray | None = None

    def __init__(
        self,
        arrival: npt.ArrayLike,
        model: npt.ArrayLike,
        models: Sequence[str],
        slo: Any = np.inf,
        *,
        prompt_tokens: npt.ArrayLike | None = None,
        output_tokens: npt.ArrayLike | None = None,
        prefix: npt.ArrayLike | None = None,
    ) -> None:
        names = model_names(models)
        times = arrival_column(arrival)
        index = model_column(model, names, len(times))
        self._set(
            names,
            arrival=times,
            model=index,
            slo=slo_column(slo, names, index),
            prompt_tokens=token_column(prompt_tokens, len(times), "prompt_tokens"),
            output_tokens=token_column(output_tokens, len(times), "output_tokens"),
            prefix=prefix_column(prefix, len(times)),
        )

    def _set(self, models: tuple[str, ...], **columns: npt.NDArray[Any] | None) -> None:
        object.__setattr__(self, "models", models)
        for name in _COLUMNS:
            column = columns.get(name)
            if column is not None:
                column.flags.writeable = False
            object.__setattr__(self, name, column)

    @classmethod
    def trusted(
        cls,
        arrival: FloatArray,
        model: IntArray,
        models: tuple[str, ...],
        slo: FloatArray,
        **columns: npt.NDArray[Any] | None,
    ) -> Trace:
        """A trace of columns that are already proven right: nothing is checked and nothing copied.

        For generators and readers that establish what `Trace` demands by construction. The arrays become
        read-only and must not be written to afterwards.
        """
        trace = object.__new__(cls)
        trace._set(models, arrival=arrival, model=model, slo=slo, **columns)
        return trace

    def __setstate__(self, state: dict[str, Any]) -> None:
        models = state.pop("models")  # unpickled arrays come back writeable; _set locks them again
        self._set(models, **state)

    def __len__(self) -> int:
        return len(self.arrival)

    def _headline(self) -> str:
        return f"{len(self)} requests of {len(self.models)} models over {self.duration:.6g} s"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.models == other.models and all(
            _same(getattr(self, name), getattr(other, name)) for name in _COLUMNS
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

    @property
    def has_slo(self) -> bool:
        """Whether any request has an SLO: a finite one. Without any there is nothing to attain."""
        return bool(np.isfinite(self.slo).any())

    def counts(self) -> npt.NDArray[np.int64]:
        """Requests of each model, shape ``(len(models),)``."""
        return np.bincount(self.model, minlength=len(self.models))

    def arrivals_by_model(self) -> list[FloatArray]:
        """Arrival times of each model, ascending, seconds, in the order of `models`."""
        narrow = self.model.astype(np.uint16) if len(self.models) <= 1 << 16 else self.model
        order = np.argsort(narrow, kind="stable")  # 16-bit keys are radix-sorted
        return np.split(self.arrival[order], np.cumsum(self.counts())[:-1])

    def with_slo(self, slo: Any) -> Trace:
        """The same requests under another SLO (a figure, a mapping from model to seconds, or a column)."""
        return self._derived(self.models, slo=slo_column(slo, self.models, self.model))

    def with_slo_scale(self, scale: float, latency: Any) -> Trace:
        """The same requests with SLO = `scale` times each model's single-device latency.

        Parameters
        ----------
        scale : float
            The SLO scale.
        latency : Mapping[str, float] or Mapping[str, ModelProfile]
            Model -> single-device latency in seconds, or a set of profiles that knows it.

        Raises
        ------
        InputError
            On a model that `latency` does not hold, or a scale that is not > 0.
        """
        slos = {}
        for name in self.models:
            if name not in latency:
                raise InputError(f"with_slo_scale: no latency for model {name!r}")
            value = latency[name]
            slos[name] = scale * float(value if isinstance(value, int | float) else value.single_device_latency())
        return self.with_slo(slos)

    def select(self, models: Iterable[str]) -> Trace:
        """Only the requests of `models`, times unchanged; models keep their order in this trace.

        Raises
        ------
        InputError
            On a name that this trace does not know, or if no request is left.
        """
        wanted = set(models)
        for name in sorted(wanted - set(self.models)):
            raise InputError(f"Trace.select: {unknown_model(name, self.models)}")
        keep = [i for i, name in enumerate(self.models) if name in wanted]
        renumber = np.full(len(self.models), -1, dtype=np.int32)
        renumber[keep] = np.arange(len(keep), dtype=np.int32)
        index = renumber[self.model]
        mask = index >= 0
        if not mask.any():
            raise InputError(f"Trace.select: no request of {', '.join(sorted(wanted)) or 'no model at all'}")
        return self._derived(tuple(self.models[i] for i in keep), mask, model=index[mask])

    def slice(self, start: float, stop: float, *, rebase: bool = True) -> Trace:
        """Requests with ``start <= arrival < stop``, seconds; times counted from `start` if `rebase`.

        Raises
        ------
        InputError
            If no request arrives in between, or `start` is negative or NaN.
        """
        if not 0 <= start < np.inf:
            raise InputError(f"Trace.slice: start must be finite and >= 0 seconds (got {start})")
        low, high = np.searchsorted(self.arrival, [start, stop], side="left")
        if low >= high:
            raise InputError(
                f"Trace.slice: no request arrives in [{start}, {stop}) s; the last one at {self.duration} s"
            )
        rows = slice(int(low), int(high))
        times = self.arrival[rows] - start if rebase else self.arrival[rows]
        return self._derived(self.models, rows, arrival=times)

    def to_frame(self) -> pd.DataFrame:
        """One row per request: ``arrival``, ``model`` (categorical names), ``slo``, and tokens if any."""
        import pandas as pd

        library: Any = pd
        categorical = library.Categorical.from_codes

        columns = {name: getattr(self, name) for name in _COLUMNS if getattr(self, name) is not None}
        columns["model"] = categorical(self.model, categories=list(self.models))
        return pd.DataFrame(columns)

    def _derived(self, models: tuple[str, ...], rows: Any = None, **replaced: npt.NDArray[Any]) -> Trace:
        """This trace's columns at `rows` (all if None), with some replaced; what holds here holds there."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        if rows is not None:
            columns = {name: column if column is None else column[rows] for name, column in columns.items()}
        return Trace.trusted(models=models, **(columns | replaced))


def _same(left: npt.NDArray[Any] | None, right: npt.NDArray[Any] | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)
