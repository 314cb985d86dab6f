"""How layers are dealt to stages: how many, and how many of them have experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .model import TransformerShape

__all__ = ["Stages", "stage_layers"]

Floats = NDArray[np.float64]


def stage_layers(shape: TransformerShape, pp: Any, interleave: Any = 1) -> tuple[Floats, Floats]:
    """Layers of a middle stage, and of the first and of the last.

    As many everywhere; or, where only ``layers + 2`` divides, one less at both ends, whose embedding and output layer
    count as one each (Megatron's ``--account-for-embedding-in-pipeline-split`` and ``-loss-``). Layers that predict
    further tokens are on the last stage and count as one each there, too.
    """
    p, v = np.asarray(pp, dtype=float), np.asarray(interleave, dtype=float)
    uneven = np.where(shape.layers % (p * v) != 0, 1.0, 0.0)
    middle = (shape.layers + (2 + shape.mtp_layers) * uneven) / p
    return middle, middle - uneven


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
    def of(cls, shape: TransformerShape, pp: Any, interleave: Any = 1) -> Stages:
        """Of pipelines."""
        middle, outer = stage_layers(shape, pp, interleave)
        v = np.asarray(interleave, dtype=float)
        last = np.where(middle > outer, outer - shape.mtp_layers, outer)
        counts = (outer, middle, last)
        if shape.experts is None:
            none = 0.0 * middle
            return cls(counts, (none, none, none))
        few = float(shape.experts.dense_layers)
        if shape.experts.alternate:
            shares = (few / shape.layers,) * 3
        else:
            here = np.minimum(few, np.maximum(middle / v - (middle - outer), 0.0))
            rest = (few - here) / np.maximum(shape.layers - outer, 1.0)
            shares = (here / outer, rest, rest)
        alone = outer >= shape.layers
        dense = [np.where(alone, few, share * count) for share, count in zip(shares, counts, strict=True)]
        mixed = [count - part for count, part in zip(counts, dense, strict=True)]
        return cls((dense[0], dense[1], dense[2]), (mixed[0], mixed[1], mixed[2]))
