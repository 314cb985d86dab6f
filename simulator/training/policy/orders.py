"""In which order the meshes of a pipeline compute: GPipe, 1F1B, interleaved 1F1B, zero-bubble H1 and H2, ZB-V.

All but ZB-V and DualPipe (`dualpipe`) are one rule with two numbers per mesh. With the forward passes of a mesh
numbered 0 … n − 1 in its order, and its backward passes likewise: `warmup` forward passes come first, then a forward
and a backward in turn, then what is left; the weights' half of a backward, where it is split off, comes `lag` backward
passes after its own.

============  ==================================  ==========
schedule      warmup of mesh r of p               lag
============  ==================================  ==========
gpipe         n                                   not split
1f1b          d − 1, d = stages to the last, p−r  not split
eager_1f1b    2(d − 1)                            not split
interleaved   (v − 1)·g + 2(p − 1 − r)            not split
zb_h1         (v − 1)·g + p − 1 − r               r
zb_h2         2(p − 1 − r)                        2r
============  ==================================  ==========

with v stages per mesh and rounds of g microbatches (g = p where p divides the microbatches). Sources: GPipe (Huang et
al. 2019), PipeDream-flush / 1F1B and its interleaved form (Narayanan et al. 2021, §2.2), zero bubble (Qi et al. 2023:
ZB-H1 is ZB1P, ZB-H2 is ZB2P, ZB-V in §6). ZB-H2's two numbers follow from its figure: B of microbatch 0 reaches mesh r
2(p − r) − 1 forwards after its start, and at most 2p − 1 microbatches are live on every mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ..program.columns import F
from .dualpipe import check_dualpipe, dualpipe
from .kernels import alternate, there_and_back
from .pipeline import Order, Pipeline
from .slices import terapipe, terapipe_1f1b
from .uneven import explicit, kfkb

__all__ = ["ORDERS", "SLICED", "UNEVEN", "Order", "Pipeline", "check_layout"]

SLICED = ("terapipe", "terapipe_1f1b")
"""Schedules of token slices."""

UNEVEN = ("gpipe", "kfkb", "explicit", "inference")
"""Schedules of stages whose numbers of microbatches may differ."""


def gpipe(pipeline: Pipeline) -> list[Order]:
    """All forward passes, then all backward passes."""
    meshes = range(len(_one_each(pipeline, "gpipe")))
    return [_alternating(*_single(pipeline, r), warmup=pipeline.microbatches) for r in meshes]


def one_f_one_b(pipeline: Pipeline) -> list[Order]:
    """As many forward passes as stages follow, then a forward and a backward in turn."""
    return [
        _alternating(*_single(pipeline, r), warmup=pipeline.depth[stages[0]] - 1)
        for r, stages in enumerate(_one_each(pipeline, "1f1b"))
    ]


def eager_1f1b(pipeline: Pipeline) -> list[Order]:
    """1F1B with twice the warm-up: a message has a whole forward and backward to arrive in (Zhuang et al. 2023)."""
    return [
        _alternating(*_single(pipeline, r), warmup=2 * (pipeline.depth[stages[0]] - 1))
        for r, stages in enumerate(_one_each(pipeline, "eager_1f1b"))
    ]


def interleaved(pipeline: Pipeline) -> list[Order]:
    """1F1B over several stages of each mesh, in Megatron-LM's order: rounds of p microbatches through a stage each."""
    p, v, group = _rounds(pipeline, "interleaved_1f1b")
    return [_alternating(*_chunks(pipeline, r, group), warmup=(v - 1) * group + 2 * (p - 1 - r)) for r in range(p)]


def zb_h1(pipeline: Pipeline) -> list[Order]:
    """1F1B with the weights' half put off so that the bubble is a third and the memory the same (ZB1P)."""
    p, v, group = _rounds(pipeline, "zb_h1")
    return [_alternating(*_chunks(pipeline, r, group), warmup=(v - 1) * group + p - 1 - r, lag=r) for r in range(p)]


def zb_h2(pipeline: Pipeline) -> list[Order]:
    """No bubble between a mesh's first action and its last, for nearly twice the activations (ZB2P)."""
    p = len(_one_each(pipeline, "zb_h2"))
    return [_alternating(*_single(pipeline, r), warmup=2 * (p - 1 - r), lag=2 * r) for r in range(p)]


def zb_v(pipeline: Pipeline) -> list[Order]:
    """No bubble with 1F1B's memory: mesh r has stages r and 2p − 1 − r, each of half the layers."""
    p = _there_and_back(pipeline)
    return [there_and_back(r, p, pipeline.microbatches) for r in range(p)]


def inference(pipeline: Pipeline) -> list[Order]:
    """Forward passes only, microbatch by microbatch; several stages of a mesh in rounds, as interleaved."""
    p = len(pipeline.stages)
    if all(len(stages) == 1 for stages in pipeline.stages):
        chunks = [_single(pipeline, r)[0] for r in range(p)]
    else:
        group = _rounds(pipeline, "inference")[2]
        chunks = [_chunks(pipeline, r, group)[0] for r in range(p)]
    return [np.insert(f, [0, 2], [F, 0], axis=1) for f in chunks]


