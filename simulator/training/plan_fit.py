"""Whether a plan's transfers and schedule fit its stages: specs of one tensor, no circle, meshes as wanted."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InputError
from ...wording import nearest
from ..plan_entries import Problem
from ..sharding import ShardingSpec
from .plan_entries import StageEntry, TransferEntry
from .program_transfers import longest_paths
from .schedule_orders import ORDERS, SLICED, Pipeline, check_layout

_COMING = SLICED

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
    schedule: str, microbatches: int, transfers: Sequence[TransferEntry], stages: Sequence[StageEntry], n_meshes: int
) -> list[Problem]:
    """Whether stages that are each right can be run by a schedule."""
    if schedule not in (*ORDERS, *_COMING):
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
    if schedule in _COMING:
        return []
    try:
        check_layout(schedule, Pipeline.of(homes, microbatches, depth))
    except InputError as error:
        return [(("schedule",), str(error))]
    return []
