"""``job.json`` and the constants of an exported program: all that its executor needs of plan, graph and module."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from .....profiles.graph import Graph
from .....simulator.training.plan.file import TrainingPlan
from .....simulator.training.plan.graph import in_plan_order
from ....training.module_values import module_values
from ....training.own.names import StateNames
from ....training.own.weights import save_weights
from ....training.run import program_of
from ....training.stage.statistics import kept_statistics
from ...tree import File, compact

if TYPE_CHECKING:
    from torch import Tensor

    from .....profiles.graph.module_loss import ModuleLoss

__all__ = ["constant_files", "job_document"]


ENTRY = "@entry"
"""Key that marks an object as an entry; `plan.py.txt` reads it."""


def job_document(plan: TrainingPlan, graph: Graph, module: ModuleLoss | None) -> str:
    """The plan with all of its fields, the graph in the plan's order, every mesh's program, the state dict's names."""
    small = in_plan_order(plan, graph)
    statistics = kept_statistics(plan, small)
    names = (
        StateNames.of_graph(small, statistics) if module is None else StateNames.of_module(module, small, statistics)
    )
    program = program_of(plan, small)
    parts: dict[str, Any] = {
        "plan": _fields(plan),
        "graph": json.loads(small.to_json()),
        "program": [[[a.op, a.stage, a.microbatch, a.peer, a.slice] for a in mine] for mine in program.actions],
        "names": names.document(),
    }
    return "{\n" + ",\n".join(f'"{key}": {compact(value)}' for key, value in parts.items()) + "\n}\n"


def _fields(x: Any) -> Any:
    """A plan's entry with all of its fields, those too that a file leaves out where they are as usual.

    Entries are marked, so that who reads them knows them from mappings.
    """
    if isinstance(x, BaseModel):
        return {ENTRY: type(x).__name__} | {name: _fields(getattr(x, name)) for name in type(x).model_fields}
    if isinstance(x, Mapping):
        return {str(key): _fields(value) for key, value in cast("Mapping[Any, Any]", x).items()}
    return [_fields(value) for value in cast("Sequence[Any]", x)] if isinstance(x, tuple | list) else x


def constant_files(plan: TrainingPlan, graph: Graph, module: ModuleLoss | None) -> dict[str, File]:
    """The module's buffers and constants that a run reads or updates, and what else its state dict holds."""
    if module is None:
        return {}
    small = in_plan_order(plan, graph)
    state = {key: x for key, x in module.module.state_dict().items() if x.device.type != "meta"}
    names = StateNames.of_module(module, small, kept_statistics(plan, small))
    files = {"constants": module_values(module, small), "kept": names.kept(state)}
    return {f"{name}.safetensors": File(_bytes(values)) for name, values in files.items() if values}


def _bytes(state: Mapping[str, Tensor]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return save_weights(Path(folder) / "x.safetensors", state).read_bytes()
