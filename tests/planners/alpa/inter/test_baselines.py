"""The baselines as plans: what each restricts, and that Alpa, whose space holds theirs, is never worse."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.alpa import BASELINES, cluster_operators, plan
from meshwright.planners.alpa.baseline_megatron import block_stages
from meshwright.planners.alpa.fixed import data_parallel
from meshwright.planners.alpa.inter.pricing.fixed_pricer import FixedPricer
from meshwright.planners.alpa.intra import IntraOptions
from meshwright.profiles.graph import roofline, zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh
from random_graphs import chain

CLUSTER = Cluster(1, 2)
REQUEST = {"global_batch": 16, "microbatches": 4}


@pytest.fixture(scope="module")
def plans():
    graph = zoo_graph("tiny-moe")
    options = {"n_layers": 4}
    made = {name: make(graph, CLUSTER, **REQUEST, options=options) for name, make in BASELINES.items()}
    return made | {"alpa": plan(graph, CLUSTER, **REQUEST, options=options)}


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_a_baseline_makes_a_whole_plan(plans, name):
    made, graph = plans[name], zoo_graph("tiny-moe")
    ends = [0, *(s.last for s in made.stages)]
    assert [s.first for s in made.stages] == ends[:-1]
    assert ends[-1] == len(graph.operators)
    assert sorted(d for s in range(len(made.stages)) for d in made.mesh(s).device_ids) == [0, 1]
    assert made.planner.name != "alpa"
    assert all(set(s.operators) == {op.name for op in graph.operators[s.first : s.last]} for s in made.stages)


@pytest.mark.parametrize("name", ["equal-layer", "inter-only", "intra-only", "pp-dp", "data", "zero2", "deepspeed-moe"])
def test_alpa_is_never_worse_on_its_own_prices(plans, name):
    """Their spaces are parts of Alpa's: same layers, submeshes and cost model."""
    assert plans["alpa"].predicted["seconds"] <= plans[name].predicted["seconds"] * (1 + 1e-9)


def test_what_each_restricts(plans):
    assert len(plans["intra-only"].stages) == len(plans["zero3"].stages) == len(plans["deepspeed-moe"].stages) == 1
    assert [s.logical for s in plans["inter-only"].stages] == [(1, 1), (1, 1)]
    products = [e for name, e in plans["data"].stages[0].operators.items() if name.endswith("mlp.up")]
    assert products
    assert {e.axes for e in products} == {("", "b")}


def test_megatron_takes_the_best_of_its_grid():
    """tiny-gpt on two devices: every (tensor, pipeline, data) by hand as a plan of its own."""
    graph = zoo_graph("tiny-gpt")
    made = BASELINES["megatron"](graph, CLUSTER, **REQUEST)
    from meshwright.planners.alpa.baseline_megatron import _seconds
    from meshwright.planners.alpa.fixed import megatron as axes
    from meshwright.planners.alpa.options import AlpaOptions

    pricer = FixedPricer(roofline(CLUSTER.spec), IntraOptions(zero=0), axes)
    each = {
        (tp, pp, dp): _seconds(graph.with_batch(4), CLUSTER, (tp, pp, dp, 4), pricer, "none", 1e12, AlpaOptions())
        for tp, pp, dp in itertools.product((1, 2), repeat=3)
        if tp * pp * dp == 2
    }
    assert made.predicted["seconds"] == pytest.approx(min(each.values()), rel=1e-9)
    assert tuple(made.planner.options[k] for k in ("tensor", "pipeline", "data")) == min(each, key=each.get)


def test_megatron_deals_blocks_equally():
    graph = zoo_graph("tiny-gpt")
    stages = block_stages(graph, 2)
    assert [{op.layer for op in graph.operators[a:b]} for a, b in stages] == [{-1, 0, 1}, {-1, 2, 3}]
    assert block_stages(graph, 3) is None
    with pytest.raises(InputError, match="no repeated blocks"):
        block_stages(chain([1, 1]), 1)


def test_a_baseline_that_does_not_fit_says_so():
    with pytest.raises(InfeasibleError, match="use more devices"):
        BASELINES["megatron"](zoo_graph("gpt3-350m"), Cluster(1, 2), global_batch=2, microbatches=1,
                              options={"memory_fraction": 0.05})  # fmt: skip


def test_data_parallel_runs_priced_at_once_are_those_scored_one_by_one():
    graph, layers = zoo_graph("tiny-gpt").with_batch(8), cluster_operators(zoo_graph("tiny-gpt"), 4)
    mesh = Mesh(Cluster(1, 4), 1, 4).view((1, 4))
    costs = roofline(CLUSTER.spec)
    one, many = (
        FixedPricer(costs, IntraOptions(zero=0), data_parallel, batch_only=fast).intervals(
            graph, layers, mesh, "none", 4
        )
        for fast in (False, True)
    )
    for name in ("seconds", "iteration_s", "state", "activation"):
        np.testing.assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-9)
