"""Limits of ours that leave out stages: nothing found among the others is no proof that nothing fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, LimitError
from meshwright.planners.graphpipe import nodes, plan, tree
from meshwright.planners.graphpipe.candidates import candidates_of
from meshwright.planners.graphpipe.infeasible import why_infeasible
from meshwright.planners.graphpipe.schedule.configs import Configs
from meshwright.planners.graphpipe.search import Search
from meshwright.planners.graphpipe.tree import Series, chain_of
from meshwright.profiles.graph import zoo_graph
from meshwright.seeds import generator
from meshwright.simulator.cluster import Cluster
from small_worlds import World, world

SHAPES = [".(.|.).", ".(..|.)", ".(.|(.|.).).", "..(.|..).", "(.|.)(.|.)", "(.|.)..", "...."]
TWO = Cluster(1, 2)


def drawn(seed: int, shape: str) -> World:
    """On two devices, with memory of any size up to that of the whole model in one stage."""
    rng = generator(seed, f"graphpipe limits/{shape}")
    small = world(rng, shape, global_batch=4, microbatches=(1, 2, 4), devices=(1, 2), memory=0.0)
    return replace(small, costs=replace(small.costs, cluster=TWO), memory_bytes=float(rng.integers(4, 40)))


def trees(small: World) -> tuple[Series, Series]:
    return small.tree, chain_of(small.costs.n_units)


def fits(small: World) -> bool:
    configs = Configs.of(small.costs.microbatches, (1,), small.costs.microbatches)
    return any(
        Search(candidates_of(t, small.costs, small.memory_bytes), configs, TWO.n_devices).fits(np.inf)
        for t in trees(small)
    )


def test_nothing_fits_is_said_only_where_it_is_known(monkeypatch: pytest.MonkeyPatch):
    told = {LimitError: 0, InfeasibleError: 0}
    missed = 0
    for shape in SHAPES:
        for seed in range(30):
            small = drawn(seed, shape)
            whole = fits(small)
            with monkeypatch.context() as patch:
                patch.setattr(nodes, "MOST_FORKS", 0)
                if fits(small):
                    continue
                missed += whole
                error = why_infeasible(trees(small), small.costs, (1,), small.memory_bytes)
            told[type(error)] += 1
            assert not (whole and isinstance(error, InfeasibleError)), (shape, seed)
            if shape in SHAPES[-2:]:  # nothing comes before a fork: the limit leaves out nothing
                assert isinstance(error, InfeasibleError), (shape, seed)
            assert "\n" not in str(error)
    assert missed, "no draw whose only plans the limit leaves out"
    assert all(told.values())


def test_halved_branches_are_a_limit(monkeypatch: pytest.MonkeyPatch):
    """The plan that is found under the limit is one; where none is, whether there is one is not known."""
    graph = zoo_graph("dlrm-3")
    device = Cluster(1, 4).spec
    short = Cluster(1, 4, replace(device, memory_bytes=2_900_000_000, usable_memory_bytes=2_900_000_000))
    with pytest.raises(InfeasibleError):
        plan(graph, short, global_batch=64)
    monkeypatch.setattr(tree, "MOST_COUNTS", 2)
    with pytest.raises(LimitError, match=r"our limits of .* so whether there is a plan is not known: use devices"):
        plan(graph, short, global_batch=64)
