"""A Triton model repository per node: a python-backend model per pipeline stage, an ensemble that joins the stages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from importlib.resources import files as package_files
from typing import Any

from ...errors import InputError
from ...kernels.specs import N_LABELS
from ...simulator.serving.plan.file import Plan
from ..service.layout import Held, held_models, nodes_of
from .names import file_names
from .options import ExportOptions
from .pbtxt import Enum, pbtxt
from .tree import File, compact, json_text

__all__ = ["triton"]

IMAGE = "nvcr.io/nvidia/tritonserver:25.06-py3"
DTYPES = {"float32": "TYPE_FP32", "float16": "TYPE_FP16", "bfloat16": "TYPE_BF16"}

START = """\
#!/usr/bin/env bash
# Starts Triton on this repository. The rate limiter gives a device to one stage at a time, as the plan assumes.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
: "${{BIND:=127.0.0.1}}"  # Triton asks nobody who they are: put something before it that does, and set BIND for that
exec tritonserver --model-repository="$PWD/models" --http-port={port} --http-address="$BIND" --grpc-address="$BIND" \
  --metrics-address="$BIND" --rate-limit=execution_count {resources} "$@"
"""

Message = dict[str, Any]


def triton(plan: Plan, options: ExportOptions) -> dict[str, File]:
    """``node-K/models/NAME/…`` and ``node-K/start.sh``, and ``names.json``: model -> the nodes and names that serve it.

    Raises
    ------
    InputError
        If a group spans nodes, which a Triton server cannot, or a model cannot be built.
    """
    program = package_files("meshwright.runtime.export").joinpath("triton_model.py.txt").read_text(encoding="utf-8")
    names = file_names(plan.placement.models)
    files: dict[str, File] = {}
    served: dict[str, list[str]] = {}
    for node in range(plan.cluster.nodes):
        variants = _variants(plan, node)
        for (model, key), numbers in variants.items():
            alone = sum(name == model for name, _ in variants) == 1
            shown = names[model] if alone else f"{names[model]}-{key}"
            served.setdefault(model, []).append(f"node-{node}/{shown}")
            parts = _models(plan, model, shown, numbers, options)
            for name, config in parts.items():
                folder = f"node-{node}/models/{name}"
                files[f"{folder}/config.pbtxt"] = File(pbtxt(config))
                is_stage = "ensemble_scheduling" not in config
                files[f"{folder}/1/{'model.py' if is_stage else 'README'}"] = File(
                    program if is_stage else "An ensemble has no file of its own; Triton wants the version folder.\n"
                )
        devices = sorted({d for numbers in variants.values() for g in numbers for d in _local(plan, g)})
        if devices:
            limits = shlex.join(f"--rate-limit-resource=device-{d}:1" for d in devices)
            start = START.format(port=options.port, resources=limits)
            files[f"node-{node}/start.sh"] = File(start, executable=True)
    about = {"image": options.image or IMAGE, "models": served}
    return {**files, "names.json": File(json_text(about)), "plan.json": File(plan.to_json())}


def _variants(plan: Plan, node: int) -> dict[tuple[str, str], list[int]]:
    """(model, how it is cut) -> the groups of a node that hold it so."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, group in enumerate(plan.groups):
        places = nodes_of(plan, group)
        if len(places) > 1 and group.models:
            raise InputError(
                f"export: groups[{number}] spans nodes {', '.join(map(str, places))}; a Triton server owns the devices "
                "of one node: plan groups that fit in a node, or export to k8s or torchrun"
            )
        if next(iter(places)) != node:
            continue
        for model, held in held_models(plan, number).items():
            cuts = "-".join(map(str, held.cuts[1:-1]))
            found.setdefault((model, f"{group.config}{f'-at-{cuts}' if cuts else ''}"), []).append(number)
    return found


def _local(plan: Plan, number: int) -> list[int]:
    (devices,) = nodes_of(plan, plan.groups[number]).values()
    return devices


