"""Every schedule, 8-bit products and layers for further tokens as plans: the simulator agrees with the estimate."""

from dataclasses import replace

import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import search, training_plan
from meshwright.runtime.training.configured.plan import config_of
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, Experts, TransformerShape, estimate, simulate_training

GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
LLAMA = TransformerShape(32, 4096, 32, 8, 14336, 128256, 4096, gated=True)
MIXED = replace(LLAMA, experts=Experts(8, 2, 1408, dense_layers=2), mtp_layers=1)
H100 = Cluster(8, 8, "h100-80gb")
LAID = {"tp": 8, "pp": 8, "dp": 1, "microbatch": 1, "sequence_parallel": True}
SCHEDULES = {"zb-h1": ("zb_h1", 1), "dualpipe": ("dualpipe", 1), "zb-v": ("zb_v", 2), "1f1b": ("1f1b", 1)}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("shape", [GPT3, LLAMA, MIXED], ids=["gpt3", "llama", "experts"])
def test_the_simulated_schedule_takes_what_the_estimate_says(shape, name):
    said = {**LAID, "schedule": name, "interleave": SCHEDULES[name][1], "dtype": "fp8" if shape is GPT3 else "bf16"}
    said |= {"ep": 8, "etp": 1} if shape.experts else {}
    plan = training_plan(shape, H100, 64, **said)
    assert plan.schedule == SCHEDULES[name][0]
    r = estimate(shape, H100, global_batch=64, stack=CORE, check_memory=False, **said)
    assert plan.predicted["seconds"] == r.seconds
    alone = simulate_training(plan.model_copy(update={"transfers": ()})).seconds
    ours = r.seconds - r.breakdown.time.pipeline_transfer
    if name == "dualpipe":  # each pass hands over what it has; the report's pairs do when both are done
        assert 0.965 * ours <= alone <= ours
    else:
        # 1F1B and ZB-H1 but for dense layers that are spread over stages; ZB-V but for both ends on one device
        assert alone == pytest.approx(ours, rel=2e-2 if name == "zb-v" else 2e-3 if shape is MIXED else 1e-9)
    whole = simulate_training(plan)
    assert whole.seconds == pytest.approx(r.seconds, rel=0.035 if name == "dualpipe" else 0.02)
    assert whole.peak_bytes.max() == pytest.approx(r.peak_bytes, rel=0.08)
    assert whole.model_flops == pytest.approx(r.breakdown.model_flops, rel=1e-12)


def test_both_engines_time_them_alike():
    for name, (_, chunks) in SCHEDULES.items():
        plan = training_plan(LLAMA, H100, 32, **LAID, schedule=name, interleave=chunks)
        both = [simulate_training(plan, engine=engine).seconds for engine in ("compiled", "simpy")]
        assert both[0] == pytest.approx(both[1], rel=1e-9)


def test_what_the_decoder_runs():
    layers = {}
    for name, (word, chunks) in SCHEDULES.items():
        plan = training_plan(LLAMA, H100, 64, **LAID, schedule=name, interleave=chunks)
        if name in ("zb-h1", "dualpipe"):
            with pytest.raises(InputError, match=f"schedule: expected one of .* \\(got '{word}'\\)"):
                config_of(plan)
        else:
            layers[name] = config_of(plan).way.layers
    assert layers == {"1f1b": (4,) * 8, "zb-v": (2,) * 16}
    with pytest.raises(InputError, match=r"does not do 8-bit products \(dtype fp8\)"):
        config_of(training_plan(LLAMA, H100, 64, **LAID, dtype="fp8"))


def test_the_search_chooses_zb_v():
    """With few microbatches its bubble is the shortest that goes with 1F1B's memory."""
    fixed = {"tp": 8, "pp": 8, "dp": 1, "microbatch": 1, "zero": 0, "recompute": "none", "sequence_parallel": True}
    two = {**fixed, "interleave": (1, 2), "top": 1}
    best = search(LLAMA, H100, 16, schedule=("1f1b", "zb-h1", "zb-v"), **two).best[0]
    assert (best.schedule, best.interleave) == ("zb-v", 2)
    others = search(LLAMA, H100, 16, schedule=("1f1b", "zb-h1"), **two)
    assert best.seconds < others.best[0].seconds
    assert {"1f1b", "zb-h1", "dualpipe", "zb-v"} == {
        ("1f1b", "zb-h1", "dualpipe", "zb-v")[k]
        for k in search(LLAMA, H100, 16, schedule="all", **fixed).table["schedule"].tolist()
    }


def test_zb_v_wants_two_chunks_of_equal_layers():
    with pytest.raises(
        InputError, match="zb-v interleave 2, one less than two each, and layers 32 that 2 x pp divides"
    ):
        training_plan(LLAMA, H100, 64, **LAID, schedule="zb-v")


@pytest.mark.parametrize("shape", [LLAMA, replace(MIXED, mtp_layers=0, experts=Experts(8, 2, 1408))])
def test_traffic_is_what_the_estimate_charges(shape):
    """On ports where groups are inside nodes; links that nobody else uses slow nothing."""
    more = {"ep": 8, "etp": 1} if shape.experts else {"cp": 2}
    said = {"tp": 8, "pp": 4, "dp": 2 if shape.experts else 1, "microbatch": 1, "sequence_parallel": True, **more}
    plan = training_plan(shape, H100, 64, **said)
    time = estimate(shape, H100, global_batch=64, stack=CORE, check_memory=False, **said).breakdown.time
    middle = plan.stages[1].traffic
    charged = sum(sum(middle[way]) for way in ("forward", "backward_input")) * plan.microbatches
    assert charged == pytest.approx(time.tensor_parallel + time.context_parallel + time.expert_parallel, rel=1e-9)
    assert charged > 0
    assert (middle["forward"][1] > 0) == ("cp" in said and time.context_parallel > 0)  # of two nodes
    assert sum(middle["reduce"]) == pytest.approx(time.data_parallel + time.tied_embedding)
    alone = plan.model_copy(update={"transfers": ()})
    apart, shared = (simulate_training(alone, links=links).seconds for links in ("apart", "shared"))
    assert shared == pytest.approx(apart, rel=1e-9)
    assert simulate_training(plan, links="shared").seconds >= simulate_training(plan).seconds * (1 - 1e-9)
