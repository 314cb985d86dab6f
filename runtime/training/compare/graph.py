"""`graph_plans`: two branches trained one after another and at once, to be run and compared with the simulation.

``python -m meshwright.runtime.training.compare --graph`` trains a small model of two transformer branches (MMT) by four
plans: as a linear pipeline on two processes; with both branches at once on the same two (interleaved: what follows the
branches is on either); as a graph of three stages; and as that graph with larger microbatches for the third stage. The
third stage holds what follows the branches. It computes next to nothing and shares a core with the second. The command
says whether each simulated iteration time is within 5 % of the measured one, and whether the order is right.
"""

from __future__ import annotations

import argparse
import sys

from ....errors import InputError
from ....profiles.graph import MMT, Graph
from ....simulator.training.plan.file import TrainingPlan
from ..hand_graph_plan import branch_stages, stage_graph_plan
from .plans import compare_training

__all__ = ["graph_plans", "main"]

CORES = (0, 1, 1)
"""Core of each stage's process. The third stage computes next to nothing: sharing a core, it needs no third one, and a
machine of two cores can compare all plans."""


def graph_plans(graph: Graph, *, global_batch: int, samples: int) -> dict[str, TrainingPlan]:
    """Ways to train a graph of two branches on two devices, and a third that has nearly nothing to do.

    Parameters
    ----------
    graph : Graph
        Two branches that are joined.
    global_batch, samples : int
        Of an iteration, and of a microbatch.

    Raises
    ------
    InputError
        If the graph has other branches, or the numbers do not go together.
    """
    one, other, *rest = branch_stages(graph)
    if len(rest) != 1 or len(rest[0]) < 2:
        raise InputError(
            f"compare: expected a graph of two branches and at least two operators after them ({graph.name!r})"
        )
    ends = rest[0]

    def plan(
        stages: list[tuple[int, ...]], sizes: list[int], schedule: str = "kfkb", per_mesh: int = 1
    ) -> TrainingPlan:
        meshes = [(1, 1)] * (len(stages) // per_mesh)
        return stage_graph_plan(
            graph, stages, meshes=meshes, global_batch=global_batch, samples=sizes, schedule=schedule,
            stages_per_mesh=per_mesh,
        )  # fmt: skip

    b = samples
    return {
        "in one line": plan([one, (*other, *ends)], [b] * 2),
        "at once, 2 ranks": plan([one, other, ends[:1], ends[1:]], [b] * 4, "interleaved_1f1b", 2),
        "at once, 3 ranks": plan([one, other, ends], [b] * 3),
        "own microbatches": plan([one, other, ends], [b, b, 2 * b]),
    }


def main(arguments: list[str]) -> int:
    """Compare on this machine and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"layers": 2, "hidden": 256, "heads": 4, "seq": 128, "global-batch": 16, "microbatch": 4}
    for name, value in (sizes | {"rounds": 6, "iterations": 9, "seed": 0}).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    given = vars(parser.parse_args(arguments))
    shape = {name: given[name] for name in ("layers", "hidden", "heads", "seq")}
    graph = MMT(branches=2, ffn=4 * given["hidden"], classes=16, **shape).graph("small-mmt")
    result = compare_training(
        graph_plans(graph, global_batch=given["global_batch"], samples=given["microbatch"]), graph,
        rounds=given["rounds"], iterations=given["iterations"], seed=given["seed"], cores=CORES,
        progress=lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    print(result)
    return 0 if result.right else 1
