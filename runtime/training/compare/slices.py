"""`slice_plans`: a pipeline by equal token slices and by those of TeraPipe's dynamic programme, to be run and compared.

``python -m meshwright.runtime.training.compare --slices`` measures slices of a small GPT's two stages, fits TeraPipe's
latency model (Eq. 2.9) to them, and lets the dynamic programme choose slices with that model. It says whether each
simulated iteration time is within 5 % of the measured one, and whether the order of the slicings is right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import SliceEntry, TrainingPlan
from ....simulator.training.simulate import simulate_training
from ..hand_plan import hand_plan
from ..measure.calibrate_slices import with_slice_times
from ..measure.cores import UNDISTURBED
from ..measure.slices import SliceGrid, SliceMeasurements, measure_slices
from ..session import TrainingSession
from .plans import compare_training
from .table import TrainingComparison

if TYPE_CHECKING:
    from ....planners.terapipe import SliceLatency

__all__ = ["StageModels", "fit_stages", "pipeline_plan", "slice_plans"]

UNITS = 32
"""Slices are whole multiples of a sequence's 32nd part. A guess between precision and time: the dynamic programme tries
all pairs of length and context in these units. The paper's are 8 tokens."""

PAPER_ERROR = 0.02
"""§2.3.3: "< 2% relative prediction error compared to the actual overhead"."""


