"""An arbiter for pods: where they fit, whose leases are over, what agents and the exported plugin are told."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.planners.themis import Themis
from meshwright.runtime.export.sharing import export_sharing
from meshwright.runtime.sharing import Extender, ExtenderTask, remote_views
from meshwright.runtime.sharing.documents import from_document, read_document, to_document
from meshwright.runtime.sharing.extender.pods import read_question
from meshwright.runtime.sharing.messages import Report
from meshwright.runtime.sharing.tenants import Forbidden, Unknown
from meshwright.simulator.sharing import App, Job, Machine, Policy, SharedCluster, SharingWorld, baseline

CLUSTER = SharedCluster((Machine(4, 1, 0), Machine(4, 1, 1), Machine(2, 1, 1)))
WORLD = SharingWorld(CLUSTER, (App.single("x", 0.0, 4000.0, gpus=4),), lease_s=100.0)
NODES = ["machine-0", "machine-1", "machine-2"]


def task(folder: Path, policy: Policy, world: SharingWorld = WORLD) -> ExtenderTask:
    export_sharing(world, policy, "scheduler-plugin", folder)
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
    extender.pod_gone("default/x-0", "1")
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


def test_leases_that_end_together_end_at_multiples(tmp_path: Path) -> None:
    together = replace(WORLD, lease_ends="together")
    extender = Extender(task(tmp_path, baseline("tiresias"), together))
    extender.register(app("x", 10), 30.0)
    assert extender.standing("x")["until_s"] == 100.0


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
        ([], "app: should be a mapping"),
        ({"name": "a"}, "app: jobs: is missing"),
        (app("a/b", 1), "pods carry it as a label"),
        (app("x", 1), "there is one called 'x'"),
        (app("big", 14, gang=11), "a gang of 11 tasks is larger than the cluster of 10 GPUs"),
        (app("wide", 11), "a job that uses 11 GPUs is larger than the cluster of 10"),
        (app("none", 1) | {"jobs": [{"iteration_s": 1.0, "gpus": -5}]}, "Job.gpus: expected a positive integer"),
        (app("endless", 1) | {"phases": [{"jobs": [0], "iterations": ["inf"]}]}, "inf iterations; expected > 0"),
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
        (0, [{"job": 0, "left_s": 4001.0}], "it had 4000 GPU seconds"),
    ):
        with pytest.raises(InputError, match=said):
            extender.report("x", Report.model_validate({"phase": phase, "jobs": jobs}), 1.0)
    with pytest.raises(InputError, match=r"app 'z': not registered; in the cluster: x"):
        extender.leave("z", 1.0)
    with pytest.raises(InputError, match="pod 'default/q': was never placed"):
        extender.pod_gone("default/q", "1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "expected ExtenderArgs: pod: is missing"),
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


WRONG = (-5, "-5", "\u00b2", "\u0663", "1.5", 1.5, True, "1e3", None, [], {}, "12345678", " 4", "+4", "", "0x4")


@pytest.mark.parametrize("gpus", WRONG, ids=repr)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_pods_that_ask_for_what_is_no_number_of_gpus_are_refused(tmp_path: Path, gpus: Any, where: str) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    extender.register(app("x", 4), 0.0)
    asked = pod("p", "x", 4)
    asked["spec"][where] = [*asked["spec"].get(where, []), {"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    answer = extender.filter(ask(asked), 1.0)
    assert answer["nodenames"] == []
    assert "expected a whole number from 0" in answer["error"]
    assert extender.pods == {}
    assert extender.filter(ask(pod("p", "x", 4)), 1.0)["nodenames"], "nothing was taken by who was refused"


def container(gpus: int, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": gpus}}, **more}


@given(
    beside=st.lists(st.integers(0, 9), max_size=3),
    before=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
)
def test_a_pod_needs_what_runs_at_one_time(beside: list[int], before: list[tuple[int, bool]]) -> None:
    first = [container(n, **({"restartPolicy": "Always"} if stays else {})) for n, stays in before]
    spec = {"containers": [container(n) for n in beside], "initContainers": first}
    found, gpus, _ = read_question({"pod": {"metadata": {"name": "p"}, "spec": spec}, "nodenames": []})
    moments = [sum(n for n, stays in before[:k] if stays) + before[k][0] for k in range(len(before))]
    assert gpus == max([*moments, sum(n for n, stays in before if stays) + sum(beside)])
    assert found.name == "default/p"


@pytest.mark.parametrize(
    "meta",
    [
        {"name": "a/b"}, {"name": ""}, {"name": "A"}, {"name": "a" * 300}, {"name": "a", "namespace": "b/c"},
        {"name": "a", "namespace": ""}, {"name": "a\n"}, {"name": "a", "uid": 7},
        {"name": "a", "labels": {"meshwright/app": 1}},
    ],
)  # fmt: skip
def test_pods_whose_names_are_none_are_refused(tmp_path: Path, meta: dict[str, Any]) -> None:
    """namespace/name must mean one pod, or one pod's end would free the GPUs of another."""
    extender = Extender(task(tmp_path, baseline("fifo")))
    extender.register(app("x", 4), 0.0)
    asked = pod("p", "x", 4)
    asked["metadata"] = {"labels": {"meshwright/app": "x"}} | meta
    assert extender.filter(ask(asked), 1.0)["error"].startswith("expected ExtenderArgs: pod.metadata.")
    assert extender.pods == {}


