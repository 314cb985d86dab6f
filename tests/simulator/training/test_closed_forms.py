"""Closed forms that planners take for an iteration, against the simulation of it and against sums by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from meshwright.seeds import generator
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import MeshEntry, ModelEntry, StageEntry, TrainingPlan, TransferEntry
from meshwright.simulator.training.closed_form import closed_form
from meshwright.simulator.training.result.iteration import TrainingResult
from meshwright.simulator.training.simulate import simulate_training

PLANNER = PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0)


def pipeline(
    times: list[tuple[float, float, float]],
    microbatches: int,
    *,
    meshes: int | None = None,
    once: list[tuple[float, float]] | None = None,
    counts: list[int] | None = None,
    edges: list[tuple[int, int]] | None = None,
    schedule: str = "1f1b",
) -> TrainingPlan:
    """Stages on a device each, or in turn on so many; all that joins them is free."""
    p = meshes or len(times)
    ends = once or [(0.0, 0.0)] * len(times)
    stages = [
        StageEntry(
            mesh=s % p, logical=(1, 1), first=s, last=s + 1, forward_s=f, backward_input_s=b, backward_weight_s=w,
            reduce_s=ends[s][0], update_s=ends[s][1], state_bytes=0.0, activation_bytes=0.0,
            microbatch=24 // counts[s] if counts else 0,
        )
        for s, (f, b, w) in enumerate(times)
    ]  # fmt: skip
    return TrainingPlan.of(
        Cluster(1, p), model=ModelEntry(name="hand-made"), global_batch=24 if counts else microbatches,
        microbatches=microbatches, schedule=schedule,
        meshes=tuple(MeshEntry(hosts=1, devices=1, first_device=d) for d in range(p)),
        stages=tuple(stages), planner=PLANNER, overlap=True,
        transfers=tuple(TransferEntry(source=a, target=b, value=f"x{a}{b}", bytes=0.0) for a, b in edges or ()),
    )  # fmt: skip


def seconds(plan: TrainingPlan) -> float:
    result: TrainingResult = simulate_training(plan)
    assert result.pipeline_s == closed_form(plan)
    return result.seconds


@pytest.mark.parametrize(("p", "v"), [(2, 2), (2, 3), (3, 2), (3, 3), (4, 2)])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_equal_interleaved_stages_take_what_the_simulation_says(p: int, v: int, rounds: int) -> None:
    """B·v·t + (p − 1)·t (Narayanan et al. 2021, §2.2), with B a multiple of p."""
    made = pipeline([(0.5, 1.25, 0.25)] * (p * v), p * rounds, meshes=p, schedule="interleaved_1f1b")
    assert closed_form(made) == pytest.approx(2.0 * (p * rounds * v + p - 1), rel=1e-12)
    assert seconds(made) == pytest.approx(closed_form(made), rel=1e-12)


@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_fewer_microbatches_than_meshes_leave_gaps_in_every_round(microbatches: int) -> None:
    """Each goes through all p·v stages, the next one behind it."""
    made = pipeline([(1.0, 1.0, 1.0)] * 12, microbatches, meshes=4, schedule="interleaved_1f1b")
    assert closed_form(made) == pytest.approx(3.0 * (12 + microbatches - 1))
    assert seconds(made) == pytest.approx(closed_form(made), rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_interleaved_stages_of_any_length_are_within_the_formula(seed: int) -> None:
    """Never below what a mesh must compute; no less than the work of the slowest stage would have it."""
    draw = generator(seed, "interleaved")
    p, v = int(draw.integers(2, 5)), int(draw.integers(2, 4))
    times = [(float(draw.uniform(0.5, 1.5)), float(draw.uniform(1, 2)), 0.0) for _ in range(p * v)]
    made = pipeline(times, 2 * p, meshes=p, schedule="interleaved_1f1b")
    busiest = max(sum(sum(times[s]) for s in range(p * v) if s % p == mesh) for mesh in range(p))
    t = [sum(x) for x in times]
    assert 2 * p * busiest <= seconds(made) + 1e-9
    assert seconds(made) <= closed_form(made) + 1e-9
    assert closed_form(made) <= max(t) * (2 * p * v + p - 1) + 1e-9


@pytest.mark.parametrize("v", [1, 2])
def test_what_is_done_once_is_spread_over_the_microbatches(v: int) -> None:
    """t = F + B + W + (reduce + update)/B of each stage: the unequal ones counted by hand."""
    times = [(1.0, 2.0, 0.5)] * (2 * v)
    once = [(0.25, 0.75)] * (2 * v - 1) + [(3.0, 1.0)]
    made = pipeline(times, 4, meshes=2, once=once, schedule="interleaved_1f1b" if v > 1 else "1f1b")
    t = [3.5 + 0.25] * (2 * v - 1) + [3.5 + 1.0]
    w = {1: 4, 2: 4 * 2 + 2 - 4}[v]
    assert closed_form(made) == pytest.approx(sum(t) + (w - 1) * 4.5, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_a_graph_takes_the_longest_way_through_its_worst_stage(seed: int) -> None:
    """All paths of a drawn graph of stages are listed; each stage has microbatches of its own."""
    draw = generator(seed, "stage graph")
    n = int(draw.integers(2, 7))
    edges = sorted({(int(draw.integers(0, b)), b) for b in range(1, n) for _ in range(2)})
    counts = [int(draw.choice([2, 4, 8])) for _ in range(n)]
    times = [(float(draw.uniform(0, 2)), float(draw.uniform(0, 3)), float(draw.uniform(0, 1))) for _ in range(n)]
    made = pipeline(times, 8, counts=counts, edges=edges, schedule="kfkb")
    paths = [[s] for s in range(n)]
    every = list(paths)
    while paths:
        paths = [[*path, b] for path in paths for a, b in edges if a == path[-1]]
        every += paths
    for path in every:
        assert all(pair in edges for pair in pairwise(path))
    t = [sum(x) for x in times]
    want = max(sum(t[s] for s in path) + (counts[at] - 1) * t[at] for path in every for at in path)
    assert closed_form(made) == pytest.approx(want, rel=1e-12)
