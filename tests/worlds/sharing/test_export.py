"""Policies as settings of Kueue and Slurm, and the scheduler extender: read back, and held against the simulation."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.runtime.export.sharing import TARGETS, export_sharing, fit_of, holdings_at
from meshwright.runtime.listening import Listening
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppView,
    Machine,
    SharedCluster,
    SharingWorld,
    baseline,
    simulate,
)  # fmt: skip
from meshwright.simulator.sharing.policy.split import RunningJob

CLUSTER = SharedCluster((Machine(4, 1, 0), Machine(4, 1, 1), Machine(2, 1, 1)))
WORLD = SharingWorld(
    CLUSTER,
    tuple(App.single(name, 0.0, 4000.0, gpus=4) for name in ("a; rm -rf /", "Vision", "b")),
)
QUEUE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

# Fields of Kueue's v1beta2 as its API reference lists them: kind -> path of a field -> what it holds.
FIELDS: dict[str, dict[str, type]] = {
    "ClusterQueue": {
        "resourceGroups": list, "cohortName": str, "queueingStrategy": str, "namespaceSelector": dict,
        "preemption": dict, "preemption.reclaimWithinCohort": str, "preemption.withinClusterQueue": str,
        "fairSharing": dict, "fairSharing.weight": int, "admissionScope": dict, "admissionScope.admissionMode": str,
    },
    "LocalQueue": {"clusterQueue": str, "fairSharing": dict, "fairSharing.weight": int},
    "ResourceFlavor": {"nodeLabels": dict, "topologyName": str},
    "Topology": {"levels": list},
}  # fmt: skip
ALLOWED = {
    "queueingStrategy": {"StrictFIFO", "BestEffortFIFO"},
    "preemption.reclaimWithinCohort": {"Never", "LowerPriority", "Any"},
    "preemption.withinClusterQueue": {"Never", "LowerPriority", "LowerOrNewerEqualPriority"},
    "admissionScope.admissionMode": {"UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"},
}


def _leaves(spec: dict[str, Any], kind: str, path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in spec.items():
        yield path + key, value
        if isinstance(value, dict) and f"{path}{key}" not in ("namespaceSelector", "nodeLabels"):
            yield from _leaves(value, kind, f"{path}{key}.")


def _queues(folder: Path, file: str = "queues.yaml") -> dict[str, list[dict[str, Any]]]:
    """Kueue's objects by kind; refuses a field or word that its API does not have."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in yaml.safe_load_all((folder / file).read_text()):
        assert one["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert set(one) == {"apiVersion", "kind", "metadata", "spec"}
        assert QUEUE.fullmatch(one["metadata"]["name"])
        assert ("namespace" in one["metadata"]) == (one["kind"] == "LocalQueue")
        for path, value in _leaves(one["spec"], one["kind"]):
            assert isinstance(value, FIELDS[one["kind"]][path]), path
            assert value in ALLOWED.get(path, {value}) if isinstance(value, str) else True
        found.setdefault(one["kind"], []).append(one)
    return found


def _gpus(queue: dict[str, Any]) -> int:
    (group,) = queue["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    (resource,) = flavor["resources"]
    assert group["coveredResources"] == [resource["name"]] == ["nvidia.com/gpu"]
    return resource["nominalQuota"]


@pytest.mark.parametrize("policy", ["themis", *BASELINES])
def test_kueue_has_the_whole_cluster_once_and_a_queue_for_each_app(tmp_path: Path, policy: str) -> None:
    made = Themis() if policy == "themis" else baseline(policy)
    export_sharing(WORLD, made, "kueue", tmp_path, namespace="ns")
    found = _queues(tmp_path)
    assert sum(_gpus(q) for q in found["ClusterQueue"]) == CLUSTER.n_gpus
    assert len(found["LocalQueue"]) == len({q["metadata"]["name"] for q in found["LocalQueue"]}) == len(WORLD.apps)
    clusters = {q["metadata"]["name"] for q in found["ClusterQueue"]}
    assert {q["spec"]["clusterQueue"] for q in found["LocalQueue"]} <= clusters
    order = fit_of("kueue", policy, made.preempts, 600.0).order
    assert len(clusters) == (len(WORLD.apps) if order == "share" else 1)
    config = yaml.safe_load((tmp_path / "kueue-config.yaml").read_text())
    assert ("fairSharing" in config, "admissionFairSharing" in config) == (order == "share", order == "usage")
    assert all(("cohortName" in q["spec"]) == (order == "share") for q in found["ClusterQueue"])


def test_kubernetes_own_client_reads_the_job(tmp_path: Path) -> None:
    client = pytest.importorskip("kubernetes.client", reason="the kubernetes client is not installed")
    export_sharing(WORLD, baseline("fifo"), "kueue", tmp_path)
    data = yaml.safe_load((tmp_path / "job.yaml").read_text())

    reader = client.ApiClient()
    job = reader._ApiClient__deserialize(data, "V1Job")
    assert client.ApiClient().sanitize_for_serialization(job) == data  # nothing was dropped
    assert job.spec.suspend is True
    assert job.spec.parallelism == job.spec.completions == WORLD.apps[0].jobs[0].gpus
    queues = {q["metadata"]["name"] for q in _queues(tmp_path)["LocalQueue"]}
    assert job.metadata.labels["kueue.x-k8s.io/queue-name"] in queues


def _conf(text: str) -> list[dict[str, str]]:
    """Lines of a Slurm file as mappings; refuses what is no ``key=value``."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [dict(word.split("=", 1) for word in line.split(" ")) for line in lines]


@pytest.mark.parametrize("policy", ["themis", "fifo", "drf", "tiresias", "srtf"])
def test_slurm_has_every_gpu_and_an_account_for_each_app(tmp_path: Path, policy: str) -> None:
    made = Themis() if policy == "themis" else baseline(policy)
    export_sharing(WORLD, made, "slurm", tmp_path)
    lines = _conf((tmp_path / "slurm.conf.part").read_text())
    nodes = {line["NodeName"]: int(line["Gres"].removeprefix("gpu:")) for line in lines if "NodeName" in line}
    assert list(nodes.values()) == [m.gpus for m in CLUSTER.machines]
    said = {key: value for line in lines for key, value in line.items()}
    assert said["MaxTime"] == ("0-00:10:00" if made.preempts else "UNLIMITED")  # the lease, 600 s
    order = fit_of("slurm", policy, made.preempts, 600.0).order
    assert said["PriorityType"] == ("priority/basic" if order == "arrival" else "priority/multifactor")
    assert said.get("PriorityDecayHalfLife") == {"usage": "0", "share": "0-00:05:00"}.get(order)
    cards = {
        node: len(range(*_span(line["File"]))) for line in _conf((tmp_path / "gres.conf").read_text())
        for node in line["NodeName"].split(",")
    }  # fmt: skip
    assert cards == nodes
    switches = _conf((tmp_path / "topology.conf").read_text())
    racks = {line["SwitchName"]: line["Nodes"].split(",") for line in switches if "Nodes" in line}
    assert racks == {"rack-0": ["machine-0"], "rack-1": ["machine-1", "machine-2"]}
    accounts = re.findall(r"add account (\S+) Parent=", (tmp_path / "accounts.sh").read_text())
    assert len(set(accounts)) == len(WORLD.apps)
    for script in ("accounts.sh", "job.sh"):
        assert subprocess.run(["bash", "-n", tmp_path / script], capture_output=True).returncode == 0
    assert "rm -rf" not in "".join(p.read_text() for p in tmp_path.glob("*.sh"))


def _span(file: str) -> tuple[int, int]:
    found = re.fullmatch(r"/dev/nvidia(?:\[0-(\d+)\]|0)", file)
    assert found is not None
    return 0, int(found[1] or 0) + 1


def test_decisions_are_those_of_the_simulation(tmp_path: Path) -> None:
    result = simulate(WORLD, baseline("fifo"), engine="simpy")
    held = {h.app: h for h in holdings_at(result, 10.0)}
    # First come first served: the first two have a machine of four each, the third the two that are left.
    assert {app: h.machines for app, h in held.items()} == {0: {0: 4}, 1: {1: 4}, 2: {2: 2}}
    export_sharing(WORLD, baseline("fifo"), "kueue", tmp_path / "k", at_s=10.0)
    quotas = [_gpus(q) for q in yaml.safe_load_all((tmp_path / "k/decision.yaml").read_text())]
    assert quotas == [4, 4, 2]
    export_sharing(WORLD, baseline("fifo"), "slurm", tmp_path / "s", at_s=10.0)
    assert re.findall(r"gres/gpu=(\d+)  # (\S+)", (tmp_path / "s/decision.sh").read_text()) == [
        ("4", "machine-0"), ("4", "machine-1"), ("2", "machine-2"),
    ]  # fmt: skip
    with pytest.raises(InputError, match="no app holds GPUs at 1e"):
        export_sharing(WORLD, baseline("fifo"), "kueue", tmp_path / "late", at_s=1e9)
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("target", ["kueue", "slurm"])
def test_what_cannot_be_said_is_said(tmp_path: Path, target: str) -> None:
    export_sharing(WORLD, Themis(), target, tmp_path / "t")
    text = (tmp_path / "t/README.md").read_text()
    assert f"**These settings are not themis**: {target.capitalize()} cannot express it." in text
    assert "nobody bids and nobody pays" in text
    assert (tmp_path / "t/plugin/extender.py").is_file()
    export_sharing(WORLD, baseline("tiresias"), target, tmp_path / "l")
    text = (tmp_path / "l/README.md").read_text()
    assert "order apps as tiresias does. What is otherwise" in text
    assert "lease" in text
    assert not (tmp_path / "l/plugin").exists()


def _extender(folder: Path, policy: Any) -> Any:
    export_sharing(WORLD, policy, "scheduler-plugin", folder)
    spec = importlib.util.spec_from_file_location("extender", folder / "extender.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _views(wants: dict[str, int]) -> Callable[..., AppView]:
    """Agents of apps of one job of so many GPUs each, alike in all else."""

    def view(app: str, number: int, now: float, held: tuple[int, ...], lapsed: tuple[int, ...]) -> AppView:
        job = RunningJob(0, 1000.0, wants[app], 1, held)
        one = App.single(app, 0.0, 1000.0, gpus=wants[app])
        return AppView(number, one, now + 1.0, 0, (job,), held, lapsed, 0.0, float(len(wants)), CLUSTER.n_gpus)

    return view


def _pod(name: str, app: str, gpus: int) -> dict[str, Any]:
    container = {"name": "task", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": {"name": name, "labels": {"meshwright/app": app}}, "spec": {"containers": [container]}}


@pytest.mark.parametrize("policy", [Themis(fairness=0.0, payments=False), baseline("fifo")], ids=lambda p: p.name)
def test_pods_fit_where_the_policy_gave_their_app_gpus(tmp_path: Path, policy: Any) -> None:
    module = _extender(tmp_path, policy)
    now = [0.0]
    arbiter = module.Arbiter(
        json.loads((tmp_path / "arbiter.json").read_text()), _views({"x": 4, "y": 4}), lambda: now[0]
    )
    assert arbiter.policy.name == policy.name
    nodes = [f"machine-{m}" for m in range(3)]
    first = arbiter.filter({"pod": _pod("x-0", "x", 4), "nodenames": nodes})
    second = arbiter.filter({"pod": _pod("y-0", "y", 4), "nodenames": nodes})
    taken = [*first["nodenames"], *second["nodenames"]]
    assert sorted(taken) == ["machine-0", "machine-1"]  # four near each other, and nobody on two of the last
    assert set(first["failedNodes"]) == set(nodes) - set(first["nodenames"])
    # All that x may have is used: another pod of it fits nowhere, nor does one that says not whose it is.
    assert arbiter.filter({"pod": _pod("x-1", "x", 1), "nodenames": nodes})["nodenames"] == []
    nobody = {"metadata": {"name": "z"}, "spec": {"containers": []}}
    assert "no label" in arbiter.filter({"pod": nobody, "nodenames": nodes})["failedNodes"]["machine-0"]
    assert arbiter.lapsed() == []
    owners = Counter(arbiter.owner.values())
    assert owners == {"x": 4, "y": 4}
    arbiter.leave("x")
    assert Counter(arbiter.owner.values()) == {"y": 4}


def test_a_lease_that_is_over_names_the_pods_that_must_go(tmp_path: Path) -> None:
    module = _extender(tmp_path, baseline("tiresias"))
    now, wants = [0.0], {"x": 10}
    arbiter = module.Arbiter(json.loads((tmp_path / "arbiter.json").read_text()), lambda *a: views(*a), lambda: now[0])
    views = _views(wants)
    assert arbiter.filter({"pod": _pod("x-0", "x", 2), "nodenames": ["machine-2"]})["nodenames"] == ["machine-2"]
    wants["x"] = 4  # it can use less by the end of the lease, and keeps four near each other
    now[0] = 601.0
    arbiter.decide()
    held = arbiter.holds("x")
    assert sum(held.values()) == 4
    assert arbiter.lapsed() == ([] if held["machine-2"] >= 2 else ["default/x-0"])


def test_the_stub_answers_over_http_and_says_what_it_lacks(tmp_path: Path) -> None:
    module = _extender(tmp_path, Themis(fairness=0.5))
    about = json.loads((tmp_path / "arbiter.json").read_text())
    assert (about["policy"], about["options"]["fairness"], about["lease_s"]) == ("themis", 0.5, 600.0)
    server = module.serve(module.Arbiter(about), Listening())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        body = json.dumps({"pod": _pod("x-0", "x", 1), "nodenames": ["machine-0"]}).encode()
        asked = urllib.request.Request(f"{server.url}/filter", body)
        with urllib.request.urlopen(asked, timeout=10) as answer:
            said = json.loads(answer.read())
        for wrong in (b"{", b"[]", b"{}", b'{"pod": 1, "nodenames": []}', b"[" * 50_000):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(urllib.request.Request(f"{server.url}/filter", wrong), timeout=10)
            assert caught.value.code == 400
    finally:
        server.drain()
        thread.join()
    with pytest.raises(InputError, match="expected a whole number from 0"):
        module.Arbiter(about).filter({"pod": _pod("x-0", "x", -5), "nodenames": ["machine-0"]})
    assert said["nodenames"] == []
    assert "connect the agent of app 'x'" in said["error"]
    config = yaml.safe_load((tmp_path / "scheduler.yaml").read_text())
    (extender,) = config["extenders"]
    assert extender["filterVerb"] == "filter"
    assert extender["urlPrefix"] == f"http://127.0.0.1:{about['port']}"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--to kueu --out o", ["unknown target 'kueu'", "did you mean 'kueue'?"]),
        ("--to kueue --out o --planner themsi", ["planner", "'themsi'", "did you mean 'themis'?"]),
        ("--to kueue --out o --planner themis,fifo", ["--planner", "export takes one"]),
        ("--to kueue --out o --namespace A_B", ["namespace", "'A_B'"]),
        ("--to kueue --out o --at -1", ["at", "greater than or equal to 0"]),
        ("--to scheduler-plugin --out o --at 5", ["the plugin decides by itself"]),
        ("--to kueue", ["--out is missing"]),
    ],
)
def test_slips_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text("world: sharing\ncluster: {devices: 8}\napps: [{name: a, jobs: [{work: 9}]}]\n")
    assert run(["export", "w.yaml", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert not Path("o").exists()


def test_the_verb_writes_every_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text("world: sharing\ncluster: {devices: 8}\napps: [{name: a, jobs: [{work: 9}]}]\n")
    for target in TARGETS:
        assert run(["export", "w.yaml", "--to", target, "--out", target, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["target"], said["policy"]) == (target, "themis")
        assert all(Path(path).is_file() for path in said["files"])
        assert said["kept"] == ("yes" if target == "scheduler-plugin" else "no")
        assert run(["export", "w.yaml", "--to", target, "--out", target]) == 0
        assert ("cannot express themis" in capsys.readouterr().out) == (said["kept"] == "no")
