"""Kubernetes manifests: a StatefulSet and a headless Service per group, a router, and the plan in a ConfigMap."""

from __future__ import annotations

import math
from typing import Any

from ...errors import InputError
from ...simulator.serving.plan.file import GroupEntry, Plan
from ..listening import TOKEN_VARIABLE
from ..service.layout import held_models, nodes_of
from .options import ExportOptions
from .tree import File, compact, json_text, yaml_text

__all__ = ["TOKEN_SECRET", "k8s", "token_variable"]

CONFIG_MAP_BYTES = 2**20
"""Largest ConfigMap that the API server takes."""

GROUP_PORT, RENDEZVOUS_PORT = 8000, 29500
GPU = "nvidia.com/gpu"
SPREAD = "kubernetes.io/hostname"
TOKEN_SECRET = "meshwright-token"
"""Name of the Secret whose key ``token`` holds the bearer token; whoever applies the manifests makes it."""

Manifest = dict[str, Any]


def k8s(plan: Plan, options: ExportOptions) -> dict[str, File]:
    """One file per part, and a ``kustomization.yaml`` that applies them all: ``kubectl apply -k DIR``.

    Raises
    ------
    InputError
        If the plan is too large for a ConfigMap, a model cannot be built, or the plan carries no stage latencies.
    """
    plan.planned_profiles()
    for number in range(len(plan.groups)):
        held_models(plan, number)
    space = options.namespace
    backends = [
        f"http://group-{number}-0.group-{number}.{space}.svc:{GROUP_PORT}" for number in range(len(plan.groups))
    ]
    data = {"plan.json": plan.to_json(), "router.json": json_text({"backends": backends})}
    size = sum(len(text.encode()) for text in data.values())
    if size > CONFIG_MAP_BYTES - 4096:
        raise InputError(
            f"export: the plan takes {size} bytes, a ConfigMap holds {CONFIG_MAP_BYTES}; plan fewer models or groups "
            "at once"
        )
    files = {
        "namespace.yaml": File(yaml_text(_object("v1", "Namespace", space, None))),
        "config.yaml": File(yaml_text({**_object("v1", "ConfigMap", "plan", options), "data": data})),
        "router.yaml": File(yaml_text(*_router(options))),
    }
    for number, group in enumerate(plan.groups):
        if group.models:
            files[f"group-{number}.yaml"] = File(yaml_text(*_group(plan, group, number, options)))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    return {**files, "kustomization.yaml": File(yaml_text(kustomization))}


def _object(api: str, kind: str, name: str, options: ExportOptions | None, part: str = "plan") -> Manifest:
    metadata: Manifest = {"name": name, "labels": _labels(part)}
    if options is not None:
        metadata["namespace"] = options.namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def _labels(part: str) -> dict[str, str]:
    return {"app.kubernetes.io/part-of": "meshwright", "app.kubernetes.io/component": part}


def _group(plan: Plan, group: GroupEntry, number: int, options: ExportOptions) -> list[Manifest]:
    """The Service that gives the pods names, and the StatefulSet: a pod per node that the group is on."""
    name = f"group-{number}"
    places = nodes_of(plan, group)
    per_pod = math.gcd(*(len(devices) for devices in places.values()))  # all pods of a StatefulSet are alike
    pods = len(group.devices) // per_pod
    kind = options.kind(plan)
    service = {
        **_object("v1", "Service", name, options, name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # the pods must find each other before they are ready
            "selector": _labels(name),
            "ports": [_port("http", GROUP_PORT), _port("rendezvous", RENDEZVOUS_PORT)],
        },
    }
    command = [
        *("python", "-m", "torch.distributed.run", f"--nnodes={pods}", "--node-rank=$(NODE_RANK)"),
        *(f"--nproc-per-node={per_pod}", f"--master-addr={name}-0.{name}.{options.namespace}.svc"),
        *(f"--master-port={RENDEZVOUS_PORT}", "-m", "meshwright.runtime.service.group"),
        *("--plan", "/etc/meshwright/plan.json", "--group", str(number)),
        *("--host", "0.0.0.0", "--port", str(GROUP_PORT), "--device", kind),
    ]
    resources = {GPU: str(per_pod)} if kind == "cuda" else {"cpu": str(per_pod)}
    container = {
        **_container("group", options, command, GROUP_PORT, slow_start=True),
        "env": [
            token_variable(TOKEN_VARIABLE),
            {
                "name": "NODE_RANK",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}},
            },
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ],
        "resources": {"requests": resources, "limits": resources},
    }
    container["volumeMounts"] = [*container["volumeMounts"], {"name": "shm", "mountPath": "/dev/shm"}]
    template = _template(name, container, [{"name": "shm", "emptyDir": {"medium": "Memory"}}])
    template["metadata"]["annotations"] = {
        "meshwright/config": str(group.config),
        "meshwright/models": compact(list(group.models)),
    }
    if pods > 1:
        template["spec"]["affinity"] = {"podAntiAffinity": _apart(name, strict=pods == len(places))}
    stateful = {
        **_object("apps/v1", "StatefulSet", name, options, name),
        "spec": {
            "serviceName": name,
            "replicas": pods,
            "podManagementPolicy": "Parallel",  # no pod is ready before all are there
            "selector": {"matchLabels": _labels(name)},
            "template": template,
        },
    }
    return [service, stateful]


def _apart(name: str, strict: bool) -> Manifest:
    """Pods of a group on different nodes: always if each pod is all of its node's share, else where possible."""
    term = {"labelSelector": {"matchLabels": _labels(name)}, "topologyKey": SPREAD}
    if strict:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


def _router(options: ExportOptions) -> list[Manifest]:
    command = [
        *("python", "-m", "meshwright.runtime.service.router", "--plan", "/etc/meshwright/plan.json"),
        *("--config", "/etc/meshwright/router.json", "--host", "0.0.0.0", "--port", str(options.port)),
    ]
    container = {
        **_container("router", options, command, options.port, slow_start=False),
        "env": [token_variable(TOKEN_VARIABLE)],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    }
    deployment = {
        **_object("apps/v1", "Deployment", "router", options, "router"),
        "spec": {
            "replicas": 1,  # its queues are its own: two routers would each see half
            "selector": {"matchLabels": _labels("router")},
            "template": _template("router", container, []),
        },
    }
    service = {
        **_object("v1", "Service", "router", options, "router"),
        "spec": {"selector": _labels("router"), "ports": [_port("http", options.port)]},
    }
    return [service, deployment]


def _container(name: str, options: ExportOptions, command: list[str], port: int, *, slow_start: bool) -> Manifest:
    probe: Manifest = {"httpGet": {"path": "/v2/health/ready", "port": port}, "periodSeconds": 5}
    container: Manifest = {
        "name": name,
        "image": options.meshwright_image(),
        "command": command,
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": probe,
        "volumeMounts": [{"name": "plan", "mountPath": "/etc/meshwright", "readOnly": True}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if slow_start:  # weights are made before the port opens
        container["startupProbe"] = {**probe, "failureThreshold": 360}
    return container


def _template(part: str, container: Manifest, volumes: list[Manifest]) -> Manifest:
    return {
        "metadata": {"labels": _labels(part)},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "plan", "configMap": {"name": "plan"}}, *volumes],
        },
    }


def token_variable(name: str) -> Manifest:
    """An environment variable that holds the token: what listens beyond its pod wants one, probes do without."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": TOKEN_SECRET, "key": "token"}}}


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "targetPort": number}
