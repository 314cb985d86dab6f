"""The partitioner against searches that try everything, on small graphs with made-up prices."""

from __future__ import annotations

import numpy as np
import pytest
from small_worlds import World, best_tps, in_space, reachable, stage_graphs, world

from meshwright.planners.graphpipe.candidates import candidates_of
from meshwright.planners.graphpipe.configs import Configs
from meshwright.planners.graphpipe.partitioner import Partitioner
from meshwright.planners.graphpipe.stage_graph import stage_graph
from meshwright.seeds import generator

SHAPES = [
    "....",
    "(.|.).",
    "(..|.).",
    "(.|.|.).",
    ".(.|.).",
    ".(..|.)",
    "(..|..)",
    "(.|.)(.|.)",
    "((.|.).|.).",
    ".(.|(.|.).).",
]


def searched(small: World, n_devices: int, ks=(1,)) -> Partitioner:
    found = candidates_of(small.tree, small.costs, small.memory_bytes)
    return Partitioner(found, Configs.of(small.costs.microbatches, ks, small.costs.microbatches), n_devices)


def small_world(seed: int, shape: str, **changes) -> World:
    rng = generator(seed, f"graphpipe/{shape}")
    memory = float(rng.choice([9.0, 14.0, 22.0, 1e9]))
    given = {"global_batch": 4, "microbatches": (1, 2, 4), "devices": (1, 2), "memory": memory} | changes
    return world(rng, shape, **given)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_least_bottleneck_of_all_plans_in_the_space(shape: str, seed: int):
    """Exact: as good as trying every partition, microbatch and number of devices, nothing pruned."""
    small = small_world(seed, shape)
    partitioner = searched(small, 4)
    tps = partitioner.least()
    truth = best_tps(small, sorted(in_space(small.tree), key=str), 4)
    assert (np.inf if tps is None else tps) == pytest.approx(truth, rel=1e-12)
    if tps is not None:
        plan = partitioner.plan(tps)
        assert plan is not None
        assert plan.tps == tps
