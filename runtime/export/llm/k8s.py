"""Kubernetes manifests: engines on one node as a StatefulSet, on several as LeaderWorkerSets; nginx before them."""

from __future__ import annotations

from typing import Any

from ....errors import InputError
from ....simulator.llm.plan.entries import Deployment
from ....simulator.llm.plan.file import LLMPlan
from ..k8s import token_variable
from ..names import dns_names
from ..options import ExportOptions
from ..tree import File, json_text, yaml_text
from .about import IMAGE, capacity_text, checked, sources
from .arguments import Server, arguments, servers
from .routing import nginx, weight
from .scripts import client_ports

__all__ = ["k8s"]

PORT, SIDE_CHANNEL = 8000, 5600
GPU = "nvidia.com/gpu"
ACCELERATOR = "accelerator"
"""Label of nodes by which pods of a plan over several device types find theirs: ``accelerator=l40s-48gb``."""

Manifest = dict[str, Any]


def k8s(plan: LLMPlan, options: ExportOptions) -> dict[str, File]:
    """One file per deployment, a router, and a ``kustomization.yaml`` that applies them: ``kubectl apply -k DIR``.

    Engines over several nodes need the LeaderWorkerSet controller (``leaderworkerset.x-k8s.io/v1``) in the cluster.
    Where a plan has several device types, nodes need the label ``accelerator`` with the plan's name of theirs.

    Raises
    ------
    InputError
        If devices are not GPUs, deployments share some, or vLLM or nginx cannot do what the plan says.
    """
    checked(plan, options)
    _apart(plan)
    found, engines, space = sources(plan, options), servers(plan, PORT), options.namespace
    names = dns_names([d.name for d in plan.deployments])
    files = {
        "namespace.yaml": File(yaml_text(_object("v1", "Namespace", space, ""))),
    }
    addresses: dict[str, list[str]] = {}
    listed: dict[str, Any] = {}
    for deployment in plan.deployments:
        mine = [s for s in engines if s.deployment is deployment]
        name = names[deployment.name]
        documents, reached = _engines(plan, deployment, mine, name, found[deployment.model], options)
        files[f"{name}.yaml"] = File(yaml_text(*documents))
        urls = [f"http://{address}/v1" for address in reached]
        listed.setdefault(deployment.model, {}).setdefault(
            "servers" if deployment.role == "both" else deployment.role, []
        ).extend(urls)
        if deployment.role == "both":
            dealt = weight(plan, mine[0])
            addresses.setdefault(deployment.model, []).extend(f"{address}{dealt}" for address in reached)
    clients = client_ports(plan, options.port)
    safe = dns_names(clients)
    if addresses:
        routed = [(safe[model], clients[model], reached) for model, reached in addresses.items()]
        files["router.yaml"] = File(yaml_text(*_router(nginx(plan.router, routed), routed, options)))
        for model in addresses:
            listed[model]["clients"] = f"http://router.{space}.svc:{clients[model]}/v1"
    resources = sorted(files)
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
    return {
        **files,
        "kustomization.yaml": File(yaml_text(kustomization)),
        "plan.json": File(plan.to_json()),
        "endpoints.json": File(json_text(listed)),
        "capacity.txt": File(capacity_text(plan, engines)),
    }


def _apart(plan: LLMPlan) -> None:
    owner: dict[int, str] = {}
    for deployment in plan.deployments:
        for device in {x for row in deployment.devices for x in row}:
            if device in owner:
                raise InputError(
                    f"export: {owner[device]!r} and {deployment.name!r} share device {device}; Kubernetes gives a GPU "
                    "to one pod: export to vllm, whose scripts share it"
                )
            owner[device] = deployment.name


