"""Layouts, routes and messages, without processes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.runtime.training.wires.layout import local_shape, parse_layout
from meshwright.runtime.training.wires.messages import Place, messages, region
from meshwright.runtime.training.wires.routes import finish, route
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh
from meshwright.simulator.sharding import ShardingSpec

FULL = (8, 4, 12)
SPECS = [
    "".join(parts)
    for parts in itertools.product(("R", "S0", "S1", "S01"), repeat=3)
    if len([c for c in "".join(parts) if c.isdigit()]) == len({c for c in "".join(parts) if c.isdigit()})
]


def mesh(shape=(2, 2)):
    n = math.prod(shape)
    return Mesh(Cluster(nodes=1, devices_per_node=n, device="v100-16gb"), 1, n).view(shape)


def lay(text, shape=(2, 2)):
    return parse_layout(text, 3, shape, "test")


@pytest.mark.parametrize("text", SPECS)
def test_a_region_is_what_the_spec_says_each_device_holds(text):
    spec, place = ShardingSpec.parse(text), Place((0, 1, 2, 3), (2, 2), lay(text))
    for device in range(4):
        expected = tuple((s.start, s.stop) for s in spec.slices(FULL, (2, 2), device))
        assert region(FULL, place, device) == expected


def follow(hops, layout, parts, shape):
    """Where hops lead, and bytes moved, checked step by step."""
    layout, parts = list(layout), set(parts)
    for hop in hops:
        if hop.kind == "all_reduce":
            assert set(hop.axes) <= parts
            parts -= set(hop.axes)
        elif hop.kind == "all_gather":
            assert layout[hop.dim][-len(hop.axes) :] == hop.axes
            layout[hop.dim] = layout[hop.dim][: -len(hop.axes)]
        elif hop.kind == "all_to_all":
            assert layout[hop.dim][-len(hop.axes) :] == hop.axes
            layout[hop.dim] = layout[hop.dim][: -len(hop.axes)]
            layout[hop.other] = (*layout[hop.other], *hop.axes)
        else:
            if hop.kind == "reduce_scatter":
                assert set(hop.axes) <= parts
                parts -= set(hop.axes)
            assert all(axis not in cut for cut in layout for axis in hop.axes)
            layout[hop.dim] = (*layout[hop.dim], *hop.axes)
        assert all(cut == tuple(sorted(cut)) for cut in layout)
        local_shape(FULL, tuple(layout), shape, "test")
    return tuple(layout), parts


@pytest.mark.parametrize("source", SPECS)
def test_a_route_leads_from_any_spec_to_any(source):
    for target in SPECS:
        found = route(lay(source), lay(target), FULL, 4, mesh())
        assert follow(found.hops, lay(source), (), (2, 2)) == (lay(target), set())


@pytest.mark.parametrize(
    ("source", "target", "parts", "fused", "kinds"),
    [
        ("RRR", "S0RS1", (), False, ["slice", "slice"]),
        ("S0RR", "RRR", (), False, ["all_gather"]),
        # Rings of n send n - 1 messages: two of two take 2 latencies, one of four 3; the bytes are the same.
        ("S01RR", "RRR", (), False, ["all_gather", "all_gather"]),
        ("S01RR", "RRR", (), True, ["all_gather"]),
        ("S1RR", "RS1R", (), False, ["all_to_all"]),
        ("RRR", "RRR", (0,), False, ["all_reduce"]),
        ("RRR", "S0RR", (0,), False, ["reduce_scatter"]),
        ("RRR", "RRR", (0, 1), True, ["all_reduce"]),
        ("S1RR", "S1S0R", (0,), False, ["reduce_scatter"]),
    ],
)
def test_a_route_is_the_cheapest_by_hand(source, target, parts, fused, kinds):
    found = route(lay(source), lay(target), FULL, 4, mesh(), parts, fused)
    assert [hop.kind for hop in found.hops] == kinds


def test_a_sum_is_scattered_where_the_target_cuts_by_its_axes():
    assert [h.kind for h in finish(lay("RRR"), (0, 1), lay("S0RR"), FULL, 4, mesh()).hops] == [
        "reduce_scatter",
        "all_reduce",
    ]
    assert [h.kind for h in finish(lay("RRR"), (1,), lay("RRR"), FULL, 4, mesh()).hops] == ["all_reduce"]


def test_axes_of_one_device_cut_nothing():
    assert parse_layout("S0RS1", 3, (1, 4), "test") == ((), (), (1,))


@pytest.mark.parametrize("bad", ["S0S0R", "S0R", "X", "S2RR"])
def test_a_bad_spec_is_one_line(bad):
    with pytest.raises(InputError, match="expected a sharding spec of 3 dimensions") as error:
        parse_layout(bad, 3, (2, 2), "stage 0")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shapes", [((2, 2), (1, 2)), ((1, 1), (2, 2)), ((2, 2), (4, 1)), ((1, 3), (2, 1))])
def test_messages_fill_every_shard_once_from_who_has_it(shapes):
    a, b = shapes
    full = (12, 12, 12)
    first = tuple(range(math.prod(a)))
    second = tuple(range(10, 10 + math.prod(b)))
    for have, need in itertools.product(SPECS[::5], SPECS[::4]):
        source = Place(first, a, parse_layout(have, 3, a, "test"))
        target = Place(second, b, parse_layout(need, 3, b, "test"))
        got = {rank: np.zeros(full, dtype=int) for rank in second}
        for m in messages(full, source, target):
            held = region(full, source, first.index(m.source))
            assert all(x <= p and q <= y for (x, y), (p, q) in zip(held, m.part, strict=True))
            got[m.target][tuple(slice(*p) for p in m.part)] += 1
        for device, rank in enumerate(second):
            expected = np.zeros(full, dtype=int)
            expected[tuple(slice(*p) for p in region(full, target, device))] = 1
            assert np.array_equal(got[rank], expected)
