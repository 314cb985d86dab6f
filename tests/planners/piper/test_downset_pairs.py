"""Pairs of downsets that a threshold leaves, against all pairs in fractions: none that a pipeline needs is cut off."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from loops import lines
from meshwright.planners.piper.downsets import downsets
from meshwright.seeds import generator


def drawn(seed: int):
    """A graph of a few nodes with whole seconds; two devices make most nodes faster, some for more device time."""
    draw = generator(seed, "downset pairs")
    n = int(draw.integers(2, 6))
    edges = [(a, b) for b in range(1, n) for a in range(b) if draw.random() < 0.5]
    one = draw.integers(1, 7, n)
    two = np.maximum(1, one - draw.integers(0, 4, n))
    return n, edges, np.column_stack([one, two]).astype(float)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_what_may_be_a_stage(seed: int) -> None:
    """By definition: the fewest devices that keep the threshold, and enough others for the rest of the work at it.
    Thresholds are those of pipelines, so that many pairs leave exactly enough."""
    n, edges, seconds = drawn(seed)
    work = (seconds * [1, 2]).min(axis=1)
    states = downsets(n, edges, 1000, "drawn")
    members = states.members
    for devices in range(1, n + 1):
        for threshold in sorted({int(work.sum()) // devices, *range(1, int(seconds[:, 0].sum()) + 1, 2)} - {0}):
            low, high = states.pairs(seconds, work, (1, 2), float(threshold), devices)
            left = set(zip(low.tolist(), high.tolist(), strict=True))
            for b in range(len(members)):
                for a in range(len(members)):
                    inside = members[b] & ~members[a]
                    if not inside.any() or (members[a] & ~members[b]).any():
                        continue
                    needed = next((d for k, d in enumerate((1, 2)) if seconds[inside, k].sum() <= threshold), None)
                    rest = Fraction(int(work[~inside].sum()), threshold)
                    assert ((a, b) in left) == (needed is not None and needed + rest <= devices)


@pytest.mark.parametrize("seed", range(20))
def test_every_stage_of_every_pipeline_in_time_is_left(seed: int) -> None:
    """Whatever the theory of the cut: pipelines by enumeration, at the threshold that they keep exactly."""
    n, edges, seconds = drawn(seed)
    work = (seconds * [1, 2]).min(axis=1)
    states = downsets(n, edges, 1000, "drawn")
    for pipeline in lines(n, edges):
        for first in (0, 1):
            times = [seconds[list(stage), first].sum() for stage in pipeline]
            low, high = states.pairs(seconds, work, (1, 2), max(times), (1 + first) * len(pipeline))
            left = set(zip(low.tolist(), high.tolist(), strict=True))
            mask = np.zeros(n, bool)
            for stage in reversed(pipeline):  # states hold what is behind them
                before = states.number[mask.tobytes()]
                mask[list(stage)] = True
                assert (before, states.number[mask.tobytes()]) in left
