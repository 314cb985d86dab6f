"""Exporting: a placement as a folder that runs without Meshwright."""

from __future__ import annotations

from typing import cast

from ....runtime.export.collage import export_placement
from ...before import folder_of, one_plan
from ...door import Answer, Asked
from ..options import ExportOptions
from ..plan import InferencePlan
from .here import checked, compiler_of, network_of_plan, units_of

__all__ = ["exported"]


def exported(asked: Asked) -> Answer:
    """Write the folder; the placement is held against eager before.

    Raises
    ------
    InputError
        If the plan is not of this machine, a backend cannot be exported, or the folder holds other files.
    RunError
        If the placement is not the network.
    """
    options, plan = cast(ExportOptions, asked.options), cast(InferencePlan, one_plan(asked))
    out = folder_of(asked.out)
    captured = network_of_plan(plan, asked.folder)
    compiler = compiler_of(plan, captured)
    placed = compiler.placed(units_of(plan))
    checked(placed)
    paths = export_placement(placed, plan.model, out, force=options.force)
    text = f"{len(paths)} files in {out}; run it with: python {out}/run.py"
    document = {"target": options.to, "files": [str(path) for path in paths]}
    return Answer(text, document, tuple(paths), written=tuple(paths))
