"""`run_training`: train a planned graph on processes of this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import InputError
from ...profiles.graph import Graph
from ...reprs import Shown
from ...simulator.plots import panels
from ...simulator.summary import Figure, Summary
from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.plan.graph import check_graph, in_plan_order
from ...simulator.training.plan.program import plan_program
from ...simulator.training.policy.make import make_program
from ...simulator.training.policy.turns import Turns
from ...simulator.training.program.actions import Op, Program
from .arrays import assemble
from .difference import Difference, difference
from .executor import Span
from .graphs.microbatch_parts import check_separable, is_uneven, reference_samples
from .module_values import module_values, save_values
from .optimizer import Optimizer
from .options import RunOptions
from .session import TrainingSession
from .slices.job import check_sliced
from .slices.turns import microbatch_samples
from .wires.edges import edges_of, mesh_ranks, tied_groups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from ...profiles.graph.module_loss import ModuleLoss

__all__ = ["Difference", "TrainingRun", "program_of", "rank_names", "run_training"]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun(Shown):
    """Times, losses and, where asked for, arrays of a real run of a plan.

    Parameters
    ----------
    seconds : tuple of float
        For each iteration, the time from the common start until the last rank ends.
    losses : tuple of float
        Mean loss of each iteration's microbatches.
    spans : tuple of tuple of tuple of Span
        Times of every action: for each iteration, for each rank.
    mesh_of_rank : tuple of int
        Mesh of each rank.
    collectives : mapping
        Stage -> '<pass>.<collective>' -> number of calls on the stage's first rank, over all iterations.
    microbatches : tuple of int
        Microbatches of an iteration, for each stage.
    gradients, weights : mapping
        Parameter -> whole array, of the last iteration; empty if they were not asked for.
    difference : Difference, optional
        How far the run is from the single-device run, if that was asked for.
    heard : mapping
        Rank -> operator of torch.distributed -> number of calls that torch's CommDebugMode counted, if asked for.
    began : tuple of tuple of float
        For each iteration, for each rank, when its spans' clock began, on one clock for all.
    cores : tuple of tuple of int
        For each rank the cores that it could run on; empty where the system does not say.
    """

    seconds: tuple[float, ...]
    losses: tuple[float, ...]
    spans: tuple[tuple[tuple[Span, ...], ...], ...]
    mesh_of_rank: tuple[int, ...]
    collectives: Mapping[int, Mapping[str, int]]
    microbatches: tuple[int, ...]
    gradients: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    weights: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    difference: Difference | None = None
    heard: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    began: tuple[tuple[float, ...], ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()

    @property
    def median_s(self) -> float:
        """Median seconds of an iteration. The first includes warm-up and is left out, unless it is the only one."""
        return float(np.median(self.seconds[1:] or self.seconds))

    def only(self, iterations: Sequence[int]) -> TrainingRun:
        """The run as if these had been its iterations; the first of a run is taken for its warm-up."""
        kept = {
            name: tuple(getattr(self, name)[i] for i in iterations)
            for name in ("seconds", "losses", "spans", "began")
            if getattr(self, name)
        }
        return replace(self, **kept)

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        return Summary(
            repr(self),
            [
                Figure("seconds", self.median_s, "s", "of one iteration, median"),
                Figure("iterations", float(len(self.seconds)), "", "that were run"),
                Figure("ranks", float(len(self.mesh_of_rank)), "", "processes"),
                Figure("first_loss", self.losses[0] if self.losses else float("nan"), "", "of the first iteration"),
                Figure("last_loss", self.losses[-1] if self.losses else float("nan"), "", "of the last iteration"),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per action of every iteration and rank: what it was, when it began and ended (seconds)."""
        import pandas as pd

        rows = [
            {
                "iteration": k, "rank": rank, "mesh": self.mesh_of_rank[rank], "op": span.op, "stage": span.stage,
                "microbatch": span.microbatch, "slice": span.slice, "start_s": span.start, "finish_s": span.end,
                "cpu_s": span.cpu,
            }
            for k, ranks in enumerate(self.spans) for rank, spans in enumerate(ranks) for span in spans
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def plot(self) -> Drawing:
        """Seconds and loss of each iteration, as a matplotlib figure."""
        with panels(2.6, columns=2, title=repr(self)) as (figure, (left, right)):
            left.plot(range(len(self.seconds)), self.seconds, "o-")
            left.set(xlabel="iteration", ylabel="seconds", ylim=(0, None))
            right.plot(range(len(self.losses)), self.losses, "o-")
            right.set(xlabel="iteration", ylabel="loss")
        return figure

    def _headline(self) -> str:
        loss = f", loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}" if self.losses else ""
        ranks = f"{len(self.mesh_of_rank)} ranks"
        return f"{len(self.seconds)} iterations on {ranks}: {self.median_s:.4g} s per iteration{loss}"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()

    def collectives_of(self, stage: int) -> dict[str, float]:
        """A stage's collectives as plans count them: per microbatch, or per iteration for reduce and update."""
        n = len(self.seconds)
        once = ("reduce.", "update.")
        return {
            name: count / n / (1 if name.startswith(once) else self.microbatches[stage])
            for name, count in sorted(self.collectives[stage].items())
        }


def run_training(
    plan: TrainingPlan,
    graph: Graph,
    *,
    seed: int = 0,
    iterations: int = 1,
    dtype: Literal["float32", "float64"] = "float32",
    compare: bool = False,
    module: ModuleLoss | None = None,
    session: TrainingSession | None = None,
    options: RunOptions | None = None,
) -> TrainingRun:
    """Train by a plan on this machine: one process for each device, on a core of its own where there are enough.

    Parameters
    ----------
    plan : TrainingPlan
        What to run.
    graph : Graph
        The graph that was planned, with any batch size.
    seed : int
        Seed of parameters and data.
    iterations : int
        Number of iterations.
    dtype : {"float32", "float64"}
        Number format of everything but indices, whatever the graph says: CPUs compute in these two.
    compare : bool
        Whether to run on a single device as well, and to report how far the two are apart. With float64 and no module,
        it compares the losses of all iterations, the gradients of the last one, and the weights after it. Otherwise
        ranks run the first iteration once more in float64, and that one is compared: after several steps of Adam,
        differences in float32 are amplified rounding.
    module : ModuleLoss, optional
        The module that the graph was traced from. The run is then compared with it instead of with the graph.
    session : TrainingSession, optional
        Processes that are already running; they are left running.
    options : RunOptions, optional
        Processes and their time-outs, what is returned, and the learning rate.

    Raises
    ------
    InputError
        If the plan is for another graph, needs more processes, or cannot be run as it is written.
    RunError
        If a rank dies, fails or falls silent; the others are ended and the message names it.
    """
    how = options or RunOptions()
    if isinstance(iterations, bool) or iterations < 1:
        raise InputError(f"run: iterations: expected a positive integer (got {iterations!r})")
    if dtype not in ("float32", "float64"):
        raise InputError(f"run: dtype: expected float32 or float64 (got {dtype!r})")
    small = runnable(plan, graph)
    needed = sum(map(len, mesh_ranks(plan)))
    have = session.processes if session is not None else how.processes
    if have is not None and have < needed:
        raise InputError(
            f"run: the plan needs {needed} processes, one for each device of its meshes (got {have}); give more, or "
            f"plan for a cluster of {have} devices"
        )
    optimizer = Optimizer(plan.model.optimizer, how.learning_rate)
    program = program_of(plan, small)
    values = {} if module is None else module_values(module, small)
    samples = reference_samples(plan) if is_uneven(plan) else microbatch_samples(plan)

    def job(n: int, words: str, arrays: bool, heard: bool, folder: Path) -> dict[str, Any]:
        made = training_job(
            plan, small, program, seed=seed, iterations=n, dtype=words, keep=arrays, optimizer=optimizer, audit=heard
        )
        return {**made, "values": save_values(values, folder)} if values else made

    made = session or TrainingSession(needed, timeout_s=how.timeout_s, silence_s=how.silence_s)
    with nullcontext(made) if session is not None else made as mine:
        first: TrainingRun | None = None
        if compare and (module is not None or dtype != "float64"):
            first = _collect(plan, mine.run(job(1, "float64", True, False, mine.folder), rank_names(plan)))
        main = job(iterations, dtype, how.keep or compare, how.audit, mine.folder)
        run = _collect(plan, mine.run(main, rank_names(plan)))
    if not compare:
        return run
    if module is not None:
        from .module_run import module_run

        single = module_run(module, small, seed=seed, samples=samples, optimizer=optimizer, values=values)
    else:
        from .single import single_device

        single = single_device(
            small, seed=seed, microbatches=plan.microbatches, iterations=iterations if first is None else 1,
            dtype="float64", optimizer=optimizer, samples=samples,
        )  # fmt: skip
    held = first or run
    words = (how.against,) if module is not None else ()
    apart = difference(held.losses, held.gradients, held.weights, single, *words)
    return TrainingRun(**{**vars(run), "difference": apart})


def runnable(plan: TrainingPlan, graph: Graph) -> Graph:
    """The graph for one microbatch, in the plan's order.

    Raises
    ------
    InputError
        If the plan is for another graph, or its slices or microbatches do not go with this one.
    """
    small = in_plan_order(plan, graph.with_batch(plan.microbatch))
    check_graph(plan, small)
    if plan.slices:
        check_sliced(plan, small)
    elif is_uneven(plan):
        check_separable(small)
    return small


def program_of(plan: TrainingPlan, graph: Graph) -> Program:
    """The program that is run, which is the one that the simulator times: by the plan's schedule, stages and meshes.

    Raises
    ------
    InputError
        If the plan has transfers, and they leave out a tensor that crosses between stages.
    """
    if not plan.transfers and len(plan.stages) > 1:
        return _derived(plan, graph)
    program = plan_program(plan)
    sends = {(a.op, a.stage, a.peer) for mine in program.actions for a in mine if a.peer >= 0}
    for edge in edges_of(plan, graph):
        if plan.stages[edge.source].mesh == plan.stages[edge.target].mesh:
            continue
        there, back = (Op.SEND_F, edge.source, edge.target), (Op.SEND_B, edge.target, edge.source)
        if there not in sends or (edge.gradient and back not in sends):
            raise InputError(
                f"plan: transfers: stage {edge.target} reads {edge.name!r} of stage {edge.source}, and no transfer "
                f"brings {'it' if there not in sends else 'its gradient back'}; add one"
            )
    return program


def _derived(plan: TrainingPlan, graph: Graph) -> Program:
    """The program of a plan that names no transfers: they follow from what stages read in the graph."""
    pairs: dict[tuple[int, int], bool] = {}
    for edge in edges_of(plan, graph):
        key = edge.source, edge.target
        pairs[key] = pairs.get(key, False) or edge.gradient
    return make_program(
        plan.schedule,
        len(plan.stages),
        plan.microbatches_of,
        mesh_of=[stage.mesh for stage in plan.stages],
        transfers=[(a, b, gradient) for (a, b), gradient in sorted(pairs.items())],
        tied=[stages for _, stages in tied_groups(plan, graph)],
        turns=Turns(
            k=[stage.k for stage in plan.stages],
            warmup=[stage.warmup for stage in plan.stages],
            order=[stage.order for stage in plan.stages],
        ),
        slices=[len(entry.tokens) for entry in plan.slices for _ in range(entry.count)],
    )


def training_job(
    plan: TrainingPlan, graph: Graph, program: Program, *, seed: int, iterations: int, dtype: str, keep: bool,
    optimizer: Optimizer, audit: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The job that every rank is sent, in the form that `job.run_job` reads."""
    return {
        "kind": "run",
        "plan": plan.to_json(),
        "graph": graph.to_json(),
        "program": [[[a.op, a.stage, a.microbatch, a.peer, a.slice] for a in mine] for mine in program.actions],
        "seed": seed,
        "iterations": iterations,
        "dtype": dtype,
        "keep": keep,
        "audit": audit,
        "optimizer": asdict(optimizer),
    }


def rank_names(plan: TrainingPlan) -> dict[int, str]:
    """For each rank its stages and its device, in words, for error messages."""
    names: dict[int, str] = {}
    for mesh, ranks in enumerate(mesh_ranks(plan)):
        stages = [str(s) for s, stage in enumerate(plan.stages) if stage.mesh == mesh]
        for device, rank in enumerate(ranks):
            which = f"stage{'s' if len(stages) > 1 else ''} {', '.join(stages)}"
            names[rank] = f"{which}, device {device + 1} of {len(ranks)}"
    return names


def _collect(plan: TrainingPlan, answers: list[dict[str, Any]]) -> TrainingRun:
    ranks = mesh_ranks(plan)
    mine = answers[: sum(map(len, ranks))]
    iterations = len(mine[0]["seconds"])
    seconds = tuple(max(a["seconds"][i] for a in mine) for i in range(iterations))
    losses = tuple(next(a["losses"][i] for a in mine if a["losses"][i] is not None) for i in range(iterations))
    spans = tuple(tuple(tuple(Span(*s) for s in a["spans"][i]) for a in mine) for i in range(iterations))
    collectives: dict[int, dict[str, int]] = {}
    for number, stage in enumerate(plan.stages):
        found = [Counter(a["counts"][str(number)]) for a in mine if a["mesh"] == stage.mesh]
        collectives[number] = dict(found[0])
    gradients, weights = assemble([a["arrays"] for a in mine if "arrays" in a])
    return TrainingRun(
        seconds,
        losses,
        spans,
        tuple(a["mesh"] for a in mine),
        collectives,
        plan.microbatches_of,
        gradients,
        weights,
        heard={a["rank"]: a["heard"] for a in mine if "heard" in a},
        began=tuple(tuple(a["began"][i] for a in mine) for i in range(iterations)),
        cores=tuple(tuple(a["cores"]) for a in mine),
    )
