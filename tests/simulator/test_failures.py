"""Devices and nodes that fail: scripts, streams, and availability against its closed form."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster, Group, Placement
from meshwright.simulator.failures import Failures, ScriptedFailure, events_of, read_script
from meshwright.simulator.serving.breakdowns import Breakdowns, cold_start_s
from meshwright.simulator.serving.loading import Load, Loading

ONE, TWO = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {
    name: ModelProfile.from_stages(name, {ONE: {1: [0.1]}, TWO: {1: [0.06, 0.06]}}, {ONE: [8e9], TWO: [4e9, 4e9]})
    for name in ("a", "b")
}


def test_a_script_is_the_same_in_yaml_and_csv(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "- {at: 12, device: 3, for: 20}\n- {at: 1 min, node: 0, for: 2 min}\n- {at: 90, group: 1}\n"
    )
    (tmp_path / "s.csv").write_text("at,device,node,group,for\n12,3,,,20\n1 min,,0,,2 min\n90,,,1,\n")
    events = read_script(tmp_path / "s.yaml")
    assert events == read_script(tmp_path / "s.csv")
    assert events == (
        ScriptedFailure(12.0, "device", 3, 20.0),
        ScriptedFailure(60.0, "node", 0, 120.0),
        ScriptedFailure(90.0, "group", 1),
    )
    assert str(events[0]) == "at 12 s device 3 for 20 s"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"at": 3, "for": 2}], "failure 0: names no device"),
        ([{"at": 3, "device": 0, "node": 1}], "names no device; give one of"),
        ([{"device": 0}], "says no time"),
        ([{"at": -1, "device": 0}], "at: expected finite seconds >= 0"),
        ([{"at": 1, "device": 0, "for": 0}], "for: expected seconds > 0"),
        ([{"at": 1, "device": "x"}], "device: expected an integer"),
        ([{"at": "soon", "device": 1}], "at: expected seconds"),
        ([{"at": 1, "rack": 1}], "unknown word 'rack'"),
        ([], "expected a list"),
        ({"at": 1}, "expected a list"),
    ],
)
def test_bad_scripts_are_refused_in_one_line(entries: object, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        events_of(entries)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing ever fails"),
        ({"mtbf_s": 0.0, "mttr_s": 1.0}, r"mtbf: expected finite seconds > 0 \(got 0.0\)"),
        ({"mtbf_s": -3.0, "mttr_s": 1.0}, "mtbf: expected"),
        ({"mtbf_s": math.nan, "mttr_s": 1.0}, "mtbf: expected"),
        ({"mtbf_s": 10.0}, "mtbf and mttr go together"),
        ({"node_mtbf_s": 10.0, "node_mttr_s": 0.0}, "node_mttr: expected"),
    ],
)
def test_bad_failures_are_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Failures(**given)  # type: ignore[arg-type]


def test_a_script_that_names_no_device_of_the_cluster_is_refused() -> None:
    placement = Placement([Group(ONE, ["a"])])
    for kind, last in (("device", 3), ("node", 1), ("group", 0)):
        failures = Failures(events=(ScriptedFailure(1.0, kind, 9),))  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"{kind} 9: names no device; there are {kind}s 0 to {last}"):
            failures.draw(placement, 4, 2, 10.0, 0)


def test_a_bandwidth_of_zero_is_refused() -> None:
    for name in ("disk", "host", "network"):
        with pytest.raises(InputError, match=rf"loading: {name}: expected bytes per second > 0 \(got 0\)"):
            Loading(**{"disk": 1e9, name: 0.0})  # type: ignore[arg-type]


def test_more_devices_change_no_failure() -> None:
    failures = Failures(mtbf_s=100.0, mttr_s=10.0, node_mtbf_s=500.0, node_mttr_s=50.0)
    placement = Placement([Group(ONE, ["a"])])
    few, many = failures.draw(placement, 4, 2, 1e4, 7), failures.draw(placement, 8, 2, 1e4, 7)
    assert few == many[:4]
    assert failures.draw(placement, 4, 2, 1e4, 8) != few


def test_a_node_takes_its_devices() -> None:
    script = Failures(events=(ScriptedFailure(5.0, "node", 1, 3.0),))
    away = script.draw(Placement([Group(ONE, ["a"])]), 4, 2, 10.0, 0)
    assert [[(d.down_s, d.up_s, d.host) for d in one] for one in away] == [
        [],
        [],
        [(5.0, 8.0, True)],
        [(5.0, 8.0, True)],
    ]


def test_outages_by_hand() -> None:
    # Two pipelines of 4 GB a device on two nodes: cold from one disk of 2 GB/s, shared by two devices: 4 s; warm at
    # 8 GB/s: 0.5 s. Each waits 1 s first.
    placement = Placement([Group(TWO, ["a"]), Group(TWO, ["b"])])
    loading = Loading(disk=2e9, host=8e9, cache=8e9, start_s=1.0)
    failures = Failures(
        events=(
            ScriptedFailure(10.0, "device", 0, 5.0),  # back at 15, host has the weights: serves at 16.5
            ScriptedFailure(14.0, "device", 1, 6.0),  # but the other stage is back at 20 only: 21.5
            ScriptedFailure(30.0, "node", 1, 2.0),  # back at 32, 8 GB from the disk: 37
            ScriptedFailure(50.0, "group", 0),  # for good
        )
    )
    outages = Breakdowns(failures, loading).outages(placement, Cluster(2, 2), PROFILES, 100.0, 0)
    assert outages.group.tolist() == [0, 0, 1]
    assert outages.down_s.tolist() == [10.0, 50.0, 30.0]
    assert outages.up_s.tolist() == [21.5, math.inf, 37.0]


def test_a_cold_start_shares_the_disk() -> None:
    placement = Placement([Group(ONE, ["a"]), Group(ONE, ["a", "b"]), Group(ONE, ["b"])])
    seconds = cold_start_s(placement, Cluster(2, 2), PROFILES, Loading(disk=1e9))
    # Node 0: 8 and 16 GB from one disk in equal shares: 16 s, then the rest alone: 24 s. Node 1: 8 GB: 8 s.
    assert seconds == [16.0, 24.0, 8.0]
    outages = Breakdowns(None, Loading(disk=1e9), cold_start=True).outages(placement, Cluster(2, 2), PROFILES, 100.0, 0)
    assert outages.up_s.tolist() == seconds
    with pytest.raises(InputError, match=r"give loading\.disk"):
        Breakdowns(cold_start=True)


def test_weights_stream_through_the_slowest_link() -> None:
    assert Loading(disk=2e9, host=1e9).seconds([Load(0, 4e9, 0.0)]) == [4.0]
    assert Loading(disk=2e9, host=10e9).seconds([Load(0, 4e9, 0.0)]) == [2.0]
    assert Loading(disk=2e9, network=1e9).seconds([Load(0, 4e9, 0.0)]) == [4.0]
    assert Loading(disk=2e9, host=4e9).seconds([Load(0, 0.0, 4e9)]) == [1.0]


def test_availability_is_its_closed_form() -> None:
    """A group serves at t if none of its devices and nodes was down in the load before t.

    They are independent and memoryless, so the chance is the product of MTBF / (MTBF + MTTR) times exp(-load / MTBF).
    """
    cluster, placement = Cluster(2, 2), Placement([Group(ONE, ["a"]), Group(ONE), Group(TWO, ["a"])])
    mtbf, mttr, node_mtbf, node_mttr = 1000.0, 100.0, 5000.0, 300.0
    failures = Failures(mtbf, mttr, node_mtbf, node_mttr)
    horizon, draws = 4e5, 40
    loading = Loading(disk=4e7, start_s=0.0)  # 8 GB: 200 s
    away = np.array(
        [
            Breakdowns(failures, loading).outages(placement, cluster, PROFILES, horizon, seed).away_s(3, horizon)
            for seed in range(draws)
        ]
    )
    up = 1 - away / horizon
    single = mtbf / (mtbf + mttr) * node_mtbf / (node_mtbf + node_mttr)
    expected = single * math.exp(-200.0 * (1 / mtbf + 1 / node_mtbf))
    mean, error = up[:, 0].mean(), up[:, 0].std(ddof=1) / math.sqrt(draws)
    assert abs(mean - expected) < 4 * error
    assert error < 0.01 * expected
    # Nearly the textbook's MTBF / (MTBF + MTTR + load) of a device whose clock stands still while it loads.
    only = Breakdowns(Failures(1e5, 100.0), Loading(disk=8e9 / 200.0))
    seen = np.mean([1 - only.outages(placement, cluster, PROFILES, 4e6, s).away_s(3, 4e6)[0] / 4e6 for s in range(20)])
    assert seen == pytest.approx(1e5 / (1e5 + 300.0), abs=4e-4)
