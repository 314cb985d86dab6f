"""`Saving`: a rank's part in checkpoints: it writes its shards, starts from them, and keeps a journal of what it did.

A checkpoint is a folder ``checkpoint-N``, N being the iterations that are done: a file of arrays of each rank. Ranks
write into a draft; when all have, the first rank gives it its name. So a folder with a name is whole, whenever ranks
are killed; older ones are then removed. Data follow from the number of the iteration alone, and arrays are saved as
they are: a run that goes on from a checkpoint computes, bit for bit, what one that was never killed does.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import RunError
from ..stage.runner import StageRunner

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["JOURNAL", "Saving", "last_checkpoint"]

NAME = "checkpoint-"
JOURNAL = "journal-{rank}.jsonl"
"""A line for each thing that a rank did: what, its number, seconds of the machine's monotonic clock at its end."""


def last_checkpoint(folder: Path) -> int:
    """Iterations that are done by the last whole checkpoint of a folder; 0 if there is none."""
    whole = (path.name.removeprefix(NAME) for path in folder.glob(f"{NAME}*"))
    return max((int(number) for number in whole if number.isdecimal()), default=0)


class Saving:
    """Saves and loads what one rank holds, every so many iterations.

    Parameters
    ----------
    folder : Path
        Where checkpoints and journals lie.
    every : int
        Iterations between two checkpoints; one more is written after the last iteration.
    iterations : int
        Of the whole run.
    rank : int
        This rank.
    runners : mapping
        Its stages.
    everyone : object
        The process group of all ranks.
    """

    def __init__(
        self, folder: Path, every: int, iterations: int, rank: int, runners: Mapping[int, StageRunner], everyone: Any
    ) -> None:  # fmt: skip
        self.folder, self.every, self.iterations = folder, every, iterations
        self.rank, self.runners, self.everyone = rank, runners, everyone
        self._journal = (folder / JOURNAL.format(rank=rank)).open("a", encoding="utf-8")

    def load(self) -> int:
        """Start from the last checkpoint, if there is one; returns the iterations that are done.

        Raises
        ------
        RunError
            If the file is none of this rank's.
        """
        done = last_checkpoint(self.folder)
        if not done:
            return 0
        path = self.folder / f"{NAME}{done}" / f"rank-{self.rank}.npz"
        import numpy as np
        import torch

        try:
            with np.load(path, allow_pickle=False) as file:
                for name, tensor in _held(self.runners).items():
                    found = torch.from_numpy(file[name])  # pyright: ignore[reportUnknownMemberType]
                    if found.shape != tensor.shape or found.dtype != tensor.dtype:
                        raise ValueError(f"{name} is another array")
                    tensor.copy_(found)
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise RunError(f"{path}: no checkpoint of this run: {type(error).__name__}: {error}") from None
        return done

    def begins(self, done: int) -> None:
        """All ranks are ready to compute."""
        self._say("begins", done)

    def after(self, done: int, loss: float | None) -> None:
        """`done` iterations are done by now: write it down, and a checkpoint if it is time."""
        import torch.distributed as dist

        self._say("iteration", done, loss)
        if done % self.every and done != self.iterations:
            return
        whole = self.folder / f"{NAME}{done}"
        draft = self.folder / f"draft-{done}"
        draft.mkdir(exist_ok=True)
        self._write(draft / f"rank-{self.rank}.npz")
        dist.barrier(self.everyone)
        if self.rank == 0:
            os.replace(draft, whole)
            for path in self.folder.glob(f"{NAME}*"):
                if path != whole:
                    shutil.rmtree(path, ignore_errors=True)
        dist.barrier(self.everyone)  # nobody goes on before it counts
        self._say("checkpoint", done)

    def _write(self, path: Path) -> None:
        import numpy as np

        arrays: dict[str, Any] = {name: x.detach().numpy() for name, x in _held(self.runners).items()}
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())

    def _say(self, what: str, number: int, loss: float | None = None) -> None:
        line = {"what": what, "done": number, "at_s": time.monotonic()} | ({} if loss is None else {"loss": loss})
        self._journal.write(json.dumps(line) + "\n")
        self._journal.flush()


def _held(runners: Mapping[int, StageRunner]) -> dict[str, Tensor]:
    """Everything that a later iteration reads of earlier ones: weights and optimiser states."""
    held: dict[str, Tensor] = {}
    for stage, runner in runners.items():
        for name, weight in runner.weights.items():
            held[f"{stage}/weight/{name}"] = weight
            for k, state in enumerate(runner.steps[name].state if name in runner.steps else ()):
                held[f"{stage}/state {k}/{name}"] = state
    return held
