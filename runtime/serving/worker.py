"""A worker: one process, one device, one share of one pipeline stage of every model of its group.

`processes.Fleet` starts it: ``python -m meshwright.runtime.serving.worker <pipe fd> <lifeline fd> <parent pid>``. It
reads jobs from its pipe in the order in which the controller dispatched them; every worker of a group reads the same
jobs, so what crosses torch.distributed is tensors alone.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ..lifeline import die_with_parent
from .protocol import DONE, FLUSH, FREE, JOB, READY, REPORT, SPAN_COLUMNS, SPANS, Assignment, receive_json

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Worker", "main"]

AHEAD = 16
"""Transfers that may be under way at once between two stages; each holds one activation in memory. A guess: enough that
a stage rarely waits for the network."""


class Worker:
    """The stage modules of one device, and the loop that runs them.

    Parameters
    ----------
    task : Assignment
        What to be.
    pipe : socket
        To the controller.
    """

    def __init__(self, task: Assignment, pipe: socket.socket) -> None:
        import torch
        import torch.distributed as dist

        self.task, self.pipe = task, pipe
        self.cuda = task.torch_device.startswith("cuda")
        torch.set_num_threads(1)
        if self.cuda:
            if torch.cuda.device_count() <= torch.device(task.torch_device).index:
                raise InputError(
                    f"run: {task.torch_device} is not there: torch {torch.__version__} finds "
                    f"{torch.cuda.device_count()} CUDA devices; use device='cpu'"
                )
            torch.cuda.set_device(task.torch_device)
        self._add_up: Callable[[Tensor], Tensor] | None = None
        if task.op * task.pp > 1:
            self._join()
        self.is_first, self.is_last = task.stage == 0, task.stage == task.pp - 1
        self.before, self.after = task.rank - task.op, task.rank + task.op
        self.reports_done = self.is_last and task.share == 0
        self.reports_free = task.report_free and self.is_first and task.share == 0
        self._torch, self._dist = torch, dist
        self._build()
        self.ahead = 1 if self.cuda else AHEAD
        self._more, self._flush = True, False
        self._unread = bytearray()
        self._jobs: deque[tuple[int, int, int]] = deque()
        self._posted: deque[tuple[int, int, Tensor, Any]] = deque()
        self._sent: deque[tuple[Any, Tensor]] = deque()
        self._spans = array("d")

    def _join(self) -> None:
        """Meet the group's other workers; stages of several devices get a process group each."""
        import torch.distributed as dist

        from ...kernels.collective import all_reduce_over

        task = self.task
        dist.init_process_group(
            "nccl" if self.cuda else "gloo",
            init_method=f"file://{task.store}",
            rank=task.rank,
            world_size=task.op * task.pp,
            timeout=timedelta(seconds=task.timeout_s),
        )
        if task.op > 1:
            for stage in range(task.pp):
                group = dist.new_group(list(range(stage * task.op, (stage + 1) * task.op)))
                if stage == task.stage:
                    self._add_up = all_reduce_over(group)

    def _build(self) -> None:
        """Make stages and inputs, and run each once, so that no request meets cold code."""
        from ...kernels.specs import ModelSpec, hidden_shape
        from ...kernels.transformer import build_stage, make_stage_input

        task, torch = self.task, self._torch
        self.stages: dict[int, Any] = {}
        self.inputs: dict[tuple[int, int], Tensor] = {}
        self.incoming: dict[tuple[int, int], tuple[tuple[int, ...], Any]] = {}
        for hosted in task.models:
            spec = ModelSpec(**hosted.spec)
            stage = build_stage(
                spec, hosted.first, hosted.last, seed=hosted.seed, device=task.torch_device, op_rank=task.share,
                op_size=task.op, all_reduce=self._add_up,
            )  # fmt: skip
            self.stages[hosted.model] = stage
            for batch in task.batches:
                given = make_stage_input(spec, hosted.first, batch, hosted.seed, task.torch_device)
                for _ in range(2):  # the first allocates and chooses kernels, the second runs as all later ones do
                    stage(given)
                if self.is_first:
                    self.inputs[hosted.model, batch] = given
                else:
                    shape = hidden_shape(spec, batch)
                    self.incoming[hosted.model, batch] = (shape, getattr(torch, spec.dtype))
        if self.cuda:
            torch.cuda.synchronize()

    def _take(self, flags: int = 0) -> None:
        """Read jobs from the pipe: at least some, or with ``MSG_DONTWAIT`` those that are there."""
        try:
            chunk = self.pipe.recv(4096, flags)
        except BlockingIOError:
            return
        if not chunk:
            os._exit(1)  # the controller is gone
        self._unread += chunk
        whole = len(self._unread) // JOB.size * JOB.size
        for job in JOB.iter_unpack(self._unread[:whole]):
            if job[0] >= 0:
                self._jobs.append(job)
            elif job[0] == FLUSH:
                self._flush = True  # it comes when nothing is under way
            else:
                self._more = False
        del self._unread[:whole]

    def _post_ahead(self) -> None:
        """Post the receives of the next jobs' inputs, so that they travel while earlier jobs compute."""
        while self._jobs and len(self._posted) < self.ahead:
            number, model, batch = self._jobs.popleft()
            if self.is_first:
                self._posted.append((number, model, self.inputs[model, batch], None))
                continue
            shape, dtype = self.incoming[model, batch]
            buffer = self._torch.empty(shape, dtype=dtype, device=self.task.torch_device)
            self._posted.append((number, model, buffer, self._dist.irecv(buffer, src=self.before)))

    def serve(self) -> None:
        """Run jobs until told to stop."""
        self._report(READY, 0, 0.0, 0.0, 0.0, 0.0)
        run = self._run_cuda if self.cuda else self._run_cpu
        while True:
            self._post_ahead()
            if not self._posted:
                if self._flush:
                    self._send_spans()
                if not self._more:
                    return
                self._take()
                continue
            number, model, given, work = self._posted.popleft()
            if work is not None:
                work.wait()
            if self._more:
                self._take(socket.MSG_DONTWAIT)
            if not self.cuda:  # a posted NCCL receive holds multiprocessors
                self._post_ahead()
            out, start, end, cpu = run(self.stages[model], given)
            if self.reports_free:
                self._report(FREE, number, start, end, cpu, 0.0)
            if not self.is_last:
                self._pass_on(out)
            elif self.reports_done:
                self._report(DONE, number, start, end, cpu, float(out.reshape(-1)[0]))
            self._spans.extend((number, start, end, cpu))

    def _send_spans(self) -> None:
        while self._sent:
            self._sent.popleft()[0].wait()
        self._report(SPANS, len(self._spans) // len(SPAN_COLUMNS), 0.0, 0.0, 0.0, 0.0)
        self.pipe.sendall(self._spans.tobytes())
        self._spans = array("d")
        self._flush = False

    # Both return the output, start, end, and for how long the stage had its device.

    def _run_cpu(self, stage: Any, given: Tensor) -> tuple[Tensor, float, float, float]:
        start, cpu = time.monotonic(), time.thread_time()
        out = stage(given)
        return out, start, time.monotonic(), time.thread_time() - cpu

    def _run_cuda(self, stage: Any, given: Tensor) -> tuple[Tensor, float, float, float]:
        torch = self._torch
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()  # after the receive, on which the current stream waits
        out = stage(given)
        end.record()
        end.synchronize()
        now, seconds = time.monotonic(), begin.elapsed_time(end) * 1e-3
        return out, now - seconds, now, seconds

    def _pass_on(self, out: Tensor) -> None:
        """Send to the next stage without waiting for it; keep the tensor alive until it has gone."""
        if len(self._sent) == AHEAD:
            self._sent.popleft()[0].wait()
        out = out.contiguous()
        self._sent.append((self._dist.isend(out, dst=self.after), out))

    def _report(self, kind: int, number: int, start: float, end: float, cpu: float, check: float) -> None:
        self.pipe.sendall(REPORT.pack(kind, number, start, end, cpu, check))


def main(arguments: list[str]) -> None:
    """Become a worker; see the module's text for the arguments."""
    descriptor, lifeline, parent = (int(a) for a in arguments)
    die_with_parent(lifeline, parent)
    pipe = socket.socket(fileno=descriptor)
    task = Assignment.from_json(receive_json(pipe))
    if task.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task.core})  # before torch is loaded: its helper threads inherit it
    worker = Worker(task, pipe)
    gc.collect()
    gc.freeze()
    gc.disable()
    worker.serve()
    pipe.close()
    os._exit(0)  # the work is handed over; tearing process groups down could only hang


if __name__ == "__main__":
    main(sys.argv[1:])