def _models(plan: Plan, model: str, shown: str, numbers: list[int], options: ExportOptions) -> dict[str, Message]:
    """Triton name -> config of the parts of one model: a stage each, and the ensemble if there are several."""
    group = plan.groups[numbers[0]]
    held = held_models(plan, numbers[0])[model]
    stages = {}
    for k in range(group.pp):
        name = shown if group.pp == 1 else f"{shown}-stage-{k}"
        devices = [_local(plan, g)[k * group.op : (k + 1) * group.op] for g in numbers]
        stages[name] = _stage(held, name, k, devices, plan.serving.max_batch, options.kind(plan))
    if group.pp == 1:
        return stages
    return {**stages, shown: _ensemble(held, shown, list(stages), plan.serving.max_batch)}


def _stage(held: Held, name: str, k: int, places: list[list[int]], max_batch: int, kind: str) -> Message:
    """One stage: an instance on the devices of each group, and a rate-limiter resource per device."""
    last = len(held.cuts) - 2
    spec = held.spec
    parameters = {
        "architecture": compact({f: getattr(spec, f) for f in spec.__dataclass_fields__ if f != "name"}),
        "seed": str(held.seed),
        "first": str(held.cuts[k]),
        "last": str(held.cuts[k + 1]),
        "kind": kind,
        "devices": compact(places),
    }
    config: Message = {
        "name": name,
        "backend": "python",
        "max_batch_size": max_batch,
        "input": [_tokens(held) if k == 0 else _hidden(held, "input")],
        "output": [_answer(held) if k == last else _hidden(held, "output")],
        "instance_group": [{"name": f"{name}_{i}", **_instance(devices, kind)} for i, devices in enumerate(places)],
        "parameters": [{"key": key, "value": {"string_value": value}} for key, value in parameters.items()],
    }
    if max_batch > 1:
        config["dynamic_batching"] = {"max_queue_delay_microseconds": 0}
    return config


def _instance(devices: list[int], kind: str) -> Message:
    resources = [{"name": f"device-{d}", "global": True, "count": 1} for d in devices]
    place = {"kind": Enum("KIND_GPU"), "gpus": devices} if kind == "cuda" and len(devices) == 1 else {}
    return {
        "count": 1,
        # several devices of one instance, or cores: the model places its shares itself
        **(place or {"kind": Enum("KIND_MODEL" if kind == "cuda" else "KIND_CPU")}),
        "rate_limiter": {"resources": resources},
    }


def _ensemble(held: Held, shown: str, stages: Iterable[str], max_batch: int) -> Message:
    names = list(stages)
    steps = []
    for k, name in enumerate(names):
        given = ("tokens", "tokens") if k == 0 else ("input", f"hidden-{k}")
        gives = ("output", "output") if k == len(names) - 1 else ("output", f"hidden-{k + 1}")
        steps.append(
            {
                "model_name": name,
                "model_version": -1,
                "input_map": [{"key": given[0], "value": given[1]}],
                "output_map": [{"key": gives[0], "value": gives[1]}],
            }
        )
    return {
        "name": shown,
        "platform": "ensemble",
        "max_batch_size": max_batch,
        "input": [_tokens(held)],
        "output": [_answer(held)],
        "ensemble_scheduling": {"step": steps},
    }


def _tokens(held: Held) -> Message:
    return {"name": "tokens", "data_type": Enum("TYPE_INT64"), "dims": [held.spec.seq_len]}


def _hidden(held: Held, name: str) -> Message:
    spec = held.spec
    return {"name": name, "data_type": Enum(DTYPES[spec.dtype]), "dims": [spec.seq_len, spec.hidden]}


def _answer(held: Held) -> Message:
    spec = held.spec
    if spec.family == "bert":
        return {"name": "output", "data_type": Enum(DTYPES[spec.dtype]), "dims": [N_LABELS]}
    return {"name": "output", "data_type": Enum("TYPE_FP32"), "dims": [spec.seq_len, 2]}
