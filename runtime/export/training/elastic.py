"""What an exported ``train.py`` does on each process that torchrun starts. It needs torch; bundled files import it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InputError, RunError
from ....profiles.graph.document import from_json
from ....simulator.training.plan.file import TrainingPlan
from ...training.job import Brought, run_job
from ...training.optimizer import Optimizer
from ...training.own.batches import Batch, global_batches
from ...training.own.inputs import SentInputs
from ...training.own.names import StateNames
from ...training.own.optimizer import TorchOptimizer
from ...training.own.script import data_of
from ...training.own.weights import check_suffix, load_weights, save_weights
from ...training.own.words import optimizer_of
from ...training.shards import whole_weights
from ...training.slices.turns import microbatch_samples
from ...training.stage.precision import check_precision

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["main"]


def main(folder: Path, arguments: Sequence[str] | None = None) -> None:
    """Train by ``job.json`` of a folder; the first process prints losses and seconds."""
    parser = argparse.ArgumentParser(description="Train by the plan, a process for each device of its meshes.")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--data", help="FILE.py:NAME of your batches; the first process alone runs it")
    parser.add_argument("--weights", help="start from this state dict (.safetensors, .pt)")
    parser.add_argument("--save", help="write the trained weights here, by your module's names")
    parser.add_argument("--optimizer", help="of torch.optim: adamw:lr=3e-4,weight_decay=0.1,betas=0.9/0.95")
    parser.add_argument("--schedule", help="of its learning rate: cosine:warmup=100,until=1000,least=0.1")
    parser.add_argument("--groups", help="options of some parameters: *.bias:weight_decay=0,*norm*:weight_decay=0")
    parser.add_argument("--clip-norm", type=float, help="bring the norm of all gradients down to this")
    parser.add_argument("--lr", type=float, default=1e-3, help="of the plan's optimiser, without --optimizer")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and data that are not given (needs numpy)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument(
        "--precision",
        default="full",
        choices=["full", "bf16", "fp16"],
        help="half precision to compute in, with float32 master weights",
    )
    parser.add_argument("--timeout", type=float, default=60.0, help="longest wait for another process, seconds")
    parser.add_argument(
        "--gradients", help="write the last iteration's whole gradients and loss here (npz; needs numpy)"
    )
    said = parser.parse_args(arguments)
    try:
        _train(folder, said)
    except (InputError, RunError) as error:
        import torch.distributed as dist

        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"train.py: {error}", file=sys.stderr, flush=True)
        else:
            time.sleep(1.0)  # torchrun shows the first process that ends: let that be the one that says why
        raise SystemExit(2) from None


def _train(folder: Path, said: argparse.Namespace) -> None:
    import torch
    import torch.distributed

    dist: Any = torch.distributed  # half of its functions have no types
    torch.set_num_threads(1)
    timeout = timedelta(seconds=said.timeout)
    dist.init_process_group("gloo", timeout=timeout)
    rank, world = dist.get_rank(), dist.get_world_size()
    job: dict[str, Any] = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    plan = TrainingPlan.from_json(json.dumps(job["plan"]))
    graph = from_json(json.dumps(job["graph"])).with_batch(plan.microbatch)
    needed = sum(m.hosts * m.devices for m in plan.meshes)
    if world != needed:
        raise InputError(f"the plan is for {needed} devices, not {world}")
    check_precision(said.precision, said.dtype, plan)
    if said.save:
        check_suffix(said.save, "save")
    names = StateNames.read(job["names"], graph)
    values, kept = _values(folder, names, said.weights)
    optimizer = _optimizer(plan, [t.name for t in graph.parameters if t.trainable], said)
    inputs = None
    if said.data:
        batches = _batches(said.data, graph, plan.global_batch, said.iterations) if rank == 0 else iter(())
        inputs = SentInputs(graph, microbatch_samples(plan), said.dtype, batches, rank, world)
    torchs = isinstance(optimizer, TorchOptimizer)
    made: dict[str, Any] = {
        "plan": json.dumps(job["plan"]), "graph": json.dumps(job["graph"]), "program": job["program"],
        "seed": said.seed, "iterations": said.iterations, "dtype": said.dtype, "audit": False,
        "precision": said.precision,
        "keep": "shards" if said.save or said.gradients else "",
        "optimizer": optimizer.document() if torchs else _plain(optimizer),
        "clip_norm": optimizer.clip_norm if torchs else None,
    }  # fmt: skip
    answer = run_job(made, rank=rank, timeout=timeout, brought=Brought(inputs, values))
    shards = answer.pop("shards", [])
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, answer)
    losses = [next(a["losses"][i] for a in everyone if a["losses"][i] is not None) for i in range(said.iterations)]
    if rank == 0:
        for i, loss in enumerate(losses):
            print(f"iteration {i}: loss {loss:.10g}, {max(a['seconds'][i] for a in everyone):.4g} s", flush=True)
    if said.save or said.gradients:
        all_shards: list[Any] | None = [None] * world if rank == 0 else None
        dist.gather_object(shards, all_shards)
        if all_shards is not None:
            every = [one for part in all_shards for one in part]
            if said.save:
                save_weights(said.save, names.state(whole_weights(every, "weight"), kept))
            if said.gradients:
                _write_gradients(said.gradients, names.whole(whole_weights(every, "gradient")), losses[-1])
    dist.barrier()
    dist.destroy_process_group()


def _plain(optimizer: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(optimizer)


def _optimizer(plan: TrainingPlan, names: Sequence[str], said: argparse.Namespace) -> Any:
    groups = said.groups.split(",") if said.groups else ()
    own = optimizer_of(said.optimizer, said.schedule, groups, said.clip_norm)
    if own is None:
        return Optimizer(plan.model.optimizer, said.lr)
    own.check(names)
    return own


def _values(folder: Path, names: StateNames, weights: str | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and buffers that are not drawn, by the graph's names; and entries that the loss does not depend on."""
    values: dict[str, Tensor] = {}
    kept: dict[str, Tensor] = {}
    if (folder / "constants.safetensors").is_file():
        values = load_weights(folder / "constants.safetensors")
    if (folder / "kept.safetensors").is_file():
        kept = load_weights(folder / "kept.safetensors")
    if weights:
        state = load_weights(weights)
        values |= names.values(state, "weights")
        kept = names.kept(state)
    return values, kept


def _batches(word: str, graph: Any, global_batch: int, iterations: int) -> Iterator[Batch]:
    """The user's batches; their file is read when the first is asked for, where errors reach all processes."""
    yield from global_batches(data_of(word), graph, global_batch, iterations)


def _write_gradients(path: str, gradients: dict[str, Tensor], loss: float) -> None:
    import numpy as np

    whole: dict[str, Any] = {name: x.numpy() for name, x in gradients.items()}
    np.savez(path, allow_pickle=False, loss=loss, **whole)
