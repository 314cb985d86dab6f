"""A plan for torch: DTensor placements of every parameter and activation, and programs that torchrun starts."""

from __future__ import annotations

from importlib.resources import files as package_files
from typing import Any

from ..... import __version__
from .....errors import InputError
from .....profiles.graph import Graph
from .....simulator.training.plan.file import TrainingPlan
from ....training.wires.layout import parse_layout
from ...options import ExportOptions
from ...tree import File, compact
from ..launch import launch_files, launch_line
from .bundle import bundle
from .chain import chain_files, why_no_chain
from .job import constant_files, job_document

__all__ = ["dtensor_placements", "placements_document", "torch_files"]

README = """\
# {model}, as planned, with torch

{devices} devices: {meshes}.

- `placements.json`: for every parameter, activation and optimiser state the DTensor placements on its stage's
  two-dimensional DeviceMesh, and its sharding spec (R whole, S0 and S1 cut over mesh axis 0 and 1).
- `train.py`: executes the plan's program (schedule {schedule}, {microbatches} microbatches): `{launch} train.py`.
  Needs torch alone: `executor/` is Meshwright's executor of plans as plain files, `job.json` the plan's program.
  `--data mine.py:batches`, `--weights in.safetensors`, `--save out.safetensors`, `--optimizer adamw:lr=3e-4`: `--help`.
{chain}
- `plan.json`, `graph.json`: what was planned, and for which graph.
{constants}"""

CHAIN = """\
- `train_torch.py`, `stages.py`, `meshed.py`: the same as readable torch: `{launch} train_torch.py`. Stages are modules
  on DTensor, run by torch's own `{schedule}`. Where an operator exchanges statistics over a cut dimension (a loss over
  a cut vocabulary) it is gathered first: same numbers, more bytes than planned."""

CONSTANTS = """\
- `constants.safetensors`, `kept.safetensors`: buffers, and entries of the state dict that the loss does not depend on.
"""

NO_CHAIN = "- There is no readable version on DTensor: {why}."


def torch_files(plan: TrainingPlan, graph: Graph, options: ExportOptions) -> dict[str, File]:
    """``placements.json``, ``train.py`` with its executor, and for uniform chains readable modules on DTensor.

    Raises
    ------
    InputError
        If the plan does not say how its operators are run.
    """
    silent = next((s for s, stage in enumerate(plan.stages) if not stage.operators), None)
    if silent is not None:
        raise InputError(f"export: stage {silent}: the plan does not say how its operators are run")
    devices = sum(m.hosts * m.devices for m in plan.meshes)
    launch = launch_line(plan)
    train = package_files("meshwright.runtime.export.training").joinpath("train.py.txt").read_text(encoding="utf-8")
    why = why_no_chain(plan, graph)
    native = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}.get(plan.schedule, "")
    constants = constant_files(plan, graph, options.module)
    readme = README.format(
        model=plan.model.name, devices=devices, schedule=plan.schedule, microbatches=plan.microbatches, launch=launch,
        meshes=", ".join(f"stage {s} on {a.logical[0]} x {a.logical[1]}" for s, a in enumerate(plan.stages)),
        constants=CONSTANTS if constants else "",
        chain=NO_CHAIN.format(why=why) if why else CHAIN.format(launch=launch, schedule=native),
    )  # fmt: skip
    return {
        "plan.json": File(
            plan.model_copy(update={"model": plan.model.model_copy(update={"graph": "graph.json"})}).to_json()
        ),
        "graph.json": File(graph.to_json()),
        "placements.json": File(_layout(placements_document(plan, graph))),
        "train.py": File(train.format(devices=devices, version=__version__)),
        "job.json": File(job_document(plan, graph, options.module)),
        **constants,
        **bundle("executor"),
        **launch_files(plan),
        "README.md": File(readme),
        **({} if why else chain_files(plan, graph)),
    }


def dtensor_placements(spec: str, dims: int, logical: tuple[int, int], name: str) -> list[str]:
    """``RS1`` -> ``["Replicate()", "Shard(1)"]``: what each axis of the mesh does; axes of one device replicate."""
    layout = parse_layout(spec, dims, logical, f"plan: {name}")
    found = ["Replicate()", "Replicate()"]
    for dim, cut in enumerate(layout):
        for axis in cut:
            found[axis] = f"Shard({dim})"
    return found


def placements_document(plan: TrainingPlan, graph: Graph) -> dict[str, Any]:
    """What ``placements.json`` holds."""
    return {
        "kind": "meshwright/dtensor-placements",
        "version": 1,
        "model": plan.model.name,
        "microbatch": plan.microbatch,
        "stages": [_stage(plan, graph, s) for s in range(len(plan.stages))],
    }


def _stage(plan: TrainingPlan, graph: Graph, s: int) -> dict[str, Any]:
    stage = plan.stages[s]

    def row(name: str, spec: str, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
        placed = dtensor_placements(spec, len(shape), stage.logical, name)
        return {"shape": list(shape), "dtype": dtype, "spec": spec, "placements": placed}

    parameters: dict[str, Any] = {}
    for name, kept in stage.parameters.items():
        tensor = graph.tensors[name]
        parameters[name] = row(name, kept, tensor.shape, tensor.dtype)
        state = stage.optimizer_states.get(name, kept)
        if state != kept:
            placed = dtensor_placements(state, len(tensor.shape), stage.logical, name)
            parameters[name]["optimizer_state"] = {"spec": state, "placements": placed}
    activations: dict[str, Any] = {}
    for name, entry in stage.operators.items():
        operator = graph.operators[graph.index[name]]
        activations[name] = row(name, entry.result, operator.shape, operator.dtype)
        reads = dict(zip(operator.inputs, entry.operands, strict=True))
        activations[name]["reads"] = reads
    return {
        "stage": s,
        "devices": list(plan.mesh(s).device_ids),
        "mesh_shape": list(stage.logical),
        "parameters": parameters,
        "activations": activations,
    }


def _layout(document: dict[str, Any]) -> str:
    """JSON with one tensor a line."""
    head = ",\n".join(f' "{k}": {compact(v)}' for k, v in document.items() if k != "stages")
    stages: list[str] = []
    for stage in document["stages"]:
        lines = [f'  "{k}": {compact(stage[k])}' for k in ("stage", "devices", "mesh_shape")]
        for kind in ("parameters", "activations"):
            rows = ",\n".join(f"   {compact(name)}: {compact(row)}" for name, row in stage[kind].items())
            lines.append(f'  "{kind}": {{\n{rows}\n  }}' if rows else f'  "{kind}": {{}}')
        stages.append("{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + head + ',\n "stages": [' + ", ".join(stages) + "]\n}\n"
