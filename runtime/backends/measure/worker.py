"""The process that compiles, checks and times units: whatever a backend does there harms nobody else.

It writes into a shared word which unit it is about to call, so that its parent knows whom to blame for its end.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import pickle
import socket
import sys
from collections.abc import Callable, MutableSequence
from pathlib import Path
from time import process_time_ns
from typing import TYPE_CHECKING, Any

from ....errors import RunError
from ...lifeline import die_with_parent
from ...serving.protocol import receive_json, send_json

if TYPE_CHECKING:
    from .contest import Contest

__all__ = ["main"]

KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "65536", "LRU_CACHE_CAPACITY": "65536"}
"""How many kernels oneDNN, and torch around it, keep made. Of 1,024 as they are, the thousands of units of a large
network push out one another's, and each call makes its kernel anew: NASNet-A took 1.3 times what it takes alone."""


def main(arguments: list[str]) -> None:
    """Run as a worker. Arguments: descriptors of the pipe and of the lifeline, and the parent's process id."""
    descriptor, lifeline, parent = (int(a) for a in arguments)
    die_with_parent(lifeline, parent)
    pipe = socket.socket(fileno=descriptor)
    hello = receive_json(pipe)
    if hello["core"] is not None:
        os.sched_setaffinity(0, {hello["core"]})  # before torch is loaded: its helper threads inherit it
    sys.path[:] = hello["path"]  # backends of the user's are found where the parent found them
    os.environ.update({name: value for name, value in KERNELS.items() if name not in os.environ})
    import torch

    from .bench import Bench
    from .contest import Contest

    torch.set_num_threads(1)
    folder = Path(hello["folder"])
    with open(folder / "mark", "r+b") as file:
        words: MutableSequence[int] = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")  # type: ignore[assignment]
    job = pickle.loads((folder / "job").read_bytes())  # our parent's, in a folder of its own
    tensors = torch.load(folder / "tensors.pt", weights_only=True)

    def tell(**said: Any) -> None:
        send_json(pipe, {**said, "cpu_s": process_time_ns() / 1e9})

    with torch.inference_mode():
        if hello["stays"]:
            _serve(Contest(job, tensors, words), pipe, tell)
        else:
            bench = Bench(job, tensors, words, tell)
            _settle()
            tell(ready=True)
            bench.run()
            tell(done=True)
    with contextlib.suppress(OSError):
        pipe.recv(1)  # until the parent has read it
    os._exit(0)  # libraries that are torn down may hang


def _serve(contest: Contest, pipe: socket.socket, tell: Callable[..., None]) -> None:
    """Answer until the parent is done."""
    _settle()
    tell(ready=True)
    while True:
        try:
            asked = receive_json(pipe)
        except (RunError, OSError):
            return
        tell(answers=contest.answer(asked["entries"], tell))


def _settle() -> None:
    """No collection of garbage while anything is timed."""
    gc.collect()
    gc.freeze()
    gc.disable()


if __name__ == "__main__":
    main(sys.argv[1:])
