"""`Feed`: the user's batches, written to files a little ahead of the ranks that read them.

The user's code runs in this process alone, on a thread, so that nothing of it is pickled. A batch is a folder that is
renamed when it is whole, and removed when all ranks have it mapped.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from .batches import Batch
from .inputs import FAILED, POLL_S

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AHEAD", "Feed"]

AHEAD = 2
"""Batches that may lie ready. A guess: one to hide the user's code behind an iteration, one for where it varies."""


class Feed:
    """Writes batches for the ranks while they train; a context manager.

    Parameters
    ----------
    batches : iterator of Batch
        What `batches.global_batches` makes.
    folder : Path
        A new folder for them.
    iterations : int
        How many are needed.
    dtype : str
        Number format of floating-point inputs.
    """

    def __init__(self, batches: Iterator[Batch], folder: Path, iterations: int, dtype: str) -> None:
        self._batches, self.folder, self._iterations, self._dtype = batches, folder, iterations, dtype
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write_all, daemon=True, name="data")

    def __enter__(self) -> Feed:
        self.folder.mkdir()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=1.0)  # the user's code may hang; the thread ends with this process

    def _write_all(self) -> None:
        try:
            for iteration in range(self._iterations):
                while sum(1 for path in self.folder.iterdir() if path.name.isdecimal()) >= AHEAD:
                    if self._over.wait(POLL_S):
                        return
                if self._over.is_set():
                    return
                _write(next(self._batches), self.folder, iteration, self._dtype)
        except InputError as error:
            self._failed(str(error))
        except Exception as error:
            self._failed(f"run: data: {type(error).__name__}: {error}")

    def _failed(self, text: str) -> None:
        draft = self.folder / f"draft-{FAILED}"
        draft.write_text(json.dumps(text), encoding="utf-8")
        os.replace(draft, self.folder / FAILED)


def _write(batch: Batch, folder: Path, iteration: int, dtype: str) -> None:
    import numpy as np

    draft = folder / f"draft-{iteration}"
    draft.mkdir()
    names: Sequence[str] = list(batch)
    for k, name in enumerate(names):
        np.save(draft / f"{k}.npy", _array(batch[name], dtype), allow_pickle=False)
    (draft / "inputs.json").write_text(json.dumps(names), encoding="utf-8")
    os.replace(draft, folder / str(iteration))


def _array(x: Tensor, dtype: str) -> Any:
    import torch

    return (x.to(getattr(torch, dtype)) if x.is_floating_point() else x).contiguous().numpy()
