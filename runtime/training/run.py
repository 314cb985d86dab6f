"""`run_training`: train a planned graph on processes of this machine."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from ...errors import InputError
from ...profiles.graph import Graph
from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.plan.graph import check_graph, in_plan_order
from ...simulator.training.plan.program import plan_program
from ...simulator.training.policy.make import make_program
from ...simulator.training.policy.turns import Turns
from ...simulator.training.program.actions import Op, Program
from .arrays import assemble
from .difference import difference
from .executor import Span
from .graphs.microbatch_parts import check_separable, is_uneven, reference_samples
from .module_values import save_values
from .optimizer import Optimizer
from .options import RunOptions
from .own.brought import Own, Ready
from .own.feed import Feed
from .own.optimizer import TorchOptimizer
from .result import TrainingRun
from .session import TrainingSession
from .single import SingleRun, Start
from .slices.job import check_sliced
from .slices.turns import microbatch_samples
from .stage.precision import check_precision
from .wires.edges import edges_of, mesh_ranks, tied_groups

__all__ = ["program_of", "rank_names", "run_training", "runnable", "training_job"]


def run_training(
    plan: TrainingPlan,
    graph: Graph,
    *,
    seed: int = 0,
    iterations: int = 1,
    dtype: Literal["float32", "float64"] = "float32",
    compare: bool = False,
    own: Own | None = None,
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
        Seed of parameters and data, where `own` has none.
    iterations : int
        Number of iterations.
    dtype : {"float32", "float64"}
        Number format of everything but indices, whatever the graph says: CPUs compute in these two.
    compare : bool
        Whether to run on a single device as well, and to report how far the two are apart. With float64 and no module,
        it compares the losses of all iterations, the gradients of the last one, and the weights after it. Otherwise
        ranks run the first iteration once more in float64, and that one is compared: after several steps of Adam,
        differences in float32 are amplified rounding. Half precision is no part of it.
    own : Own, optional
        The user's data, weights, optimiser and module. The run is compared with the module instead of with the graph.
    session : TrainingSession, optional
        Processes that are already running; they are left running.
    options : RunOptions, optional
        Processes and their time-outs, what is returned, and the learning rate.

    Raises
    ------
    InputError
        If the plan is for another graph, needs more processes, or cannot be run as it is written; or if what the user
        brings does not go with it.
    RunError
        If a rank dies, fails or falls silent; the others are ended and the message names it.
    """
    how = options or RunOptions()
    if isinstance(iterations, bool) or iterations < 1:
        raise InputError(f"run: iterations: expected a positive integer (got {iterations!r})")
    if dtype not in ("float32", "float64"):
        raise InputError(f"run: dtype: expected float32 or float64 (got {dtype!r})")
    check_precision(how.precision, dtype, plan)
    small = runnable(plan, graph)
    needed = sum(map(len, mesh_ranks(plan)))
    have = session.processes if session is not None else how.processes
    if have is not None and have < needed:
        raise InputError(
            f"run: the plan needs {needed} processes, one for each device of its meshes (got {have}); give more, or "
            f"plan for a cluster of {have} devices"
        )
    mine = own or Own()
    if compare and mine.module is not None:
        from .module_run import check_comparable

        check_comparable(small)
    program = program_of(plan, small)
    ready = Ready.of(mine, plan, small, iterations, how.learning_rate)
    keep = how.keep or compare or mine.data is not None or mine.state is not None
    exact = compare and (mine.module is not None or dtype != "float64")  # the first iteration once more, in float64

    def job(n: int, words: str, arrays: bool, heard: bool, folder: Path, precision: str = "full") -> dict[str, Any]:
        made = training_job(
            plan, small, program, seed=seed, iterations=n, dtype=words, keep=arrays, optimizer=ready.optimizer,
            audit=heard,
        )  # fmt: skip
        made["precision"] = precision
        return {**made, "values": save_values(ready.values, folder)} if ready.values else made

    def ran(made: dict[str, Any], session: TrainingSession, batches: Any) -> TrainingRun:
        if batches is None:
            return _collect(plan, session.run(made, rank_names(plan)))
        folder = Path(tempfile.mkdtemp(prefix="batches-", dir=session.folder)) / "ready"
        with Feed(batches, folder, made["iterations"], made["dtype"]):
            return _collect(plan, session.run({**made, "data": str(folder)}, rank_names(plan)))

    made = session or TrainingSession(needed, timeout_s=how.timeout_s, silence_s=how.silence_s)
    with nullcontext(made) if session is not None else made as running:
        first: TrainingRun | None = None
        if exact:
            first = ran(job(1, "float64", True, False, running.folder), running, ready.again())
        seen = ready.remembered(compare and not exact)
        run = ran(job(iterations, dtype, keep, how.audit, running.folder, how.precision), running, seen)
    run = replace(run, names=ready.names, kept=ready.kept)
    if not compare:
        return run
    held = first or run
    words = (how.against,) if mine.module is not None else ()
    single = _single(plan, small, mine, ready, seed, len(held.losses))
    return replace(run, difference=difference(held.losses, held.gradients, held.weights, single, *words))


def _single(plan: TrainingPlan, small: Graph, own: Own, ready: Ready, seed: int, iterations: int) -> SingleRun:
    """The same on one device, in float64: the module's first iteration, or the graph's iterations."""
    samples = reference_samples(plan) if is_uneven(plan) else microbatch_samples(plan)
    start = Start(ready.values, ready.seen)
    if own.module is not None:
        from .module_run import module_run

        return module_run(own.module, small, seed=seed, samples=samples, optimizer=ready.optimizer, start=start)
    from .single import single_device

    return single_device(
        small, seed=seed, microbatches=plan.microbatches, iterations=iterations, dtype="float64",
        optimizer=ready.optimizer, samples=samples, start=start,
    )  # fmt: skip


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
    optimizer: Optimizer | TorchOptimizer, audit: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The job that every rank is sent, in the form that `job.run_job` reads."""
    clip = optimizer.clip_norm if isinstance(optimizer, TorchOptimizer) else None
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
        "optimizer": optimizer.document() if isinstance(optimizer, TorchOptimizer) else asdict(optimizer),
        "clip_norm": clip,
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
