"""The worker processes that measurements run in: one per device, pinned to its core, joined by torch.distributed.

They are what a real run's workers are (one torch thread, one core, gloo or nccl between them), so that what
is timed here holds there.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError, RunError, install_hint
from ...spawning import check_can_start

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["Worker", "WorkerPool", "device_count", "usable_cores"]

START_TIMEOUT_S = 120.0  # a guess: importing torch in all workers at once takes long on a busy machine


def usable_cores() -> tuple[int, ...]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def device_count(device: str) -> int:
    """Devices of a kind that are present: usable cores, or GPUs."""
    if device == "cpu":
        return len(usable_cores())
    import torch

    return torch.cuda.device_count()


@dataclass
class Worker:
    """What a job sees inside a worker process.

    Parameters
    ----------
    rank, size : int
        This worker, of how many.
    device : str
        The worker's torch device.
    cache : dict
        Kept from job to job (models that a later job measures again).
    """

    rank: int
    size: int
    device: str
    cache: dict[Any, Any] = field(default_factory=dict)
    groups: dict[tuple[int, ...], ProcessGroup] = field(default_factory=dict)

    def barrier(self) -> None:
        """Wait for all workers."""
        import torch.distributed as dist

        if self.size > 1:
            dist.barrier()

    def group(self, ranks: tuple[int, ...]) -> ProcessGroup:
        """The process group of `ranks`. All workers must ask for the same groups in the same order."""
        import torch.distributed as dist

        if ranks not in self.groups:
            self.groups[ranks] = cast("ProcessGroup", dist.new_group(list(ranks)))
        return self.groups[ranks]

    def groups_of(self, op: int) -> ProcessGroup | None:
        """The group of `op` consecutive workers that this one belongs to; None if it is left over."""
        mine = None
        for base in range(0, self.size - op + 1, op):
            ranks = tuple(range(base, base + op))
            group = self.group(ranks)
            mine = group if self.rank in ranks else mine
        return mine

    def agree(self, value: int) -> int:
        """Worker 0's `value`, on all workers (so that they run the same number of rounds)."""
        import torch
        import torch.distributed as dist

        if self.size == 1:
            return value
        told = torch.tensor([value], device=self.device)
        dist.broadcast(told, src=0)
        return int(told.item())


def _serve(rank: int, size: int, core: int | None, device: str, store: str, pipe: Connection) -> None:
    """Main loop of a worker process: take a job, run it, send back what it returned."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the workers
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    if size > 1:
        backend = "nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)
    worker = Worker(rank, size, device)
    pipe.send(("ready", None))
    while (job := _next_job(pipe)) is not None:
        function, arguments = job
        try:
            pipe.send(("done", function(worker, **arguments)))
        except Exception:
            pipe.send(("failed", traceback.format_exc()))
    if size > 1:
        dist.destroy_process_group()


def _next_job(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:  # the parent is gone
        return None


class WorkerPool:
    """`size` worker processes, one per device; use as a context manager.

    Parameters
    ----------
    size : int
        Workers.
    device : {"cpu", "cuda"}
        On ``cpu`` worker k is pinned to the k-th usable core (wrapping round if there are too few), on
        ``cuda`` it takes GPU k.

    Raises
    ------
    InputError
        If torch is missing or there is no such device.
    RunError
        If a worker dies, or a job raises in one.
    """

    def __init__(self, size: int, device: str = "cpu") -> None:
        check_can_start("measure: workers")
        _check_torch(size, device)
        cores = usable_cores()
        self.size = size
        self.cores = tuple(cores[k % len(cores)] for k in range(size)) if device == "cpu" else ()
        self._folder = tempfile.TemporaryDirectory(prefix="meshwright-measure-")
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        context = get_context("spawn")
        store = str(Path(self._folder.name) / "store")
        for rank in range(size):
            ours, theirs = context.Pipe()
            core = self.cores[rank] if self.cores else None
            name = device if device == "cpu" else f"{device}:{rank}"
            process = context.Process(
                target=_serve,
                args=(rank, size, core, name, store, theirs),
                daemon=True,
                name=f"measure-{rank}",
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> WorkerPool:
        try:
            self._collect(START_TIMEOUT_S)
        except BaseException:
            self.close(force=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(force=kind is not None)

    def call(self, function: Callable[..., Any], *, timeout_s: float = 600.0, **arguments: Any) -> list[Any]:
        """Run ``function(worker, **arguments)`` on all workers at once; what each returned, by rank."""
        for rank, pipe in enumerate(self._pipes):
            try:
                pipe.send((function, arguments))
            except OSError:
                raise self._dead(rank) from None
        return self._collect(timeout_s)

    def _collect(self, timeout_s: float) -> list[Any]:
        results: dict[int, Any] = {}
        deadline = time.monotonic() + timeout_s
        while len(results) < self.size:
            waiting = [r for r in range(self.size) if r not in results]
            watched: dict[Any, int] = {self._pipes[r]: r for r in waiting}
            watched |= {self._processes[r].sentinel: r for r in waiting}
            ready = wait(list(watched), timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RunError(f"measure: workers {waiting} did not answer within {timeout_s:.0f} s")
            for rank in {watched[handle] for handle in ready}:
                results[rank] = self._receive(rank)
        return [results[rank] for rank in range(self.size)]

    def _receive(self, rank: int) -> Any:
        try:
            status, value = self._pipes[rank].recv()
        except (EOFError, OSError):
            raise self._dead(rank) from None
        if status == "failed":
            raise RunError(f"measure: worker {rank} failed:\n{value}")
        return value

    def _dead(self, rank: int) -> RunError:
        self._processes[rank].join(5)
        return RunError(f"measure: worker {rank} died (exit code {self._processes[rank].exitcode})")

    def close(self, *, force: bool = False) -> None:
        """End all workers; with `force`, without waiting for their jobs."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if force or not process.is_alive():
                process.kill()
            else:
                pipe.send(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()
        self._folder.cleanup()


def _check_torch(size: int, device: str) -> None:
    if find_spec("torch") is None:
        raise InputError(f"measure: torch is not installed; measuring needs it: {install_hint('torch')}")
    if device not in ("cpu", "cuda"):
        raise InputError(f"measure: device must be 'cpu' or 'cuda' (got {device!r})")
    if size < 1:
        raise InputError(f"measure: expected at least one worker (got {size})")
    if device == "cuda" and device_count(device) < size:
        found = device_count(device)
        raise InputError(f"measure: {size} CUDA devices wanted, {found} found; use device='cpu' or fewer")
