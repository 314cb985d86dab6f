"""The sharing world in studies: axes, common draws, what is wrong before the first point, traces and their digests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from meshwright import studies
from meshwright.errors import InputError
from meshwright.worlds.sharing.build import apps_of, cluster_of, policy_of
from meshwright.worlds.sharing.case import SharedClusterCase, SharingCase
from meshwright.worlds.sharing.world import WORLD

APPS = [{"name": name, "jobs": [{"work": 1000, "gpus": 2}]} for name in "ab"]
BASE: dict[str, Any] = {
    "cluster": {"machines": [{"gpus": 2}]}, "apps": APPS, "lease": 86400.0,
    "overheads": {"checkpoint": 0.0, "container": 0.0},
}  # fmt: skip


LESS_FAIR = {"name": "themis", "options": {"fairness": 0.1}}


def _case(**changed: Any) -> SharingCase:
    return SharingCase.model_validate({**BASE, "planner": {"name": "fifo"}, **changed})


def test_metrics_are_those_known_by_hand(tmp_path: Path) -> None:
    case = _case()
    shared = WORLD.share([case], tmp_path)
    found = WORLD.evaluate(case, shared)
    assert found.status == "ok"
    assert found.metrics["max_rho"] == pytest.approx(4 / 3)  # see test_share_cli
    assert found.metrics["attainment"] == found.metrics["fair_share"] == 0.5
    assert (found.metrics["n_devices"], found.metrics["completed"]) == (2, 2)
    assert found.decision.startswith("fifo on 2 GPUs")
    (panel,) = WORLD.panels(case, shared)
    assert "1.333  b" in panel.body
    assert WORLD.digests(case, shared) == {}


def test_placement_and_seed_reach_the_policy(tmp_path: Path) -> None:
    machines = {"cluster": {"machines": [{"gpus": 2, "count": 4}]}, "planner": {"name": "tiresias"}}
    apps = [{"name": f"a{k}", "arrival": 3600.0 * k, "jobs": [{"work": 60, "gpus": 2, "gang": 2}]} for k in range(9)]
    found = []
    blind = {"name": "tiresias", "options": {"placement": "blind"}}
    for changed in ({}, {"planner": blind}, {"planner": blind}, {"planner": blind, "seed": 1}):
        case = _case(**{**machines, **changed}, apps=apps)
        found.append(WORLD.evaluate(case, WORLD.share([case], tmp_path)).metrics["placement_score"])
    assert found[0] == 1  # the nearest two are a machine's
    assert found[1] == found[2] < 1
    assert found[3] < 1


def test_policies_and_values_see_the_same_draws(tmp_path: Path) -> None:
    drawn = {"apps": (), "workload": {"kind": "themis-1", "apps": 3, "scale": 0.001}}
    some = apps_of(_case(**drawn), tmp_path)
    assert some == apps_of(_case(**drawn, planner=LESS_FAIR, lease=60.0), tmp_path)
    assert some != apps_of(_case(**drawn, seed=1), tmp_path)
    twice = apps_of(_case(apps=(), workload={**drawn["workload"], "rate_scale": 2.0}), tmp_path)
    assert [2 * a.arrival_s for a in twice] == pytest.approx([a.arrival_s for a in some])
    assert [a.jobs for a in twice] == [a.jobs for a in some]


@pytest.mark.parametrize(
    ("said", "gpus", "racks"),
    [
        ({"preset": "themis-testbed"}, 64, 4),
        ({"preset": "themis-168", "racks": 2}, 168, 2),
        ({"preset": "themis-256", "contention": 4}, 4 * 8 + 7 * 4 + 4, 4),
        ({"devices": 12, "devices_per_node": 4, "racks": 2}, 12, 2),
        ({"devices": 3}, 3, 1),
        ({"machines": [{"gpus": 4, "count": 3, "rack": 5}, {"gpus": 2}]}, 14, 2),
    ],
)
def test_clusters(said: dict[str, Any], gpus: int, racks: int) -> None:
    cluster = cluster_of(SharedClusterCase.model_validate(said))
    assert (cluster.n_gpus, len({m.rack for m in cluster.machines})) == (gpus, racks)


STUDY = """\
study: 1
world: sharing
cluster: {machines: [{gpus: 2}]}
apps:
  - {name: a, jobs: [{work: 1000, gpus: 2}]}
  - {name: b, jobs: [{work: 1000, gpus: 2, gang: GANG}]}
