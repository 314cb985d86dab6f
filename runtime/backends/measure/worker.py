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
from collections.abc import MutableSequence
from pathlib import Path
from time import process_time_ns
from typing import Any

from ...lifeline import die_with_parent
from ...serving.protocol import receive_json, send_json

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Run as a worker. Arguments: descriptors of the pipe and of the lifeline, and the parent's process id."""
    descriptor, lifeline, parent = (int(a) for a in arguments)
    die_with_parent(lifeline, parent)
    pipe = socket.socket(fileno=descriptor)
    hello = receive_json(pipe)
    if hello["core"] is not None:
        os.sched_setaffinity(0, {hello["core"]})  # before torch is loaded: its helper threads inherit it
    sys.path[:] = hello["path"]  # backends of the user's are found where the parent found them
    import torch

    torch.set_num_threads(1)
    with open(hello["mark"], "r+b") as file:
        words: MutableSequence[int] = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")  # type: ignore[assignment]
    job = pickle.loads(Path(hello["job"]).read_bytes())  # our parent's, in a folder of its own
    tensors = torch.load(hello["tensors"], weights_only=True)

    def tell(**said: Any) -> None:
        send_json(pipe, {**said, "cpu_s": process_time_ns() / 1e9})

    from .bench import Bench

    with torch.inference_mode():
        bench = Bench(job, tensors, words, tell)
        tell(ready=True)
        gc.collect()
        gc.freeze()
        gc.disable()
        bench.run()
    tell(done=True)
    with contextlib.suppress(OSError):
        pipe.recv(1)  # until the parent has read it
    os._exit(0)  # libraries that are torn down may hang


if __name__ == "__main__":
    main(sys.argv[1:])
