"""PipeDream and Piper on our costs: brute force over all pipelines, memory kept, order imposed, clear refusals."""

import itertools

import numpy as np
import pytest
from loops import lines
from meshwright.errors import InfeasibleError, InputError, LimitError
from meshwright.planners.graphpipe import StageCosts, group_operators, pipedream, piper, unit_edges
from meshwright.planners.pipedream.planner import runs
from meshwright.planners.piper import downsets as downsets_module
from meshwright.planners.piper.downsets import count_downsets, downsets
from meshwright.planners.piper.planner import differences, twins
from meshwright.planners.stages.sequential.search import least_bottleneck, least_bottlenecks
from meshwright.profiles.graph import reordered, zoo_graph
from meshwright.seeds import generator
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.plan.graph import check_graph
from meshwright.simulator.training.simulate import simulate_training

CLUSTER = Cluster(1, 8, "v100-16gb")


def priced(name, granularity="layer", batch=16, microbatches=(2, 4), devices=(1, 2, 4)):
    graph = zoo_graph(name)
    return StageCosts.of(
        graph, CLUSTER, global_batch=batch, microbatches=microbatches, devices=devices,
        units=group_operators(graph, granularity),
    )  # fmt: skip


def chains(n):
    """All ways to cut n units of a line into runs."""
    for cuts in itertools.product((False, True), repeat=n - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), n]
        yield [tuple(range(a, b)) for a, b in itertools.pairwise(bounds)]


