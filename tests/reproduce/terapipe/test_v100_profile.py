"""V100 layers as a slice profile: read back, exact where Eq. 2.9 can be, and planned with."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.terapipe import SliceProfile, plan
from meshwright.planners.terapipe.v100.cell import V100Cell, V100Layout
from meshwright.planners.terapipe.v100.profile import v100_profile
from meshwright.profiles.graph.token_loops import sequence_length
from meshwright.profiles.graph.zoo import zoo_graph
from meshwright.simulator.cluster import Cluster


@pytest.mark.parametrize(("hidden", "op"), [(6144, 1), (12288, 4)])
def test_eq_2_9_holds_where_launches_do_not_show(hidden, op, tmp_path):
    profile = SliceProfile.load(v100_profile(hidden, op=op, samples=(1, 2)).save(tmp_path / "v100.json"))
    cell = V100Cell(V100Layout(8, hidden, 1, 8, op))
    length, context = np.array([64, 256, 1000, 2048]), np.array([1024, 512, 1048, 0])
    for fit, seconds in zip(profile.parts["block"].fit(), cell.layer(length, context, 2), strict=True):
        assert fit.seconds(length, context, 2) == pytest.approx(seconds, rel=1e-6)
        assert fit.overhead_error < 0.02  # as the paper's linear model


def test_a_plan_by_it():
    graph = zoo_graph("tiny-gpt", 1)
    tokens = sequence_length(graph)
    profile = v100_profile(12288, tokens=tokens, unit=4)
    options = {"data": 1, "pipe": 4, "op": 1, "granularity": 4, "slice_profile": profile}
    found = plan(graph, Cluster(1, 4), global_batch=4, options=options)
    cell = V100Cell(V100Layout(8, 12288, 1, 8, 1), tokens)
    blocks = len({op.layer for op in graph.operators if op.layer >= 0})
    for entry, forward in zip(found.slices, found.stages[0].slice_forward_s, strict=True):
        ends = np.cumsum(entry.tokens)
        alone, _ = cell.layer(np.array(entry.tokens), ends - entry.tokens, entry.samples)
        assert forward == pytest.approx(blocks // 4 * alone, rel=1e-3)


def test_units_divide():
    with pytest.raises(InputError, match="divisor of 2048"):
        v100_profile(2048, unit=7)
