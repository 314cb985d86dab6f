"""``python -m meshwright.runtime.training.compare``: simulated iterations beside real ones, on this machine.

It measures a small GPT by three plans on two processes, and says for each whether the measured iteration time is within
5 % of the simulated one and inside its interval, and whether the order is right. With ``--slices`` the plans are token
slices of a pipeline (`slices`); with ``--graph`` those of two branches at once (`graph`); with ``--measured FILE …``
plans that ``meshwright measure`` has measured; with ``--as-planned FILE …`` plans with the times that they were made
with.
"""

from __future__ import annotations

import argparse
import sys

from ....errors import MeshwrightError
from ....profiles.graph.models.transformer import GPT
from .files import FLAGS
from .files import main as compare_files
from .graph import main as compare_graph
from .plans import compare_training, example_plans
from .slices import main as compare_slices


def main(arguments: list[str]) -> int:
    """Compare on this machine and print a table."""
    if "--slices" in arguments:
        return compare_slices([x for x in arguments if x != "--slices"])
    if "--graph" in arguments:
        return compare_graph([x for x in arguments if x != "--graph"])
    for flag in FLAGS:
        if flag in arguments:
            return compare_files(flag, [x for x in arguments if x != flag])
    parser = argparse.ArgumentParser(prog="python -m meshwright.runtime.training.compare", description=__doc__)
    sizes = {"layers": 4, "hidden": 256, "heads": 4, "seq": 128, "vocab": 512, "global-batch": 16, "microbatches": 4}
    for name, value in (sizes | {"rounds": 6, "iterations": 9, "seed": 0}).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    given = vars(parser.parse_args(arguments))
    shape = {name: given[name] for name in ("layers", "hidden", "heads", "seq", "vocab")}
    graph = GPT(**shape, dtype="float32").graph("small-gpt")
    plans = example_plans(graph, global_batch=given["global_batch"], microbatches=given["microbatches"])
    result = compare_training(
        plans, graph, rounds=given["rounds"], iterations=given["iterations"], seed=given["seed"],
        progress=lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    print(result)
    return 0 if result.right else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except MeshwrightError as error:
        sys.exit(f"error: {error}")
