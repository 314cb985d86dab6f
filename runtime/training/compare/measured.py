"""``--measured FILE …``: plans that were measured before, run and held against their own simulations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import planned_graph
from .plans import compare_measured

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the plans of files and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m meshwright.runtime.training.compare --measured", description=__doc__
    )
    parser.add_argument("plans", nargs="+", metavar="FILE", help="what meshwright measure has written")
    for name, value in {"rounds": 6, "iterations": 4, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    given = parser.parse_args(arguments)
    plans = {path: TrainingPlan.load(path) for path in given.plans}
    result = compare_measured(
        plans, {path: planned_graph(plan, Path(path)) for path, plan in plans.items()},
        rounds=given.rounds, iterations=given.iterations, seed=given.seed,
        progress=lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    print(result)
    return 0 if result.right else 1
