"""Serving cases whose machines fail, and whose weights load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
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
    with pytest.raises(InputError, match="changes its placement over time"):
        attained(case(failures={"mtbf": 10, "mttr": 1}, planner={"name": "clockwork++"}))
