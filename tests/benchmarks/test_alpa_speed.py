"""Alpa's two solvers in CPU seconds, beside a bare loop timed in the same run and the authors' published times.

The stage DP: 64 GPUs, 7 submeshes, 5 configurations, 64 microbatches, costs that scale with devices^-0.8. The ILP: a
training step of a GPT on 2x8, no layer merged with another, with several memory bounds.
"""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest
from gpt_instance import gpt_instance
from meshwright.planners.alpa import solve_sharding, stage_dp

MESHES = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8)]
AUTHORS_S = {8: 2.37, 16: 55.2, 32: 1750.0}


def cpu(run):
    start = time.process_time()
    answer = run()
    return time.process_time() - start, answer


def model_like(n_layers, seed=1):
    random = np.random.default_rng(seed)
    ends = np.r_[0.0, np.cumsum(random.uniform(0.5, 1.5, n_layers))]
    total = ends[None, 1:] - ends[:-1, None]
    speed = np.array([(hosts * devices) ** -0.8 for hosts, devices in MESHES])
    noise = random.uniform(0.9, 1.1, (n_layers, n_layers, len(MESHES), 5))
    cost = total[:, :, None, None] * speed[:, None] * noise
    cost[np.tril_indices(n_layers, -1)] = np.inf
    return cost


@numba.njit
def one_pass(cost, n_devices):
    """The least that an exact answer needs: read every cost once for every number of devices."""
    total = 0.0
    for value in cost.ravel():
        for _ in range(n_devices):
            total = min(total, value)
    return total


@pytest.mark.parametrize("n_layers", [8, 16, 32, 64])
def test_stage_dp(n_layers):
    stage_dp(model_like(2), np.full((2, 2, 7, 5), 99), MESHES, 8, 8, 64)
    one_pass(np.ones((1, 1)), 1)
    cost = model_like(n_layers)
    bare, _ = cpu(lambda: one_pass(cost, 64))
    taken, (value, stages) = cpu(lambda: stage_dp(cost, np.full(cost.shape, 4096), MESHES, 8, 8, 64))
    authors = f", {AUTHORS_S[n_layers] / taken:.0f}x the authors' speed" if n_layers in AUTHORS_S else ""
    print(f"\n{n_layers} layers: {taken:.4f} s, {taken / max(bare, 1e-9):.1f}x one pass{authors}; {len(stages)} stages")
    assert value > 0


@pytest.mark.parametrize("times", [0.0, 1.02, 1.1, 1.5, 2.0])
def test_sharding_of_a_24_layer_gpt(times):
    i = gpt_instance(24)
    i["M"] = times * max(sum(min(i["m"][v]) for v in nodes) for nodes in i["L"])
    bare, _ = cpu(lambda: [np.add.outer(x, x).min() for x in i["r"]])
    taken, s = cpu(lambda: solve_sharding(i, time_limit=120))
    print(f"\n{i['N']} nodes, M = {times} of the least: {taken:.2f} s, {taken / bare:.0f}x one look at every edge; {s}")
    assert s.status == "optimal"
