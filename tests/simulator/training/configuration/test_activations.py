"""What layers keep, recompute and offload: bytes that add up, the choice = brute force, and what it never loses to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.simulator import Cluster
from meshwright.simulator.training import (
    CORE,
    MEGATRON_2022,
    TITAN_2024,
    Experts,
    Latent,
    TransformerShape,
    estimate,
    estimate_many,
)
from meshwright.simulator.training.configuration.activations.choices import AGAIN, KEEP, OFFLOAD, Held, front, ways
from meshwright.simulator.training.configuration.activations.decide import decide, layers_of
from meshwright.simulator.training.configuration.activations.tensors import TENSORS, present, tensor_bytes
from meshwright.simulator.training.configuration.columns import RECOMPUTE, Columns
from meshwright.simulator.training.configuration.estimate import kernels_of
from meshwright.simulator.training.configuration.memory import kept_per_layer, memory, needed_bytes
from meshwright.simulator.training.configuration.replicas import HOST

GPT = TransformerShape(8, 2048, 16, vocab=51200, seq=2048, dropout=True)
LLAMA = TransformerShape(8, 2048, 16, 4, 5632, 32000, 4096, gated=True)
MIXED = replace(LLAMA, experts=Experts(8, 2, 1408, shared_ffn=1024))
DEEP = TransformerShape(
    8, 2048, 16, 16, 5632, 32000, 4096, True, head_dim=192, latent=Latent(512, 64, 128, 768),
    experts=Experts(16, 4, 704, shared_ffn=704, dense_layers=2),
)  # fmt: skip
CASES = {
    "gpt": (GPT, MEGATRON_2022), "gpt fused": (GPT, CORE), "llama": (LLAMA, CORE), "eager": (LLAMA, TITAN_2024),
    "experts": (MIXED, CORE), "latent": (DEEP, CORE),
}  # fmt: skip
NODE = Cluster(1, 8, "h100-80gb")
GIB = 2**30


def columns(shape: TransformerShape, **said) -> Columns:
    rows = {"tp": [1, 2, 4, 2], "pp": [2, 2, 2, 1], "dp": [4, 2, 1, 2], "cp": [1, 1, 1, 2], "microbatch": [1, 2, 4, 1]}
    sp = [True] * 4 if shape.experts else [False, True, False, True]
    given = {"sequence_parallel": sp, "global_batch": 32, "etp": 1 if shape.experts else 0} | said
    return Columns.of(**{k: np.array(v) for k, v in rows.items()}, **given)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("narrow", [False, True])
def test_classes_add_up_to_what_a_layer_keeps(name, narrow):
    shape, stack = CASES[name]
    c = columns(shape)
    ours = tensor_bytes(shape, stack, c, 2, narrow)
    for found, kept in zip(ours, kept_per_layer(shape, stack, c, 2, narrow), strict=True):
        assert found.sum(axis=0) == pytest.approx(kept, rel=1e-12)
        gone = [k for k in range(len(TENSORS)) if k not in present(shape, stack)]
        assert not found[gone].any()


def brute(shape, stack, c, row, limit):
    """Least seconds of an average layer over every way that fits, one by one: the sum of what each class takes."""
    kernels = kernels_of(NODE, "bf16", None, None)
    one = c.take(np.array([row]))
    layers = layers_of(shape, NODE, kernels, stack, one)
    share = shape.expert_layers / shape.layers if shape.experts else 0.0
    some = ways(present(shape, stack), RECOMPUTE[int(one.recompute[0])], bool(one.offload_activations[0]))
    found, sizes = {}, []
    for actions, whole in zip(some.actions, some.whole, strict=True):
        kept, back, seconds = [], [], []
        use = dict(zip(TENSORS, actions.tolist(), strict=True))
        for kind in layers:
            size = dict(zip(TENSORS, kind.size[:, 0].tolist(), strict=True))
            again = dict(zip(TENSORS, kind.again[:, 0].tolist(), strict=True))
            if whole:
                sent = kind.input_bytes[0] * (use["inputs"] == OFFLOAD)
                kept.append(kind.input_bytes[0] - sent)
                back.append(kind.whole_back[0] + 2 * sent)
                spent = kind.whole_s[0]
            else:
                sent = sum(size[x] for x in TENSORS if use[x] == OFFLOAD)
                kept.append(sum(size[x] for x in TENSORS if use[x] == KEEP))
                back.append(sum(size[x] for x in TENSORS if use[x] == AGAIN and x != "scores") + 2 * sent)
                spent = sum(
                    again[x] for x in TENSORS
                    if use[x] == AGAIN and not (x == "context" and use["scores"] == AGAIN)
                )  # fmt: skip
            late = max(sent / HOST[0] - kind.forward[0], 0) + max(sent / HOST[0] - kind.backward[0] - spent, 0)
            seconds.append(spent + late)
        need = [k for k, weight in enumerate((1 - share, share)) if weight > 0]
        sizes.append((kept[0], kept[1], max(back[k] for k in need), use["scores"] == AGAIN))
        found[tuple(actions.tolist()), bool(whole)] = (1 - share) * seconds[0] + share * seconds[1]
    numbers = np.array(sizes).T
    held = Held(*numbers[:3], numbers[3] > 0, np.ones(len(sizes), dtype=bool))
    each = c.take(np.full(len(sizes), row))
    fits = needed_bytes(memory(shape, stack, each, "bf16", held), stack) <= limit
    return {way: seconds for (way, seconds), fit in zip(found.items(), fits, strict=True) if fit}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("offload", [False, True])
def test_the_choice_is_the_cheapest_of_all_that_fit(name, offload):
    shape, stack = CASES[name]
    c = columns(shape, recompute="chosen", offload_activations=offload)
    kernels = kernels_of(NODE, "bf16", None, None)
    row = 2 if shape.experts is None else 1
    whole = c.take(np.array([row]))
    everything = int(
        needed_bytes(memory(shape, stack, replace(whole, recompute=whole.recompute * 0), "bf16"), stack)[0]
    )
    least = int(needed_bytes(memory(shape, stack, replace(whole, recompute=whole.recompute * 0 + 2), "bf16"), stack)[0])
    limits = [everything, everything - (everything - least) // 3, least] if not offload else [(everything + least) // 2]
    for limit in limits:
        found = decide(shape, NODE, kernels, stack, c, limit)
        assert found is not None
        every = brute(shape, stack, c, row, limit)
        ours = every[tuple(found.actions[row].tolist()), bool(found.whole[row])]
        assert ours == pytest.approx(min(every.values()), rel=1e-9, abs=2e-12)
    assert len(every) > 1 or offload is False


def test_front_is_what_no_other_beats():
    rng = np.random.default_rng(5)
    for _ in range(20):
        seconds, moved = rng.integers(0, 12, 300) * 1.0, rng.integers(0, 3, 300) * 1.0
        weights = rng.integers(0, 15, (300, 2)) * 1.0
        kept = front(seconds, moved, weights)
        key = list(zip(seconds, moved, strict=True))

        def beats(a, b, key=key, weights=weights):
            no_more = key[a] <= key[b] and (weights[a] <= weights[b]).all()
            return no_more and (key[a] < key[b] or (weights[a] < weights[b]).any() or a < b)

        expected = {b for b in range(300) if not any(beats(a, b) for a in range(300) if a != b)}
        assert set(kept.tolist()) == expected
        assert sorted(key[k] for k in kept) == [key[k] for k in kept]


WAYS = [(word, offload) for word in RECOMPUTE for offload in (False, True)]


@pytest.mark.parametrize("name", ["gpt", "llama", "experts", "latent"])
def test_the_choice_never_loses_to_one_by_hand(name):
    """At every size of memory: whatever fits by hand is no faster."""
    shape, stack = CASES[name]
    said = {
        "sequence_parallel": True,
        "global_batch": 32,
        "microbatch": 2,
        "etp": 1 if shape.experts else 0,
        "tp": 2,
        "pp": 2,
        "dp": 2,
    }
    words, away = (np.array(x) for x in zip(*WAYS, strict=True))
    for limit in np.linspace(4, 24, 6) * GIB:
        many = estimate_many(
            shape, NODE, **said, recompute=words, offload_activations=away, stack=stack, memory_bytes=limit
        )
        assert not many.problem.any()
        cost = dict(zip(WAYS, np.where(many.device_bytes <= limit, many.seconds, np.inf).tolist(), strict=True))
        for offload in (False, True):
            best = min(cost[word, offload] for word in RECOMPUTE[:3])
            assert cost["chosen", offload] <= best * (1 + 1e-12)
        for word in RECOMPUTE:  # where a choice by hand fits, nothing need be offloaded
            assert cost[word, True] <= cost[word, False] * (1 + 1e-12)


def test_with_room_for_all_nothing_is_done():
    said = {"tp": 2, "pp": 2, "dp": 2, "microbatch": 1, "global_batch": 32, "stack": CORE}
    plain = estimate(LLAMA, NODE, **said)
    chosen = estimate(LLAMA, NODE, **said, recompute="chosen", offload_activations=True)
    assert (chosen.seconds, chosen.peak_bytes, chosen.hfu) == (plain.seconds, plain.peak_bytes, plain.hfu)
    assert {one.use for one in chosen.breakdown.tensors} == {"kept"}
    assert not plain.breakdown.tensors


def test_between_none_and_full():
    said = {"tp": 2, "pp": 2, "dp": 2, "microbatch": 2, "global_batch": 32, "stack": CORE, "check_memory": False}
    none, full = (estimate(LLAMA, NODE, **said, recompute=word) for word in ("none", "full"))
    limit = (none.breakdown.memory.device + full.breakdown.memory.device) // 2
    chosen = estimate(LLAMA, NODE, **said, recompute="chosen", memory_bytes=limit)
    assert none.seconds < chosen.seconds < full.seconds
    assert chosen.breakdown.memory.device <= limit
    assert none.breakdown.hardware_flops <= chosen.breakdown.hardware_flops <= full.breakdown.hardware_flops
    uses = {one.name: one for one in chosen.breakdown.tensors}
    added = chosen.breakdown.time.recompute
    # eight microbatches of each replica, four layers to a stage
    assert added == pytest.approx(8 * 4 * sum(x.seconds for x in uses.values() if x.use == "recomputed"), rel=1e-9)
    text = chosen.explain()
    assert all(f"  {name}" in text for name in uses)
    assert "recomputed" in text


def test_many_at_once_are_those_one_by_one():
    limit = 9 * GIB
    rows = [(tp, 8 // tp // 2, word, away) for tp in (1, 2, 4) for word in RECOMPUTE for away in (False, True)]
    tp, dp, words, away = (np.array(x) for x in zip(*rows, strict=True))
    many = estimate_many(
        LLAMA, NODE, tp=tp, pp=2, dp=dp, microbatch=1, global_batch=32, recompute=words, offload_activations=away,
        stack=CORE, memory_bytes=limit,
    )  # fmt: skip
    for k in range(len(rows)):
        one = estimate(
            LLAMA, NODE, tp=int(tp[k]), pp=2, dp=int(dp[k]), microbatch=1, global_batch=32, recompute=str(words[k]),
            offload_activations=bool(away[k]), stack=CORE, memory_bytes=limit, check_memory=False,
        )  # fmt: skip
        assert (many.seconds[k], many.peak_bytes[k]) == pytest.approx((one.seconds, one.peak_bytes), rel=1e-12)
