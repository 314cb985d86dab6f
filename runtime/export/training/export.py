"""`export_training`: the files that start a training plan elsewhere."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .... import __version__
from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import check_graph, planned_graph
from ...training.configured import is_configured
from ..options import ExportOptions
from ..tree import File, write_tree
from .configured import decoder_files
from .deepspeed import deepspeed
from .megatron import megatron
from .nanotron import nanotron
from .torch import torch_files
from .torchtitan import torchtitan

__all__ = ["TRAINING_TARGETS", "export_training"]

TRAINING_TARGETS: dict[str, Callable[[TrainingPlan, Graph, ExportOptions], dict[str, File]]] = {
    "torch": torch_files,
    "megatron": megatron,
    "deepspeed": deepspeed,
    "nanotron": nanotron,
    "torchtitan": torchtitan,
}
"""Target -> what makes its files from a plan and its graph."""


def export_training(
    plan: TrainingPlan, to: str, out: str | Path, *, graph: Graph | None = None, plan_path: str | Path | None = None,
    force: bool = False, **options: Any,
) -> list[Path]:  # fmt: skip
    """Write the files that train a model by `plan` elsewhere.

    Parameters
    ----------
    plan : TrainingPlan
        What to train, and how.
    to : {"torch", "megatron", "deepspeed", "nanotron", "torchtitan"}
        DTensor placements, stage modules and a program for torchrun (of planner search's plans: a decoder and its
        configuration, for torch alone); arguments of Megatron-LM; a configuration of
        DeepSpeed, nanotron or torchtitan. All but the first where the plan is uniform enough.
    out : path
        Folder to write to: new, empty, or an earlier export's (whose files are replaced).
    graph : Graph, optional
        The graph that was planned, at any batch size; by default the zoo's, or the file that the plan names.
    plan_path : path, optional
        Where the plan was read from: its graph file is looked for beside it.
    force : bool
        Write although `out` holds other files.
    **options
        Fields of `ExportOptions`.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        On an unknown target or option, a plan that the target cannot hold, or a folder with other files. Nothing is
        written then.
    """
    for what, name, known in (
        ("target", to, list(TRAINING_TARGETS)),
        *(("option", name, list(ExportOptions.names())) for name in options),
    ):
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"a training plan goes to {', '.join(known)}"
            raise InputError(f"export: unknown {what} {name!r}; {hint}")
    if to == "torch" and is_configured(plan):
        files = decoder_files(plan)
    else:
        if graph is None:
            graph = planned_graph(plan, plan_path)
        else:
            graph = graph.with_batch(plan.microbatch)
            check_graph(plan, graph)
        files = TRAINING_TARGETS[to](plan, graph, ExportOptions(**options))
    digest = hashlib.sha256(plan.to_json().encode()).hexdigest()
    about = {"target": f"training-{to}", "meshwright": __version__, "plan_sha256": digest}
    return write_tree(files, out, about, force)
