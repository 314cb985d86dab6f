"""From a `TrainingPlan` to the program that is simulated and run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..policy.make import make_program
from ..policy.turns import Turns
from ..program.actions import Program
from .entries import TransferEntry
from .file import TrainingPlan

__all__ = ["is_tied", "plan_program", "slice_share", "tied_stages"]


def is_tied(plan: TrainingPlan, transfer: TransferEntry) -> bool:
    """Whether a transfer is of a parameter that both stages keep: its gradient is exchanged once an iteration."""
    return all(transfer.value in plan.stages[s].parameters for s in (transfer.source, transfer.target))


def tied_stages(plan: TrainingPlan) -> dict[str, tuple[int, ...]]:
    """Each tied parameter and the stages that keep it, ascending."""
    found: dict[str, set[int]] = {}
    for t in plan.transfers:
        if is_tied(plan, t):
            found.setdefault(t.value, set()).update((t.source, t.target))
    return {name: tuple(sorted(stages)) for name, stages in sorted(found.items())}


def plan_program(plan: TrainingPlan) -> Program:
    """The program of a plan's schedule on its stages and meshes. The stages of a plan without transfers form a chain.

    Raises
    ------
    InputError
        If the schedule is unknown, or impossible with these stages and meshes.
    """
    edges = [(t.source, t.target, t.gradient) for t in plan.transfers if not is_tied(plan, t)]
    return make_program(
        plan.schedule,
        len(plan.stages),
        plan.microbatches_of,
        mesh_of=[stage.mesh for stage in plan.stages],
        transfers=edges or None,
        tied=list(tied_stages(plan).values()),
        turns=Turns(
            k=[stage.k for stage in plan.stages],
            warmup=[stage.warmup for stage in plan.stages],
            order=[stage.order for stage in plan.stages],
        ),
        slices=[len(entry.tokens) for entry in plan.slices for _ in range(entry.count)],
    )


def slice_share(plan: TrainingPlan) -> npt.NDArray[np.float64] | None:
    """What each token slice is of a microbatch of average size, by samples and tokens; None where none are sliced.

    Returns
    -------
    ndarray, shape (n_microbatches, n_slices)
        Its sum is the number of microbatches; 0 beyond a microbatch's last slice.
    """
    if not plan.slices:
        return None
    rows = [(entry.samples, entry.tokens) for entry in plan.slices for _ in range(entry.count)]
    share = np.zeros((len(rows), max(len(tokens) for _, tokens in rows)))
    for m, (samples, tokens) in enumerate(rows):
        share[m, : len(tokens)] = np.multiply(tokens, samples * len(rows) / (plan.global_batch * sum(tokens)))
    return share