def test_who_is_not_an_apps_own_neither_uses_nor_frees_its_gpus(tmp_path: Path) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")), admin_key="a" * 16)
    extender.register(app("x", 4), 0.0, namespace="one", key="k" * 16)
    extender.register(app("y", 4), 0.0)
    mine = pod("p", "x", 4)
    mine["metadata"]["namespace"] = "one"
    assert "another namespace" in extender.filter(ask(pod("p", "x", 4)), 1.0)["failedNodes"]["machine-0"]
    (node,) = extender.filter(ask(mine), 1.0)["nodenames"]
    relabelled = json.loads(json.dumps(mine).replace('"x"', '"y"'))
    relabelled["metadata"]["namespace"] = "default"
    extender.filter(ask(relabelled), 1.0)  # of another namespace: another pod
    assert extender.pods["one/p"].app == "x"
    extender.pod_gone("default/p", "1")
    same = json.loads(json.dumps(pod("q", "y", 1)))
    assert extender.filter(ask(same), 1.0)["nodenames"]
    same["metadata"]["labels"] = {"meshwright/app": "x"}
    assert extender.filter(ask(same), 1.0)["nodenames"] == []
    assert extender.pods["default/q"].app == "y"
    # Ends: of a pod by its uid, and by who has its app's key, if by an app at all.
    with pytest.raises(Forbidden, match="another pod has this name now"):
        extender.pod_gone("one/p", "0")
    with pytest.raises(Unknown):
        extender.pod_gone("default/p2", "1")
    with pytest.raises(Forbidden, match="app 'x': another's"):
        extender.pod_gone("one/p", "1", extender.tenants.key("y"))
    assert extender.pods["one/p"].node == node
    extender.pod_gone("one/p", "1", "k" * 16)
    for key in (None, "", "k" * 15, extender.tenants.key("y"), "\u00e9" * 16):
        with pytest.raises(Forbidden):
            extender.tenants.check("x", key)
    extender.tenants.check("x", "a" * 16)  # who runs the cluster
    with pytest.raises(Forbidden, match="gives GPUs itself"):
        extender.view("x", 0, [0, 1], [], 2.0)


