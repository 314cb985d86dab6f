"""A plan for 512 ranks: the program of one rank runs alone, and torch hears the collectives that the plan says."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

pytest.importorskip("torch")

from fake_world import Heard, rank_of
from meshwright.planners.alpa.intra import IntraOptions, solve_stage
from meshwright.profiles.graph import roofline
from meshwright.profiles.graph.models.transformer import GPT
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.job import run_job
from meshwright.runtime.training.optimizer import Optimizer
from meshwright.runtime.training.run import program_of, training_job
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh
from meshwright.simulator.plan.clusters import cluster_entry
from meshwright.simulator.training import MeshEntry

SHAPE, MICROBATCHES = (16, 32), 2


def planned(**options):
    """A small decoder, sharded over 64 nodes of 8 by the intra-operator pass."""
    graph = GPT(layers=2, hidden=128, heads=32, vocab=256, seq=16, dtype="float32").graph("gpt", 16)
    cluster, asked = Cluster(64, 8, "a100-80gb"), IntraOptions(microbatches=MICROBATCHES, **options)
    view = Mesh(cluster, 64, 8).view(SHAPE)
    found = solve_stage(graph, 0, len(graph.operators), view, roofline(cluster.spec), asked)
    plan = hand_plan(
        graph, meshes=[SHAPE], global_batch=16 * MICROBATCHES, microbatches=MICROBATCHES, optimizer=asked.optimizer,
        cluster=Cluster(1, 512, "a100-80gb"),
    )  # fmt: skip
    how = {
        "operators": dict(found.operators), "parameters": dict(found.parameters),
        "optimizer_states": dict(found.optimizer_states), "collectives": found.counts, "recompute": asked.recompute,
    }  # fmt: skip
    said = plan.planner.model_copy(update={"options": {"sequence_parallel": asked.sequence_parallel}})
    stages = (plan.stages[0].model_copy(update=how),)
    where = {"cluster": cluster_entry(cluster), "meshes": (MeshEntry(hosts=64, devices=8),)}
    return plan.model_copy(update={"stages": stages, "planner": said, **where}), graph, found


def of_the_plan(found, graph):
    """Collectives of one rank in an iteration: of each pass per microbatch; and bytes of reduction and update.

    The plan counts one number for each row of a norm or loss whose features are cut. A run sums two of a norm in the
    backward pass; in the forward pass each device gets two of every other one's (`compute.statistics`). Gradients and
    weights travel together, those of one kind and group in a message: of these the bytes are told.
    """
    size = {(0,): SHAPE[0], (1,): SHAPE[1], (0, 1): SHAPE[0] * SHAPE[1]}
    known = {op.name: op for op in graph.operators if op.kind in ("norm", "loss")}
    counted, together = Counter(), Counter()
    for c in found.collectives:
        group = size[tuple(sorted(c.axes))]
        if c.phase in ("reduce", "update"):
            together[c.collective, group] += round(c.n_bytes)
            continue
        cut = found.operators[c.operator].axes if c.value == c.operator and c.operator in known else ()
        rows = bool(cut) and all(known[c.operator].loop(cut[axis]).split == "statistic" for axis in c.axes)
        more = 1 if not rows else 2 * group if c.phase == "forward" else 2
        counted[c.collective, more * round(c.n_bytes), group] += MICROBATCHES
    return counted, together


@pytest.mark.parametrize(
    "options",
    [{"zero": 3}, pytest.param({}, marks=pytest.mark.slow),
     pytest.param({"zero": 2, "sequence_parallel": True}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_collectives_of_512_ranks_are_the_plans(options):
    plan, graph, found = planned(**options)
    job = training_job(
        plan, graph, program_of(plan, graph), seed=1, iterations=1, dtype="float32", keep=False,
        optimizer=Optimizer(plan.model.optimizer),
    )  # fmt: skip
    for rank in (0, 511):
        with rank_of(512, rank), Heard() as heard:
            run_job(job, rank=rank, timeout=timedelta(seconds=60))
        each, once = of_the_plan(found, graph)
        assert not each - heard.collectives
        left = Counter()
        for (kind, n_bytes, group), count in (heard.collectives - each).items():
            left[kind, group] += n_bytes * count
        assert left == once
        assert each
