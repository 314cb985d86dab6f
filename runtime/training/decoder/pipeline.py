"""Which chunks a rank has, and torch's own schedule over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleZBVZeroBubble,
)

from .config import Way
from .mesh import Ranks
from .model import Chunk

__all__ = ["chunks_of", "schedule"]


def chunks_of(way: Way, stage: int) -> list[int]:
    """Chunks of a stage's ranks, in their order in the model: every pp-th, or a V of two."""
    if way.schedule == "zb_v":
        return [stage, way.chunks - 1 - stage]
    return [stage + way.pp * k for k in range(way.interleave)]


def schedule(way: Way, ranks: Ranks, chunks: list[Chunk], device: Any, loss: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """torch's schedule of a stage's chunks; gradients are of the mean over microbatches."""
    numbers = chunks_of(way, ranks.stage)
    group = ranks.dense.get_group("pp")
    stages = [
        PipelineStage(chunk, number, way.chunks, device, group=group)
        for chunk, number in zip(chunks, numbers, strict=True)
    ]
    if way.schedule in ("gpipe", "1f1b"):
        kind = ScheduleGPipe if way.schedule == "gpipe" else Schedule1F1B
        return kind(stages[0], way.microbatches, loss_fn=loss)
    kinds = {"interleaved_1f1b": ScheduleInterleaved1F1B, "zb_v": ScheduleZBVZeroBubble}
    return kinds[way.schedule](stages, way.microbatches, loss_fn=loss)
