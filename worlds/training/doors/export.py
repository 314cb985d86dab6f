"""Export: a training plan as files that start it on another system."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ....runtime.export.training import export_training
from ....simulator.training.plan.file import TrainingPlan
from ...before import folder_of, one_plan
from ...door import Answer, Asked
from ...words import NEXT
from ..options import ExportOptions
from .own import module_of_plan

__all__ = ["exported"]


def exported(asked: Asked) -> Answer:
    """Write the files.

    Raises
    ------
    InputError
        On an unknown target, or a plan that it cannot hold; nothing is written then.
    """
    options, plan = cast(ExportOptions, asked.options), cast(TrainingPlan, one_plan(asked))
    path = Path(next(iter(asked.plans)))
    module = module_of_plan(plan, path)[0] if plan.model.module and options.to == "torch" else None
    more: dict[str, Any] = {} if module is None else {"module": module}
    paths = export_training(
        plan, options.to, folder_of(asked.out), plan_path=path if path.exists() else None, force=options.force,
        **more,
    )  # fmt: skip
    document = {"target": options.to, "files": [str(path) for path in paths]}
    return Answer(NEXT[options.to].format(out=asked.out), document, tuple(paths), written=tuple(paths))
