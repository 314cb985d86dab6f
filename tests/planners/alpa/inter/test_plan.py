"""Algorithm 1 from end to end on prices without an intra-operator pass: what a plan must satisfy, options, errors."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.alpa import AlpaOptions, cluster_operators, plan
from meshwright.planners.alpa.inter.clustering import default_layers
from meshwright.planners.alpa.inter.search import Search
from meshwright.profiles import DEVICES
from meshwright.profiles.graph import zoo_graph
from meshwright.profiles.hardware import LinkSpec
from meshwright.simulator import Cluster
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.simulate import simulate_training
from plain_prices import PlainPrices


@pytest.fixture(scope="module")
def gpt():
    return zoo_graph("gpt3-350m")


def planned(graph, cluster, batch=32, microbatches=8, prices=None, **options):
    return plan(
        graph, cluster, global_batch=batch, microbatches=microbatches, options=options, pricer=prices or PlainPrices()
    )


@pytest.mark.parametrize(
    ("name", "cluster"),
    [("gpt3-350m", Cluster(2, 4)), ("gshard-moe-380m", Cluster(1, 4)), ("wide-resnet-250m", Cluster(2, 2)),
     ("tiny-gpt", Cluster(3, 2)), ("tiny-mlp", Cluster(1, 2))],
)  # fmt: skip
def test_a_plan_covers_graph_and_cluster(name, cluster):
    graph = zoo_graph(name)
    made = planned(graph, cluster, prices=PlainPrices(loss=0.5))
    ends = [0, *(s.last for s in made.stages)]
    assert [s.first for s in made.stages] == ends[:-1]
    assert ends[-1] == len(graph.operators)
    ids = [d for s in range(len(made.stages)) for d in made.mesh(s).device_ids]
    assert sorted(ids) == list(range(cluster.n_devices))
    for s, stage in enumerate(made.stages):
        held = min(len(made.stages) - s, made.microbatches)
        used = stage.state_bytes + held * stage.activation_bytes + stage.work_bytes
        assert used <= 0.9 * cluster.spec.memory_bytes
        assert math.prod(stage.logical) == made.mesh(s).n_devices
        assert set(stage.operators) == {op.name for op in graph.operators[stage.first : stage.last]}
    assert made.model.digest == graph.digest
    assert TrainingPlan.from_json(made.to_json()).to_json() == made.to_json()


def test_the_best_of_all_plans():
    """Brute force over stages, submeshes and views under Eq. 2 and Eq. 5, on the same prices."""
    graph, cluster, microbatches = zoo_graph("gpt3-350m").with_batch(4), Cluster(2, 2), 8
    prices = PlainPrices(loss=0.4, kept=3.0)
    memory = 0.9 * cluster.spec.memory_bytes
    layers = cluster_operators(graph, 5)
    shapes = [(1, 1), (1, 2), (2, 2)]
    best = math.inf
    for n_stages in range(1, 5):
        for cut in itertools.combinations(range(1, 5), n_stages - 1):
            ends = [0, *cut, 5]
            for chosen in itertools.product(shapes, repeat=n_stages):
                if sum(a * b for a, b in chosen) != 4:
                    continue
                times = []
                for s, (a, b) in enumerate(chosen):
                    views = [(x, a * b // x) for x in range(1, a * b + 1) if a * b % x == 0]
                    one = math.inf
                    for view in views:
                        mesh = type("Mesh", (), {"shape": view})
                        p = prices.stage(
                            graph, layers[ends[s]][0], layers[ends[s + 1] - 1][1], mesh, "none", microbatches, 1, 1e30
                        )
                        held = min(n_stages - s, microbatches)
                        if p.state_bytes + held * p.activation_bytes <= memory:
                            one = min(one, p.forward_s + p.backward_input_s + p.reduce_s / microbatches)
                    times.append(one)
                best = min(best, sum(times) + (microbatches - 1) * max(times))
    made = planned(graph, cluster, 32, 8, prices, n_layers=5)
    assert made.predicted["seconds"] == pytest.approx(best, rel=1e-12)
    assert len(made.stages) > 1


def test_the_number_of_microbatches_is_the_best_divisor(gpt):
    cluster = Cluster(1, 4)
    each = {}
    for count in (1, 2, 4, 8, 16):
        prices = PlainPrices(loss=0.5, kept=2.0)
        try:
            each[count] = planned(gpt, cluster, 16, count, prices, n_layers=6).predicted["seconds"]
        except InfeasibleError:
            each[count] = math.inf
    prices = PlainPrices(loss=0.5, kept=2.0)
    made = plan(gpt, cluster, global_batch=16, pricer=prices, options={"n_layers": 6})
    assert made.predicted["seconds"] == pytest.approx(min(each.values()), rel=1e-12)
    assert each[made.microbatches] == pytest.approx(min(each.values()))


def test_a_bound_saves_pricing(gpt):
    prices = PlainPrices(loss=0.0)
    plan(gpt, Cluster(1, 2), global_batch=64, pricer=prices, options={"n_layers": 6})
    assert len({count for _, _, count in prices.asked}) < 7


def test_transfers_follow_the_values(gpt):
    made = planned(gpt, Cluster(1, 4), prices=PlainPrices(loss=0.5), n_layers=12, stages="one_device")
    assert len(made.stages) == 4
    graph = gpt.with_batch(4)
    for t in made.transfers:
        if t.value in graph.index:
            maker, reader = made.stages[t.source], made.stages[t.target]
            assert maker.first <= graph.index[t.value] < maker.last
            assert any(reader.first <= i < reader.last for i, _ in graph.consumers[t.value])
            assert t.bytes == graph.bytes_of(t.value)
    tied = [t for t in made.transfers if t.value == "embedding.weight"]
    assert [(t.source, t.target) for t in tied] == [(0, 3)]  # kept by both ends, its gradient summed between them
    assert all("embedding.weight" in made.stages[s].parameters for s in (0, 3))


def test_stages_may_be_restricted(gpt):
    cluster = Cluster(1, 4)
    prices = PlainPrices(loss=0.3)
    free = planned(gpt, cluster, prices=prices)
    one = planned(gpt, cluster, prices=prices, stages="one")
    apart = planned(gpt, cluster, prices=prices, stages="one_device")
    equal = planned(gpt, cluster, prices=prices, stages="equal_layer", n_layers=8)
    assert len(one.stages) == 1
    assert [made.n_devices for made in map(apart.mesh, range(4))] == [1] * 4
    layers = cluster_operators(gpt.with_batch(4), 8)
    at = [[first for first, _ in layers].index(s.first) for s in equal.stages]
    assert len({b - a for a, b in itertools.pairwise([*at, 8])}) == 1
    assert min(p.predicted["seconds"] for p in (one, apart)) >= free.predicted["seconds"]


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2])
def test_epsilon_bounds_the_plan(gpt, epsilon):
    prices = PlainPrices(loss=0.3)
    exact = planned(gpt, Cluster(2, 2), prices=prices).predicted["seconds"]
    loose = planned(gpt, Cluster(2, 2), prices=prices, epsilon=epsilon).predicted["seconds"]
    assert exact * (1 - 1e-12) <= loose <= exact + 8 * epsilon


def test_recomputation_is_chosen_per_stage_where_memory_is_short(gpt):
    prices = PlainPrices(loss=0.3)
    cluster = Cluster(1, 4)
    with pytest.raises(InfeasibleError, match="recompute='full'"):
        planned(gpt, cluster, 32, 4, prices, memory_fraction=0.3, stages="one_device", recompute="none")
    auto = planned(gpt, cluster, 32, 4, prices, memory_fraction=0.3, stages="one_device", recompute="auto")
    full = planned(gpt, cluster, 32, 4, prices, memory_fraction=0.3, stages="one_device", recompute="full")
    assert auto.predicted["seconds"] < full.predicted["seconds"]
    assert auto.stages[0].recompute != "none"
    assert len({s.recompute for s in auto.stages}) > 1  # the last stage holds one microbatch and need not


def test_gpipe_holds_every_microbatch(gpt):
    prices = PlainPrices(loss=0.3, kept=0.5)
    one = planned(gpt, Cluster(1, 4), 32, 16, prices)
    other = planned(gpt, Cluster(1, 4), 32, 16, prices, schedule="gpipe")
    assert other.predicted["seconds"] >= one.predicted["seconds"]
    assert all(s.state_bytes + 16 * s.activation_bytes + s.work_bytes <= 0.9 * 16 * 2**30 for s in other.stages)


def test_a_model_that_cannot_fit_says_what_would(gpt):
    with pytest.raises(InfeasibleError, match=r"use at least \d+ such devices"):
        planned(zoo_graph("gpt3-39b"), Cluster(1, 4), 8, 8)


def test_what_is_said_to_be_enough_memory_is(gpt):
    prices = PlainPrices(kept=2.0)
    with pytest.raises(InfeasibleError, match=r"what would: devices with [\d.]+ GiB") as error:
        planned(gpt, Cluster(1, 2), 8, 2, prices, memory_fraction=0.2)
    needed = float(str(error.value).split("devices with ")[1].split(" GiB")[0])
    planned(gpt, Cluster(1, 2), 8, 2, prices, memory_fraction=needed / 16 + 1e-6)
    with pytest.raises(InfeasibleError):
        planned(gpt, Cluster(1, 2), 8, 2, prices, memory_fraction=needed / 16 * 0.97)


def test_bad_input(gpt):
    with pytest.raises(InputError, match="do not divide the global batch of 32; use 4"):
        planned(gpt, Cluster(1, 2), 32, 5)
    with pytest.raises(InputError, match="did you mean 'n_layers'"):
        planned(gpt, Cluster(1, 2), n_layer=4)
    with pytest.raises(InputError, match="did you mean 'gpipe'"):
        AlpaOptions(schedule="gpip")
    with pytest.raises(InputError, match="interleaved_1f1b"):
        AlpaOptions(interleave=2)
    with pytest.raises(InputError, match="memory_fraction"):
        AlpaOptions(memory_fraction=1.5)
    with pytest.raises(InputError, match="global_batch"):
        planned(gpt, Cluster(1, 2), 0, None)
    with pytest.raises(InputError, match="expected a training graph"):
        planned("gpt", Cluster(1, 2))


def test_layers_by_default_hold_whole_blocks():
    assert default_layers(zoo_graph("gpt3-39b"), 64) == 16
    assert default_layers(zoo_graph("tiny-mlp"), 2) <= 4


def test_transfers_counted_make_fewer_stages_on_a_slow_network(gpt):
    """The paper's programme does not see the network between stages; with it the plan can only take less with it."""
    slow = replace(DEVICES["v100-16gb"], name="slow", inter_node=LinkSpec(2e7, 1e-3))
    cluster = Cluster(4, 1, slow)
    prices = PlainPrices(loss=0.2)
    blind = planned(gpt, cluster, prices=prices)
    seeing = planned(gpt, cluster, prices=prices, cross_stage=True)
    assert len(seeing.stages) < len(blind.stages)
    assert seeing.predicted["dp_seconds"] >= seeing.predicted["seconds"]


