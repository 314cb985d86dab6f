"""More memory never gives a slower bottleneck at a microbatch size: what fits into less fits into more."""

from __future__ import annotations

from itertools import pairwise

import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.graphpipe import pipedream, piper, plan
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster

SHARES = (0.06, 0.1, 0.12, 0.15, 0.2, 0.3, 1.0)


@pytest.mark.parametrize("microbatch", [8, 16])
@pytest.mark.parametrize("planner", [plan, pipedream, piper])
def test_the_bottleneck_does_not_grow_with_memory(planner, microbatch: int):
    """The iteration may: it is simulated after the bottleneck has chosen the stages (docs/graphpipe.md)."""
    graph, cluster = zoo_graph("case-study-3-7-4-2"), Cluster(1, 4)
    more = {"objective": "tps", "same_microbatch": True} if planner is plan else {}
    found: list[float] = []  # V100s of 16 GB
    for share in SHARES:
        options = {**more, "microbatches": (microbatch,), "memory_fraction": share, "footprint": "flexflow"}
        try:
            found.append(planner(graph, cluster, global_batch=64, options=options).predicted["tps"])
        except InfeasibleError:
            assert not found  # what fits into less fits into more
    assert len(found) > 3
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(found))
    assert found[0] > found[-1]  # memory does bind
