"""What is wrong with a serving study is said before its first point, a line for each problem, with its field."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright import planners, profiles, simulator, traces
from meshwright.errors import InputError
from meshwright.simulator import ParallelConfig, Plan
from meshwright.worlds.serving.case import ServingCase
from meshwright.worlds.serving.world import WORLD

BASE: dict[str, Any] = {
    "cluster": {"devices": 4},
    "models": {"bert-1.3b": 2},
    "workload": {"rate": 4, "duration": 60},
}


def case_of(**sections: Any) -> ServingCase:
    """The base case with other sections."""
    said = {k: v for k, v in (BASE | sections).items() if v is not None}
    return ServingCase.model_validate_json(json.dumps(said))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces, plans and profiles, good ones and bad ones."""
    here = tmp_path_factory.mktemp("files")
    good = traces.poisson(4.0, 60.0, ["bert-1.3b-0", "bert-1.3b-1"], seed=1)
    good.to_frame().to_csv(here / "good.csv", index=False)
    traces.poisson(4.0, 60.0, ["bert-1.3b-0", "gpt-1"], seed=1).to_frame().to_csv(here / "gpt.csv", index=False)
    slos = np.where(np.arange(len(good)) % 2, 0.5, 1.0)
    good.with_slo(slos).to_frame().to_csv(here / "slos.csv", index=False)
    (here / "torn.csv").write_text("arrival,model\n0.5,bert-1.3b-0\n0.4,bert-1.3b-0\n")
    shipped = profiles.load("alpaserve-v100")
    served = shipped.instances({"bert-1.3b": 2})
    for name, cluster in (("plan", 4), ("wide", 8)):
        plan = planners.PLANNERS["round-robin"](
            simulator.Cluster.of(cluster), list(served), good.with_slo(1.0), served, config="op1pp1"
        )
        assert isinstance(plan, Plan)
        plan.save(here / f"{name}.json")
    a100 = replace(served, device="a100-40gb")
    spec = simulator.Cluster.of(4, "a100-40gb")
    other = planners.PLANNERS["round-robin"](spec, list(a100), good.with_slo(1.0), a100)
    assert isinstance(other, Plan)
    other.save(here / "a100.json")
    one = ParallelConfig(1, 1)
    small = profiles.ModelProfile.from_stages("bert-1.3b", {one: {1: [0.1], 2: [0.15]}})
    profiles.save(
        profiles.ProfileSet("small", "v100-16gb", {"bert-1.3b": small}, profiles.Provenance("by hand")),
        here / "small.json",
    )
    (here / "broken.json").write_text('{"format": "meshw')
    return here