def test_auto_takes_the_shorter_simulated_iteration():
    """Both ways are planned on a cluster whose network matters; neither of them alone is shorter than auto."""
    graph, cluster = zoo_graph("tiny-gpt"), Cluster(2, 2)
    made = {
        how: plan(graph, cluster, global_batch=16, microbatches=8, options={"n_layers": 4, "cross_stage": how})
        for how in (False, True, "auto")
    }
    simulated = {how: simulate_training(p).seconds for how, p in made.items()}
    assert simulated["auto"] == min(simulated[False], simulated[True])
    assert made["auto"].predicted["simulated_s"] == simulated["auto"]


def test_cross_stage_is_said_in_three_ways(gpt):
    with pytest.raises(InputError, match="cross_stage: expected true, false or auto"):
        planned(gpt, Cluster(1, 2), cross_stage="maybe")


def test_stages_without_an_exact_solution_are_struck_out(monkeypatch):
    """Prices may be optimistic: what they take for possible is left out once its exact solution is found to be none."""
    choice, without = Search._choice, Search.without
    struck = []
    monkeypatch.setattr(Search, "_choice", lambda self, count, table, _bytes: choice(self, count, table, 1e18))
    monkeypatch.setattr(Search, "without", lambda self, found: struck.append(found) or without(self, found))
    with pytest.raises(InfeasibleError):
        plan(
            zoo_graph("tiny-gpt"), Cluster(1, 2), global_batch=8, microbatches=2,
            options={"memory_fraction": 3e-5, "n_layers": 2},
        )  # fmt: skip
    assert len(struck) > 1