def test_a_pod_without_gpus_is_nobodys_business(tmp_path: Path) -> None:
    extender = Extender(task(tmp_path, baseline("fifo")))
    extender.register(app("x", 4), 0.0)
    assert extender.filter(ask(pod("p", "x", 0)), 1.0)["nodenames"] == NODES
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
    from meshwright.runtime.sharing.extender.service import KEY_HEADER, extender_application

    now = [0.0]
    application = extender_application(Extender(task(tmp_path, baseline("tiresias"))), lambda: now[0])

    async def talk() -> list[Any]:
        answers: list[Any] = []
        owner: dict[str, str] = {}
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
                ("POST", "/pods/gone", {"pod": "default/x-0", "uid": "1"}),
                ("DELETE", "/apps/x", None),
                ("GET", "/", None),
            ):
                if where == "/apps/y":
                    now[0] = 101.0
                answer = await client.request(method, where, json=body, headers=owner)
                if answer.status_code == 201 and where == "/apps" and body["name"] == "x":
                    owner = {KEY_HEADER: answer.json()["key"]}
                answers.append((answer.status_code, answer.json()))
            broken = await client.post("/filter", content=b"{")
            answers.append((broken.status_code, broken.json()))
        return answers

    answers = asyncio.run(talk())
    assert [status for status, _ in answers] == [201, 422, 200, 200, 422, 404, 201, 200, 200, 200, 200, 200, 400]
    assert answers[0][1]["until_s"] == 100.0
    assert answers[2][1]["nodenames"] == ["machine-0"]
    assert answers[6][1]["nodes"] == {}  # all is leased
    assert answers[7][1]["nodes"] == {"machine-0": 2, "machine-1": 4, "machine-2": 2}
    assert answers[8][1] == {"pods": ["default/x-0"]}
    assert answers[11][1]["apps"].keys() == {"y"}
    assert answers[12][1]["detail"].startswith("expected JSON")


