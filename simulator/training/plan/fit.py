"""Whether a plan's transfers and schedule fit its stages: specs of one tensor, no circle, meshes as wanted."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import InputError
from ....wording import nearest
from ...plan.entries import Problem
from ...sharding import ShardingSpec
from ..policy.make import make_program
from ..policy.orders import ORDERS, Pipeline, check_layout
from ..policy.turns import Turns
from ..program.transfers import longest_paths
from .entries import StageEntry, TransferEntry
from .passes import counts_of, stage_pass_problems

__all__ = ["schedule_problems", "transfer_problems"]


def transfer_problems(transfers: Sequence[TransferEntry | None], stages: Sequence[StageEntry | None]) -> list[Problem]:
    """What is wrong with transfers each by itself, or with two of them."""
    problems: list[Problem] = []
    seen: dict[tuple[int, int, str], int] = {}
    for t, transfer in enumerate(transfers):
        if transfer is None:
            continue
        if max(transfer.source, transfer.target) >= len(stages) or transfer.source == transfer.target:
            ends = f"{transfer.source} and {transfer.target}"
            problems.append((("transfers", t), f"expected two of {len(stages)} stages (got {ends})"))
        key = (transfer.source, transfer.target, transfer.value)
        if key in seen:
            problems.append((("transfers", t), f"{transfer.value!r} goes there by transfer {seen[key]} already"))
        seen.setdefault(key, t)
        specs: dict[str, ShardingSpec] = {}
        for name in ("source_spec", "target_spec"):
            try:
                specs[name] = ShardingSpec.parse(getattr(transfer, name))
            except InputError as error:
                problems.append((("transfers", t, name), str(error)))
        ranks = {spec.rank for spec in specs.values() if spec.rank}
        if len(ranks) > 1:
            said = f"{transfer.source_spec} and {transfer.target_spec} are of tensors of different ranks"
            problems.append((("transfers", t), said))
    return problems


def schedule_problems(
    schedule: str,
    batch: tuple[int, int],
    transfers: Sequence[TransferEntry],
    stages: Sequence[StageEntry],
    n_meshes: int,
    sliced: bool = False,
) -> list[Problem]:
    """Whether stages that are each right can be run by a schedule.

    Parameters
    ----------
    schedule : str
        Its name.
    batch : (int, int)
        Global batch and microbatches.
    transfers, stages : sequence
        The plan's.
    n_meshes : int
        Meshes.
    sliced : bool
        Whether microbatches are cut into token slices.
    """
    if schedule not in ORDERS:
        near = nearest(schedule, list(ORDERS))
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(ORDERS)}"
        return [(("schedule",), f"unknown schedule {schedule!r}; {hint}")]
    homes = [stage.mesh for stage in stages]
    idle = sorted(set(range(n_meshes)) - set(homes))
    if idle:
        return [(("meshes", idle[0]), "no stage is on this mesh")]
    tied = [set(stages[t.source].parameters) & set(stages[t.target].parameters) for t in transfers]
    edges = [(t.source, t.target) for t, both in zip(transfers, tied, strict=True) if t.value not in both]
    try:
        depth = longest_paths(len(stages), edges)
    except InputError as error:
        return [(("transfers",), str(error).removeprefix("transfers: "))]
    if schedule == "dualpipe" and batch[1] % 2:
        return [(("microbatches",), f"dualpipe has two directions; expected an even number (got {batch[1]})")]
    counts = counts_of(schedule, batch, stages)
    problems = stage_pass_problems(schedule, counts, stages, sliced)
    if problems:
        return problems
    try:
        check_layout(schedule, Pipeline.of(homes, counts, depth, edges=edges))
        if schedule in ("kfkb", "explicit"):  # the others never wait for ever
            make_program(
                schedule, len(stages), counts, mesh_of=homes, transfers=edges or None,
                turns=Turns([s.k for s in stages], [s.warmup for s in stages], [s.order for s in stages]),
            )  # fmt: skip
    except InputError as error:
        return [(("schedule",), str(error).removeprefix("program: "))]
    return []
