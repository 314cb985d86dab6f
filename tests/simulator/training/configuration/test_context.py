"""Context parallelism: bytes of a ring sent hop by hop, even causal work, memory; shard groups; other schedules."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.training import TransformerShape, estimate
from meshwright.simulator.training.configuration.layer.context import pair_width, ring_bytes, swapped_bytes
from meshwright.simulator.training.configuration.memory import activation_bytes
from meshwright.simulator.training.configuration.schedule import shorter_bubble

LLAMA = TransformerShape(8, 2048, 16, 4, 5632, 32000, 8192, gated=True)
H100 = Cluster(1, 8, "h100-80gb")


@pytest.mark.parametrize("cp", [1, 2, 4, 8])
def test_a_ring_sends_what_its_hops_send(cp):
    """Block by block: forward each device's keys and values visit all others; backward they do so again, and their
    gradients go along and then home."""
    tokens = 4096 // cp
    block = tokens * pair_width(LLAMA) // 2 * 2  # two devices of a tensor-parallel group share heads; two bytes each
    sent = [0] * cp
    back = [0] * cp
    for owner in range(cp):
        for hop in range(cp - 1):
            sent[(owner + hop) % cp] += block
            back[(owner + hop) % cp] += block
        for hop in range(cp if cp > 1 else 0):
            back[(owner + hop) % cp] += block
    forward, backward = ring_bytes(LLAMA, tokens, cp, 2, 2)
    assert set(sent) == {int(forward)}
    assert set(back) == {int(backward)}


@pytest.mark.parametrize("cp", [2, 4])
def test_zigzag_is_even(cp):
    """Each device has chunk k and chunk 2 cp - 1 - k: as many causal pairs of queries and keys for each."""
    s = 16 * cp
    size = s // (2 * cp)
    work = []
    for k in range(cp):
        rows = [*range(k * size, (k + 1) * size), *range((2 * cp - 1 - k) * size, (2 * cp - k) * size)]
        work.append(sum(row + 1 for row in rows))
    assert len(set(work)) == 1
    assert work[0] * cp == s * (s + 1) // 2


def test_all_to_all_moves_queries_too():
    inputs, output = swapped_bytes(LLAMA, 100, 2, 2)
    assert float(inputs) == 100 * (2048 + 2 * 512)
    assert float(output) == 100 * 2048


def run(cluster=H100, shape=LLAMA, **said):
    settings = {"tp": 1, "pp": 1, "dp": 8, "microbatch": 1, "global_batch": 8, **said}
    return estimate(shape, cluster, check_memory=False, **settings)


def test_activations_are_cut_and_gradients_reduced_over_all():
    whole, cut = run(), run(dp=4, cp=2)
    assert cut.breakdown.memory.activations == pytest.approx(whole.breakdown.memory.activations / 2, rel=1e-9)
    layer = activation_bytes(LLAMA, _core(), 1, 1, False, 0, 2)
    assert cut.breakdown.memory.activations == pytest.approx(8 * float(layer) / 2, rel=1e-9)
    for name in ("parameters", "gradients", "optimizer"):
        a, b = (getattr(r.breakdown.memory, name) for r in (run(zero=3), run(zero=3, dp=2, cp=4)))
        assert a == pytest.approx(b)
    assert whole.breakdown.time.context_parallel == 0 < cut.breakdown.time.context_parallel


def _core():
    from meshwright.simulator.training import CORE

    return CORE


def test_a_ring_inside_a_node_hides_what_an_all_to_all_shows():
    """Long sequences: hops are shorter than attention."""
    long = TransformerShape(8, 2048, 16, 8, 5632, 32000, 131072, gated=True)
    ring, swap = (run(shape=long, dp=1, cp=8, context=kind) for kind in ("ring", "all-to-all"))
    share = ring.breakdown.time.context_parallel / ring.breakdown.time.backward_attention
    assert share < 0.25
    assert swap.breakdown.time.context_parallel > 0
    assert swap.breakdown.time.backward_attention < ring.breakdown.time.backward_attention  # longer blocks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"dp": 1, "cp": 8, "context": "all-to-all"},
            r"heads 16 and kv_heads 4 that tp x cp divides.*set context='ring'",
        ),
        ({"dp": 4, "cp": 3}, "expected the number of devices of the cluster, 8"),
        ({"shard": 3, "zero": 3}, "shard: expected 0, or a divisor of dp x cp.*set shard=0"),
        ({"shard": 4}, "shard: expected 0, or a divisor of dp x cp and zero > 0"),
        ({"reshard": False}, "reshard False: needs zero 3"),
        ({"schedule": "zb-h1"}, "need pp > 1.*set schedule='1f1b'"),
        ({"schedule": "gpipe"}, "schedule: expected one of 1f1b, zb-h1, dualpipe, zb-v"),
        ({"context": "star"}, "context: expected one of ring, all-to-all"),
        ({"offload_optimizer": 1}, "offload_optimizer: expected True or False"),
    ],
)
def test_refusals_are_one_line(change, message):
    with pytest.raises(InputError, match=message) as caught:
        run(**change)
    assert "\n" not in str(caught.value)


def test_groups_that_shard_hold_more_and_gather_nearer():
    wide = Cluster(4, 8, "h100-80gb")
    all_of_them, groups = (run(wide, dp=32, global_batch=32, zero=3, shard=size) for size in (0, 8))
    held = [r.breakdown.memory.optimizer for r in (all_of_them, groups)]
    assert held[1] == pytest.approx(4 * held[0], rel=1e-6)
    same = run(wide, dp=32, global_batch=32, zero=3, shard=32)
    assert (same.seconds, same.peak_bytes) == (all_of_them.seconds, all_of_them.peak_bytes)
    # Rings over all nodes send a message for every node; groups of a node leave it with a tree alone.
    far, near = (run(Cluster(128, 8, "h100-80gb"), dp=1024, global_batch=1024, zero=3, shard=size) for size in (0, 8))
    assert near.breakdown.time.data_parallel < far.breakdown.time.data_parallel


def test_parameters_that_stay_gathered_cost_memory_and_save_a_gather():
    back, kept = (run(zero=3, reshard=flag) for flag in (True, False))
    assert kept.breakdown.memory.parameters - back.breakdown.memory.parameters == pytest.approx(
        2 * LLAMA.params, rel=0.01
    )
    assert kept.breakdown.time.data_parallel <= back.breakdown.time.data_parallel


def test_the_optimizer_on_the_host_takes_no_memory_but_time():
    here, there = (run(offload_optimizer=flag) for flag in (False, True))
    assert there.breakdown.memory.optimizer == 0 < here.breakdown.memory.optimizer
    assert there.breakdown.time.optimizer > here.breakdown.time.optimizer


def test_bubbles_of_the_report():
    """DeepSeek-V3's Table 2, p = 8, F = 1, B = 2 with W = 1: 21, 7 and 6 where 1F1B, ZB-H1 and DualPipe wait."""
    one = [np.array([x]) for x in (1.0, 2.0, 1.0, 21.0)]
    found = [float(shorter_bubble([k], [8], (one[0], one[1]), one[2], one[3])[0]) for k in (0, 1, 2)]
    assert found == [21, 7, 6]
    # What uneven ends take more stays.
    assert float(shorter_bubble([1], [8], (one[0], one[1]), one[2], one[3] + 4)[0]) == 11


def test_schedules_in_an_iteration():
    deep = {"pp": 4, "dp": 2, "global_batch": 32}
    seconds = [run(**deep, schedule=name).seconds for name in ("1f1b", "zb-h1")]
    assert seconds[1] < seconds[0]
    both = run(**deep, schedule="dualpipe")
    plain = run(**deep)
    assert both.breakdown.memory.gradients == pytest.approx(2 * plain.breakdown.memory.gradients, rel=0.2)
    assert both.breakdown.memory.activations == pytest.approx(plain.breakdown.memory.activations * 5 / 4, rel=0.01)
