"""Buffers of a traced module (tables, masks, indices), which ranks must have from the module itself.

Parameters may be drawn from a seed, since any values train; buffers mean something, and come from the module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...profiles.graph import Graph
from ...profiles.graph.running import running_buffers

if TYPE_CHECKING:
    from torch import Tensor

    from ...profiles.graph.module_loss import ModuleLoss

__all__ = ["load_values", "module_values", "save_values"]


def module_values(module: ModuleLoss, graph: Graph) -> dict[str, Tensor]:
    """The module's buffers that the graph reads or keeps statistics in, and constants of its forward pass.

    Raises
    ------
    InputError
        If the graph has a parameter that the module does not have, or has in another shape.
    """
    buffers = module.buffers()
    read = (*(t.name for t in graph.parameters), *running_buffers(graph.operators))
    found = {name: buffers[name] for name in read if name in buffers}
    own = {name for name, _ in (*module.module.named_parameters(), *module.module.named_buffers())}
    missing = [t.name for t in graph.parameters if (t.name if t.part is None else t.part.of) not in own]
    if missing:
        lifted = module.lifted(missing)
        found |= {name: lifted[name] for name in missing if name in lifted}
    unknown = next((name for name in missing if name not in found), None)
    if unknown is not None:
        raise InputError(f"run: the module has no parameter {unknown!r}, which the planned graph reads; plan again")
    for t in graph.parameters:
        if t.name in found and tuple(found[t.name].shape) != t.shape:
            raise InputError(
                f"run: {t.name!r} has shape {tuple(found[t.name].shape)} in the module, {t.shape} in the planned "
                "graph; plan again"
            )
    return found


def save_values(values: Mapping[str, Tensor], folder: Path) -> str:
    """Write the values into a folder that ranks can read; returns the file's path."""
    import numpy as np

    path = folder / "values.npz"
    plain = {name: x.detach().cpu() for name, x in values.items()}
    halves = ("torch.bfloat16", "torch.float16")  # numpy knows no bfloat16
    arrays: dict[str, Any] = {n: (x.float() if str(x.dtype) in halves else x).numpy() for n, x in plain.items()}
    np.savez(path, allow_pickle=False, **arrays)
    return str(path)


def load_values(path: str, dtype: str, names: Collection[str]) -> dict[str, Tensor]:
    """Read those of the saved values that have these names; floating-point ones in the run's dtype."""
    import numpy as np
    import torch

    with np.load(path, allow_pickle=False) as file:
        found = {name: torch.from_numpy(file[name]) for name in file.files if name in names}
    return {name: x.to(getattr(torch, dtype)) if x.is_floating_point() else x for name, x in found.items()}
