"""Grids and memory estimates inside the search, against the stages one by one and against the simulated peak."""

from __future__ import annotations

import pytest
from meshwright.planners.terapipe import TeraPipeOptions, plan
from meshwright.planners.terapipe.emit import stage_bytes
from meshwright.planners.terapipe.layouts import layouts
from meshwright.planners.terapipe.search import Search
from meshwright.planners.terapipe.slicing import Slice
from meshwright.profiles.graph import roofline
from meshwright.profiles.graph.models.language import Llama
from meshwright.simulator import Cluster
from meshwright.simulator.training.simulate import simulate_training

GRAPH = Llama(layers=4, hidden=256, heads=8, ffn=512, vocab=64, seq=128, dtype="float16").graph("four")
NODE = Cluster(1, 4, "v100-16gb")


def pipeline(**options):
    chosen = TeraPipeOptions(pipe=4, recompute="none", granularity=32, **options)
    search = Search(GRAPH, NODE, 16, None, chosen, roofline(NODE.spec))
    (layout,) = layouts(GRAPH, NODE, chosen, 16)
    return search.candidates(layout, 32)[0].pipeline


def test_grids_hold_the_slowest_stage_and_all_others():
    """Two samples, 32 tokens after 64: every stage by itself, with the messages that it waits for and sends."""
    found = pipeline()
    grids = found.grids((1, 2), 32, True)
    at = (1, 64 // 32, 32 // 32 - 1)
    each = [found.clocks[s].seconds(2, 32, 64) for s in range(4)]
    share = 2 * 32 / 128
    forward = [t[0] for t in each]
    backward = [t[1] for t in each]
    for s in range(3):
        forward[s] += found.forward[s].send_s(share)
        forward[s + 1] += found.forward[s].gather_s(share)
        backward[s + 1] += found.backward[s].send_s(share)
        backward[s] += found.backward[s].gather_s(share)
    assert grids.total[at] == pytest.approx(max(forward) + max(backward))
    assert grids.fills[0][at] == pytest.approx(sum(forward) - max(forward))
    assert grids.fills[1][at] == pytest.approx(sum(backward) - max(backward))


def test_grids_become_exact_where_slices_are():
    found = pipeline()
    grids, exact = found.grids((1,), 8, False), found.grids((1,), 8, True)
    slices = [Slice(1, (64, 40, 24))]
    assert found.sharpen(grids, slices, 8)
    assert not found.sharpen(grids, slices, 8)
    assert int(grids.exact.sum()) == 3
    for context, length in ((0, 64), (64, 40), (104, 24)):
        at = (0, context // 8, length // 8 - 1)
        assert grids.total[at] == pytest.approx(exact.total[at], rel=1e-12)
        assert grids.fills[0][at] == pytest.approx(exact.fills[0][at], rel=1e-12)


@pytest.mark.parametrize("schedule", ["terapipe", "terapipe_1f1b"])
def test_bytes_are_those_of_the_simulated_peak(schedule):
    options = {"pipe": 4, "recompute": "none", "tokens": [64, 32, 32], "samples": 1, "schedule": schedule}
    made = plan(GRAPH, NODE, global_batch=16, options=options)
    slices = [Slice(1, (64, 32, 32))] * 16
    estimate = [sum(x) for x in stage_bytes(pipeline(), slices, schedule)]
    assert simulate_training(made).peak_bytes == pytest.approx(estimate, rel=1e-9)
