"""A pipeline stage on one or several devices of one process: for servers that own the processes themselves."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from ...kernels.specs import ModelSpec

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LocalStage"]


class LocalStage:
    """One stage of a model, split over the given devices, a thread for each share.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    first, last : int
        Layers of the stage, `last` not included.
    seed : int
        The weights are made from it.
    devices : sequence of str
        Torch devices, one per share.
    """

    def __init__(self, spec: ModelSpec, first: int, last: int, seed: int, devices: Sequence[str]) -> None:
        from ...kernels.transformer import build_stage

        size = len(devices)
        self.devices = list(devices)
        self._barrier = threading.Barrier(size)
        self._parts: list[Any] = [None] * size
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="share")
        self._stages = [
            build_stage(
                spec, first, last, seed=seed, device=device, op_rank=share, op_size=size,
                all_reduce=self._sum_for(share) if size > 1 else None,
            )
            for share, device in enumerate(devices)
        ]  # fmt: skip

    def _sum_for(self, share: int) -> Any:
        def all_reduce(x: Tensor) -> Tensor:
            if x.is_cuda:
                import torch

                torch.cuda.current_stream(x.device).synchronize()  # the others read it
            self._parts[share] = x
            self._barrier.wait()
            total = self._parts[0].to(x.device, copy=True)
            for part in self._parts[1:]:
                total += part.to(x.device)
            self._barrier.wait()  # nobody overwrites a part that another still reads
            return total

        return all_reduce

    def _run(self, share: int, given: Tensor) -> Tensor:
        try:
            return self._stages[share](given.to(self.devices[share]))
        except BaseException:
            self._barrier.abort()  # the other shares must not wait for this one
            raise

    def __call__(self, given: Tensor) -> Tensor:
        """Run a batch; the output is on the first device."""
        if len(self.devices) == 1:
            return self._run(0, given)
        futures = [self._pool.submit(self._run, share, given) for share in range(len(self.devices))]
        wait(futures)
        if self._barrier.broken:  # only now that no share is under way: one that came late would wait for ever
            self._barrier.reset()
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in errors:
            if not isinstance(error, threading.BrokenBarrierError):  # the cause, not what it did to the others
                raise error
        return futures[0].result()
