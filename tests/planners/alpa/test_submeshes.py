"""Theorem 1 of the Alpa paper: every multiset of allowed submeshes that adds up to the cluster can be placed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa import place_submeshes


def multisets(shapes, devices):
    """All multisets of shapes with that many devices."""
    if not devices:
        yield ()
    for i, shape in enumerate(shapes):
        if math.prod(shape) <= devices:
            for rest in multisets(shapes[i:], devices - math.prod(shape)):
                yield (shape, *rest)


@pytest.mark.parametrize(("hosts", "devices"), [(1, 1), (1, 8), (2, 4), (3, 4), (4, 2), (2, 8), (5, 2), (3, 8)])
def test_every_multiset_covers_the_cluster_exactly(hosts, devices):
    shapes = [(1, 2**p) for p in range(int(math.log2(devices)))] + [(n, devices) for n in range(1, hosts + 1)]
    count = 0
    for chosen in multisets(shapes, hosts * devices):
        order = np.random.default_rng(count).permutation(len(chosen))
        stages = [chosen[i] for i in order]
        placed = place_submeshes(stages, hosts, devices)
        assert [(p.hosts, p.devices) for p in placed] == stages
        assert all(p.first_device + p.devices <= devices for p in placed)
        ids = sorted(itertools.chain.from_iterable(p.device_ids(devices) for p in placed))
        assert ids == list(range(hosts * devices))
        count += 1
    assert count >= 1


def test_neighbours_in_the_pipeline_are_neighbours_in_the_cluster():
    placed = place_submeshes([(1, 2), (1, 4), (1, 2), (2, 8)], 3, 8)
    assert [p.device_ids(8)[0] for p in placed] == [20, 16, 22, 0]


@pytest.mark.parametrize(
    ("stages", "match"),
    [
        ([(1, 3), (1, 5)], "stage 0"),
        ([(2, 4)], "stage 0"),
        ([(1, 16)], "stage 0"),
        ([(1, 8)], "submeshes have 8 devices"),
        ([(1, 8)] * 3, "submeshes have 24 devices"),
    ],
)
def test_what_the_theorem_does_not_allow_is_refused(stages, match):
    with pytest.raises(InputError, match=match):
        place_submeshes(stages, 2, 8)


def test_a_host_without_a_power_of_two_devices_takes_whole_hosts_only():
    assert len(place_submeshes([(1, 6), (2, 6)], 3, 6)) == 2
    with pytest.raises(InputError, match="power of two"):
        place_submeshes([(1, 2), (1, 4), (2, 6)], 3, 6)