def check_layout(schedule: str, pipeline: Pipeline) -> None:
    """Whether a schedule can be had with these stages on these meshes, and so many microbatches.

    Raises
    ------
    InputError
        If not; says how the stages must lie.
    """
    counts = sorted(set(pipeline.counts))
    if len(counts) > 1 and schedule not in UNEVEN:
        raise InputError(
            f"schedule {schedule}: as many microbatches on every stage are expected "
            f"(got {', '.join(map(str, counts))}); take one of {', '.join(UNEVEN)} where they differ"
        )
    for a, b in pipeline.edges:
        if max(pipeline.counts[a], pipeline.counts[b]) % min(pipeline.counts[a], pipeline.counts[b]):
            raise InputError(
                f"schedule {schedule}: stages {a} and {b} exchange {pipeline.counts[a]} and {pipeline.counts[b]} "
                "microbatches, of which neither divides the other; take a multiple"
            )
    if pipeline.slices and schedule not in SLICED:
        raise InputError(f"schedule {schedule}: runs no token slices; take one of {', '.join(SLICED)}")
    if pipeline.slices and len(pipeline.slices) != pipeline.microbatches:
        raise InputError(
            f"schedule {schedule}: expected the number of slices of each of {pipeline.microbatches} microbatches "
            f"(got {len(pipeline.slices)})"
        )
    if schedule == "dualpipe":
        check_dualpipe(pipeline)
    elif schedule == "zb_v":
        _there_and_back(pipeline)
    elif schedule in ("interleaved_1f1b", "zb_h1"):
        _rounds(pipeline, schedule)
    elif schedule != "inference":
        _one_each(pipeline, schedule)
    elif any(len(stages) != 1 for stages in pipeline.stages):
        _rounds(pipeline, schedule)


ORDERS: dict[str, Callable[[Pipeline], list[Order]]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "eager_1f1b": eager_1f1b,
    "interleaved_1f1b": interleaved,
    "zb_h1": zb_h1,
    "zb_h2": zb_h2,
    "zb_v": zb_v,
    "dualpipe": dualpipe,
    "inference": inference,
    "kfkb": kfkb,
    "explicit": explicit,
    "terapipe": terapipe,
    "terapipe_1f1b": terapipe_1f1b,
}
"""Schedule -> the order in which each mesh computes."""

Passes = npt.NDArray[np.int32]  # (stage, microbatch) of each pass, shape (n, 2)


def _alternating(forward: Passes, backward: Passes, *, warmup: int, lag: int | None = None) -> Order:
    """The rule of this file."""
    return alternate(forward, backward, min(warmup, len(forward)), -1 if lag is None else lag)


def _one_each(pipeline: Pipeline, schedule: str) -> Sequence[tuple[int, ...]]:
    if any(len(stages) != 1 for stages in pipeline.stages):
        raise InputError(
            f"schedule {schedule}: one stage on each mesh is expected (got {pipeline.stages}); "
            "take interleaved_1f1b for several"
        )
    return pipeline.stages


def _there_and_back(pipeline: Pipeline) -> int:
    p = len(pipeline.stages)
    if any(stages != (r, 2 * p - 1 - r) for r, stages in enumerate(pipeline.stages)):
        raise InputError(
            f"schedule zb_v: stages must go over the {p} meshes and back (got stages {pipeline.stages}); "
            f"as with mesh_of={[*range(p), *reversed(range(p))]}"
        )
    return p


def _single(pipeline: Pipeline, r: int) -> tuple[Passes, Passes]:
    stage = pipeline.stages[r][0]
    m = pipeline.counts[stage]
    passes = np.column_stack((np.full(m, stage), np.arange(m))).astype(np.int32)
    return passes, passes


def _rounds(pipeline: Pipeline, schedule: str) -> tuple[int, int, int]:
    """Meshes, stages on each, microbatches of a round.

    Megatron-LM wants p to divide the microbatches; as in torch, a round may be longer than p where it does not.
    """
    p, m = len(pipeline.stages), pipeline.microbatches
    v = len(pipeline.stages[0])
    if any(stages != tuple(range(r, v * p, p)) for r, stages in enumerate(pipeline.stages)):
        raise InputError(
            f"schedule {schedule}: stages must go round the {p} meshes in turn (got stages {pipeline.stages}); "
            f"as with mesh_of={[s % p for s in range(pipeline.n_stages)]}"
        )
    rounds = max(1, m // p)
    if v > 1 and m % rounds:
        raise InputError(
            f"schedule {schedule}: {m} microbatches are not {rounds} equal rounds; take a multiple of {p} microbatches"
        )
    return p, v, m // rounds if v > 1 else m


def _chunks(pipeline: Pipeline, r: int, group: int) -> tuple[Passes, Passes]:
    """Forward and backward passes of mesh r: rounds of `group` microbatches, through its stages in turn."""
    mine = np.array(pipeline.stages[r], dtype=np.int32)
    v = len(mine)
    k = np.arange(v * pipeline.microbatches, dtype=np.int32)
    chunk = k // group % v
    microbatch = k // (group * v) * group + k % group
    return np.column_stack((mine[chunk], microbatch)), np.column_stack((mine[v - 1 - chunk], microbatch))
