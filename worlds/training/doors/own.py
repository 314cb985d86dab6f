"""What a user brings to a door of training plans: the module of a plan, data, weights, an optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ....runtime.training import Own, TrainingRun
from ....runtime.training.own.script import data_of
from ....runtime.training.own.weights import check_suffix, load_weights, save_weights
from ....runtime.training.own.words import optimizer_of
from ....simulator.training.plan.file import TrainingPlan
from ..options import RunOptions

if TYPE_CHECKING:
    from ....profiles.graph.module_loss import ModuleLoss

__all__ = ["module_of_plan", "own_of", "saved"]

MODULE = "module"
"""Instead of a file of weights: those that the user's module has when it is made."""


def module_of_plan(plan: TrainingPlan, path: Path) -> tuple[ModuleLoss | None, str]:
    """The module that the plan's graph is of, and its name; or none, and why."""
    from ....profiles.graph import zoo_module
    from ....profiles.graph.hf import is_hf
    from ....profiles.graph.module_loss import ModuleLoss
    from ....profiles.graph.named import module_of

    if is_hf(plan.model.module):
        return module_of(plan.model.module, "run"), plan.model.module
    if plan.model.module:
        file, _, name = plan.model.module.rpartition(":")
        found = next((x for x in (Path(file), path.parent / file) if x.is_file()), None)
        if found is None:
            return None, f"{file} is neither here nor beside the plan"
        module = module_of(f"{found}:{name}", "run")
        return (module, plan.model.module) if module is not None else (None, f"{plan.model.module} makes a graph")
    if plan.model.graph:
        return None, "the plan names a graph file and no module"
    import torch

    from ....profiles.graph import zoo_graph

    try:
        made = zoo_module(plan.model.name, device="meta")
    except InputError as error:
        return None, str(error)
    inputs = {t.name: torch.empty(t.shape, device="meta", dtype=getattr(torch, t.dtype))
              for t in zoo_graph(plan.model.name).inputs}  # fmt: skip
    return ModuleLoss(made, inputs), f"torch's {plan.model.name}"


def own_of(options: RunOptions, module: ModuleLoss | None) -> Own:
    """What the options name.

    Raises
    ------
    InputError
        On files that cannot be read, and words that say nothing.
    """
    if options.save is not None:
        check_suffix(options.save, "save")
    optimizer = optimizer_of(options.optimizer, options.schedule, options.groups, options.clip_norm)
    data = None if options.data is None else data_of(options.data)
    return Own(data, _weights(options.weights, module), optimizer, module)


def _weights(word: str | None, module: ModuleLoss | None) -> Mapping[str, Any] | None:
    if word is None:
        return None
    if word != MODULE:
        return load_weights(word)
    if module is None:
        raise InputError("weights: module: the plan names no module here; give a file of weights")
    state: dict[str, Any] = module.module.state_dict()
    empty = next((key for key, x in state.items() if x.device.type == "meta"), None)
    if empty is not None:
        raise InputError(f"weights: module: {empty!r} has no values (it is on the meta device); give a file of weights")
    return state


def saved(run: TrainingRun, path: Path) -> str:
    """Write the weights; what was written, in a line."""
    state = run.state_dict()
    save_weights(path, state)
    rest = sorted(run.kept)
    stale = [key for key in rest if key.endswith(("running_mean", "running_var"))]
    same = f", of which {len(rest)} that the loss does not depend on are as they were" if rest else ""
    note = "; running statistics of batch norms in several stages are among these" if stale else ""
    return f"{path}: {len(state)} entries{same}{note}"
