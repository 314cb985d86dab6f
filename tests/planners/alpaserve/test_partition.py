"""Algorithm 2: its pruning changes no answer, and its options do what they say."""

from __future__ import annotations

import pytest
from meshwright.planners import alpaserve
from meshwright.planners.alpaserve.enumeration import coarsest_buckets, device_buckets, discrepancy, layouts
from meshwright.planners.alpaserve.evaluator import Evaluator, canonical
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.planners.alpaserve.partition import PartitionOptions, Search
from meshwright.planners.alpaserve.selection import fast_selection
from meshwright.simulator import Cluster
from small_problems import device, fits, problem


def plain_algorithm_2(instance, threshold):
    """Unseparated and separated search as printed, with neither bounds nor memory; (unserved, state)."""
    everything = (1 << instance.n_models) - 1

    def solve(bucket, names, n):
        evaluator = Evaluator(instance)
        outside = evaluator.requests(everything & ~bucket)
        best = None
        for groups in layouts(instance, n, names):
            found = fast_selection(Evaluator(instance), groups, bucket)
            if best is None or found.unserved < best.unserved:
                best = found
        other = fast_selection(evaluator, tuple(c for c, _ in best.state), bucket, order="group")
        best = other if other.unserved < best.unserved else best
        return best.unserved - outside, best.state

    latency = [instance.profiles[name].single_device_latency() for name in instance.models]
    bucketings = [(tuple(range(instance.n_models)),)]
    separate = coarsest_buckets(latency, threshold)
    bucketings += [separate] if separate != bucketings[0] else []
    best = (instance.n_requests + 1, ())
    for buckets in bucketings:
        rate = [float(instance.counts[list(b)].sum()) for b in buckets]
        work = [
            sum(latency[m] * instance.counts[m] for m in b) / max(r, 1e-9) for b, r in zip(buckets, rate, strict=True)
        ]
        splits = list(device_buckets(instance.n_devices, len(buckets)))
        if len(buckets) > 1:
            splits.sort(key=lambda s: (round(discrepancy(s, rate, work), 9), s))
        for split in splits:
            parts = [solve(sum(1 << m for m in b), list(b), n) for b, n in zip(buckets, split, strict=True)]
            total = sum(lost for lost, _ in parts)
            if total < best[0]:
                best = (total, canonical(g for _, state in parts for g in state))
    return best


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threshold", [0.1, 0.4])
def test_pruning_changes_no_answer(seed, threshold):
    cluster, names, trace, profiles = problem(4, 4, seed=seed, load=0.7)
    instance = build_instance(cluster, names, trace, profiles)
    found = Search(Evaluator(instance), PartitionOptions(bucket_threshold=threshold)).run()
    assert found.unserved == plain_algorithm_2(instance, threshold)[0]
    assert Evaluator(instance).total(found.state) == found.unserved
    assert fits(instance, found.state)


def test_pruning_saves_simulations():
    cluster, names, trace, profiles = problem(4, 4, scale=50.0, load=0.3)
    instance = build_instance(cluster, names, trace, profiles)
    evaluator = Evaluator(instance)
    assert Search(evaluator).run().unserved == 0
    assert evaluator.evaluations < 10  # the first layout attains everything: proven best


def test_separate_buckets_share_no_group():
    cluster, names, trace, profiles = problem(4, 4, seed=2)
    plan = alpaserve.plan(
        cluster, names, trace, profiles, algorithm="algorithm2", bucket_threshold=0.0, fill=False, polish=0
    )
    assert all(len(g.models) <= 1 for g in plan.placement.groups)
    assert len(plan.placement.models) == 4


def test_all_bucketings_are_at_least_as_good_as_the_coarsest():
    for seed in range(3):
        cluster, names, trace, profiles = problem(3, 4, seed=seed)
        instance = build_instance(cluster, names, trace, profiles)
        every = Search(Evaluator(instance), PartitionOptions(bucketings="all")).run()
        coarse = Search(Evaluator(instance), PartitionOptions()).run()
        single = Search(Evaluator(instance), PartitionOptions(bucketings="none")).run()
        assert every.unserved <= coarse.unserved <= single.unserved


def test_too_many_splits_are_pruned_by_discrepancy():
    cluster, names, trace, profiles = problem(4, 4, seed=1)
    instance = build_instance(cluster, names, trace, profiles)
    buckets = ((0, 1), (2, 3))
    every = Search(Evaluator(instance), PartitionOptions())._splits(buckets)
    few = Search(Evaluator(instance), PartitionOptions(max_splits=1))._splits(buckets)
    assert sorted(every) == [(1, 3), (2, 2), (3, 1)]
    assert few == every[:1]


@pytest.mark.parametrize("remainder", ["powers_of_two", "last_group"])
def test_odd_clusters_are_planned_whole(remainder):
    _, names, trace, profiles = problem(3, 4)
    cluster = Cluster(1, 3, device())
    plan = alpaserve.plan(cluster, names, trace, profiles, remainder=remainder)
    plan.placement.check(cluster, profiles)
    assert plan.placement.n_devices <= 3


def test_algorithm_1_keeps_the_groups_that_it_is_given():
    cluster, names, trace, profiles = problem(3, 4)
    plan = alpaserve.plan(cluster, names, trace, profiles, algorithm="algorithm1", config="op1pp2", beam=2)
    assert [str(g.config) for g in plan.placement.groups] == ["op1pp2", "op1pp2"]
    assert plan.planner.options["selection"] == "greedy"