@dataclass(frozen=True, eq=False)
class StageModels:
    """Latency models of a pipeline's stages.

    Parameters
    ----------
    forward, backward : tuple of SliceLatency
        For each stage, the seconds of a slice by its length and its context.
    measured : SliceMeasurements
        Measurements to which they were fitted.
    tokens : int
        Of a sequence.
    """

    forward: tuple[SliceLatency, ...]
    backward: tuple[SliceLatency, ...]
    measured: SliceMeasurements
    tokens: int

    def table(self, unit: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Seconds of a slice on the slowest stage, forward plus backward, in the form that `slice_tokens` takes."""
        stages = zip(self.forward, self.backward, strict=True)
        return np.max([f.table(self.tokens, unit, (1,)) + b.table(self.tokens, unit, (1,)) for f, b in stages], axis=0)

    def timed(self, plan: TrainingPlan) -> TrainingPlan:
        """A copy of the plan with the models' times for its slices; other times of its stages stay."""
        stages = list(plan.stages)
        for number in range(len(stages)):
            ways = [
                [
                    [float(way[number].seconds(n, sum(entry.tokens[:j]))) for j, n in enumerate(entry.tokens)]
                    for entry in plan.slices
                ]
                for way in (self.forward, self.backward)
            ]
            stages[number] = with_slice_times(plan, number, *ways)
        return plan.model_copy(update={"stages": tuple(stages)})

    def __str__(self) -> str:
        lines: list[str] = []
        for way, fits in (("forward", self.forward), ("backward", self.backward)):
            for number, fit in enumerate(fits):
                if not fit.held_out:
                    lines.append(f"stage {number} {way:<8}: too few slices were measured to hold some out")
                    continue
                lines.append(
                    f"stage {number} {way:<8}: on {fit.held_out} pairs that were held out, the linear model is "
                    f"{fit.overhead_error:.1%} off the overhead of context (the paper: < {PAPER_ERROR:.0%}), "
                    f"{fit.error:.1%} off the slice's time"
                )
        if self.measured.own < UNDISTURBED:
            lines.append(f"doubtful: processes had their cores in {self.measured.own:.1%} of the measuring time only")
        return "\n".join(lines)


def stage_bounds(graph: Graph, stages: int) -> list[int]:
    """First operator of each stage, then the number of operators; every stage gets equally many repeated blocks.

    Raises
    ------
    InputError
        If the blocks cannot be shared out evenly.
    """
    layers = [op.layer for op in graph.operators]
    count = max(layers) + 1
    if stages < 1 or count < stages or count % stages:
        raise InputError(f"compare: stages: expected a divisor of the graph's {count} layers (got {stages})")
    starts = [layers.index(s * (count // stages)) for s in range(1, stages)]
    return [0, *starts, len(layers)]


def fit_stages(
    graph: Graph, stages: int, session: TrainingSession, *, repeats: int = 5, seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> StageModels:  # fmt: skip
    """Measure slices of each stage at a grid of lengths and contexts, and fit Eq. 2.9."""
    from ....planners.terapipe import fit_latency  # a comparison holds planner, simulator and runtime together

    bounds = stage_bounds(graph, stages)
    tokens = int(graph.items_per_sample)
    unit = max(1, tokens // UNITS)
    # Denser where slices are short: there the time per token changes most, by overheads that do not shrink with it.
    lengths = sorted({unit * n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if unit * n <= tokens})
    contexts = sorted({unit * n for n in (0, 4, 8, 16, 24) if unit * n < tokens})
    parts = {f"stage {s}": (bounds[s], bounds[s + 1]) for s in range(stages)}
    measured = measure_slices(
        graph, parts, SliceGrid(lengths, contexts), repeats=repeats, seed=seed, session=session, together=True,
        progress=progress,
    )  # fmt: skip
    every = [measured.parts[name] for name in parts]
    return StageModels(
        tuple(fit_latency(x.lengths, x.contexts, x.forward_s) for x in every),
        tuple(fit_latency(x.lengths, x.contexts, x.backward_s) for x in every),
        measured,
        tokens,
    )


def pipeline_plan(
    graph: Graph, tokens: Sequence[int], *, stages: int = 2, count: int = 1, schedule: str = "terapipe"
) -> TrainingPlan:
    """A pipeline of single devices; `count` sequences follow each other, each cut into slices of these lengths."""
    slices = [SliceEntry(samples=1, tokens=tuple(tokens), count=count)]
    return hand_plan(
        graph, meshes=[(1, 1)] * stages, cuts=stage_bounds(graph, stages), slices=slices, schedule=schedule,
        optimizer="sgd",
    )  # fmt: skip


def slice_plans(
    graph: Graph, models: StageModels, uniform: Sequence[int], *, count: int = 1, schedule: str = "terapipe"
) -> dict[str, TrainingPlan]:
    """Plans of equal slices, and of those that the dynamic programme finds.

    Raises
    ------
    InputError
        If a number of slices does not divide the sequence.
    """
    from ....planners.terapipe import slice_tokens

    tokens, stages = models.tokens, len(models.forward)
    bad = next((n for n in uniform if n < 1 or tokens % n), None)
    if bad is not None:
        raise InputError(f"compare: --uniform: expected divisors of the {tokens} tokens of a sequence (got {bad})")
    unit = max(1, tokens // UNITS)
    best = slice_tokens(models.table(unit), stages, count).slices
    if len({(x.samples, x.tokens) for x in best}) != 1 or best[0].samples != 1:
        raise InputError("compare: the dynamic programme cut sequences differently; give --sequences 1")
    cuts = {
        **{f"{n} slice{'s' if n > 1 else ''}": (tokens // n,) * n for n in uniform},
        "DP": tuple(n * unit for n in best[0].tokens),
    }
    return {
        name: pipeline_plan(graph, cut, stages=stages, count=count, schedule=schedule) for name, cut in cuts.items()
    }


def main(arguments: list[str]) -> int:
    """Compare on this machine and print a table."""
    from ....profiles.graph.models.transformer import GPT

    parser = argparse.ArgumentParser(prog="python -m meshwright.runtime.training.compare --slices", description=__doc__)
    sizes = {"layers": 4, "hidden": 384, "heads": 6, "seq": 768, "vocab": 512, "stages": 2, "sequences": 1}
    for name, value in (sizes | {"rounds": 3, "iterations": 9, "repeats": 3, "seed": 0}).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--uniform", default="1,2,4,8,16", help="numbers of equal slices, with commas")
    parser.add_argument("--schedule", default="terapipe", choices=["terapipe", "terapipe_1f1b"])
    given = vars(parser.parse_args(arguments))
    shape = {name: given[name] for name in ("layers", "hidden", "heads", "seq", "vocab")}
    graph = GPT(**shape, dtype="float32").graph("small-gpt")
    uniform = [int(n) for n in given["uniform"].split(",")]

    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    with TrainingSession(given["stages"]) as session:
        models = fit_stages(
            graph, given["stages"], session, repeats=given["repeats"], seed=given["seed"], progress=tell
        )
        plans = slice_plans(graph, models, uniform, count=given["sequences"], schedule=given["schedule"])
        result = compare_training(
            plans, graph, rounds=given["rounds"], iterations=given["iterations"], seed=given["seed"], session=session,
            progress=tell,
        )  # fmt: skip
    print(models)
    print(f"DP: {list(plans['DP'].slices[0].tokens)}")
    print(result)
    print(_by_models(models, plans, result))
    return 0 if result.right else 1


def _by_models(models: StageModels, plans: dict[str, TrainingPlan], result: TrainingComparison) -> str:
    """How far simulations with the fitted models' times, instead of each plan's measured ones, are from the runs."""
    measured = {row.name: row.measured_s for row in result.rows}
    said = {name: simulate_training(models.timed(plan)).seconds for name, plan in plans.items()}
    each = ", ".join(f"{name} {said[name] / measured[name] - 1.0:+.1%}" for name in plans)
    return f"by Eq. 2.9 instead of each plan's own slices, without updates: {each}"
