"""What an exported ``train.py`` does on each process that torchrun starts."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ....profiles.graph import load_graph
from ....simulator.training.plan.file import TrainingPlan

__all__ = ["main"]


def main(folder: Path, arguments: Sequence[str] | None = None) -> None:
    """Train by ``plan.json`` and ``graph.json`` of a folder; the first process prints losses and seconds."""
    parser = argparse.ArgumentParser(description="Train by plan.json, a process for each device of the plan's meshes.")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0, help="of parameters and data")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--timeout", type=float, default=60.0, help="longest wait for another process, seconds")
    parser.add_argument("--gradients", help="write the last iteration's whole gradients and loss here (npz)")
    _train(folder, parser.parse_args(arguments))


def _train(folder: Path, said: argparse.Namespace) -> None:
    import torch
    import torch.distributed

    from ...training.job import run_job
    from ...training.optimizer import Optimizer
    from ...training.run import program_of, training_job

    plan = TrainingPlan.load(folder / "plan.json")
    graph = load_graph(folder / "graph.json").with_batch(plan.microbatch)
    needed = sum(m.hosts * m.devices for m in plan.meshes)
    timeout = timedelta(seconds=said.timeout)
    dist: Any = torch.distributed  # half of its functions have no types
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timeout)
    rank, world = dist.get_rank(), dist.get_world_size()
    if world != needed:
        raise SystemExit(f"the plan is for {needed} devices, not {world}")
    job = training_job(
        plan, graph, program_of(plan, graph), seed=said.seed, iterations=said.iterations, dtype=said.dtype,
        keep=bool(said.gradients), optimizer=Optimizer(plan.model.optimizer, said.lr),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as arrays:
        answer = run_job({**job, "arrays": arrays}, rank=rank, timeout=timeout)
        everyone: list[Any] = [None] * world
        dist.all_gather_object(everyone, answer)
        if rank == 0:
            _report(everyone, said)
        dist.barrier()
    dist.destroy_process_group()


def _report(everyone: list[dict[str, Any]], said: argparse.Namespace) -> None:
    """Print losses and seconds, and write gradients where they were asked for."""
    import numpy as np

    from ...training.arrays import assemble

    losses: list[float] = []
    for i in range(said.iterations):
        losses.append(next(a["losses"][i] for a in everyone if a["losses"][i] is not None))
        print(f"iteration {i}: loss {losses[-1]:.6g}, {max(a['seconds'][i] for a in everyone):.4g} s", flush=True)
    if said.gradients:
        gradients, _ = assemble([a["arrays"] for a in everyone if "arrays" in a])
        whole: dict[str, Any] = {"loss": losses[-1], **gradients}
        np.savez(said.gradients, **whole)
