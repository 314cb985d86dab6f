"""Stages with fewer layers at the ends: estimate, memory, search, plans and Megatron's arguments."""

from dataclasses import replace
from itertools import product

import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import megatron_flags, search, training_plan
from meshwright.runtime.training.configured.plan import config_of
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, Experts, TransformerShape, estimate, simulate_training

LLAMA = TransformerShape(22, 4096, 32, 8, 14336, 128256, 4096, gated=True)
MIXED = replace(LLAMA, experts=Experts(8, 2, 1408, dense_layers=2), mtp_layers=1)
NODES = Cluster(4, 8, "h100-80gb")
LAID = {"dp": 1, "microbatch": 1, "sequence_parallel": True}
CASES = [  # pp, chunks, layers of the first and of the last stage, and those of every chunk
    (8, 1, 3, 1, [3, 3, 3, 3, 3, 3, 3, 1]),
    (4, 1, 4, 0, [4, 6, 6, 6]),
    (4, 1, 0, 4, [6, 6, 6, 4]),
    (4, 2, 6, 4, [3, 3, 3, 2, 3, 3, 3, 2]),
]


def said(case):
    pp, chunks, first, last, _ = case
    return {**LAID, "tp": 32 // pp, "pp": pp, "interleave": chunks, "first_layers": first, "last_layers": last}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", [LLAMA, MIXED], ids=["dense", "experts"])
def test_the_simulated_plan_takes_what_the_estimate_says(shape, case):
    settings = said(case) | ({"ep": 4, "etp": 1} if shape.experts else {})
    shape = replace(shape, mtp_layers=0 if case[1] > 1 else shape.mtp_layers)
    plan = training_plan(shape, NODES, 32, **settings)
    r = estimate(shape, NODES, global_batch=32, stack=CORE, check_memory=False, **settings)
    alone = simulate_training(plan.model_copy(update={"transfers": ()})).seconds
    ours = r.seconds - r.breakdown.time.pipeline_transfer
    assert alone == pytest.approx(ours, rel=2e-2 if case[1] > 1 else 3e-3)
    exact = shape is LLAMA and case[1] == 1 and case[2]  # else passes of the last stage are none of the others'
    assert not exact or alone == pytest.approx(ours, rel=1e-9)
    whole = simulate_training(plan)
    assert whole.peak_bytes.max() == pytest.approx(r.peak_bytes, rel=0.05)
    sizes = [s.last - s.first for s in plan.stages]
    sizes[0] -= 1
    sizes[-1] -= 1 + shape.mtp_layers
    assert sizes == case[4]
    if shape.experts is None:
        assert list(config_of(plan).way.layers) == case[4]


def test_the_search_is_the_estimate_of_every_layout():
    """And a head as long as several layers is worth fewer of them beside it."""
    fixed = {"tp": 4, "pp": 8, "dp": 1, "microbatch": 1, "sequence_parallel": True, "zero": 0, "recompute": "none"}
    found = search(LLAMA, NODES, 32, first_layers="all", last_layers="all", interleave=(1, 2), top=1, **fixed)
    every = {}
    for first, last, chunks in product(range(12), range(12), (1, 2)):
        try:
            one = estimate(
                LLAMA, NODES, global_batch=32, stack=CORE, check_memory=False, first_layers=first, last_layers=last,
                interleave=chunks, **fixed,
            )  # fmt: skip
        except InputError:
            continue
        every[first, last, chunks] = one.seconds
    best = found.best[0]
    assert best.seconds == pytest.approx(min(every.values()), rel=1e-12)
    assert every[best.first_layers, best.last_layers, best.interleave] == best.seconds
    assert 0 < best.last_layers < (22 - best.first_layers - best.last_layers) / 6
    assert len(found.table["seconds"]) + found.repeats == len(every)
    assert f"{best.last_layers} layers last" in str(best)
    flags = megatron_flags(best, LLAMA, 32)
    assert f"--decoder-last-pipeline-num-layers {best.last_layers}" in flags
    assert not any("account-for" in flag for flag in flags)


@pytest.mark.parametrize(("first", "last"), [(5, 0), (-1, 0), (1, 1), (22, 0), (10, 0)])
def test_layouts_that_do_not_divide_are_refused(first, last):
    settings = {**said(CASES[0]), "first_layers": first, "last_layers": last}
    with pytest.raises(InputError, match="what first_layers and last_layers leave to other stages"):
        estimate(LLAMA, NODES, global_batch=32, **settings)