planners: [fifo, {name: themis, label: ours, options: {fairness: 80 %}}, {name: themis, options: {payments: false}}]
axes: {lease: [5 min, 10 min], containers: [job, app]}
"""


def test_planners_with_options_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY.replace("GANG", "1"))
    study = studies.load(path)
    assert list(study.planners) == ["fifo", "ours", "themis"]
    made = {case.planner.called: policy_of(case) for case in study.reach()}
    assert (made["ours"].fairness, made["ours"].payments) == (0.8, True)
    assert (made["themis"].fairness, made["themis"].payments) == (0.8, False)
    one = STUDY.replace("GANG", "1").replace("planners: [fifo, {", "planners: [{").partition("axes:")[0]
    path.write_text(f"{one}axes: {{options.fairness: [0, 80 %]}}\n")
    assert {axis.path for axis in studies.load(path).axes} == {"planner.options.fairness"}
    path.write_text(STUDY.replace("GANG", "1").partition("axes:")[0] + "axes: {options.fairness: [0, 0.8]}\n")
    with pytest.raises(InputError, match=r"fairness\[0\]: unknown option; is of themis; fifo knows placement"):
        studies.load(path)


def test_lease_and_containers_are_axes(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY.replace("GANG", "1"))
    study = studies.load(path)
    assert {axis.path: list(axis.values) for axis in study.axes} == {
        "lease": [300.0, 600.0], "overheads.containers": ["job", "app"],
    }  # fmt: skip
    assert (len(study), list(study.planners)) == (12, ["fifo", "ours", "themis"])
    study.world.share(study.reach(), study.folder)


DRAWN = """\
study: 1
world: sharing
cluster: {preset: themis-testbed}
workload: {kind: themis-1, apps: 3}
planners: [fifo]
axes:
  scale: [0.001, 0.002]
  network_intensive: [0, 100 %]
  burstiness: {from: 1, to: 3, points: 3}
"""


def test_keys_of_a_workload_are_axes_though_it_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(DRAWN)
    study = studies.load(path)
    assert {axis.path: list(axis.values) for axis in study.axes} == {
        "workload.scale": [0.001, 0.002], "workload.network_intensive": [0, 1], "workload.burstiness": [1, 2, 3],
    }  # fmt: skip
    assert {case.workload.scale for case in study.reach()} == {0.001, 0.002}
    path.write_text(STUDY.replace("GANG", "1").replace("lease: [5 min, 10 min]", "scale: [1, 2]"))
    with pytest.raises(InputError, match=r"axes\.scale.*workload.*kind"):
        studies.load(path)
    path.write_text(DRAWN.replace("scale: [", "workload: ["))
    with pytest.raises(InputError, match=r"axes\.workload: 'workload' is a section; name a field of it: workload.kind"):
        studies.load(path)


def test_what_is_wrong_is_told_before_the_first_point(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY.replace("GANG", "2").replace("gpus: 2}]}\napps", "gpus: 1}]}\napps"))
    study = studies.load(path)
    with pytest.raises(
        InputError, match=r"apps\[1\].jobs\[0\].gang: a gang of 2 tasks is larger than the cluster of 1"
    ):
        study.world.share(study.reach(), study.folder)
    path.write_text(STUDY.replace("GANG", "1").replace("[fifo,", "[fifi,").replace("fairness: 80 %", "fairness: 2"))
    with pytest.raises(InputError) as caught:
        studies.load(path)
    lines = str(caught.value).splitlines()
    assert any("unknown sharing policy 'fifi'" in line and ":7:" in line for line in lines), lines
    assert any("less than or equal to 1" in line and ":7:" in line for line in lines), lines


HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u1,vc1,2,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:10:00,2020-04-01 01:10:00,3600,600
2,u2,vc1,1,4,1,FAILED,2020-04-01 02:00:00,2020-04-01 02:00:00,2020-04-01 02:30:00,1800,0
"""


def test_a_log_is_read_and_its_digest_tells_it_from_another(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HELIOS)
    case = _case(apps=(), workload={"kind": "helios", "trace": "log.csv", "scale": 0.5})
    shared = WORLD.share([case], tmp_path)
    apps = apps_of(case, tmp_path)
    assert [(a.arrival_s, a.max_gpus, a.total_work_s) for a in apps] == [(0, 2, 3600), (7200, 1, 900)]
    first = WORLD.digests(case, shared)
    (tmp_path / "log.csv").write_text(HELIOS.replace("1800", "1801"))
    assert first.keys() == {"log.csv"}
    assert WORLD.digests(case, WORLD.share([case], tmp_path)) != first
    missing = _case(apps=(), workload={"kind": "helios", "trace": "nowhere.csv"})
    with pytest.raises(InputError, match=r"workload.trace: .*nowhere.csv"):
        WORLD.share([missing], tmp_path)