def value(costs, pipeline, degrees, b, memory):
    """(bottleneck, sum) of a pipeline, each stage priced by itself; None where it does not fit."""
    masks = np.zeros((len(pipeline), costs.n_units), bool)
    for row, units in enumerate(pipeline):
        masks[row, list(units)] = True
    sets, times = costs.of_sets(masks), []
    for s, d in enumerate(degrees):
        held = min(len(pipeline) - s, costs.global_batch // b) * b
        if b % d or costs.memory(sets, b, d, held)[s] > memory:
            return None
        times.append(float(costs.tps(sets, b, d)[s]))
    return max(times), sum(times)


def brute(costs, pipelines, b, memory, n_devices):
    """Least bottleneck; of those the fewest stages; of those the least sum."""
    found = []
    for pipeline in pipelines:
        for degrees in itertools.product(costs.devices, repeat=len(pipeline)):
            if sum(degrees) <= n_devices and (each := value(costs, pipeline, degrees, b, memory)) is not None:
                found.append((each[0], len(pipeline), each[1]))
    if not found:
        return None
    least = min(x for x, _, _ in found)
    return least, *min((n, y) for x, n, y in found if x <= least * (1 + 1e-12))


def tight(costs, b):
    """Memories from too little for anything to plenty."""
    whole = costs.of_sets(np.ones((1, costs.n_units), bool))
    plenty = float(costs.memory(whole, b, 1, costs.global_batch)[0])
    return [plenty * share for share in (0.05, 0.2, 0.3, 0.4, 0.6, 1.0)]


@pytest.mark.parametrize(("name", "granularity"), [("tiny-uno", "layer"), ("tiny-mmt", "layer"), ("tiny-gpt", "layer")])
def test_the_chain_programme_is_brute_force(name, granularity):
    costs = priced(name, granularity)
    bottlenecks = set()
    for n_devices, b in ((3, 2), (6, 4)):
        for memory in tight(costs, b):
            found = least_bottleneck(costs, runs(costs), b, memory, n_devices)
            expected = brute(costs, chains(costs.n_units), b, memory, n_devices)
            assert (found is None) == (expected is None)
            if found is None or expected is None:
                continue
            agrees(costs, found, expected, b, memory)
            bottlenecks.add(found.bottleneck_s)
    assert len(bottlenecks) > 2  # memory and devices mattered


def agrees(costs, found, expected, b, memory):
    assert found.bottleneck_s == pytest.approx(expected[0], rel=1e-12)
    assert len(found.stages) == expected[1]
    again = value(costs, [s.units for s in found.stages], [s.devices for s in found.stages], b, memory)
    assert again == pytest.approx((expected[0], expected[2]))


def test_ties_are_pipelines_with_the_same_bottleneck_and_more_stages():
    """Each is the least sum of its number of stages under the least bottleneck, by brute force."""
    costs = priced("tiny-uno")
    n_devices, b = 6, 4
    several = 0
    for memory in tight(costs, b):
        found = least_bottlenecks(costs, runs(costs), b, memory, n_devices, ties=4)
        expected = {}
        for pipeline in chains(costs.n_units):
            for degrees in itertools.product(costs.devices, repeat=len(pipeline)):
                each = value(costs, pipeline, degrees, b, memory) if sum(degrees) <= n_devices else None
                if each is not None and found and each[0] <= found[0].bottleneck_s * (1 + 1e-12):
                    expected[len(pipeline)] = min(each[1], expected.get(len(pipeline), np.inf))
        fewest = min(expected, default=0)
        kept = {n: x for n, x in expected.items() if n < fewest + 4}
        assert [len(f.stages) for f in found] == sorted(kept)
        for f in found:
            sums = value(costs, [s.units for s in f.stages], [s.devices for s in f.stages], b, memory)
            assert sums == pytest.approx((found[0].bottleneck_s, kept[len(f.stages)]))
        several += len(found) > 1
    assert several


def test_with_ties_the_simulated_iteration_is_no_longer():
    options = {"microbatches": (4,), "devices": (1,)}
    graph = zoo_graph("tiny-uno")
    first, best = (pipedream(graph, CLUSTER, global_batch=16, options={**options, "ties": n}) for n in (1, 4))
    assert best.predicted["seconds"] <= first.predicted["seconds"]
    assert best.predicted["tps"] == first.predicted["tps"]
    with pytest.raises(InputError, match="ties: expected at least 1"):
        pipedream(graph, CLUSTER, global_batch=16, options={"ties": 0})


@pytest.mark.parametrize("name", ["tiny-uno", "tiny-mmt"])
def test_the_programme_over_downsets_is_brute_force(name):
    costs = priced(name, devices=(1, 2))
    edges = unit_edges(costs.graph, costs.units)
    groups = twins(costs, edges)
    assert [len(group) for group in groups] == [2]  # two branches that are alike
    plain = downsets(costs.n_units, edges, 1000, name)
    folded = downsets(costs.n_units, edges, 1000, name, groups)
    assert len(np.unique(folded.representative)) < len(plain.members)
    everything = list(lines(costs.n_units, edges))
    better = 0
    for n_devices, b in ((3, 2), (4, 4)):
        for memory in tight(costs, b):
            expected = brute(costs, everything, b, memory, n_devices)
            chain = least_bottleneck(costs, runs(costs), b, memory, n_devices)
            known = np.inf if chain is None else chain.bottleneck_s
            for states in (plain, folded):
                found = least_bottleneck(costs, differences(costs, states, b, known), b, memory, n_devices, known)
                assert (found is None) == (expected is None)
                if found is not None:
                    agrees(costs, found, expected, b, memory)
            better += expected is not None and expected[0] < known * (1 - 1e-9)
    assert better  # stages across branches are worth something


def test_downsets_are_counted_before_they_are_made():
    rng = generator(11, "dags")
    for _ in range(30):
        n = int(rng.integers(1, 9))
        edges = [(a, b) for b in range(n) for a in range(b) if rng.random() < 0.3]
        closed = [
            s for s in range(2**n) if all(s >> b & 1 for a, b in edges if s >> a & 1)
        ]  # fmt: skip
        assert count_downsets(n, edges, 10**6) == (len(closed), True)
        assert len(downsets(n, edges, 10**6, "it").members) == len(closed)
    branches, length = 7, 4  # CANDLE-Uno: 5^7 and the state that has the concatenation alone
    chains_of = [(k * length + i, k * length + i + 1) for k in range(branches) for i in range(length - 1)]
    joined = [*chains_of, *((k * length + length - 1, branches * length) for k in range(branches))]
    assert count_downsets(branches * length + 1, joined, 100) == (5**7 + 1, True)


def test_too_many_downsets_are_refused_with_their_number():
    """Which is no proof that there is no plan, so it is no `InfeasibleError`."""
    assert not issubclass(LimitError, InfeasibleError)
    small = {"max_states": 40_000}
    with pytest.raises(
        LimitError, match=r"'candle-uno' has 78,126 downsets.*our limit of 40,000 .*-o max_states=78126"
    ):
        piper(zoo_graph("candle-uno"), Cluster(1, 4), global_batch=64, options=small)
    with pytest.raises(LimitError, match=r"'dlrm' has 10,000,006 downsets.*not known"):
        piper(zoo_graph("dlrm"), Cluster(1, 4), global_batch=64)


@pytest.mark.slow
def test_seven_branches_are_planned_by_default():
    assert piper(zoo_graph("candle-uno"), Cluster(1, 4), global_batch=64).stages


def test_a_limit_on_stages_is_not_told_as_no_plan(monkeypatch):
    def plan():
        return piper(zoo_graph("tiny-uno"), Cluster(1, 4), global_batch=64)

    assert plan().stages
    monkeypatch.setattr(downsets_module, "MOST_PAIRS", 3)
    with pytest.raises(LimitError, match=r"our limit of 3 .*ended the search, so whether there is a plan is not known"):
        plan()


def test_pipers_plan_is_no_slower_than_pipedreams_and_runs_in_its_order():
    graph = zoo_graph("tiny-uno")
    options = {"microbatches": (4,)}
    chain = pipedream(graph, CLUSTER, global_batch=16, options=options)
    plan = piper(graph, CLUSTER, global_batch=16, options=options)
    assert plan.predicted["tps"] <= chain.predicted["tps"] * (1 + 1e-12)
    assert simulate_training(plan).fits
    assert plan.planner.name == "piper"
    again = graph if not plan.model.order else reordered(graph, plan.model.order)
    assert sum(len(s.operators) for s in plan.stages) == len(again.operators)
    for s in plan.stages:
        assert set(s.operators) == {op.name for op in again.operators[s.first : s.last]}


def test_a_plan_fits_and_keeps_the_line(tmp_path):
    graph = zoo_graph("tiny-uno")
    plan = pipedream(graph, CLUSTER, global_batch=16, options={"microbatches": (2,), "devices": (1,)})
    result = simulate_training(plan)
    assert result.fits
    assert plan.predicted["seconds"] == result.seconds
    edges = {(t.source, t.target) for t in plan.transfers}
    n = len(plan.stages)
    assert n > 2
    assert {(s, s + 1) for s in range(n - 1)} <= edges  # branches wait for each other, as a line has it
    assert {s.last for s in plan.stages[:-1]} == {s.first for s in plan.stages[1:]}
    check_graph(plan, graph.with_batch(2))
    assert TrainingPlan.load(plan.save(tmp_path / "plan.json")) == plan


def test_ordering_transfers_carry_nothing_and_cost_a_message_at_most():
    """What is read crosses with its bytes; the order of neighbours that read nothing of each other with none."""
    graph = zoo_graph("tiny-uno")
    plan = pipedream(graph, CLUSTER, global_batch=16, options={"microbatches": (2,), "devices": (1,)})
    stage_of = {op.name: s for s, x in enumerate(plan.stages) for op in graph.operators[x.first : x.last]}
    read = {
        (stage_of[name], stage_of[op.name]) for op in graph.operators for name in op.inputs
        if name in stage_of and stage_of[name] != stage_of[op.name]
    }  # fmt: skip
    carried = {(t.source, t.target) for t in plan.transfers if t.bytes > 0}
    assert carried == read
    assert all(t.target == t.source + 1 for t in plan.transfers if t.bytes == 0)


def test_units_are_runs_and_branches_stay_apart():
    for name in ("tiny-mmt", "tiny-dlrm", "tiny-uno", "tiny-gpt", "tiny-moe", "tiny-resnet", "bert-large"):
        graph = zoo_graph(name)
        for granularity in ("layer", "heavy", "operator"):
            units = group_operators(graph, granularity)
            assert [i for unit in units for i in unit] == list(range(len(graph.operators)))
            assert all(a < b for a, b in unit_edges(graph, units))
    graph = zoo_graph("tiny-uno")
    edges = unit_edges(graph, group_operators(graph))
    assert sum(b == max(e[1] for e in edges) for _, b in edges) == 2  # the concatenation reads two branches


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"granularty": "layer"}, "did you mean 'granularity'"),
        ({"granularity": "layers"}, "granularity: expected one of"),
        ({"memory_fraction": 0}, "memory_fraction"),
        ({"microbatches": (3,)}, "do not divide the global batch of 16"),
        ({"devices": ()}, "devices: expected positive integers"),
    ],
)
def test_bad_options_are_one_line(options, said):
    with pytest.raises(InputError, match=said) as error:
        pipedream(zoo_graph("tiny-uno"), CLUSTER, global_batch=16, options=options)
    assert "\n" not in str(error.value)


def test_too_large_a_model_is_refused():
    with pytest.raises(InfeasibleError, match=r"'gpt3-39b' .*GiB"):
        pipedream(zoo_graph("gpt3-39b"), CLUSTER, global_batch=8, options={"microbatches": (1,)})


def test_stages_that_are_no_run_of_the_graphs_order():
    """Three devices and two branches: Piper takes up one branch, then the other, then the first again."""
    graph = zoo_graph("tiny-uno")
    options = {"microbatches": (2,), "devices": (1,)}
    plan = piper(graph, Cluster(1, 3, "cpu-core"), global_batch=8, options=options)
    assert sorted(plan.model.order) == list(range(len(graph.operators)))  # not (): another order than its own
    again = reordered(graph, plan.model.order)
    check_graph(plan, again.with_batch(2))
    for s in plan.stages:
        assert set(s.operators) == {op.name for op in again.operators[s.first : s.last]}
    chain = pipedream(graph, Cluster(1, 3, "cpu-core"), global_batch=8, options=options)
    assert plan.predicted["tps"] <= chain.predicted["tps"] * (1 + 1e-12)
    assert simulate_training(plan).fits
