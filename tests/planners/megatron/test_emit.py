"""A configuration as a plan: the simulator, which plays every action, agrees with the estimate's closed forms."""

import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import training_plan
from meshwright.simulator import Cluster
from meshwright.simulator.training import (
    CORE,
    MEGATRON_2022,
    TrainingPlan,
    TransformerShape,
    estimate,
    simulate_training,
)

GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
LLAMA = TransformerShape(30, 4096, 32, 8, 14336, 128256, 4096, gated=True)
A100, H100 = Cluster(8, 8, "a100-80gb"), Cluster(2, 8, "h100-80gb")
CASES = [
    (GPT3, A100, {"tp": 8, "pp": 8, "dp": 1, "microbatch": 1, "interleave": 3, "sequence_parallel": True}),
    (GPT3, A100, {"tp": 8, "pp": 8, "dp": 1, "microbatch": 2, "interleave": 12, "sequence_parallel": True}),
    (GPT3, A100, {"tp": 4, "pp": 8, "dp": 2, "microbatch": 1, "interleave": 6, "zero": 1}),
    (GPT3, A100, {"tp": 8, "pp": 4, "dp": 2, "microbatch": 1, "zero": 1, "recompute": "full"}),
    (GPT3, A100, {"tp": 8, "pp": 1, "dp": 8, "microbatch": 1, "zero": 3}),
    (LLAMA, H100, {"tp": 2, "pp": 8, "dp": 1, "microbatch": 1}),  # 3 layers, 4 in the middle
    (LLAMA, H100, {"tp": 1, "pp": 2, "dp": 8, "microbatch": 2}),
]
IDS = [" ".join(map(str, settings.values())) for _, _, settings in CASES]


@pytest.mark.parametrize("stack", [CORE, MEGATRON_2022])
@pytest.mark.parametrize(("shape", "cluster", "settings"), CASES, ids=IDS)
def test_time_is_that_of_the_simulated_schedule(shape, cluster, settings, stack):
    plan = training_plan(shape, cluster, 64, stack=stack, **settings)
    r = estimate(shape, cluster, global_batch=64, stack=stack, check_memory=False, **settings)
    assert plan.predicted["seconds"] == r.seconds
    alone = simulate_training(plan.model_copy(update={"transfers": ()})).seconds
    ours = r.seconds - r.breakdown.time.pipeline_transfer
    interleaved = settings.get("interleave", 1) > 1  # the ends' extra work is in one chunk, not spread over all
    assert alone == pytest.approx(ours, rel=2e-3 if interleaved else 1e-9)
    # where some borders are inside nodes, the estimate still takes all for borders between them
    inside = settings["tp"] * settings["dp"] < 8 < cluster.n_devices
    assert 0.995 <= r.seconds / simulate_training(plan).seconds <= (1.03 if inside else 1.005)


@pytest.mark.parametrize(("shape", "cluster", "settings"), CASES, ids=IDS)
def test_memory_is_that_of_the_simulated_schedule(shape, cluster, settings):
    plan = training_plan(shape, cluster, 64, **settings)
    result = simulate_training(plan)
    r = estimate(shape, cluster, global_batch=64, stack=CORE, check_memory=False, **settings)
    assert result.peak_bytes.max() == pytest.approx(r.peak_bytes, rel=0.05)  # temporaries are not in every stage
    assert result.mfu * result.seconds == pytest.approx(r.mfu * r.seconds, rel=1e-9)
    assert result.model_flops == pytest.approx(r.breakdown.model_flops, rel=1e-12)


def test_the_plan_is_a_plan(tmp_path):
    shape, cluster, settings = CASES[2]
    plan = training_plan(shape, cluster, 64, **settings)
    assert TrainingPlan.load(plan.save(tmp_path / "plan.json")) == plan
    assert len(plan.stages) == 48
    assert len(plan.meshes) == 8
    assert (plan.stages[0].first, plan.stages[-1].last) == (0, 98)  # embedding, 96 layers, output
    assert all(a.last == b.first for a, b in zip(plan.stages, plan.stages[1:], strict=False))
    uneven = training_plan(LLAMA, H100, 64, tp=2, pp=8, dp=1, microbatch=1)
    assert [s.last - s.first for s in uneven.stages] == [4] * 8  # embedding and output count as layers


def test_meshes_are_rectangles():
    shape = TransformerShape(8, 768, 12, vocab=1024, seq=64)
    with pytest.raises(InputError, match="tp x dp: 3 devices are no rectangle of nodes with 8"):
        training_plan(shape, Cluster(3, 8, "a100-80gb"), 24, tp=3, pp=8, dp=1, microbatch=1)
    with pytest.raises(InputError, match="number of devices"):
        training_plan(LLAMA, H100, 64, tp=2, pp=2, dp=2, microbatch=1)
