"""Kueue: a flavor of the GPUs with their topology, queues with fair-sharing weights, a job to start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....simulator.sharing import SharingWorld
from ..names import dns_names
from ..tree import File, compact, yaml_text
from .fit import Fit
from .holdings import Holding

__all__ = ["kueue"]

API = "kueue.x-k8s.io/v1beta2"
CONFIG_API = "config.kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
RACK, HOST = "meshwright/rack", "kubernetes.io/hostname"
FLAVOR, TOPOLOGY, COHORT, SHARED = "gpus", "racks", "cluster", "shared"
NO_DECAY = "87600h0m0s"

Manifest = dict[str, Any]


def kueue(world: SharingWorld, fit: Fit, namespace: str, held: Sequence[Holding]) -> dict[str, File]:
    """The manifests, and a part of Kueue's own configuration.

    By share each app has a ClusterQueue in one cohort; otherwise all have a LocalQueue of one ClusterQueue, unless a
    decision gives each a ClusterQueue of its own: Kueue does not let a LocalQueue change its own later.
    """
    queues = list(dns_names(app.name for app in world.apps).values())
    shares = fit.order == "share"
    made = [_topology(), _flavor()]
    if shares:
        each, rest = divmod(world.cluster.n_gpus, len(queues))
        made += [_cluster_queue(q, each + (k < rest), fit, cohort=True) for k, q in enumerate(queues)]
    elif not held:
        made.append(_cluster_queue(SHARED, world.cluster.n_gpus, fit, cohort=False))
    for queue, app in zip(queues, world.apps, strict=True):
        made.append(_local_queue(queue, queue if shares or held else SHARED, namespace, fit))
        made[-1]["metadata"]["annotations"] = {"meshwright/app": app.name}
    files = {
        "namespace.yaml": File(yaml_text({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})),
        "queues.yaml": File(yaml_text(*made)),
        "kueue-config.yaml": File(yaml_text(_configuration(fit))),
        "job.yaml": File(yaml_text(_job(world, queues[0], namespace))),
        "node-labels.sh": File(_labels(world), executable=True),
    }
    if held:
        given = {h.app: h for h in held}
        decided = [_decision(queue, given.get(number)) for number, queue in enumerate(queues)]
        files["decision.yaml"] = File(yaml_text(*decided))
    return files


def _object(kind: str, name: str, spec: Manifest, namespace: str = "", api: str = API) -> Manifest:
    metadata: Manifest = {"name": name, "labels": {"app.kubernetes.io/part-of": "meshwright"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _topology() -> Manifest:
    return _object("Topology", TOPOLOGY, {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]})


def _flavor() -> Manifest:
    labels = {"app.kubernetes.io/managed-by": "meshwright"}
    return _object("ResourceFlavor", FLAVOR, {"nodeLabels": labels, "topologyName": TOPOLOGY})


def _quota(gpus: int, **limits: int) -> list[Manifest]:
    resources = [{"name": GPU, "nominalQuota": gpus, **limits}]
    return [{"coveredResources": [GPU], "flavors": [{"name": FLAVOR, "resources": resources}]}]


def _cluster_queue(name: str, gpus: int, fit: Fit, *, cohort: bool) -> Manifest:
    spec: Manifest = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",  # who does not fit stops nobody, as in the simulation
        "resourceGroups": _quota(gpus),
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
    }
    if cohort:
        spec |= {"cohortName": COHORT, "fairSharing": {"weight": 1}}
        if fit.kept == "no":  # the nearest thing to leases: who has more than its share gives back
            spec["preemption"]["reclaimWithinCohort"] = "Any"
    if fit.order == "usage":
        spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    return _object("ClusterQueue", name, spec)


def _local_queue(name: str, queue: str, namespace: str, fit: Fit) -> Manifest:
    spec: Manifest = {"clusterQueue": queue}
    if fit.order == "usage":
        spec["fairSharing"] = {"weight": 1}
    return _object("LocalQueue", name, spec, namespace)


def _configuration(fit: Fit) -> Manifest:
    made: Manifest = {"apiVersion": CONFIG_API, "kind": "Configuration"}
    if fit.order == "share":
        made["fairSharing"] = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    if fit.order == "usage":
        made["admissionFairSharing"] = {
            "usageHalfLifeTime": NO_DECAY, "usageSamplingInterval": "1m0s", "resourceWeights": {GPU: 1.0},
        }  # fmt: skip
    return made


def _job(world: SharingWorld, queue: str, namespace: str) -> Manifest:
    """A job of the first app: all of its tasks at once, as near to each other as can be had."""
    job = world.apps[0].jobs[0]
    tasks = min(job.gpus, world.cluster.n_gpus)  # a job of more would wait for ever
    container = {
        "name": "task", "image": "IMAGE", "command": ["python", "train.py"], "resources": {"limits": {GPU: "1"}},
    }  # fmt: skip
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-preferred-topology": HOST}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"suspend": True, "parallelism": tasks, "completions": tasks, "template": template}
    made = _object("Job", f"{queue}-job-0", spec, namespace, api="batch/v1")
    made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    return made


def _decision(name: str, held: Holding | None) -> Manifest:
    """An app's ClusterQueue with just the GPUs that it holds: no more can be borrowed, none is lent."""
    gpus = 0 if held is None else len(held.gpus)
    spec: Manifest = {
        "namespaceSelector": {}, "cohortName": COHORT, "resourceGroups": _quota(gpus, borrowingLimit=0, lendingLimit=0),
    }  # fmt: skip
    made = _object("ClusterQueue", name, spec)
    machines = {} if held is None else {f"machine-{m}": n for m, n in held.machines.items()}
    made["metadata"]["annotations"] = {"meshwright/machines": compact(machines)}
    return made


def _labels(world: SharingWorld) -> str:
    lines = ["#!/bin/sh", "# The nodes' racks; machine-K stands for the name of node K.", "set -eu"]
    for number, machine in enumerate(world.cluster.machines):
        label = f"{RACK}=rack-{machine.rack} app.kubernetes.io/managed-by=meshwright"
        lines.append(f"kubectl label --overwrite node machine-{number} {label}  # {machine.gpus} GPUs")
    return "\n".join(lines) + "\n"
