"""Placements for the loss of any one device or node, against trying them all."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, permutations

import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.planners.alpaserve import plan
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster, Group, Placement, simulate

ONE, TWO = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {
    name: ModelProfile.from_stages(
        name, {ONE: {1: [s]}, TWO: {1: [s / 2, s / 2]}}, {ONE: [6 * 2**30], TWO: [3 * 2**30] * 2}
    )
    for name, s in (("a", 0.1), ("b", 0.12), ("c", 0.08))
}  # fmt: skip
TRACE = traces.gamma(rate=14.0, cv=2.0, duration=60.0, models=["a", "b", "c"], slo=0.6, seed=3)


def after_losses(placement: Placement, cluster: Cluster, loss: str) -> float:
    """Attainment after the worst loss, simulated one by one."""
    found = []
    for gone in range(cluster.n_devices if loss == "device" else cluster.nodes):
        where = (lambda d: d) if loss == "device" else cluster.node_of
        groups = [
            Group(g.config, () if any(where(d) == gone for d in g.devices or ()) else g.models, g.devices)
            for g in placement.groups
        ]
        found.append(simulate(Placement(groups), TRACE, PROFILES).attainment if any(g.models for g in groups) else 0.0)
    return min(found)


def placements(devices: int) -> list[Placement]:
    """All placements of singles and pairs on two nodes, two models a device (12 of 13 GiB), up to symmetry."""
    single = [held for n in (0, 1, 2) for held in combinations("abc", n)]
    found = []
    for held in combinations_with_replacement(single, devices):
        for order in {tuple(sorted(p[:2])) + tuple(sorted(p[2:])) for p in permutations(held)}:
            found.append(Placement([Group(ONE, models) for models in order]))
    pairs = [held for n in range(4) for held in combinations("abc", n)]
    for first in pairs:
        found += [Placement([Group(TWO, first), Group(TWO, second)]) for second in pairs]
        found += [Placement([Group(TWO, first), Group(ONE, a), Group(ONE, b)]) for a in single for b in single]
    return found


@pytest.mark.parametrize("loss", ["node", "device"])
def test_no_placement_survives_better(loss: str) -> None:
    cluster = Cluster(2, 2)
    best = max(after_losses(one, cluster, loss) for one in placements(4) if one.models)
    found = plan(cluster, None, TRACE, PROFILES, survive=loss)
    seen = after_losses(found.placement, cluster, loss)
    assert found.predicted["survive_worst"] == pytest.approx(seen)
    assert seen >= best - 0.005
    usual = plan(cluster, None, TRACE, PROFILES)
    assert seen >= after_losses(usual.placement, cluster, loss)
    assert found.predicted["survive_gain"] == pytest.approx(seen - found.predicted["survive_worst_of_usual"])
    assert found.predicted["attainment_of_usual"] == pytest.approx(usual.predicted["attainment"])


def test_what_cannot_be_survived_is_refused() -> None:
    with pytest.raises(InputError, match="survive: node: the cluster has one node"):
        plan(Cluster(1, 4), None, TRACE, PROFILES, survive="node")
    with pytest.raises(InputError, match="survive: expected one of none, device, node"):
        plan(Cluster(1, 4), None, TRACE, PROFILES, survive="rack")
    with pytest.raises(InputError, match="two aims"):
        plan(Cluster(2, 2), None, TRACE, PROFILES, survive="node", robust=2)
