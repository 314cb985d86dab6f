"""Interval costs: every entry is what the stage's own problem gives, wherever layers are cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.alpa.intra import Analysis, IntraOptions, interval_costs, solve_stage
from meshwright.planners.alpa.intra.pricing import Pricing
from meshwright.planners.alpa.intra.runs import chain as chain_module
from meshwright.planners.alpa.intra.solve import solve_priced
from meshwright.profiles.graph import layer_bounds, roofline, zoo_graph
from meshwright.profiles.hardware import device
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import LogicalMesh, Mesh

COSTS = roofline(device("v100-16gb"))
GRAPHS = {name: zoo_graph(name, 8) for name in ("tiny-gpt", "tiny-moe", "tiny-resnet", "tiny-mlp")}


def mesh(shape: tuple[int, int], hosts: int = 0) -> LogicalMesh:
    hosts = hosts or shape[0]
    n = shape[0] * shape[1]
    return Mesh(Cluster(hosts, n // hosts, "v100-16gb"), hosts, n // hosts).view(shape)


OPTIONS = st.builds(
    IntraOptions,
    microbatches=st.sampled_from([1, 4]),
    zero=st.sampled_from([0, 2, 3]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    sequence_parallel=st.booleans(),
    force_batch=st.booleans(),
    overlap=st.booleans(),
)


def check(graph, layers, m, options, prices=None, work=True):
    analysis = Analysis(graph)
    table = interval_costs(graph, layers, m, COSTS, options, prices=prices, analysis=analysis)
    pricing = Pricing(analysis, m, COSTS, options)
    n = len(layers)
    for i in range(n):
        for j in range(n):
            if j < i:
                assert np.isinf(table.seconds[i, j]).all()
                continue
            for c, (state, activation) in enumerate(table.prices):
                first, last = layers[i][0], layers[j][1]
                best = solve_priced(pricing, first, last, state, activation)
                least = best.objective + state * best.state_bytes + activation * best.activation_bytes
                plan = table.plan(i, j, c)
                if not table.exact:  # twins that a cut separates each count the copy
                    assert table.objective[i, j, c] >= least * (1 - 1e-9)
                    continue
                assert table.objective[i, j, c] == pytest.approx(least, rel=1e-9)
                assert table.seconds[i, j, c] == pytest.approx(plan.seconds, rel=1e-9)
                assert table.iteration_s[i, j, c] == pytest.approx(plan.reduce_s + plan.update_s, rel=1e-9)
                assert table.state_bytes[i, j, c] == pytest.approx(plan.state_bytes, rel=1e-9)
                assert table.activation_bytes[i, j, c] == pytest.approx(plan.activation_bytes, rel=1e-9)
                if work:
                    assert table.work_bytes[i, j, c] == pytest.approx(plan.work_bytes, rel=1e-9)
                assert (plan.first, plan.last) == (first, last)
                if state == activation == 0:
                    assert plan.status == "optimal"
                    assert plan.gap == pytest.approx(0, abs=1e-9)
    return table


QUICK = {("tiny-gpt", (1, 4)), ("tiny-moe", (2, 4)), ("tiny-resnet", (1, 1)), ("tiny-mlp", (2, 4))}
MODELS = [(name, shape) for name in GRAPHS for shape in ((1, 1), (1, 4), (2, 4))]


@pytest.mark.parametrize(
    ("name", "shape"), [pytest.param(*m, marks=() if m in QUICK else pytest.mark.slow) for m in MODELS]
)
def test_layers_of_models(name, shape):
    """The tied embedding of a language model is read in its first and last layer."""
    graph = GRAPHS[name]
    bounds = layer_bounds(graph)
    layers = list(pairwise((*bounds[:3], *bounds[-2:])))
    table = check(graph, layers, mesh(shape), IntraOptions(microbatches=2), prices=[(0.0, 0.0), (1e-9, 1e-9)])
    for i in range(len(layers)):
        plan = solve_stage(graph, layers[i][0], layers[-1][1], mesh(shape), COSTS, IntraOptions(microbatches=2))
        assert table.objective[i, -1, 0] == pytest.approx(plan.objective, rel=1e-9)


@settings(max_examples=examples(4, anew=8), deadline=None)
@given(st.sampled_from(list(GRAPHS)), st.sampled_from([(1, 2), (2, 1), (2, 2), (1, 4)]), OPTIONS, st.data())
def test_layers_cut_anywhere(name, shape, options, data):
    graph = GRAPHS[name]
    n = len(graph.operators)
    cuts = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=2, max_size=3)))
    layers = list(zip(cuts, (*cuts[1:], n), strict=True))
    # Where a cut runs through what is computed again together, temporaries are approximate.
    check(graph, layers, mesh(shape), options, prices=[(0.0, 0.0), (1e-9, 1e-8)], work=options.recompute == "none")


def test_too_much_crossing_a_cut(monkeypatch):
    """Each entry is then an ILP of its own, with the same result."""
    graph = GRAPHS["tiny-gpt"]
    layers = [(0, 24), (24, 57), (57, len(graph.operators))]
    prices = [(0.0, 0.0), (1e-9, 1e-8)]
    plain = interval_costs(graph, layers, mesh((1, 4)), COSTS, prices=prices)
    monkeypatch.setattr(chain_module, "MOST_STATES", 3)
    one_by_one = check(graph, layers, mesh((1, 4)), IntraOptions(), prices)
    assert one_by_one.exact
    np.testing.assert_allclose(plain.objective, one_by_one.objective, rtol=1e-9)


def test_prices_trade_time_for_memory():
    """The front: of two prices, the higher takes no less time and no more memory; and the bound is one."""
    graph, m = GRAPHS["tiny-mlp"], mesh((2, 4))
    prices = [(p, p) for p in (0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-6, 1.0)]
    bounds = layer_bounds(graph)
    layers = list(pairwise(bounds))
    options = IntraOptions(microbatches=4)
    table = interval_costs(graph, layers, m, COSTS, options, prices=prices)
    memory = table.state_bytes + table.activation_bytes
    seconds = table.seconds + table.iteration_s / 4
    for i in range(len(layers)):
        for j in range(i, len(layers)):
            assert (np.diff(memory[i, j]) <= 1e-9 * memory[i, j, 0]).all()
            assert (np.diff(seconds[i, j]) >= -1e-9 * seconds[i, j, 0]).all()
    last = len(layers) - 1
    assert memory[0, last, -1] < memory[0, last, 0]
    # A stage that is solved under a bound between two entries of the front is no faster than the bound says.
    first_op, last_op = layers[0][0], layers[last][1]
    limit = 0.5 * (memory[0, last, -1] + memory[0, last, 0]) + table.work_bytes[0, last].max()
    plan = solve_stage(graph, first_op, last_op, m, COSTS, IntraOptions(microbatches=4, memory_bytes=float(limit)))
    bound = table.bound(0, last, float(limit))
    assert table.objective[0, last, 0] < bound <= plan.objective * (1 + 1e-9)


@pytest.mark.parametrize("layers", [[], [(0, 5), (6, 9)], [(5, 5)], [(0, 10_000)], [(4, 8), (0, 4)]])
def test_what_are_no_layers(layers):
    with pytest.raises(InputError, match="layers: expected consecutive ranges"):
        interval_costs(GRAPHS["tiny-mlp"], layers, mesh((1, 2)), COSTS)


def test_bad_prices_and_entries():
    graph = GRAPHS["tiny-mlp"]
    with pytest.raises(InputError, match="prices"):
        interval_costs(graph, [(0, 12)], mesh((1, 2)), COSTS, prices=[(-1.0, 0.0)])
    table = interval_costs(graph, [(0, 5), (5, 12)], mesh((1, 2)), COSTS)
    with pytest.raises(InputError, match="layers i ≤ j < 2"):
        table.plan(1, 0, 0)
