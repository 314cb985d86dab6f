"""`GammaWindows`: the rate and CV of every model in every window, to look at, to scale and to resample."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..reprs import Shown
from ..seeds import generator
from .columns import FloatArray, LongArray
from .generate import MAX_CV, MAX_REQUESTS
from .merging import merge_streams
from .renewal import windowed_renewal
from .trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EMPTY", "MODEL", "POISSON", "SOURCES", "WINDOW", "ByteArray", "GammaWindows"]

ByteArray = npt.NDArray[np.int8]
EMPTY, WINDOW, MODEL, POISSON = range(4)
SOURCES = ("empty", "window", "model", "poisson")
"""Where the CV of a window comes from: nowhere, its own gaps, the model's pooled gaps, or an assumption."""


@dataclass(frozen=True, eq=False, repr=False)
class GammaWindows(Shown):
    """A Gamma process per window and model, as `fit_gamma` makes them.

    Parameters
    ----------
    models : tuple of str
        The m models.
    edges : ndarray of float, shape (w + 1,)
        Boundaries of the w windows, seconds.
    count : ndarray of int, shape (w, m)
        Arrivals that were fitted.
    rate : ndarray of float, shape (w, m)
        Arrivals per second.
    cv : ndarray of float, shape (w, m)
        Coefficient of variation of the gaps; 1 where nothing arrives.
    source : ndarray of int8, shape (w, m)
        Index into `SOURCES`: where the CV comes from.
    slo : ndarray of float, shape (m,)
        SLO of each model's requests in resampled traces, seconds.
    """

    models: tuple[str, ...]
    edges: FloatArray
    count: LongArray
    rate: FloatArray
    cv: FloatArray
    source: ByteArray
    slo: FloatArray

    def __post_init__(self) -> None:
        for array in (self.edges, self.count, self.rate, self.cv, self.source, self.slo):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.edges) - 1

    def _headline(self) -> str:
        return f"{len(self)} windows × {len(self.models)} models; {self.note}"

    @property
    def expected_requests(self) -> float:
        """Requests that a resampled trace holds on average."""
        return float((self.rate * np.diff(self.edges)[:, None]).sum())

    @property
    def note(self) -> str:
        """How many windows have a CV of their own, and what was done about the others."""
        tally = np.bincount(self.source.ravel(), minlength=len(SOURCES))
        return (
            f"CV from the window's own gaps in {tally[WINDOW]}, from the model's pooled gaps in {tally[MODEL]}, "
            f"taken as 1 (Poisson) in {tally[POISSON]}, no arrival in {tally[EMPTY]}"
        )

    def scale(self, rate: float = 1.0, cv: float = 1.0) -> GammaWindows:
        """The same windows with every rate and every CV multiplied.

        Raises
        ------
        InputError
            On a factor that is not positive and finite.
        """
        for name, factor in (("rate", rate), ("cv", cv)):
            if not (math.isfinite(factor) and factor > 0):
                raise InputError(f"GammaWindows.scale: {name} must be a positive and finite factor (got {factor})")
        return replace(self, rate=self.rate * rate, cv=self.cv * cv)

    def with_cv(self, cv: float) -> GammaWindows:
        """The same rates with one CV everywhere (what AlpaServe's authors do on MAF1)."""
        if not (math.isfinite(cv) and cv > 0):
            raise InputError(f"GammaWindows.with_cv: cv must be positive and finite (got {cv})")
        return replace(self, cv=np.full(self.cv.shape, float(cv)))

    def resample(self, seed: int = 0, *, equilibrium: bool = True) -> Trace:
        """Draw a new trace: an independent Gamma process in each window, for each model from its own stream.

        Parameters
        ----------
        seed : int
            Seed, >= 0.
        equilibrium : bool
            How a window's process starts. True: with the rest of a gap under way, so that the expected number of
            requests is exactly rate × length in every window. False: with one full gap, as the authors' code
            does; then about (CV² − 1)/2 requests too many come in every window and for every model.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            If a CV is above 1000, more than 100 million requests are expected, or none arrives.
        """
        if float(self.cv.max()) > MAX_CV:
            raise InputError(f"GammaWindows.resample: CV {self.cv.max():g} is above {MAX_CV:g}; scale it down")
        if self.expected_requests > MAX_REQUESTS:
            raise InputError(
                f"GammaWindows.resample: {self.expected_requests:.3g} requests expected; at most {MAX_REQUESTS:.0e}"
            )
        streams = [
            windowed_renewal(
                generator(seed, "resample", name),
                np.ascontiguousarray(self.rate[:, k]),
                np.ascontiguousarray(self.cv[:, k]),
                self.edges,
                equilibrium=equilibrium,
            )
            for k, name in enumerate(self.models)
        ]
        return merge_streams(streams, self.models, dict(zip(self.models, self.slo, strict=True)), "resample")

    def to_frame(self) -> pd.DataFrame:
        """One row per window and model: ``window, start, stop, model, count, rate, cv, cv_source``."""
        import pandas as pd

        library: Any = pd
        categorical = library.Categorical.from_codes

        w, m = len(self), len(self.models)
        window: LongArray = np.repeat(np.arange(w), m)
        return pd.DataFrame(
            {
                "window": window,
                "start": self.edges[window],
                "stop": self.edges[window + 1],
                "model": categorical(np.tile(np.arange(m), w), categories=list(self.models)),
                "count": self.count.ravel(),
                "rate": self.rate.ravel(),
                "cv": self.cv.ravel(),
                "cv_source": categorical(self.source.ravel(), categories=list(SOURCES)),
            }
        )
