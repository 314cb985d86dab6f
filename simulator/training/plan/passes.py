"""What is wrong with the passes that a plan's stages make: microbatches of their own, kFkB, orders, token slices."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import InputError
from ...plan.entries import Problem
from ..policy.orders import SLICED
from ..policy.uneven import order_of
from .entries import SliceEntry, StageEntry, TransferEntry

__all__ = ["counts_of", "microbatch_problems", "slice_problems", "stage_pass_problems"]


def counts_of(schedule: str, batch: tuple[int, int], stages: Sequence[StageEntry]) -> tuple[int, ...]:
    """Microbatches of each stage; `batch`: samples and microbatches of an iteration. Of DualPipe, whose model is there
    twice, a stage has half of them."""
    whole = batch[1] // 2 if schedule == "dualpipe" else batch[1]
    return tuple(batch[0] // stage.microbatch if stage.microbatch else whole for stage in stages)


def microbatch_problems(
    batch: tuple[int, int] | None,
    stages: Sequence[StageEntry | None],
    transfers: Sequence[TransferEntry | None],
    sliced: bool,
) -> list[Problem]:
    """Microbatches that do not divide the global batch, or of two stages with a transfer each other."""
    if batch is None or min(batch) < 1:
        return []
    problems: list[Problem] = []
    if batch[0] % batch[1] and not sliced:
        problems.append((("microbatches",), f"{batch[1]} do not divide the global batch of {batch[0]}"))
    for s, stage in enumerate(stages):
        if stage is not None and stage.microbatch and sliced:
            said = "the microbatches of slices are those of every stage; leave it out"
            problems.append((("stages", s, "microbatch"), said))
        elif stage is not None and stage.microbatch and batch[0] % stage.microbatch:
            said = f"{stage.microbatch} samples do not divide the global batch of {batch[0]}"
            problems.append((("stages", s, "microbatch"), said))
    if problems or sliced:
        return problems
    for t, transfer in enumerate(transfers):
        if transfer is None or max(transfer.source, transfer.target) >= len(stages):
            continue
        ends = stages[transfer.source], stages[transfer.target]
        a, b = (0 if x is None else x.microbatch or batch[0] // batch[1] for x in ends)
        if min(a, b) and max(a, b) % min(a, b):
            said = (
                f"stages {transfer.source} and {transfer.target} have microbatches of {a} and {b} samples; one must "
                "divide the other"
            )
            problems.append((("transfers", t), said))
    return problems


def slice_problems(
    batch: tuple[int, int] | None, slices: Sequence[SliceEntry | None], stages: Sequence[StageEntry | None]
) -> list[Problem]:
    """Slices that do not add up to the batch or to the same sequence, and stages without their seconds."""
    problems: list[Problem] = []
    known = [entry for entry in slices if entry is not None]
    whole = len(known) == len(slices)
    if slices and whole and batch is not None:
        for what, total, have, want in (
            ("samples of all microbatches", "the global batch", sum(e.samples * e.count for e in known), batch[0]),
            ("counts", "microbatches", sum(e.count for e in known), batch[1]),
        ):
            if have != want:
                problems.append((("slices",), f"{what} sum to {have}, {total} is {want}"))
    for e, entry in enumerate(slices):
        length = next((sum(x.tokens) for x in known), 0)
        if entry is not None and sum(entry.tokens) != length:
            said = f"{sum(entry.tokens)} tokens, and slices[0] has {length}; slices cut the same sequence"
            problems.append((("slices", e, "tokens"), said))
    for s, stage in enumerate(stages):
        for name in ("slice_forward_s", "slice_backward_s") if stage is not None else ():
            problems += [(("stages", s, *loc), what) for loc, what in _seconds(name, getattr(stage, name), slices)]
    return problems


def _seconds(name: str, rows: Sequence[Sequence[float]], slices: Sequence[SliceEntry | None]) -> list[Problem]:
    if not slices and rows:
        return [((name,), "the plan has no slices; add them, or leave this out")]
    if len(rows) != len(slices):
        return [((name,), f"expected a row for each of {len(slices)} entries of slices (got {len(rows)})")]
    return [
        ((name, e), f"expected seconds of each of the {len(entry.tokens)} slices (got {len(row)})")
        for e, (row, entry) in enumerate(zip(rows, slices, strict=True))
        if entry is not None and len(row) != len(entry.tokens)
    ]


def stage_pass_problems(
    schedule: str, microbatches: Sequence[int], stages: Sequence[StageEntry], sliced: bool
) -> list[Problem]:
    """Whether each stage says what its schedule reads, and nothing that it does not read.

    Parameters
    ----------
    schedule : str
        The plan's.
    microbatches : sequence of int
        Of each stage.
    stages : sequence of StageEntry
        The stages.
    sliced : bool
        Whether the plan has slices.
    """
    problems: list[Problem] = []
    if sliced and schedule not in SLICED:
        said = f"{schedule} runs no token slices; take {' or '.join(SLICED)}, or leave slices out"
        problems.append((("schedule",), said))
    elif schedule in SLICED and not sliced:
        problems.append((("schedule",), f"{schedule} runs token slices, and the plan has none; add slices"))
    for s, (stage, n) in enumerate(zip(stages, microbatches, strict=True)):
        if schedule == "explicit":
            try:
                order_of(stage.order, n)
            except InputError as error:
                problems.append((("stages", s, "order"), str(error).removeprefix("order: ")))
        elif stage.order:
            problems.append((("stages", s, "order"), f"is read by schedule explicit (got schedule {schedule})"))
        if schedule != "kfkb":
            for name, usual in (("k", 1), ("warmup", -1)):
                if getattr(stage, name) != usual:
                    problems.append((("stages", s, name), f"is read by schedule kfkb (got schedule {schedule})"))
        elif stage.warmup >= 0 and not min(n, stage.k) <= stage.warmup <= n:
            said = f"expected {min(n, stage.k)} … {n} forward passes before the first {stage.k} backward"
            problems.append((("stages", s, "warmup"), f"{said} (got {stage.warmup})"))
    return problems
