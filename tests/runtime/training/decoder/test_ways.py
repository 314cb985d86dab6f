"""However a decoder's training is shared, loss, gradients and weights are those of one process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from meshwright.runtime.training.configured.run import _apart, _kept  # noqa: E402  # pyright: ignore
from meshwright.runtime.training.decoder.config import Shape, Way  # noqa: E402
from meshwright.runtime.training.session import TrainingSession  # noqa: E402

GPT = Shape(4, 32, 4, 4, 8, 64, 64, 16)
LLAMA = Shape(4, 32, 4, 2, 8, 64, 64, 16, gated=True, tied=False)
MIXTURE = Shape(4, 32, 4, 2, 8, 64, 64, 16, gated=True, tied=False, experts=4, top_k=2, expert_ffn=32)
SHARED = Shape(
    4, 32, 4, 2, 8, 64, 64, 16, gated=True, tied=False, experts=4, top_k=2, expert_ffn=32, shared_ffn=24, dense=(0,)
)

WAYS: dict[str, tuple[Shape, dict[str, Any]]] = {
    "replicas of a share": (GPT, {"dp": 4, "shard": 2, "microbatch": 1}),
    "keys come round, heads": (GPT, {"cp": 2, "tp": 2, "shard": 2, "sequence_parallel": True}),
    "heads dealt out": (LLAMA, {"cp": 2, "dp": 2, "shard": 4, "context": "all_to_all"}),
    "pipeline, tied ends": (GPT, {"pp": 2, "tp": 2, "interleave": 2, "schedule": "interleaved_1f1b"}),
    "a V, tied ends": (GPT, {"pp": 2, "dp": 2, "interleave": 2, "schedule": "zb_v"}),
    "experts, tokens, heads": (SHARED, {"tp": 2, "cp": 2, "shard": 2, "ep": 2, "sequence_parallel": True}),
}
MORE: dict[str, tuple[Shape, dict[str, Any]]] = {
    "experts over all": (MIXTURE, {"dp": 4, "shard": 4, "ep": 4}),
    "keys come round, all four": (LLAMA, {"cp": 4, "shard": 4, "recompute": "selective"}),
    "heads, tokens between, replicas": (LLAMA, {"tp": 2, "dp": 2, "sequence_parallel": True, "recompute": "full"}),
    "all share": (GPT, {"dp": 4, "shard": 4}),
    "all have all": (GPT, {"dp": 4, "reshard": False}),
    "heads": (GPT, {"tp": 4}),
    "stages of one layer": (GPT, {"pp": 4}),
    "stages, ends without layers": (LLAMA, {"pp": 2, "dp": 2, "shard": 2, "schedule": "gpipe", "layers": (1, 3)}),
    "stages and experts": (MIXTURE, {"pp": 2, "dp": 2, "shard": 2, "ep": 2}),
    "experts over heads' ranks": (MIXTURE, {"tp": 2, "dp": 2, "shard": 2, "ep": 4, "sequence_parallel": True}),
    "a V with experts": (
        MIXTURE,
        {"pp": 2, "tp": 2, "ep": 2, "interleave": 2, "schedule": "zb_v", "sequence_parallel": True},
    ),
}


@pytest.fixture(scope="module")
def four() -> Iterator[TrainingSession]:
    with TrainingSession(4, timeout_s=120) as session:
        yield session


@pytest.fixture(scope="module")
def one() -> Iterator[TrainingSession]:
    with TrainingSession(1, timeout_s=120) as session:
        yield session


def job(shape: Shape, way: Way) -> dict[str, Any]:
    return {
        "kind": "decoder", "shape": asdict(shape), "way": asdict(way), "seed": 0, "dtype": "float64", "steps": 2,
        "adam": {"clip": 0.5}, "keep": True,
    }  # fmt: skip


ALONE: dict[Shape, dict[str, Any]] = {}


def check(four: TrainingSession, one: TrainingSession, shape: Shape, way: dict[str, Any]) -> None:
    if shape not in ALONE:
        ALONE[shape] = _kept(one.run(job(shape, Way(global_batch=8))))
    found = _kept(four.run(job(shape, Way(global_batch=8, **way))))
    apart = _apart(found, ALONE[shape])
    worst = max(apart, key=lambda name: apart[name])
    assert apart[worst] < 1e-10, worst
    assert float(found["norm"].min()) > 0.5, "clipping does something"


@pytest.mark.parametrize("name", WAYS)
def test_a_way_is_one_process(four: TrainingSession, one: TrainingSession, name: str) -> None:
    check(four, one, *WAYS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_more_ways_are_one_process(four: TrainingSession, one: TrainingSession, name: str) -> None:
    check(four, one, *MORE[name])
