"""A resharding elsewhere in the cluster, or of other bytes, is the one that would be planned there."""

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh
from meshwright.simulator.training import reshard_across
from meshwright.simulator.training.resharding.reuse import Reshardings, scaled

SPECS = ("RR", "S0R", "RS1", "S1R", "S0S1", "S01R", "RS01", "S1S0", "")
CLUSTER = Cluster(6, 4, "v100-16gb")


@st.composite
def ends(draw):
    """Two meshes that lie to each other alike, on hosts of which the first is given."""
    shapes = [draw(st.sampled_from([(1, 1), (1, 2), (1, 4), (2, 4)])) for _ in range(2)]
    inside = all(hosts * devices <= 2 for hosts, devices in shapes) and draw(st.booleans())
    apart = 0 if inside else draw(st.integers(2, 3)) * draw(st.sampled_from([1, -1]))
    seats = [0, 2 if inside else 0]
    views = [draw(st.sampled_from([k for k in (1, 2, 4, 8) if (h * d) % k == 0])) for h, d in shapes]

    def meshes(host):
        first = [host, host + apart]
        return [
            Mesh(CLUSTER, h, d, f, seat).view((v, h * d // v))
            for (h, d), f, seat, v in zip(shapes, first, seats, views, strict=True)
        ]

    low, high = max(0, -apart), 6 - max(shapes[0][0], apart + shapes[1][0])
    return [meshes(draw(st.integers(low, max(low, high)))) for _ in range(2)]


@given(
    ends(), st.sampled_from(SPECS), st.sampled_from(SPECS),
    st.sampled_from(["send_recv", "first_holder", "local_all_gather"]), st.floats(1.0, 1e9),
)  # fmt: skip
@settings(max_examples=examples(30, anew=80), deadline=None)
def test_elsewhere(meshes, have, need, method, n_bytes):
    across = Reshardings(method)
    for source, target in meshes:
        assert across(n_bytes, source, have, target, need) == reshard_across(
            n_bytes, source, have, target, need, method=method
        )


@given(ends(), st.sampled_from(SPECS), st.sampled_from(SPECS), st.lists(st.floats(0.01, 10.0), min_size=1, max_size=3))
@settings(max_examples=examples(30, anew=80), deadline=None)
def test_other_bytes(meshes, have, need, factors):
    """send_recv to a mesh of which no device has a choice of senders: exactly what would be planned."""
    source, target = meshes[0]
    have = have if source.mesh.n_devices == 1 else "S01R"  # every part has one holder
    way = reshard_across(1e6, source, have, target, need)
    seconds, gather_s = scaled(way, target, need, factors)
    for factor, sent, gathered in zip(factors, seconds, gather_s, strict=True):
        planned = reshard_across(factor * 1e6, source, have, target, need)
        assert sent == pytest.approx(planned.seconds, rel=1e-9)
        assert gathered == pytest.approx(planned.gather_s, rel=1e-9)


def test_naive_senders_of_other_bytes():
    """One after the other at every size, latencies and all."""
    source, target = (Mesh(CLUSTER, 1, 4, first_host=h).view((2, 2)) for h in (0, 1))
    way = reshard_across(1e6, source, "S1R", target, "RS0", method="first_holder")
    factors = [1.0, 1e-6, 3.0]
    planned = [reshard_across(f * 1e6, source, "S1R", target, "RS0", method="first_holder").seconds for f in factors]
    assert scaled(way, target, "RS0", factors)[0].tolist() == pytest.approx(planned, rel=1e-12)


def test_the_same_messages_whatever_the_size():
    """Four replicas send four a quarter each, over one adapter: it decides, or the latency of a small message."""
    source, target = (Mesh(CLUSTER, 1, 4, first_host=h).view((1, 4)) for h in (0, 1))
    way = reshard_across(4e6, source, "RR", target, "RR")
    factors = [1.0, 0.5, 1e-5]
    seconds, gather_s = scaled(way, target, "RR", factors)
    far, near = CLUSTER.spec.inter_node, CLUSTER.spec.intra_node
    crossing = [x * 4e6 / far.bandwidth_bytes_per_s for x in factors]
    assert seconds.tolist() == pytest.approx([max(x, far.latency_s + x / 4) for x in crossing], rel=1e-9)
    rings = [3 * near.latency_s + 0.75 * x * 4e6 / near.bandwidth_bytes_per_s for x in factors]
    assert gather_s.tolist() == pytest.approx(rings, rel=1e-9)