def problems(folder: Path, *cases: ServingCase) -> list[str]:
    with pytest.raises(InputError) as caught:
        WORLD.share(cases, folder)
    return str(caught.value).splitlines()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"cluster": {"devices": 4, "device": "v100-61gb"}}, "cluster.device: unknown device .*did you mean 'v100-16gb'"),
    ({"cluster": {"devices": 4, "device": "a100-40gb"}}, r"cluster.device: profile .* holds for 'v100-16gb' .*speed"),
    ({"speed": {"h100-90gb": 2}}, "speed: unknown device 'h100-90gb'; did you mean 'h100-80gb'"),
    ({"speed": {"a100": 2}}, "speed: unknown device 'a100'; several begin so: a100-40gb, a100-80gb"),
    (
        {"profile": {"v100-16gb": "alpaserve-v100", "tpu": "x.json"}, "workload": {"rate": 4, "slo": 1}},
        "profile: unknown device .tpu.",
    ),
    ({"profile": {"a100-40gb": "alpaserve-v100"}}, "profile: none for device 'v100-16gb'; it names one for a100-40gb"),
    ({"profile": "alpaserve-v10"}, "profile: 'alpaserve-v10': no shipped set .* did you mean 'alpaserve-v100'"),
    ({"profile": "broken.json"}, "profile: .*broken.json:1"),
    ({"models": {"bert-1.3": 2}}, "models: .*unknown model 'bert-1.3'; did you mean 'bert-1.3b'"),
    ({"models": ["bert-1.3b", "bert-1.3b"]}, "models: .*'bert-1.3b' is named twice"),
    ({"models": "S9"}, "models: 'S9' is neither a model set .S1, S2, S3, S4. nor a model"),
    ({"models": {"bert-1.3b": 0}}, "models: expected at least one model"),
    ({"workload": {"trace": "none.csv"}}, "workload.trace: .*none.csv"),
    ({"workload": {"trace": "torn.csv"}}, "workload.trace: .*torn.csv:3"),
    ({"workload": {"trace": "gpt.csv"}}, "workload.trace: gpt.csv: unknown model 'gpt-1'"),
    ({"workload": {"trace": "gpt.csv"}, "models": None}, "models: .*unknown model 'gpt-1'"),
    (
        {"workload": {"trace": "slos.csv", "resample": True}},
        "workload.trace: slos.csv: .* SLOs from 0.5 to 1 s; for drawn traffic give workload.slo",
    ),
    ({"workload": {"trace": "good.csv", "resample": True, "cv_scale": 1e6}}, "workload.trace: good.csv: scaled by"),
    ({"workload": {"rate": 4, "cv": 2000}}, "workload.cv: expected at most 1000"),
    ({"workload": {"rate": 1e-6}}, "workload.rate: 1e-06 requests/s for 300 s are 0.0003 requests"),
    ({"workload": {"rate": 4, "split": [1, 2, 3]}}, "workload.split: expected 2 shares"),
    ({"workload": {"rate": 4, "split": {"zipf": 1}}}, "workload.split: 'zipf' is neither a model nor a law"),
    ({"serving": {"max_batch": 3}}, "serving.max_batch: 'bert-1.3b-0' was not profiled at batch 3; .* 1, 2, 4, 8, 16"),
    ({"serving": {"max_batch": 4}, "profile": "small.json"}, "serving.max_batch: .* profiled batches: 1, 2$"),
    ({"warmup": 30}, "warmup: 30 s at each end leave nothing of traffic that lasts 60 s"),
    ({"warmup": 40, "workload": {"trace": "good.csv", "rate_scale": 2}}, "warmup: 40 s at each end leave nothing"),
    ({"planner": {"name": "alpaserv"}}, "planner.name: .*unknown planner 'alpaserv'.*did you mean 'alpaserve'"),
    ({"planner": {"options": {"beem": 2}}}, "planner.options: .*'beem'.*'beam'"),
    ({"planner": {"options": {"dispatch": "x"}}}, "planner.options: .*'dispatch'"),
    ({"planner": {"options": {"local_search_seconds": 1}}}, "planner.options: local_search_seconds makes the plan dep"),
    (
        {"planner": {"name": "clockwork++", "options": {"carry": True}}, "serving": {"max_batch": 2}},
        "serving.max_batch: a schedule with carry cannot be served in batches",
    ),
    ({"planner": {"planned_for": {"rat": 3}}}, "planner.planned_for: no field 'rat'; did you mean 'rate'"),
    ({"planner": {"planned_for": {"workload.rate": -3}}}, "planner.planned_for: workload.rate"),
    ({"planner": {"planned_for": {"profile": "nowhere"}}}, "profile: 'nowhere': no shipped set"),
    ({"planner": {"plan": "none.json"}}, "planner.plan: .*none.json"),
    ({"planner": {"plan": "broken.json"}}, "planner.plan: .*broken.json"),
    ({"planner": {"plan": "plan.json", "options": {"beam": 2}}}, "planner.options: a plan that exists has none"),
    ({"planner": {"plan": "wide.json"}}, "planner.plan: wide.json: the plan uses 8 devices, the cluster has 4"),
    ({"planner": {"plan": "a100.json"}}, "planner.plan: a100.json: .*made for devices of type 'a100-40gb'"),
    ({"planner": {"plan": "plan.json"}, "models": {"bert-1.3b": 3}}, "planner.plan: plan.json: .*'bert-1.3b-2'"),
    (
        {"planner": {"plan": "plan.json"}, "cluster": {"devices": 4, "memory": "1 GiB"}},
        "planner.plan: plan.json: Placement does not fit: .*1.00 GiB are usable",
    ),
    (
        {"profile": {"v100-16gb": "alpaserve-v100", "a100-40gb": "alpaserve-v100-s3"}},
        "workload.slo_device: profile names several device types",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[m[:40] for _, m in WRONG])
