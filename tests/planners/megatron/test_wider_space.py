"""Experts, context parallelism and the later means: search = `estimate` for each combination of small spaces."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.megatron import megatron_flags, search
from meshwright.planners.megatron.evaluate import Asked, evaluate
from meshwright.planners.megatron.missing import _smallest
from meshwright.planners.megatron.space import Space
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape, estimate

MIXED = TransformerShape(
    4, 512, 8, 4, 1024, 4096, 256, True,
    experts={"count": 4, "top_k": 2, "ffn": 256, "shared_ffn": 256, "dense_layers": 1},
)  # fmt: skip
DENSE = TransformerShape(4, 512, 8, 4, 1024, 4096, 256, True)
NODE = Cluster(1, 4, "h100-80gb")
SPACES = {
    "experts": (
        MIXED,
        {
            "cp": (1, 2), "ep": (1, 2, 4), "etp": (0, 1), "overlap_experts": (False, True), "zero": (0, 1),
            "interleave": 1, "microbatch": 1, "recompute": "none", "sequence_parallel": True, "pp": (1, 2),
        },
    ),
    "context and shards": (
        DENSE,
        {
            "cp": (1, 2, 4), "context": ("ring", "all-to-all"), "zero": (0, 3), "shard": (0, 2),
            "reshard": (False, True), "schedule": ("1f1b", "dualpipe"), "offload_optimizer": (False, True), "tp": 1,
            "microbatch": 1, "interleave": 1, "recompute": "none", "sequence_parallel": False,
        },
    ),
}  # fmt: skip
"""Model and means; each has some hundred combinations."""


@pytest.mark.parametrize("name", SPACES)
def test_equal_to_enumeration_one_by_one(name):
    shape, means = SPACES[name]
    batch = 8
    every = {"tp": (1, 2, 4), "pp": (1, 2, 4), "dp": (1, 2, 4), **means}
    every = {key: value if isinstance(value, tuple) else (value,) for key, value in every.items()}
    found, tried = {}, 0
    for values in product(*every.values()):
        said = dict(zip(every, values, strict=True))
        if said["tp"] * said["pp"] * said["dp"] * said["cp"] != 4:
            continue
        tried += 1
        try:
            one = estimate(shape, NODE, global_batch=batch, stack=CORE, check_memory=False, **said)
        except InputError:
            continue
        found[tuple(said[key] for key in every)] = (one.seconds, one.peak_bytes)
    result = search(shape, NODE, batch, top=5, **means)
    assert result.combinations == tried
    assert result.evaluated + result.repeats == len(found)
    assert result.combinations == result.evaluated + result.pruned
    rows = result.rows()
    for row in rows:  # every row of the table is that of `estimate`
        assert (row["seconds"], row["peak_bytes"]) == pytest.approx(found[tuple(row[key] for key in every)], rel=1e-12)
    assert result.best[0].seconds == pytest.approx(min(seconds for seconds, _ in found.values()), rel=1e-12)
    # What was left out as a repetition costs what something in the table costs.
    costs = {round(row["seconds"], 15) for row in rows}
    assert {round(seconds, 15) for seconds, _ in found.values()} <= costs


def test_the_table_is_in_the_order_of_the_space():
    shape, means = SPACES["experts"]
    table = search(shape, NODE, 8, top=1, **means).table
    keys = np.stack([table[name] for name in ("tp", "pp", "dp", "cp", "microbatch", "recompute", "zero", "ep")])
    assert all(tuple(a) <= tuple(b) for a, b in zip(keys.T[:-1], keys.T[1:], strict=True))


def test_all_is_wider_than_what_is_usual():
    usual, wide = search(DENSE, NODE, 8, top=1), search(DENSE, NODE, 8, top=1, cp="all", schedule="all")
    assert wide.combinations > usual.combinations
    assert wide.best[0].seconds <= usual.best[0].seconds
    assert set(wide.table["cp"].tolist()) == {1, 2, 4}


def test_what_would_make_it_fit():
    big = TransformerShape(80, 8192, 64, 8, 28672, 32000, 4096, True)
    with pytest.raises(InfeasibleError) as caught:
        search(big, Cluster(1, 8, "h100-80gb"), 8, zero=0, recompute="none")
    said = str(caught.value)
    assert "\n" not in said
    assert "GiB too many" in said
    assert "most of all helps offload_optimizer=true" in said


def test_with_every_trick_on_it_says_which_of_them_helps_most():
    big = TransformerShape(80, 8192, 64, 8, 28672, 32000, 4096, True)
    tricks = dict.fromkeys(("recompute", "cp", "offload_optimizer", "offload_activations"), "all")
    node = Cluster(1, 1, "h100-80gb")
    with pytest.raises(InfeasibleError) as caught:
        search(big, node, 1, **tricks)
    said = str(caught.value)
    assert "\n" not in said
    assert "most of all helps" not in said
    told = re.search(r"the smallest needs ([\d.]+) GiB.* already (\w+) helps most: without it ([\d.]+) GiB", said)
    assert told is not None
    assert told[2] == "offload_optimizer"
    without = search(big, node, 1, must_fit=False, **{**tricks, "offload_optimizer": False}).table
    assert float(told[3]) == pytest.approx(without["device_bytes"].min() / 2**30, abs=0.06)
    every = search(big, node, 1, must_fit=False, **tricks).table
    assert float(told[1]) == pytest.approx(every["device_bytes"].min() / 2**30, abs=0.06)


@pytest.mark.parametrize("name", SPACES)
def test_the_smallest_lies_where_it_is_looked_for(name):
    shape, means = SPACES[name]
    means = {**means, "offload_optimizer": "all", "reshard": "all", "microbatch": None, "recompute": None}
    means |= {"schedule": "all", "interleave": (1, 2), "zero": (1, 3)}
    space = Space.of(NODE.n_devices, 8, shape.layers, stack=CORE, shape=shape, **means)
    every, part = (
        evaluate(shape, NODE, one, Asked().costs, None)[0]["device_bytes"] for one in (space, _smallest(space))
    )
    assert len(part) < len(every)
    assert part.min() == every.min()


def test_flags():
    best = search(MIXED, NODE, 8, top=1, cp=2, ep=2, tp=1, pp=1, zero=1).best[0]
    said = set(megatron_flags(best, MIXED, 8))
    assert {
        "--context-parallel-size 2", "--cp-comm-type p2p", "--expert-model-parallel-size 2", "--num-experts 4",
        "--expert-tensor-parallel-size 1", "--moe-router-topk 2", "--moe-ffn-hidden-size 256", "--moe-grouped-gemm",
        "--moe-layer-freq ([0]*1+[1]*3)", "--moe-shared-expert-intermediate-size 256",
        "--moe-token-dispatcher-type alltoall",
    } <= said  # fmt: skip
    zero_bubble = search(DENSE, NODE, 8, top=1, pp=2, schedule="zb-h1").best[0]
    with pytest.raises(InputError, match="Megatron-LM has no schedule 'zb-h1'"):
        megatron_flags(zero_bubble, DENSE, 8)
