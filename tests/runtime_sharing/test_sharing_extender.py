"""An arbiter for pods: where they fit, whose leases are over, what agents and the exported plugin are told."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError, RunError
from meshwright.planners.themis import Themis
from meshwright.runtime.export.sharing import export_sharing
from meshwright.runtime.sharing import Extender, ExtenderTask, remote_views
from meshwright.runtime.sharing.documents import from_document, read_document, to_document
from meshwright.runtime.sharing.messages import Report
from meshwright.simulator.sharing import App, Job, Machine, Policy, SharedCluster, SharingWorld, baseline

CLUSTER = SharedCluster((Machine(4, 1, 0), Machine(4, 1, 1), Machine(2, 1, 1)))
WORLD = SharingWorld(CLUSTER, (App.single("x", 0.0, 4000.0, gpus=4),), lease_s=100.0)
NODES = ["machine-0", "machine-1", "machine-2"]


def task(folder: Path, policy: Policy) -> ExtenderTask:
    export_sharing(WORLD, policy, "scheduler-plugin", folder)
    return from_document(ExtenderTask, read_document(folder / "arbiter.json"), "arbiter.json")


def app(name: str, gpus: int, work_s: float = 4000.0, **more: Any) -> Any:
    return to_document(App.single(name, 0.0, work_s, gpus=gpus, **more))


def pod(name: str, of: str, gpus: int) -> dict[str, Any]:
    container = {"name": "task", "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "4"}}}
    labels = {"meshwright/app": of}
    return {"metadata": {"name": name, "labels": labels, "uid": "1"}, "spec": {"containers": [container]}}


def ask(of: Any) -> dict[str, Any]:
    return {"pod": of, "nodes": None, "nodenames": NODES}


@pytest.mark.parametrize("policy", [Themis(fairness=0.0, payments=False), baseline("fifo")], ids=lambda p: p.name)
def test_pods_fit_where_the_policy_gave_their_app_gpus(tmp_path: Path, policy: Policy) -> None:
    extender = Extender(task(tmp_path, policy))
    assert extender.policy.name == policy.name
    extender.register(app("x", 4), 0.0)
    extender.register(app("y", 4), 5.0)
    one, two = (extender.filter(ask(pod(f"{a}-0", a, 4)), 6.0)["nodenames"] for a in "xy")
    # Four near each other for each, and nobody on the two of the last.
    assert sorted(one + two) == ["machine-0", "machine-1"]
    assert extender.filter(ask(pod("x-0", "x", 4)), 6.0)["nodenames"] == one  # asked again: its own place is free
    refused = extender.filter(ask(pod("x-1", "x", 1)), 6.0)
    assert refused["nodenames"] == []
    assert set(refused["failedNodes"]) == set(NODES)
    extender.pod_gone("default/x-0")
    assert extender.filter(ask(pod("x-1", "x", 1)), 6.0)["nodenames"] == one
    extender.leave("x", 7.0)
    assert extender.lapsed(7.0) == []
    assert [owner for owner in extender.ledger.owner if owner >= 0] == [1] * 4


def test_a_lease_that_is_over_goes_to_who_had_least_and_names_the_pods_that_must_go(tmp_path: Path) -> None:
    extender = Extender(task(tmp_path, baseline("tiresias")))
    extender.register(app("x", 10), 0.0)
    assert extender.filter(ask(pod("x-0", "x", 4)), 1.0)["nodenames"] == ["machine-0"]
    assert extender.filter(ask(pod("x-1", "x", 4)), 1.0)["nodenames"] == ["machine-1"]
    extender.register(app("y", 8), 50.0)
    assert extender.lapsed(99.0) == []
    assert extender.standing("x")["until_s"] == 100.0
    # y has had nothing: it takes the rack of six and two of the other machine; x keeps two.
    assert extender.lapsed(101.0) == ["default/x-0", "default/x-1"]
    assert extender.standing("x")["nodes"] == {"machine-0": 2}
    theirs = {"machine-0": 2, "machine-1": 4, "machine-2": 2}
    assert extender.standing("y") == {"nodes": theirs, "jobs": {"0": theirs}, "until_s": 201.0}  # from the decision on
    assert extender.ledger.active[0].attained_s == 1010.0  # ten GPUs until the decision
    view = extender.ledger.view(1)
    assert view.contention == 2.0
    assert view.now_s == 101.0


def test_what_an_app_cannot_use_goes_back_at_once(tmp_path: Path) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    jobs = [Job(10.0, 2), Job(10.0, 2)]
    extender.register(to_document(App.halving("search", 0.0, jobs, 400.0)), 0.0)
    assert sum(extender.standing("search")["nodes"].values()) == 4
    extender.register(app("late", 10), 1.0)
    assert sum(extender.standing("late")["nodes"].values()) == 6
    extender.report("search", Report.model_validate({"phase": 1, "jobs": [{"job": 0, "left_s": 200.0}]}), 20.0)
    assert extender.standing("search")["jobs"] == {"0": extender.standing("search")["nodes"]}
    assert sum(extender.standing("search")["nodes"].values()) == 2
    assert sum(extender.standing("late")["nodes"].values()) == 8


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "app: Input should be a dictionary"),
        ({"name": "a"}, "app: jobs: Field required"),
        (app("a/b", 1), "pods carry it as a label"),
        (app("x", 1), "there is one called 'x'"),
        (app("big", 14, gang=11), "a gang of 11 tasks is larger than the cluster of 10 GPUs"),
        (app("idle", 1) | {"budget_s": -1}, "budget_s"),
    ],
)
def test_apps_that_cannot_be_say_so(tmp_path: Path, document: Any, said: str) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    extender.register(app("x", 4), 0.0)
    with pytest.raises(InputError, match=said):
        extender.register(document, 1.0)
    assert list(extender.numbers) == ["x"]


def test_reports_that_cannot_be_say_so(tmp_path: Path) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    extender.register(app("x", 4), 0.0)
    for phase, jobs, said in (
        (1, [{"job": 0, "left_s": 1.0}], "phase: there are 1"),
        (0, [{"job": 1, "left_s": 1.0}], r"phase 0 has \[0\], each once \(got \[1\]\)"),
        (0, [{"job": 0, "left_s": 1.0}] * 2, r"got \[0, 0\]"),
        (0, [], "an app that is done leaves"),
    ):
        with pytest.raises(InputError, match=said):
            extender.report("x", Report.model_validate({"phase": phase, "jobs": jobs}), 1.0)
    with pytest.raises(InputError, match=r"app 'z': not registered; in the cluster: x"):
        extender.leave("z", 1.0)
    with pytest.raises(InputError, match="pod 'default/q': was never placed"):
        extender.pod_gone("default/q")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "expected ExtenderArgs: pod: Field required"),
        ({"pod": pod("p", "x", 1), "nodenames": None}, "expected ExtenderArgs: nodenames"),
        ({"pod": {"metadata": {}, "spec": {"containers": []}}, "nodenames": []}, "pod.metadata.name"),
        (
            ask(pod("p", "x", 1) | {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1.5"}}}]}}),
            "1.5",
        ),
    ],
)
def test_questions_that_are_none_are_answered_as_errors(tmp_path: Path, arguments: Any, said: str) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    extender.register(app("x", 4), 0.0)
    answer = extender.filter(arguments, 1.0)
    assert answer["nodenames"] == []
    assert said in answer["error"]
    assert extender.pods == {}


def test_pods_of_nobody_are_refused_everywhere(tmp_path: Path) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    stray = extender.filter(ask(pod("p", "x", 1)), 0.0)
    assert stray["failedNodes"] == dict.fromkeys(NODES, "no agent has registered app 'x'")
    bare = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    assert "no label" in extender.filter(ask(bare), 0.0)["failedNodes"]["machine-0"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy": "themsi"}, "unknown sharing policy 'themsi'"),
        ({"options": {"fairness": 2}}, "Themis.fairness"),
        ({"lease_s": -1}, "lease_s"),
        ({"machines": []}, "at least one machine"),
        ({"machines": [{"node": "a", "slots": 1, "gpus_per_slot": 1, "rack": 0}] * 2}, "two machines are node 'a'"),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_a_file_that_is_wrong_says_so(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    good = to_document(task(tmp_path, Themis()))
    with pytest.raises(InputError, match=said):
        Extender(from_document(ExtenderTask, good | change, "arbiter.json"))


def test_over_http(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    httpx = pytest.importorskip("httpx")
    from meshwright.runtime.sharing.extending import extender_application

    now = [0.0]
    application = extender_application(Extender(task(tmp_path, baseline("tiresias"))), lambda: now[0])

    async def talk() -> list[Any]:
        answers: list[Any] = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://extender") as client:
            for method, where, body in (
                ("POST", "/apps", app("x", 10)),
                ("POST", "/apps", app("x", 10)),
                ("POST", "/filter", ask(pod("x-0", "x", 4))),
                ("POST", "/apps/x/report", {"jobs": [{"job": 0, "left_s": 3000.0}]}),
                ("POST", "/apps/x/report", {"jobs": [{"job": 0, "left_s": -1}]}),
                ("POST", "/apps/z/report", {"jobs": [{"job": 0, "left_s": 1}]}),
                ("POST", "/apps", app("y", 8)),
                ("GET", "/apps/y", None),
                ("GET", "/lapsed", None),
                ("POST", "/pods/gone", {"pod": "default/x-0"}),
                ("DELETE", "/apps/x", None),
                ("GET", "/", None),
            ):
                if where == "/apps/y":
                    now[0] = 101.0
                answer = await client.request(method, where, json=body)
                answers.append((answer.status_code, answer.json()))
            broken = await client.post("/filter", content=b"{")
            answers.append((broken.status_code, broken.json()))
        return answers

    answers = asyncio.run(talk())
    assert [status for status, _ in answers] == [201, 422, 200, 200, 422, 404, 201, 200, 200, 200, 200, 200, 422]
    assert answers[0][1]["until_s"] == 100.0
    assert answers[2][1]["nodenames"] == ["machine-0"]
    assert answers[6][1]["nodes"] == {}  # all is leased
    assert answers[7][1]["nodes"] == {"machine-0": 2, "machine-1": 4, "machine-2": 2}
    assert answers[8][1] == {"pods": ["default/x-0"]}
    assert answers[11][1]["apps"].keys() == {"y"}
    assert answers[12][1]["detail"].startswith("body: no JSON")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[str]:
    """A service that agents report to, for the exported plugin to ask; its address."""
    pytest.importorskip("uvicorn")
    export_sharing(WORLD, Themis(fairness=0.0, payments=False), "scheduler-plugin", tmp_path / "plugin")
    command = [sys.executable, "-m", "meshwright.runtime.sharing", "extend", "plugin/arbiter.json"]
    process = subprocess.Popen(
        [*command, "--views-only", "--port", "0"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        found = re.search(r"extender at 127\.0\.0\.1:(\d+), policy themis, 10 GPUs", process.stderr.readline())
        assert found is not None
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_the_exported_plugin_asks_a_service_that_agents_report_to(tmp_path: Path, desk: str) -> None:
    httpx = pytest.importorskip("httpx")
    spec = importlib.util.spec_from_file_location("extender", tmp_path / "plugin/extender.py")
    assert spec is not None
    assert spec.loader is not None
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    now = [0.0]
    arbiter = plugin.Arbiter(
        json.loads((tmp_path / "plugin/arbiter.json").read_text()), remote_views(desk), lambda: now[0]
    )
    with pytest.raises(RunError, match=r"refused: 404 .*app 'x': not registered"):
        arbiter.filter(ask(pod("x-0", "x", 4)))
    arbiter.leave("x")
    for name in ("x", "y"):
        httpx.post(f"{desk}/apps", json=app(name, 4, 9000.0)).raise_for_status()
    answers = [arbiter.filter(ask(pod(f"{a}-0", a, 4)))["nodenames"] for a in "xy"]
    assert sorted(node for nodes in answers for node in nodes) == ["machine-0", "machine-1"]
    # A view has the work that the agent reports, and the GPUs that the plugin says.
    httpx.post(f"{desk}/apps/x/report", json={"jobs": [{"job": 0, "left_s": 77.0}]}).raise_for_status()
    view = remote_views(desk)("x", 5, 0.0, (0, 1), (2,))
    assert (view.index, view.held, view.lapsed, view.jobs[0].left_s) == (5, (0, 1), (2,), 77.0)
    assert 1.0 <= view.contention <= 2.0  # x was alone until y came
    assert "ask the plugin" in httpx.post(f"{desk}/filter", json=ask(pod("x-1", "x", 1))).json()["error"]


def test_addresses_that_are_none_say_so() -> None:
    with pytest.raises(InputError, match=r"expected http://host:port \(got 'localhost'\)"):
        remote_views("localhost")
    with pytest.raises(RunError, match=r"http://127\.0\.0\.1:1 does not answer"):
        remote_views("http://127.0.0.1:1")("x", 0, 0.0, (), ())
