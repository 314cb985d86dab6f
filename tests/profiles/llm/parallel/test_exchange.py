"""Exchanges between the shards of a sequence, carried out number by number: same attention, the bytes as counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from meshwright.profiles.llm import DecoderSpec
from meshwright.profiles.llm.parallel import merge as pm
from meshwright.profiles.llm.parallel.layer import Parallel, Widths, collectives
from meshwright.profiles.llm.parallel.split import owners
from meshwright.seeds import generator

HEADS, WIDTH = 8, 4


class Wire:
    """Counts the numbers that each GPU sends to another one."""

    def __init__(self) -> None:
        self.sent: Counter[object] = Counter()

    def move(self, source: object, to: object, *arrays: np.ndarray) -> None:
        if source != to:
            self.sent[source] += sum(a.size for a in arrays)


class World:
    """A batch of requests, their caches, and attention computed in one place."""

    def __init__(self, shards: int, kv_heads: int) -> None:
        rng = generator(5, "exchange", shards, kv_heads)
        # Every GPU's requests end on each shard equally often, for the mean of who stores a new token.
        self.batch = shards * shards
        self.q = rng.standard_normal((self.batch, HEADS, WIDTH))
        self.k, self.v = (
            [rng.standard_normal((2 + b % shards, kv_heads, WIDTH)) for b in range(self.batch)] for _ in "kv"
        )
        self.shards, self.group = shards, HEADS // kv_heads
        self.whole = np.stack([pm.partial_attention(*z).o for z in zip(self.q, self.k, self.v, strict=True)])

    def partial(self, b: int, shard: int, heads: slice) -> pm.Partial:
        """Of one request, the tokens of one shard and some query heads that fill whole groups or lie in one."""
        kv = slice(heads.start // self.group, max(heads.start // self.group + 1, heads.stop // self.group))
        mine = owners(len(self.k[b]), self.shards) == shard
        return pm.partial_attention(self.q[b, heads], self.k[b][mine, kv], self.v[b][mine, kv])


def formula(layout: Parallel, world: World, kv_heads: int) -> float:
    model = DecoderSpec("toy", 2, HEADS * WIDTH, HEADS, 64, 100, kv_heads, WIDTH)
    found = collectives(model, world.batch, layout, Widths.uniform())
    return sum(c.sent_bytes for c in found if c.kind != "all-reduce")


def check(wire: Wire, expected: float, gpus: int) -> None:
    assert len(wire.sent) == gpus
    assert list(wire.sent.values()) == pytest.approx([expected] * gpus)


@pytest.mark.parametrize("exchange", ["qkv", "q"])
@pytest.mark.parametrize("kv_heads", [8, 2])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_requests_spread_over_the_shards(exchange, kv_heads, n):
    world, wire, every = World(n, kv_heads), Wire(), slice(0, HEADS)
    for b in range(world.batch):
        home, keeper = b // n, int(owners(len(world.k[b]), n)[-1])
        for shard in range(n):
            wire.move(home, shard, world.q[b])
            if exchange == "qkv" or shard == keeper:
                wire.move(home, shard, world.k[b][-1], world.v[b][-1])
        parts = [world.partial(b, shard, every) for shard in range(n)]
        for shard, part in enumerate(parts):
            wire.move(shard, home, part.o, part.m, part.s)
        np.testing.assert_allclose(pm.merge(parts).o, world.whole[b], rtol=1e-12, atol=1e-13)
    check(wire, formula(Parallel(cp=n, exchange=exchange), world, kv_heads), n)


@pytest.mark.parametrize(("tp", "n"), [(1, 2), (2, 2), (2, 4), (4, 2)])
def test_helix_sends_each_head_to_one_gpu(tp, n):
    world, wire = World(n, kv_heads=4), Wire()
    mine = HEADS // (tp * n)
    for b in range(world.batch):
        for t in range(tp):
            heads = slice(t * HEADS // tp, (t + 1) * HEADS // tp)
            parts = [world.partial(b, shard, heads) for shard in range(n)]
            for to in range(n):
                piece = slice(to * mine, (to + 1) * mine)
                for shard, part in enumerate(parts):
                    wire.move((t, shard), (t, to), part.o[piece], part.lse[piece])
                _, o = pm.merge_lse([p.lse[piece] for p in parts], [p.o[piece] for p in parts])
                start = heads.start + piece.start
                np.testing.assert_allclose(o, world.whole[b, start : start + mine], rtol=1e-12, atol=1e-13)
    check(wire, formula(Parallel(tp=tp, cp=n, exchange="helix"), world, 4), tp * n)


@pytest.mark.parametrize("exchange", ["ag_rs", "a2a"])
@pytest.mark.parametrize(("tp", "n", "kv_heads"), [(2, 2, 1), (4, 2, 2), (8, 4, 2), (4, 4, 1), (8, 2, 1)])
def test_shards_inside_the_tensor_parallel_group(exchange, tp, n, kv_heads):
    world, wire = World(n, kv_heads), Wire()
    mine = HEADS // tp
    for b in range(world.batch):
        for g in range(tp // n):
            heads = slice(g * mine * n, (g + 1) * mine * n)
            parts = [world.partial(b, shard, heads) for shard in range(n)]
            lse, _ = pm.merge_lse([p.lse for p in parts], [p.o for p in parts])
            for to in range(n):
                piece = slice(to * mine, (to + 1) * mine)
                corrected = np.zeros((mine, WIDTH))
                for shard, part in enumerate(parts):
                    own = heads.start + shard * mine
                    wire.move((g, shard), (g, to), world.q[b, own : own + mine])
                    wire.move((g, shard), (g, to), part.lse if exchange == "ag_rs" else part.lse[piece])
                    wire.move((g, shard), (g, to), part.o[piece])
                    corrected += part.o[piece] * np.exp(part.lse[piece] - lse[piece])[:, None]
                start = heads.start + piece.start
                np.testing.assert_allclose(corrected, world.whole[b, start : start + mine], rtol=1e-12, atol=1e-13)
    check(wire, formula(Parallel(tp=tp, cp=n, exchange=exchange), world, kv_heads), tp)
