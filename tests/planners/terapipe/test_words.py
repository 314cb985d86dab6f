"""What a plan of token slices says of itself, by hand."""

from __future__ import annotations

import pytest
from meshwright.planners.terapipe import plan
from meshwright.profiles.graph.models.language import Llama
from meshwright.simulator import Cluster
from meshwright.simulator.training.plan.slice_words import slice_dominates, slice_lines, tokens_text

GRAPH = Llama(layers=2, hidden=64, heads=4, ffn=128, vocab=64, seq=64, dtype="float16").graph("two")


@pytest.fixture(scope="module")
def made():
    options = {"pipe": 2, "tokens": [32, 16, 16], "samples": 1}
    found = plan(GRAPH, Cluster(1, 2, "v100-16gb"), global_batch=3, options=options)
    times = [{"slice_forward_s": ((1.0, 2.0, 3.0),), "slice_backward_s": ((2.0, 4.0, 6.0),)},
             {"slice_forward_s": ((2.0, 2.0, 4.0),), "slice_backward_s": ((3.0, 3.0, 3.0),)}]  # fmt: skip
    once = {"reduce_s": 0.0, "update_s": 8.0}
    stages = tuple(s.model_copy(update=t | once) for s, t in zip(found.stages, times, strict=True))
    return found.model_copy(update={"stages": stages})


def test_equal_neighbours_are_said_together():
    assert tokens_text((8, 8, 4, 8)) == "8 x 2, 4, 8"
    assert tokens_text((5,)) == "5"


def test_slices_are_listed(made):
    assert slice_lines(made) == [
        "slices, in the order in which they are fed:",
        "  3 microbatch(es) of 1 sample(s) in 3 slices: 32, 16 x 2 tokens",
        "",
    ]
    assert slice_lines(made.model_copy(update={"slices": ()})) == []


def test_what_dominates(made):
    """Forward stage 1 is slowest, 3 x 8, and stage 0 adds its longest, 3; backward stage 0, 3 x 12, and 3; update 8."""
    lines = slice_dominates(made)
    assert lines[0] == "Σ t + (K - 1) max t over slices = 74 s an iteration:"
    shares = [float(line.split("%")[0]) for line in lines[1:]]
    assert shares == [pytest.approx(100 * x / 74, abs=0.05) for x in (24, 36, 6, 8)]
    assert lines[0] in made.explain()


def test_plans_without_slice_times(made):
    bare = tuple(s.model_copy(update={"slice_forward_s": ()}) for s in made.stages)
    assert slice_dominates(made.model_copy(update={"stages": bare})) == ["the plan does not say what its slices take"]
