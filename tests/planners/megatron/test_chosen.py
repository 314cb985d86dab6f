"""Tensors that are recomputed or offloaded by choice: in the search, in plans, in Megatron's arguments."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import megatron_flags, search, training_plan
from meshwright.runtime.training.configured.plan import config_of
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, Experts, TransformerShape, estimate, simulate_training
from meshwright.simulator.training.configuration.activations.said import TensorUse

LLAMA = TransformerShape(8, 2048, 16, 4, 5632, 32000, 4096, gated=True)
MIXED = replace(LLAMA, experts=Experts(8, 2, 1408))
NODE = Cluster(1, 8, "h100-80gb")
GIB = 2**30
FIXED = {"tp": (2, 4), "pp": 2, "microbatch": (1, 2), "interleave": 1, "sequence_parallel": True, "zero": (0, 1)}
ALL = {"recompute": "all", "offload_activations": "all"}


@pytest.mark.parametrize("shape", [LLAMA, MIXED], ids=["dense", "experts"])
def test_the_search_is_the_estimate_of_every_combination(shape):
    limit = (5 if shape.experts is None else 6) * GIB
    found = search(shape, NODE, 32, memory=limit, top=5, ep=1, **FIXED, **ALL)
    every = []
    for tp, microbatch, zero, again, away in product(
        FIXED["tp"], FIXED["microbatch"], FIXED["zero"], ("none", "selective", "full", "chosen"), (False, True)
    ):
        one = estimate(
            shape, NODE, tp=tp, pp=2, dp=4 // tp, microbatch=microbatch, global_batch=32, recompute=again, zero=zero,
            sequence_parallel=True, offload_activations=away, etp=1 if shape.experts else 0, stack=CORE,
            check_memory=False, memory_bytes=limit,
        )  # fmt: skip
        if one.breakdown.memory.device <= limit:
            every.append(one.seconds)
    assert found.best[0].seconds == pytest.approx(min(every), rel=1e-12)
    by_hand = search(shape, NODE, 32, memory=limit, ep=1, **FIXED)
    chosen = search(shape, NODE, 32, memory=limit, ep=1, **FIXED, recompute="chosen")
    assert found.best[0].seconds <= chosen.best[0].seconds < by_hand.best[0].seconds
    assert chosen.best[0].breakdown.memory.device <= limit
    assert "recomputed" in chosen.explain()
    assert "chosen recomputation" in str(chosen.best[0])


def test_only_what_is_asked_is_tried():
    assert set(search(LLAMA, NODE, 32, **FIXED).table["recompute"].tolist()) <= {0, 1, 2}
    assert not search(LLAMA, NODE, 32, **FIXED).table["offload_activations"].any()


def settings(**more):
    return {"tp": 2, "pp": 2, "dp": 2, "microbatch": 2, "sequence_parallel": True, **more}


@pytest.mark.parametrize("shape", [LLAMA, replace(MIXED, experts=Experts(8, 2, 1408, dense_layers=2))])
def test_a_plan_takes_what_the_estimate_takes(shape):
    said = settings(recompute="chosen", offload_activations=True, etp=1 if shape.experts else 0)
    for limit in np.array([5.0, 5.6]) * GIB:
        plan = training_plan(shape, NODE, 32, memory_bytes=limit, **said)
        r = estimate(shape, NODE, global_batch=32, stack=CORE, check_memory=False, memory_bytes=limit, **said)
        assert plan.predicted["seconds"] == r.seconds
        alone = simulate_training(plan.model_copy(update={"transfers": ()})).seconds
        uneven = shape.experts is not None  # stages differ
        assert alone == pytest.approx(r.seconds - r.breakdown.time.pipeline_transfer, rel=0.1 if uneven else 1e-9)
        uses = {use: [x.name for x in r.breakdown.tensors if x.use == use] for use in ("recomputed", "offloaded")}
        assert plan.planner.options["recomputed"] == uses["recomputed"]
        assert plan.planner.options["offloaded"] == uses["offloaded"]


def test_what_the_decoder_runs_of_it():
    with pytest.raises(InputError, match="does not do recomputation of normed, activated"):
        config_of(training_plan(LLAMA, NODE, 32, memory_bytes=5.5 * GIB, **settings(recompute="chosen")))
    with pytest.raises(InputError, match=r"does not do activations on the host \(.*inner"):
        config_of(training_plan(LLAMA, NODE, 32, memory_bytes=4 * GIB, **settings(offload_activations=True)))
    everything = training_plan(LLAMA, NODE, 32, **settings(recompute="chosen", offload_activations=True))
    assert config_of(everything).way.recompute == "none"
    least = training_plan(LLAMA, NODE, 32, memory_bytes=1, **settings(recompute="chosen"))
    assert config_of(least).way.recompute == "full"
    assert {stage.recompute for stage in least.stages} == {"full"}


def flags_of(shape, **uses):
    one = search(shape, NODE, 32, top=1, recompute="none", ep=1, **FIXED | {"tp": 2, "microbatch": 1, "zero": 0}).best[
        0
    ]
    tensors = tuple(TensorUse(name, use, 1, 0.0) for name, use in uses.items())
    breakdown = replace(one.estimate.breakdown, tensors=tensors)
    one = replace(one, estimate=replace(one.estimate, breakdown=breakdown))
    return [flag for flag in megatron_flags(one, shape, 32) if "recompute" in flag or "offload" in flag]


def test_megatrons_modules():
    selective = "--recompute-granularity selective --recompute-modules"
    assert flags_of(LLAMA, normed="kept", inner="kept") == []
    assert flags_of(LLAMA, normed="recomputed") == [f"{selective} layernorm"]
    assert flags_of(LLAMA, inner="recomputed", activated="recomputed") == [f"{selective} mlp"]
    assert flags_of(LLAMA, scores="recomputed", normed="recomputed") == [f"{selective} core_attn layernorm"]
    assert flags_of(MIXED, activated="recomputed", normed="recomputed") == [f"{selective} moe_act layernorm"]
    assert flags_of(MIXED, arrived="recomputed", inner="recomputed", activated="recomputed") == [f"{selective} moe"]
    assert flags_of(LLAMA, layer="recomputed", inputs="kept")[0] == "--recompute-granularity full"
    assert flags_of(MIXED, inputs="offloaded", arrived="offloaded") == [
        "--fine-grained-activation-offloading", "--offload-modules attn_norm mlp_norm expert_fc1",
    ]  # fmt: skip
    with pytest.raises(InputError, match="no module that recomputes activated alone"):
        flags_of(LLAMA, activated="recomputed")
    with pytest.raises(InputError, match="no module that offloads inner alone"):
        flags_of(LLAMA, inner="offloaded")
