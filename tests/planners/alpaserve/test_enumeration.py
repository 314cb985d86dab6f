"""The generators of Algorithm 2 against closed forms."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.alpaserve.enumeration import (
    coarsest_buckets,
    device_buckets,
    discrepancy,
    group_partitions,
    layouts,
    model_buckets,
    parallel_configs,
)
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.profiles import ParallelConfig
from small_problems import problem


@pytest.mark.parametrize("types", range(1, 7))
def test_without_a_threshold_there_are_two_to_the_types_less_one(types):
    latency = [1.0 + i for i in range(types)] * 2
    found = list(model_buckets(latency, 1.0))
    assert len(found) == len(set(found)) == 2 ** (types - 1)
    assert [len(b) for b in found] == sorted(len(b) for b in found)


def test_with_threshold_zero_there_is_one():
    assert list(model_buckets([3.0, 1.0, 2.0, 1.0], 0.0)) == [((1, 3), (2,), (0,))]


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=7), st.floats(0, 1))
def test_buckets_partition_the_models_and_separate_what_is_too_far_apart(latency, threshold):
    found = list(model_buckets(latency, threshold))
    for buckets in found:
        assert sorted(m for b in buckets for m in b) == list(range(len(latency)))
        for b in buckets:
            low, high = min(latency[m] for m in b), max(latency[m] for m in b)
            assert (high - low) / high <= threshold
    assert coarsest_buckets(latency, threshold) in found
    assert len(coarsest_buckets(latency, threshold)) == len(found[0])


def test_the_papers_s3_falls_into_the_largest_model_and_the_rest():
    latency = [0.150, 0.151, 0.171, 0.234, 0.238, 0.395]
    assert coarsest_buckets(latency, 0.38) == ((0, 1, 2, 3, 4), (5,))
    assert len(list(model_buckets(latency, 0.38))) == 16  # the four gaps below 0.395 are free


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 1), (5, 2), (8, 3), (9, 9), (3, 4)])
def test_device_buckets_are_the_compositions(n, k):
    found = list(device_buckets(n, k))
    assert len(found) == len(set(found)) == comb(n - 1, k - 1)
    assert all(sum(s) == n and len(s) == k and min(s) >= 1 for s in found)
    assert found == sorted(found)


def test_discrepancy_is_nil_for_a_split_in_proportion_to_the_load():
    assert discrepancy([6, 2], [3.0, 1.0], [1.0, 1.0]) == 0
    assert discrepancy([4, 4], [3.0, 1.0], [1.0, 1.0]) == 0.25
    assert discrepancy([4, 4], [1.0, 1.0], [1.0, 3.0]) == 0.25


@pytest.mark.parametrize("n", [1, 2, 7, 12, 32, 33])
def test_group_partitions_use_every_device(n):
    for remainder in ("powers_of_two", "last_group"):
        found = list(group_partitions(n, remainder=remainder))
        assert len(found) == n.bit_length()
        assert all(sum(sizes) == n for sizes in found)
    assert all(len(set(sizes)) <= 2 for sizes in group_partitions(n, range(1, n + 1), "last_group"))
    assert len(list(group_partitions(n, range(1, n + 1)))) == n


def test_remainders():
    assert (3,) * 2 + (1,) in list(group_partitions(7, [3], "last_group"))
    assert list(group_partitions(15, [8], "powers_of_two")) == [(8, 4, 2, 1)]
    assert list(group_partitions(15, [8], "last_group")) == [(8, 7)]
    with pytest.raises(InputError, match="remainder"):
        list(group_partitions(4, remainder="drop"))


@pytest.mark.parametrize("size", [1, 6, 8, 13, 64])
def test_parallel_configs_are_the_divisors(size):
    found = list(parallel_configs(size))
    assert len(found) == sum(size % d == 0 for d in range(1, size + 1))
    assert all(c.n_devices == size for c in found)


def test_the_authors_limits_leave_twelve_configurations_on_32_and_64_devices():
    for n, expected in ((32, 12), (64, 12), (16, 11)):
        sizes = [1 << i for i in range(n.bit_length())]
        assert sum(len(list(parallel_configs(s, max_op=4, max_pp=8))) for s in sizes if s <= n) == expected
    assert list(parallel_configs(8, max_op=2)) == [ParallelConfig(1, 8), ParallelConfig(2, 4)]


def test_layouts_are_partitions_times_profiled_configurations():
    cluster, names, trace, profiles = problem(2, 4)
    instance = build_instance(cluster, names, trace, profiles)
    found = [tuple(str(instance.configs[c]) for c in groups) for groups in layouts(instance, 4)]
    assert len(found) == len(set(found)) == 5  # as many as configurations of at most 4 devices
    assert found[0] == ("op1pp4",)
    assert ("op1pp1",) * 4 in found
    three = [tuple(str(instance.configs[c]) for c in groups) for groups in layouts(instance, 3)]
    assert sorted(three) == [("op1pp1",) * 3, ("op1pp2", "op1pp1"), ("op2pp1", "op1pp1")]
    seven = list(layouts(instance, 7, remainder="last_group"))
    assert all(sum(instance.configs[c].n_devices for c in groups) <= 7 for groups in seven)
