"""`choose_slices`: the slices of a replica's batch on a pipeline: optimal, best uniform, samples alone, or given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError
from .directions import slice_pipeline
from .options import TeraPipeOptions
from .pipeline import Grids, Pipeline
from .slicing import Slice

__all__ = ["Chosen", "choose_slices"]

Mask = npt.NDArray[np.bool_]
ROUNDS = 16
EXACT_UNITS = 16
"""So few places to cut are priced pair by pair."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Slices and what they take.

    Parameters
    ----------
    slices : tuple of Slice
        Of one replica, tokens in tokens.
    forward_s, backward_s : float
        Of the pipeline, until the last slice has left it.
    busy_s : float
        Of the stage that computes longest, without messages.
    searched_s : float
        What the dynamic programme minimised, on its grid: Σ t on the slowest cell + max over slices of the others.
    how : str
        Where the slices come from.
    overhead_error, error : float
        Of Eq. 2.9 on pairs that it was not fitted to; NaN where it was not used.
    solved : int
        Dynamic programmes that were solved.
    """

    slices: tuple[Slice, ...]
    forward_s: float
    backward_s: float
    busy_s: float
    searched_s: float
    how: str
    overhead_error: float = float("nan")
    error: float = float("nan")
    solved: int = 0

    @property
    def seconds(self) -> float:
        """Both directions."""
        return self.forward_s + self.backward_s


def choose_slices(
    pipeline: Pipeline, options: TeraPipeOptions, batch: int, samples: Sequence[int], unit: int, *, equal: bool
) -> Chosen:
    """The best slices of a replica's batch.

    The search runs on grids. What it finds is priced exactly, slice by slice; these seconds are put into the grids, and
    it searches again, until it finds what is priced exactly already. The slices that it is compared with are priced so
    before it, and the fastest of all is taken.

    Parameters
    ----------
    pipeline : Pipeline
        The stages.
    batch : int
        Samples of one replica.
    samples : sequence of int
        Numbers of samples that may go together.
    unit : int
        Tokens of a unit.
    equal : bool
        Whether all microbatches hold as many samples.

    Raises
    ------
    InfeasibleError
        If no groups of so many samples make up the batch.
    """
    n = pipeline.tokens // unit
    grids = pipeline.grids(samples, unit, options.context == "exact" or n <= EXACT_UNITS)
    best: Chosen | None = None
    solved = 0
    groups = [[b] for b in samples if batch % b == 0] if equal else [list(samples)]
    for how, allowed in _ways(options, n, unit):
        for group in groups:
            among = allowed[None] & _among(group, len(grids.total))[:, None, None]
            for _ in range(ROUNDS if how == "dp" else 1):
                total = np.where(among, grids.total, np.inf)
                try:
                    found = slice_pipeline(total, grids.fills, batch, epsilon=options.epsilon)
                except InfeasibleError:
                    break
                solved += found.solved
                slices = tuple(Slice(x.samples, tuple(i * unit for i in x.tokens)) for x in found.slices)
                forward, backward = pipeline.seconds(slices)
                if best is None or forward + backward < best.seconds:
                    best = Chosen(slices, forward, backward, _busy(pipeline, slices), found.seconds, how)
                if not pipeline.sharpen(grids, slices, unit):
                    break
    if best is None:
        raise InfeasibleError(
            f"terapipe: samples: no groups of {', '.join(map(str, samples))} samples make up a batch of {batch}"
        )
    return _counted(best, grids, solved)


def _counted(best: Chosen, grids: Grids, solved: int) -> Chosen:
    return replace(best, overhead_error=grids.overhead_error, error=grids.error, solved=solved)


def _busy(pipeline: Pipeline, slices: Sequence[Slice]) -> float:
    last = len(pipeline.cells) - 1
    kinds = {id(pipeline.clocks[s]): s for s in (0, min(1, last), last)}
    return max(sum(sum(map(sum, pipeline.slice_seconds(s, x))) for x in slices) for s in kinds.values())


def _among(group: Sequence[int], most: int) -> Mask:
    found = np.zeros(most, dtype=bool)
    found[np.array(group) - 1] = True
    return found


def _ways(options: TeraPipeOptions, n: int, unit: int) -> Iterator[tuple[str, Mask]]:
    """Which slices may be used, [context, length − 1], and what that is called."""
    if options.tokens is not None:
        yield "given", _only([i // unit for i in options.tokens], n)
        return
    yield "samples alone", _only([n], n)
    if options.slicing != "none":
        for parts in range(2, n + 1):
            if n % parts == 0:
                yield f"uniform {parts}", _only([n // parts] * parts, n)
    if options.slicing == "dp":
        yield "dp", np.ones((n, n), dtype=bool)


def _only(lengths: Sequence[int], n: int) -> Mask:
    found = np.zeros((n, n), dtype=bool)
    context = 0
    for length in lengths:
        found[context, length - 1] = True
        context += length
    return found
