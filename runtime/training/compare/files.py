"""``--measured FILE …`` and ``--as-planned FILE …``: plans of files, run and held against their own simulations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import planned_graph
from .as_planned import AsPlanned, compare_as_planned
from .plans import compare_measured
from .table import TrainingComparison

__all__ = ["FLAGS", "main"]

FLAGS: dict[str, Callable[..., TrainingComparison | AsPlanned]] = {
    "--measured": compare_measured,
    "--as-planned": compare_as_planned,
}
"""What plans are compared by: times that ``meshwright measure`` put into them, or those that they were made with."""


def main(flag: str, arguments: list[str]) -> int:
    """Run the plans of files and print a table."""
    parser = argparse.ArgumentParser(
        prog=f"python -m meshwright.runtime.training.compare {flag}", description=FLAGS[flag].__doc__
    )
    parser.add_argument("plans", nargs="+", metavar="FILE", help="training plans")
    for name, value in {"rounds": 6, "iterations": 4, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    given = parser.parse_args(arguments)
    plans = {path: TrainingPlan.load(path) for path in given.plans}
    result = FLAGS[flag](
        plans, {path: planned_graph(plan, Path(path)) for path, plan in plans.items()},
        rounds=given.rounds, iterations=given.iterations, seed=given.seed,
        progress=_say,
    )  # fmt: skip
    print(result)
    return 0 if result.right else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr)