def test_one_line_that_names_the_field(change: dict[str, Any], message: str, folder: Path) -> None:
    lines = problems(folder, case_of(**change))
    assert len(lines) == 1
    assert re.match(message, lines[0]), lines[0]


def test_all_problems_of_all_cases_are_said_once(folder: Path) -> None:
    bad = case_of(models={"bert": 1}, planner={"name": "nobody"}, workload={"trace": "none.csv"})
    lines = problems(folder, bad, bad, case_of(warmup=99), case_of(cluster={"devices": 2, "device": "b200"}))
    assert [line.split(":")[0] for line in lines] == [
        "workload.trace", "planner.name", "models", "warmup", "cluster.device",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"trace": "a.csv", "cv": 2}, "cv: shapes generated traffic, but a trace is given"),
        ({"trace": "a.csv", "rate": 2}, "give one of rate"),
        ({"rate": 2, "window": 10}, "window: is fitted to a trace, and none is given"),
        ({"rate": 2, "resample": True}, "resample: needs a trace"),
        ({"trace": "a.csv", "cv_scale": 2}, "set resample: true"),
        ({"rate": 2, "slo": 1, "slo_scale": 3}, "give one of slo"),
    ],
)
def test_fields_that_would_be_ignored_are_refused(workload: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case_of(workload=workload)


def test_replications_that_are_all_alike_are_refused(folder: Path) -> None:
    fixed = {"trace": "good.csv"}
    lines = problems(folder, case_of(workload=fixed), case_of(workload=fixed, seed=1))
    assert lines == [
        "workload.resample: good.csv is the same in every replication; set workload.resample: true to draw new "
        "traffic from it, or replications: 1"
    ]
    for workload, planner in (
        ({"trace": "good.csv", "resample": True}, {}), (fixed, {"plan_on": "history"}), (BASE["workload"], {}),
    ):  # fmt: skip
        WORLD.share([case_of(workload=workload, planner=planner, seed=s) for s in (0, 1)], folder)


def test_a_plan_that_fits_some_cases_is_a_point_without_a_plan_at_the_others(folder: Path) -> None:
    cases = [case_of(planner={"plan": "wide.json"}, cluster={"devices": n}) for n in (4, 8)]
    data = WORLD.share(cases, folder)
    assert [WORLD.evaluate(case, data).status for case in cases] == ["infeasible", "ok"]


def test_a_lost_group_that_the_plan_does_not_have(folder: Path) -> None:
    case = case_of(planner={"plan": "plan.json", "lost_groups": [7]})
    with pytest.raises(InputError, match=r"planner.lost_groups: the plan has groups 0 … 3 \(got 7\)"):
        WORLD.evaluate(case, WORLD.share([case], folder))


def test_an_slo_of_another_device_type_is_said(folder: Path) -> None:
    both = {"v100-16gb": "alpaserve-v100", "a100-40gb": "small.json"}
    case = case_of(profile=both, models={"bert-1.3b": 1}, workload={**BASE["workload"], "slo_device": "a100-40gb"})
    data = WORLD.share([case], folder)
    assert WORLD.evaluate(case, data).status == "ok"
    assert set(data.digests_of(case)) == {"alpaserve-v100", "small.json"}
    assert data.latencies_for(case)["bert-1.3b-0"].single_device_latency() == 0.1


def test_a_case_that_was_never_shared_is_checked_when_it_is_evaluated(folder: Path) -> None:
    data = WORLD.share([case_of()], folder)
    with pytest.raises(InputError, match=r"cluster.device: profile .* holds for 'v100-16gb'"):
        WORLD.evaluate(case_of(cluster={"devices": 4, "device": "a100-40gb"}), data)


def test_a_plan_made_with_other_latencies_is_scored_with_the_profile_and_says_so(folder: Path) -> None:
    plain, small = (
        WORLD.evaluate(case, WORLD.share([case], folder))
        for case in (case_of(planner={"plan": "plan.json"}, profile=p) for p in ("alpaserve-v100", "small.json"))
    )
    assert not any("other latencies" in note for note in plain.notes)
    assert small.notes[-1] == "planned with other latencies than the profile holds: bert-1.3b-0, op1pp1"
    assert small.metrics["mean_latency"] < plain.metrics["mean_latency"]
