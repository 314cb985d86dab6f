"""`choose_slices`: choose the slices of a replica's batch: optimal, best uniform, whole sequences, or given ones."""

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
"""Most rounds of search and exact pricing for one grid. A guess: it ends by itself as soon as a round finds nothing
new."""
EXACT_UNITS = 16
"""A sequence with at most so many units is priced exactly: its 136 pairs of length and context are few enough."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Chosen slices, and what a pipeline takes with them.

    Parameters
    ----------
    slices : tuple of Slice
        The slices of one replica; lengths in tokens, not in units.
    forward_s, backward_s : float
        Seconds of the pipeline in each direction, until the last slice has left it.
    busy_s : float
        Seconds of computation of the busiest stage, without messages.
    searched_s : float
        The objective of the dynamic programme on its grid: Σ t on the slowest cell + max over slices of all others.
    how : str
        How the slices were found.
    overhead_error, error : float
        Errors of Eq. 2.9 on pairs that it was not fitted to (see `SliceLatency`); NaN if it was not used.
    solved : int
        Number of dynamic programmes that were solved.
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
        """Seconds of both directions together."""
        return self.forward_s + self.backward_s


def choose_slices(
    pipeline: Pipeline, options: TeraPipeOptions, batch: int, samples: Sequence[int], unit: int, *, equal: bool
) -> Chosen:
    """Choose the best slices of a replica's batch.

    The search runs on grids of approximate seconds. The slices that it finds are then priced exactly, these seconds
    replace those in the grids, and the search runs again, until all that it finds is exact already. Whole sequences and
    uniform slices are priced exactly too, and the fastest of all is returned.

    Parameters
    ----------
    pipeline : Pipeline
        The stages.
    batch : int
        Samples of one replica.
    samples : sequence of int
        Numbers of samples that may go through the pipeline together.
    unit : int
        Tokens of one unit; lengths are multiples of it.
    equal : bool
        Whether all microbatches must hold the same number of samples.

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
    """The sets of slices to search, with a name for each; a mask over [context, length − 1]."""
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