def _engines(
    plan: LLMPlan, deployment: Deployment, mine: list[Server], name: str, source: str, options: ExportOptions
) -> tuple[list[Manifest], list[str]]:
    """The manifests of a deployment, and the addresses of its engines."""
    said, space = arguments(plan, mine[0], source, port=PORT), options.namespace
    shapes = {tuple(len(devices) for devices in server.nodes.values()) for server in mine}
    if len(shapes) > 1 or len(set(next(iter(shapes)))) > 1:
        raise InputError(
            f"export: deployment {deployment.name!r}: its engines lie differently on the nodes {sorted(shapes)}; "
            "pods of one kind are alike: plan engines that fill whole nodes or equal parts of them, or export to vllm"
        )
    (shape,) = shapes
    labels, device = _labels(name), plan.device_of(deployment).name if plan.pools else ""
    headless = {
        **_object("v1", "Service", name, space),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": [{"name": "http", "port": PORT, "targetPort": PORT}],
        },
    }
    if len(shape) == 1:
        pod = _pod(_container(said, shape[0], deployment, options), labels, device)
        stateful = {
            **_object("apps/v1", "StatefulSet", name, space),
            "spec": {
                "serviceName": name,
                "replicas": len(mine),
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": pod,
            },
        }
        return [headless, stateful], [f"{name}-{k}.{name}.{space}.svc:{PORT}" for k in range(len(mine))]
    together = ["--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)"]
    leader = _container([*said, *together], shape[0], deployment, options)
    worker = _container([*said, *together, "--headless"], shape[0], deployment, options)
    for probe in ("readinessProbe", "startupProbe"):
        worker.pop(probe)  # it does not listen
    workers = {
        **_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, space),
        "spec": {
            "replicas": len(mine),
            "leaderWorkerTemplate": {
                "size": len(shape),
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _pod(leader, labels, device),
                "workerTemplate": _pod(worker, labels, device),
            },
        },
    }
    # LeaderWorkerSet makes a headless service of its own name, in which leader k is called NAME-k.
    return [workers], [f"{name}-{k}.{name}.{space}.svc:{PORT}" for k in range(len(mine))]


def _container(said: list[str], gpus: int, deployment: Deployment, options: ExportOptions) -> Manifest:
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 5}
    container: Manifest = {
        "name": "vllm",
        "image": options.image or IMAGE,
        "args": said,
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": probe,
        "startupProbe": {**probe, "failureThreshold": 360},  # weights are read before the port opens
        "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "models", "mountPath": "/models"}],
    }
    container["env"] = [token_variable("VLLM_API_KEY")]
    if deployment.role != "both":
        own = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        container["env"] += [own, {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(SIDE_CHANNEL)}]
    return container


def _pod(container: Manifest, labels: dict[str, str], device: str) -> Manifest:
    volumes: list[Manifest] = [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "models", "hostPath": {"path": "/models", "type": "DirectoryOrCreate"}},
    ]
    spec: Manifest = {"containers": [container], "volumes": volumes}
    return {"metadata": {"labels": labels}, "spec": spec | ({"nodeSelector": {ACCELERATOR: device}} if device else {})}


def _router(config: str, routed: list[tuple[str, int, list[str]]], options: ExportOptions) -> list[Manifest]:
    space, labels = options.namespace, _labels("router")
    container = {
        "name": "nginx",
        "image": "nginx:1.29",
        "ports": [{"name": f"m{k}", "containerPort": port} for k, (_, port, _) in enumerate(routed)],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/nginx/nginx.conf", "subPath": "nginx.conf"}],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    }
    pod: Manifest = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "volumes": [{"name": "config", "configMap": {"name": "router"}}]},
    }
    ports = [{"name": f"m{k}", "port": port, "targetPort": port} for k, (_, port, _) in enumerate(routed)]
    return [
        {**_object("v1", "ConfigMap", "router", space), "data": {"nginx.conf": config}},
        {
            **_object("apps/v1", "Deployment", "router", space),
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
        },
        {**_object("v1", "Service", "router", space), "spec": {"selector": labels, "ports": ports}},
    ]


def _object(api: str, kind: str, name: str, space: str) -> Manifest:
    metadata: Manifest = {"name": name, "labels": {"app.kubernetes.io/part-of": "meshwright"}}
    return {"apiVersion": api, "kind": kind, "metadata": {**metadata, **({"namespace": space} if space else {})}}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/part-of": "meshwright", "app.kubernetes.io/component": name}
