"""Failures, loading and scaling of a case: what its simulation is of, by hand; what it prints; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.cli.main import run as main
from meshwright.errors import InputError
from meshwright.simulator.failures import events_of
from meshwright.simulator.llm import Autoscaling, Fault, Faults, LLMPlan, LLMPlanResult, SimulateOptions, simulate_llm
from meshwright.simulator.llm.plan.conditions import Conditions
from meshwright.simulator.llm.plan.costs import deployment_cost, flight_options
from meshwright.worlds.faces import case, plan
from meshwright.worlds.llm.world import WORLD

SMALL: dict[str, Any] = {
    "model": "llama-3.1-8b", "device": "h100-80gb", "lengths": "alpaca", "rate": 30.0, "duration": 6.0,
    "slo_ttft": 0.5, "slo_tpot": 0.05, "planner": "fixed",
}  # fmt: skip


@pytest.fixture(scope="module")
def planned() -> Any:
    """Four engines of one device, two on each node."""
    return plan(case("llm", **SMALL, devices=4, devices_per_node=2))


def simulated(planned: Any, **said: Any) -> LLMPlanResult:
    return planned.simulate(case("llm", **SMALL, devices=4, devices_per_node=2, **said))


def by_hand(file: LLMPlan, result: LLMPlanResult, **options: Any) -> Any:
    (each,) = file.deployments
    (one,) = result.results.values()
    return simulate_llm(
        one.trace, config=flight_options(each), cost=deployment_cost(file, each), engines=each.replicas,
        options=SimulateOptions(**options),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "hit"),
    [
        ([{"at": 2, "device": 1, "for": 1}], (1,)),
        ([{"at": 2, "node": 1, "for": 1}], (2, 3)),
        ([{"at": 2, "group": 0, "for": 1}, {"at": 3, "group": 2}], (0, 2)),
    ],
    ids=["device", "node", "engine"],
)
def test_a_script_is_faults(planned: Any, script: list[dict[str, float]], hit: tuple[int, ...]) -> None:
    """A device takes its engine, a node all that stand on it; weights come from the disk that a node has."""
    found = simulated(planned, failures={"script": script}, loading={"disk": "100 GB/s", "start": 0.5})
    (one,), (each,) = found.results.values(), planned.file.deployments
    load = 0.5 + planned.file.capacity(each).weight_bytes / 100e9
    events = [Fault(n, float(e["at"]), float(e.get("for", np.inf))) for e in script for n in _engines(e)]
    faults = Faults(tuple(events), load_s=load)
    np.testing.assert_array_equal(one.finish, by_hand(planned.file, found, faults=faults).finish)
    assert one.fleet is not None
    assert tuple(np.flatnonzero(one.fleet.deaths)) == hit


def _engines(event: dict[str, float]) -> tuple[int, ...]:
    if "node" in event:
        return 2 * int(event["node"]), 2 * int(event["node"]) + 1
    return (int(event.get("device", event.get("group", 0))),)


def test_an_engine_fails_with_any_of_its_devices() -> None:
    two = plan(case("llm", **SMALL, devices=4, engine={"tensor_parallel_size": 2})).file
    (each,) = two.deployments
    met = Conditions(3600.0, 60.0, events_of([{"at": 5, "device": 3}]), disk_bytes_per_s=1e9)
    found = met.faults(two, [each])
    assert found is not None
    assert (found.mtbf_s, found.mttr_s) == (1800.0, 60.0)
    assert found.events == (Fault(1, 5.0, float("inf")),)
    assert found.load_s == 2 * two.capacity(each).weight_bytes / 1e9


def test_what_is_in_flight_is_lost_or_sent_anew(planned: Any) -> None:
    script = [{"at": 2, "node": 0, "for": 1}]
    anew, lost, kept = (
        next(iter(simulated(planned, failures={"script": script, **more}).results.values()))
        for more in ({}, {"in_flight": "lost"}, {"tokens": "keep"})
    )
    assert anew.fleet is not None and lost.fleet is not None and kept.fleet is not None  # noqa: PT018
    assert anew.finished.all() and not lost.finished.all()  # noqa: PT018
    assert lost.fleet.failed.sum() == (anew.fleet.retries > 0).sum() > 0
    assert anew.fleet.lost_tokens.sum() > 0 == kept.fleet.lost_tokens.sum()


def test_scaling_is_autoscaling(planned: Any) -> None:
    said = {"least": 1, "load": 12, "by": "running", "every": 0.5, "hold": 1.5}
    found = simulated(planned, scaling=said, loading={"start": 0.2})
    (one,) = found.results.values()
    rule = Autoscaling(1, 4, 12, "running", 0.5, 0.2, patience=3)
    np.testing.assert_array_equal(one.finish, by_hand(planned.file, found, scaling=rule).finish)
    assert one.fleet is not None
    assert one.fleet.engine_seconds < 0.9 * 4 * one.fleet.end_s


def test_the_door_says_what_befell_them(planned: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, script = planned.file.save(tmp_path / "plan.json"), tmp_path / "script.yaml"
    script.write_text("- {at: 2, device: 1, for: 1}\n- {at: 3 s, node: 1}\n")
    assert main(["simulate", str(path), "-s", f"failures.script={script}"]) == 0
    assert "Llama-3.1-8B: 3 failures of engines; " in capsys.readouterr().out
    said = ["-s", "failures.mtbf=5", "-s", "failures.mttr=1", "-s", "draws=5", "--json"]
    assert main(["simulate", str(path), *said]) == 0
    (found,) = json.loads(capsys.readouterr().out)["plans"]
    assert found["fleet"]["Llama-3.1-8B"]["failures"] > 0
    assert found["forecast"]["draws"] == 5
    low, high = (found["forecast"]["figures"]["availability"][end] for end in ("low", "high"))
    assert 0 < low < high < 1


def test_studies_meet_them() -> None:
    calm, rough = (
        case("llm", **SMALL, devices=2, **more) for more in ({}, {"failures": {"script": [{"at": 2, "device": 0}]}})
    )
    shared = WORLD.share([calm, rough], Path())
    one, other = (WORLD.evaluate(each, shared) for each in (calm, rough))
    assert other.metrics["e2e_p90"] > one.metrics["e2e_p90"]
    assert (other.metrics["engine_failures"], other.decision) == (1, one.decision)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"failures": {"mtbf": 60}}, "failures: mtbf and mttr go together; give both or none"),
        ({"failures": {"mtbf": 0, "mttr": 1}}, "failures.mtbf"),
        ({"failures": {"script": [{"at": 1}]}}, "names no device; give one of device, node and group"),
        ({"failures": {"script": [{"at": 1, "device": 4}]}}, "failures.script: device 4 does not exist; there are 4"),
        ({"failures": {"script": [{"at": 1, "group": 9}]}}, "failures.script: engine (group) 9 does not exist"),
        ({"failures": {"script": [{"at": 0, "group": 1}]}}, "failures.script: engines fail after the beginning"),
        ({"failures": {"script": "nowhere.yaml"}}, "failures.script: nowhere.yaml: cannot be read"),
        ({"failures": {"in_flight": "lost", "notice": 2}}, "notice: is of requests that are sent elsewhere"),
        ({"scaling": {"least": 1}}, "least: needs load"),
        ({"scaling": {"load": 4}}, "load: needs least"),
        ({"scaling": {"least": 1, "load": 0}}, "scaling.load"),
        ({"loading": {"disk": 0}}, "loading.disk"),
        (
            {"failures": {"mtbf": 60, "mttr": 1}, "times": "drawn", "spread": {"visits": [0.9, 1.1]}},
            "times: drawn times beside failures or scaling are not simulated",
        ),
    ],
)
def test_what_is_wrong_is_said(planned: Any, said: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as told:
        simulated(planned, **said)
    assert says in str(told.value)
    assert len(str(told.value).splitlines()) == 1


def test_a_batch_in_flight_does_not_fail_alone() -> None:
    said = {"devices": 2, "failures": {"script": [{"at": 1, "device": 1, "for": 1}]}}
    apart, whole = (
        plan(case("llm", **SMALL, devices=2, engine={"pipeline_parallel_size": 2, "scheduler": scheduler}))
        for scheduler in ({}, {"pipeline_parallel_size": 2})
    )
    with pytest.raises(InputError, match="each batch in flight of its pipelines is simulated as an engine"):
        apart.simulate(case("llm", **SMALL, **said))
    (one,) = whole.simulate(case("llm", **SMALL, **said)).results.values()
    assert one.fleet.deaths.tolist() == [1]


def test_pools_of_a_case_fail_and_are_scaled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One engine decodes, three read prompts: a case says what befalls either, as it says it of whole engines."""
    said = {"devices": 4, "engine.decode_engines": 1, "failures": {"script": [{"at": 2, "device": 3, "for": 1}]}}
    scaled = {"least": 1, "load": 2, "by": "running", "every": 0.5, "hold": 1}
    asked = case("llm", **SMALL, **said, scaling=scaled)
    (one,) = plan(asked).simulate(asked).results.values()
    assert one.fleet is not None
    assert set(one.fleet.roles) == {"prefill", "decode"}
    assert one.fleet.deaths.sum() == 1
    assert one.fleet.engine_seconds < 4 * one.fleet.end_s
    assert one.finished.all()
