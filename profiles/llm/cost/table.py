"""`TableCost`: the time of one model's iterations on one type of device, and every part of it with what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ....reprs import Shown
from ..decoder import DecoderSpec
from ..iteration import Iteration
from ..tables.grid import EXTRAPOLATED, KINDS
from .bands import Band, band, interpolation_error
from .grid import CostGrid, attention_seconds, fullest, iteration_seconds
from .overheads import Overheads
from .parts import Kernels, Part, Surface

__all__ = ["TableCost"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False)
class TableCost(Shown):
    """Cost of an iteration of one model on one type of device; an `IterationCost`.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    tp, pp : int
        Degrees of parallelism.
    kernels : Kernels
        Source of the kernels' seconds.
    overheads : Overheads
        Host times.
    source : str
        Where the figures come from.
    cp, dp, ep : int
        Shards of each sequence; ranks with requests of their own that step together; degree that experts are split by.
    """

    model: DecoderSpec
    tp: int
    pp: int
    kernels: Kernels
    overheads: Overheads
    source: str
    _grid: CostGrid = field(repr=False)
    _surfaces: tuple[Surface, Surface] = field(repr=False)
    cp: int = 1
    dp: int = 1
    ep: int = 1

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration; under pipeline parallelism until its tokens leave the last stage."""
        self._check_window(iteration)
        new, before = _chunks(iteration.prefill)
        return float(
            iteration_seconds(self._grid, iteration.decodes, iteration.context, new, before, iteration.outputs)
        )

    def interval(self, iteration: Iteration) -> float:
        """Seconds until the next iteration may enter a pipeline: its slowest stage (the whole iteration if pp is 1)."""
        if self.pp == 1:
            return self.seconds(iteration)
        share = -(-self.model.layers // self.pp) / self.model.layers
        head = float(self._grid.head[min(iteration.outputs, len(self._grid.head) - 1)])
        return (self.seconds(iteration) - head) * share + head

    def explain(self, iteration: Iteration) -> tuple[Part, ...]:
        """Every part with its seconds and what they rest on; their sum is `seconds`."""
        self._check_window(iteration)
        new, before = _chunks(iteration.prefill)
        tokens, outputs, decodes = iteration.tokens, iteration.outputs, iteration.decodes
        if not tokens:
            return ()
        grid, chunks, gathered = self._grid, float(len(new)), float(tokens)
        if self.dp > 1:  # the rank that all wait for
            tokens, share = fullest(self.dp, decodes, new)
            decodes, outputs, chunks = -(-decodes // self.dp), -(-outputs // self.dp), chunks * share
            gathered = float(self.dp * tokens if tokens <= grid.graph_tokens else iteration.tokens)
        size, out, together = (np.array([float(n)]) for n in (tokens, outputs, gathered))
        some = (*self.kernels.dense(size), *self.kernels.experts(self.padded(together)), *self.kernels.head(out))
        parts = [p.part() for p in some if p.seconds[0] > 0]
        parts += self._attention(iteration, new, before)
        begun = -(-int((before == 0).sum()) // self.dp)
        if grid.tower_s and begun:
            parts.append(Part("tower that sees", begun * grid.tower_s, KINDS[EXTRAPOLATED]))
        device = sum(p.seconds for p in parts)
        launch = grid.host_eager_s
        if tokens <= grid.graph_tokens:
            launch = grid.host_pieces_s if len(new) else grid.host_decode_s
        came = int((before == 0).sum()) if self.dp == 1 else 0
        host = grid.scheduler_s + grid.per_sequence_s * (decodes + chunks) + grid.request_s * came
        wait = max(0.0, launch + host - device) if grid.overlapped else max(0.0, launch - device)
        parts.append(Part("device waits for launches", wait, "overhead"))
        if not grid.overlapped:
            parts.append(Part("scheduler", grid.scheduler_s, "overhead"))
            parts.append(Part("scheduler, per sequence and new request", host - grid.scheduler_s, "overhead"))
        return tuple(parts)

    def band(self, iteration: Iteration) -> Band:
        """How wrong `seconds` may be, from what its parts rest on and how the tables read between their points."""
        return band(self.explain(iteration), interpolation_error(self.kernels.grids().values()))

    def report(self, iteration: Iteration) -> str:
        """`explain` as lines that a person reads, with what was not measured, the overheads and their source."""
        parts = self.explain(iteration)
        lines = [f"{1e3 * part.seconds:10.3f} ms  {part.name}  ({part.basis})" for part in parts]
        said = self.kernels.fallbacks()
        first, further = ([s for s in said if s.startswith("ASSUMED") == yes] for yes in (True, False))
        total = f"{1e3 * sum(part.seconds for part in parts):10.3f} ms  together, {self.band(iteration).explain()}"
        return "\n".join((*first, *lines, total, *further, self.overheads.explain(), f"kernels: {self.source}"))

    def grid(self) -> CostGrid:
        """The same cost as arrays: `iteration_seconds(grid, …)` and its numba twin `compiled()` give `seconds`."""
        return self._grid

    def padded(self, tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """Tokens of all ranks that run for those scheduled: each rank's are padded to a captured size."""
        mine = [self.overheads.padded(-(-int(t) // self.dp)) for t in tokens]
        few = [self.overheads.cuda_graphs and t <= self.overheads.graph_tokens for t in mine]
        return np.array([float(self.dp * m if f else t) for m, f, t in zip(mine, few, tokens, strict=True)])

    def _check_window(self, iteration: Iteration) -> None:
        """Refuse what reads further back than the window where its layers are not priced: chunks, tables by layer."""
        if self.model.window and (self.model.chunked or self.kernels.mixed() is not None):
            longest = max((new + before for new, before in iteration.prefill), default=0)
            mean = -(-iteration.context // iteration.decodes) if iteration.decodes else 0
            self.model.check_length(max(longest, mean), "iteration")

    def _attention(self, iteration: Iteration, new: Counts, before: Counts) -> list[Part]:
        decodes, context = iteration.decodes, iteration.context
        if self.dp > 1:
            _, share = fullest(self.dp, decodes, new)
            mine, read = -(-decodes // self.dp), -(-context // self.dp)
            alone = float(attention_seconds(self._grid, mine, read, new[:0], before[:0])) if mine else 0.0
            both = float(attention_seconds(self._grid, mine, read, new, before)) if len(new) else alone
            return [Part("attention of the fullest rank", alone + share * (both - alone), KINDS[EXTRAPOLATED])]
        mixed = self.kernels.mixed()
        decode, prefill = self._surfaces
        if len(new) and mixed is not None:
            mean = context / decodes if decodes else 0.0
            kinds = [
                int(mixed.at(n, b, decodes, max(mean, mixed.axes[3][0]))[1]) for n, b in zip(new, before, strict=True)
            ]
            name = "attention of prefill and decodes" if decodes else "attention of prefill"
            return [Part(name, float(attention_seconds(self._grid, decodes, context, new, before)), KINDS[max(kinds)])]
        none = np.zeros(0)
        parts: list[Part] = []
        if len(new):
            seconds = float(attention_seconds(self._grid, 0, 0, new, before))
            whole = [(n + b) * (n + b + 1) / 2 for n, b in zip(new, before, strict=True)]
            kind = max(max(prefill.basis(len(new), w), int(b > 0)) for w, b in zip(whole, before, strict=True))
            parts.append(Part("attention of prefill", seconds, KINDS[kind]))
        if decodes:
            seconds = float(attention_seconds(self._grid, decodes, context, none, none))
            seconds *= self._grid.beside if len(new) else 1.0
            parts.append(Part("attention of decodes", seconds, KINDS[decode.basis(decodes, context / decodes)]))
        return parts


def _chunks(prefill: Sequence[tuple[int, int]]) -> tuple[Counts, Counts]:
    new = np.array([n for n, _ in prefill], dtype=np.int64)
    return new, np.array([b for _, b in prefill], dtype=np.int64)
