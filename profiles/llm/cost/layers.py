"""Kernels of the one model whose layers were measured by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...hardware import LinkSpec
from ..decoder import DecoderSpec
from ..parallel.engine_reduce import engine_all_reduce, priced
from ..tables.grid import EXTRAPOLATED, INTERPOLATED, MEASURED, Grid
from ..tables.kernels import Layers, Peaks
from ..tables.layers import FEED_FORWARD, ONCE, TWICE
from ..tables.outliers import outlier_lines, set_aside
from .kinds.experts import ALONE, Spread
from .overheads import Overheads
from .parts import Parts, Surface

__all__ = ["LayerKernels"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LayerKernels:
    """One rank's layers of the measured model.

    Parameters
    ----------
    model, peaks, layers
        The model, the rates that its tables reach, its measured layers.
    pp : int
        Degree of pipeline parallelism.
    overheads : Overheads
        Decides padding.
    link_bytes_per_s, link_latency_s : float
        Link between the devices: communication is not in these tables.
    spread : Spread
        How experts and requests are spread over ranks.
    assumed : str
        What the link is taken for where nobody said it; empty where somebody did.
    """

    model: DecoderSpec
    peaks: Peaks
    layers: Layers
    pp: int
    overheads: Overheads
    link_bytes_per_s: float
    link_latency_s: float
    spread: Spread = ALONE
    assumed: str = ""

    @property
    def sends(self) -> bool:
        """Whether the devices exchange messages that these tables do not cover."""
        reduced = self.layers.tp > 1 and not any("all_reduce" in name for name in self.layers.dense)
        return reduced or self.pp > 1 or (self.spread.dp > 1 and self.model.moe_layers > 0)

    @property
    def launches(self) -> int:
        """Kernels of one iteration."""
        once = [name for name in ONCE if name in self.layers.dense]
        each = len(self.layers.dense) - len(once) + len([n for n in TWICE if n in self.layers.dense]) + 2
        return self.model.layers * each + len(once) + len(self.layers.per_sequence)

    def dense(self, tokens: Floats) -> list[Parts]:
        """Layers by tokens; two all-reduces a layer under tensor parallelism unless measured; sends between stages."""
        run = self.overheads.padded_each(tokens.astype(np.int64))
        found: list[Parts] = []
        for name, grid in self.layers.dense.items():
            seconds, kind = grid.at(run)
            layers = self.model.layers - (self.model.moe_layers if name in FEED_FORWARD else 0)
            count = 1 if name in ONCE else layers * (2 if name in TWICE else 1)
            found.append(Parts(name, count * seconds, kind))
        moved, tp = run * self.model.hidden * 2, self.layers.tp
        if tp > 1 and not any("all_reduce" in name for name in self.layers.dense):
            if priced(LinkSpec(self.link_bytes_per_s, self.link_latency_s)):
                ring = engine_all_reduce(moved, tp, self.link_bytes_per_s)
            else:
                ring = self.link_latency_s + 2 * (tp - 1) / tp * moved / self.link_bytes_per_s
            count = 2 * self.model.layers + 1
            found.append(Parts("all-reduces", count * ring, np.full(len(run), EXTRAPOLATED)))
        if self.pp > 1:
            hop = (self.pp - 1) * (self.link_latency_s + moved / tp / self.link_bytes_per_s)
            found.append(Parts("sends between stages", hop, np.full(len(run), EXTRAPOLATED)))
        return found

    def experts(self, tokens: Floats) -> list[Parts]:
        """Routing and experts of the fullest rank, for the tokens of all ranks; sending them there and back."""
        model, spread = self.model, self.spread
        if not model.moe_layers:
            return []
        grids, ep = self.layers.moe, spread.ep
        rows, found = spread.fullest(model, tokens)
        # A rank's share of the assignments is what grids of another degree have at as many tokens fewer.
        at = min(grids, key=lambda degree: (degree != ep, degree))
        seconds, kind = grids[at].at(rows * at / model.experts_per_token, np.clip(found, grids[at].axes[1][0], None))
        if spread.width > 1:
            seconds = np.maximum(seconds / spread.width, grids[at].seconds.min())
        if at != ep or spread.width > 1:
            kind = np.full(kind.shape, EXTRAPOLATED)
        parts = [Parts("experts", model.moe_layers * seconds, kind)]
        return parts + spread.exchanges(model, tokens, self.link_latency_s, self.link_bytes_per_s)

    def grids(self) -> dict[str, Grid]:
        """The grids that are read."""
        tables = {**self.layers.dense, **self.layers.per_sequence, "attention of decodes": self.layers.decode}
        tables |= {"attention with prefill": self.layers.mixed}
        return tables | {f"experts of ep {degree}": grid for degree, grid in self.layers.moe.items()}

    def fallbacks(self) -> list[str]:
        """Lines about an assumed link, points that were set aside, and experts at a degree that was not measured."""
        said = [f"note: {line}" for line in outlier_lines(set_aside(self.grids()))] + self._degrees()
        if not (self.assumed and self.sends):
            return said
        return [
            f"ASSUMED: the link between devices is {self.assumed}; neither the caller (link) nor hardware.yaml beside "
            "the tables says one",
            *said,
        ]

    def _degrees(self) -> list[str]:
        ep, there = self.spread.ep, self.layers.moe
        if not self.model.moe_layers or (ep in there and self.spread.width == 1):
            return []
        said = f"experts split by {ep}" + (f", widths by {self.spread.width}" if self.spread.width > 1 else "")
        return [f"note: {said}: not measured; moe.csv of ep {', '.join(map(str, there))} scaled by the rank's share"]

    def head(self, outputs: Floats) -> list[Parts]:
        """Output head and sampling by sequences."""
        found: list[Parts] = []
        for name, grid in self.layers.per_sequence.items():
            seconds, kind = grid.at(np.maximum(outputs, 1))
            found.append(Parts(name, np.where(outputs > 0, seconds, 0.0), kind))
        return found

    def decode(self) -> Surface:
        """Attention of decodes alone."""
        grid = self.layers.decode
        kind = np.where(grid.measured, MEASURED, EXTRAPOLATED)
        return Surface(grid.axes[0], grid.axes[1], self.model.layers * grid.seconds, kind)

    def prefill(self) -> Surface:
        """Attention of one prompt alone, from the calls without decodes."""
        grid = self.layers.mixed
        seconds = self.model.layers * grid.seconds[:, 0, 0, 0][None, :]
        new = grid.axes[0]
        return Surface(np.array([1.0]), new * (new + 1) / 2, seconds, np.full(seconds.shape, INTERPOLATED))

    def mixed(self) -> Grid | None:
        """Attention of one chunk beside decodes, all layers together."""
        from dataclasses import replace

        return replace(self.layers.mixed, seconds=self.model.layers * self.layers.mixed.seconds)
