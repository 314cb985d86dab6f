"""Serving cases whose machines fail, and whose weights load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.metrics import mean_interval
from meshwright.worlds.serving.case import ServingCase
from meshwright.worlds.serving.load import load_data
from meshwright.worlds.serving.solve import solve


def case(**said: Any) -> ServingCase:
    base = {
        "models": {"bert-1.3b": 2}, "cluster": {"devices": 4, "devices_per_node": 2},
        "workload": {"rate": 20.0, "duration": 60.0},
        "planner": {"name": "selective-replication"},
    }  # fmt: skip
    return ServingCase.model_validate(base | said)


def attained(one: ServingCase, folder: Path = Path()) -> float:
    return solve(one, load_data([one], folder)).result.attainment


def test_a_script_in_the_case_and_in_a_file_are_one(tmp_path: Path) -> None:
    entries = [{"at": 10, "node": 0, "for": 20}, {"at": 35, "group": 3, "for": 5}]
    (tmp_path / "s.yaml").write_text(str(entries).replace("'", ""))
    inline = case(failures={"script": entries})
    file = case(failures={"script": "s.yaml"})
    assert attained(inline) == attained(file, tmp_path) < attained(case())


def test_loading_makes_an_outage_longer_and_a_cache_shorter() -> None:
    script = {"script": [{"at": 10, "device": 0, "for": 5}, {"at": 10, "device": 1, "for": 5}]}
    fast = attained(case(failures=script))
    slow = attained(case(failures=script, loading={"disk": "200 MB/s"}))
    kept = attained(case(failures=script, loading={"disk": "200 MB/s", "host_memory": "10 GB/s", "cache": "64 GiB"}))
    assert slow < kept <= fast
    assert attained(case(loading={"disk": "1 GB/s", "cold": True})) < attained(case(loading={"disk": "1 GB/s"}))
    assert attained(case(loading={"disk": "1 GB/s"})) == attained(case())


def test_lost_requests_fail_and_retried_ones_may_attain() -> None:
    script = [{"at": 20, "node": 0, "for": 10}, {"at": 40, "node": 1, "for": 10}]
    results = {
        how: solve(one, load_data([one], Path())).result
        for how in ("lost", "retried")
        for one in [case(failures={"script": script, "in_flight": how}, workload={"rate": 25.0, "duration": 60.0})]
    }
    failed = {how: 0 if r.failed is None else int(r.failed.sum()) for how, r in results.items()}
    assert failed["lost"] > failed["retried"] == 0
    assert results["retried"].attainment >= results["lost"].attainment


def test_seeds_draw_other_failures() -> None:
    failures = {"mtbf": 30.0, "mttr": 10.0}
    assert attained(case(failures=failures)) != attained(
        case(failures=failures, seed=1, workload={"rate": 20.0, "duration": 60.0})
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"failures": {"mtbf": 0, "mttr": 1}}, "greater than 0"),
        ({"failures": {"mtbf": 10}}, "mtbf and mttr go together"),
        ({"failures": {"script": [{"at": 1, "for": 2}]}}, "names no device"),
        ({"loading": {"disk": "0 GB/s"}}, "greater than or equal to 1"),
        ({"loading": {"cold": True}}, "cold: needs disk"),
    ],
)
def test_bad_cases_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case(**said)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"failures\.script: .*none\.yaml: cannot be read"):
        load_data([case(failures={"script": "none.yaml"})], tmp_path)
    with pytest.raises(InputError, match="device 9: names no device"):
        attained(case(failures={"script": [{"at": 1, "device": 9, "for": 2}]}))


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"failures": {"mtbf": 10, "mttr": 1}}, {}),
        ({"loading": {"disk": 1e9, "cold": True}}, {}),
        ({"serving": {"times": "drawn", "spread": {"visits": [0.9, 1.1]}}}, {"loading": 1e9}),
    ],
)
def test_a_placement_that_changes_is_refused_before_it_is_planned(
    said: dict[str, Any], options: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"planner\.name: clockwork\+\+ .*changes its placement") as caught:
        load_data([case(**said, planner={"name": "clockwork++", "options": options})], Path())
    assert "\n" not in str(caught.value)


MEASURED = {"kind": "meshwright-bandwidths", "loading": {"disk": 2e8, "host_memory": 1e10}}


def test_measured_bandwidths_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "here.json").write_text(json.dumps(MEASURED))
    cold = {"cold": True, "cache": "64 GiB"}
    measured = case(loading={"measured": "here.json", **cold})
    assert attained(measured, tmp_path) == attained(case(loading={"disk": 2e8, "host_memory": 1e10, **cold}))
    faster = case(loading={"measured": "here.json", "disk": 4e9, **cold})  # what is said counts
    assert attained(faster, tmp_path) == attained(case(loading={"disk": 4e9, "host_memory": 1e10, **cold}))
    assert "here.json" in load_data([measured], tmp_path).digests_of(measured)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is no file of measured bandwidths"),
        (json.dumps({"kind": "meshwright-plan", "loading": {"disk": 1e9}}), "is no file of measured bandwidths"),
        (json.dumps({**MEASURED, "loading": {"host_memory": 1e9}}), "is no file of measured bandwidths"),
        (json.dumps({**MEASURED, "loading": {"disk": 0}}), r"loading\.disk: expected bytes per second >= 1 \(got 0\)"),
        (json.dumps({**MEASURED, "loading": {"disk": float("nan")}}), r"got nan"),
    ],
)
def test_bandwidths_that_are_none_are_a_line(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "here.json").write_text(text)
    with pytest.raises(InputError, match=rf"^loading\.measured: .*{words}") as caught:
        load_data([case(loading={"measured": "here.json"})], tmp_path)
    assert "\n" not in str(caught.value)


def one_device(**said: Any) -> ServingCase:
    """A request is over before another comes, so that it is attained if the device is up when it arrives."""
    return case(
        models={"bert-1.3b": 1}, cluster={"devices": 1}, workload={"rate": 1.0, "duration": 120.0, "slo_scale": 50.0},
        failures={"mtbf": 40.0, "mttr": 20.0, "in_flight": "retried"}, **said,
    )  # fmt: skip


def up(arrival: Any) -> float:
    """Mean chance that a device is up, from the two-state Markov chain that begins up."""
    fail, repair = 1 / 40.0, 1 / 20.0
    share = repair / (fail + repair)
    return float(np.mean(share + (1 - share) * np.exp(-(fail + repair) * arrival)))


def test_failures_are_drawn_as_times_are() -> None:
    one = one_device(serving={"draws": 400})
    solved = solve(one, load_data([one], Path()))
    told = solved.drawn
    assert told is not None
    assert len(told.attainment) == 400
    error = float(told.attainment.std()) / 20
    # A request in service when the device fails is lost in effect: 0.15 s of 40 s, 0.4 %.
    assert told.mean == pytest.approx(up(solved.result.trace.arrival) - 0.004, abs=4 * error)
    assert told.low < told.mean < told.high


def test_the_interval_over_replications_holds_the_closed_form() -> None:
    """Each replication draws other requests and failures; of 20 intervals of 95 % about 19 hold the mean."""
    held = 0
    expected = up(np.linspace(0, 120, 10_001)) - 0.004  # over arrivals of a Poisson process
    for batch in range(20):
        found = []
        for r in range(8):
            one = one_device(serving={"draws": 2}, seed=100 * batch + r)
            found.append(solve(one, load_data([one], Path())).attainment)
        told = mean_interval(found, 0.95)
        held += told.low <= expected <= told.high
    assert held >= 16
