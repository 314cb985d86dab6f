"""`RowInputs`: a rank's microbatches, rows of the user's global batches; from files, or sent by the first rank."""

from __future__ import annotations

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from .batches import Batch, rows_of_inputs

if TYPE_CHECKING:
    from torch import Tensor

    from ....profiles.graph import Graph

__all__ = ["FAILED", "FiledInputs", "RowInputs", "SentInputs"]

POLL_S = 0.002
"""Between looks for the next batch: well below an iteration."""

FAILED = "failed.json"
"""The file in which the user's data say what went wrong with them."""


class RowInputs(ABC):
    """Microbatches as rows of global batches, one iteration at a time; subclasses fetch these.

    Parameters
    ----------
    graph : Graph
        The graph that is trained.
    samples : sequence of int
        Samples of each microbatch, for stages that do not say their own.
    dtype : str
        Number format of floating-point inputs.
    """

    def __init__(self, graph: Graph, samples: Sequence[int], dtype: str) -> None:
        self._rows, self._dtype = rows_of_inputs(graph), dtype
        self._samples = tuple(samples)
        self._firsts = (0, *accumulate(samples))
        self._whole: Batch = {}

    @abstractmethod
    def prepare(self, iteration: int, names: set[str]) -> None:
        """Have the named inputs of an iteration at hand."""

    def begun(self, iteration: int) -> None:  # noqa: B027 - what needs nothing to be awaited leaves it so
        """All ranks have theirs."""

    def __call__(self, name: str, microbatch: int) -> Tensor:
        return self._part(name, self._firsts[microbatch], self._samples[microbatch])

    def of(self, size: int) -> Callable[[str, int], Tensor]:
        """(name, microbatch) -> the input, for a stage whose microbatches have this size."""
        return lambda name, microbatch: self._part(name, microbatch * size, size)

    def _part(self, name: str, first: int, count: int) -> Tensor:
        how = self._rows[name]
        x = self._whole[name]
        part = x if how.dim < 0 else x.narrow(how.dim, first * how.each, count * how.each)
        return part.to(_dtype(self._dtype)) if part.is_floating_point() else part


class FiledInputs(RowInputs):
    """From the files of a `feed.Feed`, mapped into memory: of a batch, a rank reads the rows that it computes with."""

    def __init__(self, graph: Graph, samples: Sequence[int], dtype: str, folder: Path, rank: int) -> None:
        super().__init__(graph, samples, dtype)
        self._folder, self._rank = folder, rank

    def prepare(self, iteration: int, names: set[str]) -> None:
        """Wait for the iteration's files.

        Raises
        ------
        InputError
            If the user's data failed, or ended.
        """
        import numpy as np
        import torch

        folder, failed = self._folder / str(iteration), self._folder / FAILED
        while not folder.exists():
            if failed.exists() and not folder.exists():
                raise InputError(json.loads(failed.read_text(encoding="utf-8")))
            time.sleep(POLL_S)
        index: list[str] = json.loads((folder / "inputs.json").read_text(encoding="utf-8"))
        # Copied on write: nothing writes, and torch warns of arrays that cannot be written.
        self._whole = {
            name: torch.from_numpy(np.load(folder / f"{k}.npy", mmap_mode="c"))
            for k, name in enumerate(index)
            if name in names
        }

    def begun(self, iteration: int) -> None:
        """Make room for the next batch: what is mapped stays readable."""
        if self._rank == 0:
            shutil.rmtree(self._folder / str(iteration), ignore_errors=True)


class SentInputs(RowInputs):
    """From the first rank, which alone runs the user's code, and sends an input to each rank that reads it.

    Parameters
    ----------
    graph, samples, dtype
        As of `RowInputs`.
    batches : iterator of Batch
        Of rank 0.
    rank, world : int
        This rank, and how many there are.
    """

    def __init__(
        self, graph: Graph, samples: Sequence[int], dtype: str, batches: Iterator[Batch], rank: int, world: int
    ) -> None:  # fmt: skip
        super().__init__(graph, samples, dtype)
        self._inputs = {t.name: t.dtype for t in graph.inputs}
        self._batches, self._rank, self._world = batches, rank, world
        self._readers: list[set[str]] = []

    def prepare(self, iteration: int, names: set[str]) -> None:
        """Send, or receive, the iteration's inputs.

        Raises
        ------
        InputError
            If the user's data failed, or ended: on all ranks.
        """
        import torch
        import torch.distributed as dist

        if not self._readers:
            every: list[Any] = [None] * self._world
            dist.all_gather_object(every, sorted(names))
            self._readers = [set(one) for one in every]
        said: list[Any] = [None]
        batch: Batch = {}
        if self._rank == 0:
            try:
                batch = next(self._batches)
                said = [{name: list(x.shape) for name, x in batch.items()}]
            except InputError as error:
                said = [str(error)]
        dist.broadcast_object_list(said, src=0)
        if isinstance(said[0], str):
            raise InputError(said[0])
        self._whole = {}
        for name, word in self._inputs.items():
            dtype = _dtype(self._dtype) if word.startswith(("float", "bfloat")) else _dtype(word)
            if self._rank == 0:
                x = batch[name].to(dtype).contiguous()
                for other in range(1, self._world):
                    if name in self._readers[other]:
                        dist.send(_sendable(x), other)
                self._whole[name] = x
            elif name in names:
                x = torch.empty(said[0][name], dtype=dtype)
                dist.recv(_sendable(x), 0)
                self._whole[name] = x


def _sendable(x: Tensor) -> Tensor:
    """The same memory in a type that gloo sends."""
    import torch

    return x.view(torch.uint8) if x.dtype == torch.bool else x


def _dtype(word: str) -> Any:
    import torch

    return getattr(torch, word)
