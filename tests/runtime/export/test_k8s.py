"""Kubernetes manifests, read by Kubernetes' own client: every field known, of its type, none missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_objects import KINDS, read
from meshwright.errors import InputError
from meshwright.runtime.export import export
from meshwright.simulator import Group, ParallelConfig, Plan


def load(folder: Path) -> list[Any]:
    """All objects that the kustomization names."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert set(listed) == {p.name for p in folder.glob("*.yaml")} - {"kustomization.yaml"}
    return [
        read(document, KINDS[document["apiVersion"], document["kind"]], name)
        for name in listed
        for document in yaml.safe_load_all((folder / name).read_text())
    ]


def of_kind(objects: list[Any], kind: str) -> dict[str, Any]:
    return {o.metadata.name: o for o in objects if o.kind == kind}


def test_reader_of_this_test_refuses_nonsense() -> None:
    """The check that checks: an unknown field, a wrong type, a missing field."""
    good = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1}]}}
    assert read(good, "V1Service", "x").spec.ports[0].port == 1
    with pytest.raises(AssertionError, match="unknown fields"):
        read({**good, "spec": {"prots": []}}, "V1Service", "x")
    with pytest.raises(AssertionError, match="expected int"):
        read({**good, "spec": {"ports": [{"port": "1"}]}}, "V1Service", "x")
    with pytest.raises(ValueError, match="port"):
        read({**good, "spec": {"ports": [{"name": "a"}]}}, "V1Service", "x")


def test_client_reads_every_manifest(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "k8s", tmp_path / "x", image="registry.example/mw:1", namespace="serving")
    objects = load(tmp_path / "x")
    assert sorted((o.kind, o.metadata.name) for o in objects) == sorted(
        [
            ("Namespace", "serving"),
            ("ConfigMap", "plan"),
            ("Service", "router"),
            ("Deployment", "router"),
            *((kind, f"group-{g}") for kind in ("Service", "StatefulSet") for g in range(4)),
        ]
    )
    for o in objects:
        assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", o.metadata.name)
        if o.kind != "Namespace":
            assert o.metadata.namespace == "serving"
        for value in o.metadata.labels.values():
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value)


def test_groups_ask_for_their_devices(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "k8s", tmp_path / "x", image="registry.example/mw:1")
    objects = load(tmp_path / "x")
    sets, services = of_kind(objects, "StatefulSet"), of_kind(objects, "Service")
    gpus = {}
    for name, stateful in sets.items():
        spec = stateful.spec
        pod = spec.template.spec
        (container,) = pod.containers
        assert container.image == "registry.example/mw:1"
        assert container.resources.requests == container.resources.limits
        gpus[name] = (spec.replicas, container.resources.limits["nvidia.com/gpu"])
        assert spec.selector.match_labels.items() <= spec.template.metadata.labels.items()
        assert services[spec.service_name].spec.selector == spec.selector.match_labels
        assert services[spec.service_name].spec.cluster_ip == "None"
        assert spec.pod_management_policy == "Parallel"
        assert {m.name for m in container.volume_mounts} == {v.name for v in pod.volumes}
    assert gpus == {"group-0": (1, "2"), "group-1": (1, "2"), "group-2": (1, "2"), "group-3": (1, "1")}


def test_group_over_nodes_has_a_pod_on_each(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(2, 4), ["m"])], nodes=2, device="a100-80gb")
    export(plan, "k8s", tmp_path / "x")
    spec = of_kind(load(tmp_path / "x"), "StatefulSet")["group-0"].spec
    assert spec.replicas == 2
    (container,) = spec.template.spec.containers
    assert container.resources.limits == {"nvidia.com/gpu": "4"}
    assert {"--nnodes=2", "--nproc-per-node=4", "--node-rank=$(NODE_RANK)"} <= set(container.command)
    assert "--master-addr=group-0-0.group-0.meshwright.svc" in container.command
    assert {e.name for e in container.env} >= {"NODE_RANK"}
    apart = spec.template.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    assert apart[0].topology_key == "kubernetes.io/hostname"


def test_uneven_group_gets_equal_pods(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    """Three devices on one node and one on the other: four pods of one device, spread where possible."""
    plan = make_plan([Group(ParallelConfig(1, 4), ["m"], (1, 2, 3, 4))], nodes=2, device="a100-80gb")
    export(plan, "k8s", tmp_path / "x")
    spec = of_kind(load(tmp_path / "x"), "StatefulSet")["group-0"].spec
    assert spec.replicas == 4
    assert spec.template.spec.containers[0].resources.limits == {"nvidia.com/gpu": "1"}
    assert spec.template.spec.affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution


def test_torchruns_parser_reads_the_pods_command(pipelines: Plan, tmp_path: Path) -> None:
    run = pytest.importorskip("torch.distributed.run", reason="torch is not installed")
    export(pipelines, "k8s", tmp_path / "x")
    for stateful in of_kind(load(tmp_path / "x"), "StatefulSet").values():
        command = stateful.spec.template.spec.containers[0].command
        assert command[:3] == ["python", "-m", "torch.distributed.run"]
        words = [w.replace("$(NODE_RANK)", "0") for w in command[3:]]
        assert run.get_args_parser().parse_args(words).training_script == "meshwright.runtime.service.group"


def test_config_map_holds_plan_and_router(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "k8s", tmp_path / "x")
    data = of_kind(load(tmp_path / "x"), "ConfigMap")["plan"].data
    assert Plan.from_json(data["plan.json"]) == pipelines
    backends = json.loads(data["router.json"])["backends"]
    assert backends == [f"http://group-{g}-0.group-{g}.meshwright.svc:8000" for g in range(4)]
    from meshwright.runtime.service.router import Router

    assert Router(pipelines, backends).models == ["a", "b", "c"]


def test_cores_instead_of_gpus(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    export(make_plan([Group(ParallelConfig(2, 1), ["m"])]), "k8s", tmp_path / "x")
    spec = of_kind(load(tmp_path / "x"), "StatefulSet")["group-0"].spec
    assert spec.template.spec.containers[0].resources.limits == {"cpu": "2"}


def test_group_without_models_gets_no_pods(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    export(make_plan([Group(ParallelConfig(1, 1), ["m"]), Group(ParallelConfig(1, 1))]), "k8s", tmp_path / "x")
    assert list(of_kind(load(tmp_path / "x"), "StatefulSet")) == ["group-0"]


def test_plan_too_large_for_a_config_map(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), [f"model-{i:05d}-{'x' * 200}" for i in range(2000)])])
    with pytest.raises(InputError, match="a ConfigMap holds 1048576"):
        export(plan, "k8s", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_hostile_names_are_data(make_plan: Callable[..., Plan], hostile: tuple[str, ...], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), hostile)])
    export(plan, "k8s", tmp_path / "x")
    objects = load(tmp_path / "x")
    stateful = of_kind(objects, "StatefulSet")["group-0"]
    assert json.loads(stateful.spec.template.metadata.annotations["meshwright/models"]) == list(hostile)
    assert Plan.from_json(of_kind(objects, "ConfigMap")["plan"].data["plan.json"]) == plan
    command = " ".join(stateful.spec.template.spec.containers[0].command)
    assert "pwned" not in command
    assert "rm -rf" not in command
