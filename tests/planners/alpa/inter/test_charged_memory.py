"""What stages are charged is what the simulated program of their plan holds; ZB-H1's programme against every plan."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa import AlpaOptions, plan
from meshwright.planners.alpa.inter.choose import choose_stages
from meshwright.planners.alpa.inter.interleave import held_microbatches
from meshwright.planners.alpa.inter.memory import SCHEDULES, in_flight
from meshwright.planners.alpa.inter.pricing.table import StageConfig, StageTable
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.training.policy.make import make_program
from meshwright.simulator.training.result.memory_timeline import in_flight as program_in_flight
from meshwright.simulator.training.simulate import simulate_training
from plain_prices import PlainPrices


@pytest.mark.parametrize("microbatches", [2, 4, 8, 16])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_is_charged_is_the_simulated_peak(schedule, microbatches):
    virtual = 2 if schedule == "interleaved_1f1b" else 1
    # Devices that lose much together make pipelines; memory is ample, so that nothing is recomputed.
    prices = PlainPrices(loss=5.0, kept=0.02)
    for devices in (2, 4):
        if microbatches % devices and virtual > 1:
            continue
        made = plan(
            zoo_graph("gpt3-1.3b"), Cluster(1, devices), global_batch=16, microbatches=microbatches, pricer=prices,
            options={"schedule": schedule, "interleave": virtual, "n_layers": 8, "memory_fraction": 1.0},
        )  # fmt: skip
        count, result = len(made.stages), simulate_training(made)
        assert len(made.meshes) > 1
        peak = result.peak_bytes.tolist()
        assert made.predicted["peak_bytes"] == max(peak)
        held = [in_flight(schedule, s, count, microbatches) for s in range(count)]
        if virtual > 1:
            held = list(held_microbatches(len(made.meshes), virtual, microbatches))
        charged = [0.0] * len(made.meshes)
        for stage, n in zip(made.stages, held, strict=True):
            charged[stage.mesh] += stage.state_bytes + n * stage.activation_bytes + stage.work_bytes
        if virtual == 1:
            assert charged == pytest.approx(peak, rel=1e-12)
        assert all(a >= b * (1 - 1e-12) for a, b in zip(charged, peak, strict=True))


def drawn_table(seed):
    random = np.random.default_rng(seed)
    n, meshes, configs = int(random.integers(2, 6)), ((1, 1), (1, 2)), 2
    shape = (n, n, len(meshes), configs)
    layers = np.subtract.outer(np.arange(n), np.arange(n)).T[:, :, None, None] + 1.0
    draw = [random.uniform(0.5, 1.5, shape) * np.maximum(layers, 0.1) for _ in range(3)]
    table = StageTable(
        meshes, ((StageConfig((1, 1)),) * 2, (StageConfig((1, 2)),) * 2),
        draw[0], 0.1 * draw[0], draw[1], draw[2], 0.1 * draw[1],
    )  # fmt: skip
    return replace(table, seconds=np.where(layers >= 1, table.seconds, np.inf)), float(random.uniform(3, 14))


def every_plan(table, memory, devices, microbatches):
    """By the programs' own counts of what they hold, not by the planner's."""
    best, cost = math.inf, table.cost(microbatches)
    for count in range(1, table.n_layers + 1):
        held = program_in_flight(make_program("zb_h1", count, microbatches))
        for cut in itertools.combinations(range(1, table.n_layers), count - 1):
            ends = [0, *cut, table.n_layers]
            for way in itertools.product(range(2), repeat=count):
                if sum(table.sizes[k] for k in way) != devices:
                    continue
                times = []
                for s, k in enumerate(way):
                    at = ends[s], ends[s + 1] - 1, k
                    used = table.state[at] + held[s] * table.activation[at] + table.work[at]
                    times.append(np.where(used <= memory, cost[at], np.inf).min())
                if math.isfinite(max(times)):
                    best = min(best, sum(times) + (microbatches - 1) * max(times))
    return best


@pytest.mark.parametrize("seed", range(60))
def test_zb_h1_equals_the_best_of_all_plans(seed):
    table, memory = drawn_table(seed)
    devices, microbatches = 1 + seed % 5, 1 + seed // 5 % 6
    options = AlpaOptions(schedule="zb_h1")
    expected = every_plan(table, memory, devices, microbatches)
    if math.isinf(expected):
        with pytest.raises(InfeasibleError):
            choose_stages(table, Cluster(1, devices), microbatches, memory, options)
        return
    found = choose_stages(table, Cluster(1, devices), microbatches, memory, options)
    assert found.seconds == pytest.approx(expected, rel=1e-12)


def test_the_drawn_tables_are_of_all_kinds():
    """Some have no plan, some one that 1F1B's memory would let be faster: else the test above would show little."""
    kinds = set()
    for seed in range(60):
        table, memory = drawn_table(seed)
        devices, microbatches = 1 + seed % 5, 1 + seed // 5 % 6
        values = []
        for schedule in ("zb_h1", "1f1b"):
            try:
                options = AlpaOptions(schedule=schedule)
                values.append(choose_stages(table, Cluster(1, devices), microbatches, memory, options).seconds)
            except InfeasibleError:
                values.append(math.inf)
        assert values[0] >= values[1]
        kinds.add("none" if math.isinf(values[0]) else "slower" if values[0] > values[1] else "as fast")
    assert kinds == {"none", "slower", "as fast"}
