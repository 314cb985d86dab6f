"""A follower: one more process of a parallel engine, with a share of the model; it runs what rank 0 sends.

`leader.Leader` starts it: ``python -m meshwright.runtime.llm.engine.processes.worker <pipe fd> <lifeline fd> <parent
pid>``. Batches come through the pipe, which may be quiet for hours; only tensors cross torch.distributed.
"""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import socket
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .....profiles.llm.decoder import DecoderSpec
from ....lifeline import die_with_parent
from ....serving.protocol import receive_exactly, receive_json
from ..batch import HEADER, Layout, PackedBatch
from ..options import EngineConfig

__all__ = ["HELLO", "READY", "STOP", "Task", "main"]

HELLO, READY = b"h", b"r"
STOP = np.full(HEADER, -1, dtype=np.int64)
"""Header that ends a follower."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a follower process needs to start.

    Parameters
    ----------
    spec : DecoderSpec
        The model.
    memory : dict
        Fields of its `Memory`.
    options : EngineConfig
        Devices, number format and kernels.
    rank : int
        Rank of the process.
    store : str
        File at which the processes find each other.
    """

    spec: DecoderSpec
    memory: dict[str, int]
    options: EngineConfig
    rank: int
    store: str

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, said: dict[str, Any]) -> Task:
        """Back from plain values."""
        return cls(
            DecoderSpec(**said["spec"]), said["memory"], EngineConfig(**said["options"]), said["rank"], said["store"]
        )


def main(pipe_fd: int, lifeline: int, parent: int) -> None:
    """Meet the others, build, and run batches until told to stop or rank 0 is gone."""
    die_with_parent(lifeline, parent)
    pipe = socket.socket(fileno=pipe_fd)
    task = Task.of_json(receive_json(pipe))
    from ..runner import Memory, Runner
    from .groups import Groups

    pipe.sendall(HELLO)
    groups = Groups(task.options, task.rank, task.store)
    runner = Runner(task.spec, Memory(**task.memory), task.options, task.rank, groups)
    pipe.sendall(READY)
    while True:
        header = np.frombuffer(receive_exactly(pipe, 8 * HEADER), dtype=np.int64)
        if header[0] < 0:
            break
        layout = Layout.of_header(header)
        numbers = np.frombuffer(bytearray(receive_exactly(pipe, 8 * sum(layout.sizes))), dtype=np.int64)
        runner.run(PackedBatch(layout, numbers))
    groups.close()


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