def raw(port: int, request: bytes, timeout: float = 30.0) -> bytes:
    """What a server says to these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(request)
        connection.settimeout(timeout)
        said = b""
        while True:
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                return said
            if not more:
                return said
            said += more


def test_a_server_of_it_needs_its_token_and_outlives_who_sends_nonsense(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    httpx = pytest.importorskip("httpx")
    export_sharing(WORLD, baseline("fifo"), "scheduler-plugin", tmp_path / "plugin")
    token = tmp_path / "token"
    token.write_text("secret-of-the-cluster\n")
    token.chmod(0o600)
    command = [sys.executable, "-m", "meshwright.runtime.sharing", "extend", "plugin/arbiter.json"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--token-file", "token", "--head-s", "1", "--body-s", "1"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        found = re.search(r"extender at 127\.0\.0\.1:(\d+)", process.stderr.readline())
        assert found is not None
        port = int(found[1])
        url = f"http://127.0.0.1:{port}"
        bearer = b"Authorization: Bearer secret-of-the-cluster\r\n"
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + bearer
        for length in ("\u00b2".encode(), b"-1", b"1e3", b"1, 2", b"9" * 400):
            assert raw(port, head + b"Content-Length: " + length + b"\r\n\r\nxx").split()[1] in (b"400", b"413"), length
        deep = b"[" * 200_000 + b"]" * 200_000
        for body in (deep, b'{"pod": 1e999}', b'{"pod": NaN}', b'{"pod": Infinity}', b"\xff", b""):
            said = raw(port, head + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
            assert said.split()[1] == b"400", body[:20]
        assert raw(port, head + b"Content-Length: 2097152\r\n\r\nxx").split()[1] == b"413"
        assert raw(port, b"POST /filter HTTP/1.1\r\nHost: x\r\n").split()[1] == b"408", "a head that never ends"
        assert raw(port, head + b"Content-Length: 50\r\n\r\n{").split()[1] == b"408", "a body that never ends"
        for secret in (None, "Bearer wrong", "Basic d3Jvbmc6d3Jvbmc=", "Bearer", "Basic secret-of-the-cluster"):
            headers = {} if secret is None else {"Authorization": secret}
            assert httpx.get(f"{url}/", headers=headers).status_code == 401
            assert httpx.delete(f"{url}/apps/x", headers=headers).status_code == 401
        # kube-scheduler carries the token as the password in its urlPrefix.
        made = httpx.post(f"http://kube:secret-of-the-cluster@127.0.0.1:{port}/apps", json=app("x", 4))
        assert made.status_code == 201
        mine = {"Authorization": "Bearer secret-of-the-cluster"}
        assert httpx.delete(f"{url}/apps/x", headers=mine).status_code == 403
        report = {"jobs": [{"job": 0, "left_s": 1.0}]}
        assert httpx.post(f"{url}/apps/x/report", json=report, headers=mine).status_code == 403
        assert remote_refusal(url, "secret-of-the-cluster") == "this service gives GPUs itself"
        assert (
            httpx.delete(f"{url}/apps/x", headers=mine | {"X-Meshwright-App-Key": made.json()["key"]}).status_code
            == 200
        )
        process.terminate()
        _, complained = process.communicate(timeout=60)
        assert process.returncode == 0
        assert complained == ""
    finally:
        process.kill()
        process.communicate()


def remote_refusal(url: str, token: str) -> str:
    with pytest.raises(RunError) as refused:
        remote_views(url, token)("x", 0, 0.0, (), ())
    found = re.search(r"refused: 403 .*view: (.*?);", str(refused.value))
    return found[1] if found is not None else str(refused.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_it_listens_on_loopback_unless_there_is_a_token(tmp_path: Path, host: str, capsys: Any) -> None:
    pytest.importorskip("uvicorn")
    from meshwright.runtime.sharing.__main__ import main

    export_sharing(WORLD, baseline("fifo"), "scheduler-plugin", tmp_path)
    assert main(["extend", str(tmp_path / "arbiter.json"), "--host", host, "--port", "0"]) == 2
    assert "without a token anybody" in capsys.readouterr().err


def test_a_file_has_no_code_run_that_only_it_names(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    """arbiter.json and a journal are data of others: their policies are shipped ones, or named by ``--policy`` too."""
    from meshwright.runtime.sharing.__main__ import main

    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef factory(): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    export_sharing(WORLD, baseline("fifo"), "scheduler-plugin", tmp_path / "plugin")
    about = tmp_path / "plugin/arbiter.json"
    said = json.loads(about.read_text())
    about.write_text(json.dumps(said | {"policy": "theirs:factory", "options": {}}))
    from meshwright.runtime.sharing import PolicyChoice, RunOptions
    from meshwright.runtime.sharing.arbiter.journal import Journal
    from meshwright.runtime.sharing.arbiter.serving import Task

    journal = Journal(tmp_path / "j.jsonl")
    task = Task(WORLD, PolicyChoice("theirs:factory"), RunOptions())
    journal.note("task", task=to_document(task), limit_s=1.0, port=0)
    journal.close()
    for command in (["extend", str(about), "--port", "0"], ["serve", "--resume", str(tmp_path / "j.jsonl")]):
        assert main(command) == 2
        heard = capsys.readouterr().err
        assert "add --policy theirs:factory" in heard
        assert heard.count("\n") == 1
        assert main([*command, "--policy", "fifo"]) == 2
        assert "as --policy says" in capsys.readouterr().err
        assert not (tmp_path / "ran").exists()
        assert main([*command, "--policy", "theirs:factory"]) == 2  # run, and no policy
        assert "is no policy" in capsys.readouterr().err
        assert (tmp_path / "ran").exists()
        (tmp_path / "ran").unlink()
        sys.modules.pop("theirs")


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
    key = "chosen-by-the-agent"
    for name in ("x", "y"):
        made = httpx.post(f"{desk}/apps", json=app(name, 4, 9000.0), headers={"X-Meshwright-App-Key": key})
        assert made.json()["key"] == key
    answers = [arbiter.filter(ask(pod(f"{a}-0", a, 4)))["nodenames"] for a in "xy"]
    assert sorted(node for nodes in answers for node in nodes) == ["machine-0", "machine-1"]
    # A view has the work that the agent reports, and the GPUs that the plugin says.
    report = {"jobs": [{"job": 0, "left_s": 77.0}]}
    httpx.post(f"{desk}/apps/x/report", json=report, headers={"X-Meshwright-App-Key": key}).raise_for_status()
    view = remote_views(desk)("x", 5, 0.0, (0, 1), (2,))
    assert (view.index, view.held, view.lapsed, view.jobs[0].left_s) == (5, (0, 1), (2,), 77.0)
    assert 1.0 <= view.contention <= 2.0  # x was alone until y came
    assert "ask the plugin" in httpx.post(f"{desk}/filter", json=ask(pod("x-1", "x", 1))).json()["error"]


def test_addresses_that_are_none_say_so() -> None:
    with pytest.raises(InputError, match=r"expected http://host:port \(got 'localhost'\)"):
        remote_views("localhost")
    with pytest.raises(RunError, match=r"http://127\.0\.0\.1:1 does not answer"):
        remote_views("http://127.0.0.1:1")("x", 0, 0.0, (), ())
