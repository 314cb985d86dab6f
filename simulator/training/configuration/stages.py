"""How layers are dealt to stages: how many, and how many of them have experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .model import TransformerShape

if TYPE_CHECKING:
    from .columns import Columns

__all__ = ["Stages", "stage_layers"]

Floats = NDArray[np.float64]


def stage_layers(
    shape: TransformerShape, pp: Any, interleave: Any = 1, first: Any = 0, last: Any = 0
) -> tuple[Floats, Floats, Floats]:
    """Layers of the first stage, of a middle one and of the last, those left out that predict further tokens.

    As many everywhere; or, where only ``layers + 2`` divides, one less at both ends, whose embedding and output layer
    count as one each (Megatron's ``--account-for-embedding-in-pipeline-split`` and ``-loss-``). Layers that predict
    further tokens are on the last stage and count as one each there, too. Where `first` or `last` is more than 0, that
    stage has so many, and the others share the rest.
    """
    p, v = np.asarray(pp, dtype=float), np.asarray(interleave, dtype=float)
    a, b = np.asarray(first, dtype=float), np.asarray(last, dtype=float)
    uneven = np.where((shape.layers % (p * v) != 0) & (a == 0) & (b == 0), 1.0, 0.0)
    others = np.maximum(p - (a > 0) - (b > 0), 1.0)
    middle = (shape.layers - a - b + (2 + shape.mtp_layers) * uneven) / others
    return (
        np.where(a > 0, a, middle - uneven), middle, np.where(b > 0, b, middle - (1 + shape.mtp_layers) * uneven)
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Layers of the first stage, of a middle one and of the last, one value per row: with a dense MLP, and with
    experts. Where there is one stage, it is all three.

    Dense layers at the beginning are on the first stage as far as its first chunk has room for them, the rest of them
    are spread evenly over the others; those that stand between the others are spread evenly over all. Layers that
    predict further tokens are not counted here.
    """

    dense: tuple[Floats, Floats, Floats]
    mixed: tuple[Floats, Floats, Floats]

    @classmethod
    def of(
        cls, shape: TransformerShape, pp: Any, interleave: Any = 1, first_layers: Any = 0, last_layers: Any = 0
    ) -> Stages:
        """Of pipelines."""
        first, middle, last = stage_layers(shape, pp, interleave, first_layers, last_layers)
        v = np.asarray(interleave, dtype=float)
        last = np.where(np.asarray(pp) == 1, first, last)
        counts = (first, middle, last)
        if shape.experts is None:
            none = 0.0 * middle
            return cls(counts, (none, none, none))
        few = float(shape.experts.dense_layers)
        if shape.experts.alternate:
            shares = (few / shape.layers,) * 3
        else:
            given = np.asarray(first_layers) > 0  # whose chunks are equal; else the first one is smaller
            room = np.where(given, first / v, middle / v - (middle - first))
            here = np.minimum(few, np.maximum(room, 0.0))
            rest = (few - here) / np.maximum(shape.layers - first, 1.0)
            shares = (here / first, rest, rest)
        alone = first >= shape.layers
        dense = [np.where(alone, few, share * count) for share, count in zip(shares, counts, strict=True)]
        mixed = [count - part for count, part in zip(counts, dense, strict=True)]
        return cls((dense[0], dense[1], dense[2]), (mixed[0], mixed[1], mixed[2]))

    @classmethod
    def of_columns(cls, shape: TransformerShape, c: Columns) -> Stages:
        """Of configurations."""
        return cls.of(shape, c.pp, c.interleave, c.first_layers, c.last_layers)
