"""The protocol of controller and workers: one JSON assignment, then binary records of fixed size.

Records of 8 and 40 bytes, because the controller shares the workers' cores: JSON per job would cost more than deciding.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import RunError

__all__ = [
    "DONE",
    "FLUSH",
    "FREE",
    "JOB",
    "READY",
    "REPORT",
    "SPANS",
    "SPAN_COLUMNS",
    "STOP",
    "Assignment",
    "Hosted",
    "receive_exactly",
    "receive_json",
    "send_json",
]

JOB = struct.Struct("<iHH")
"""Controller -> worker: job number (or `STOP`, `FLUSH`), model, batch size."""

REPORT = struct.Struct("<iidddd")
"""Worker -> controller: kind, job number, start, end, CPU seconds of the stage, checksum of the output."""

STOP, FLUSH = -1, -2
"""In place of a job number: end; send the spans of the jobs so far."""

READY, DONE, FREE, SPANS = range(4)
"""Kinds of report: model weights are there; a job left the last stage; the first stage is free; spans follow."""

SPAN_COLUMNS = ("job", "start", "end", "cpu")
"""Columns of the float64 table, shape (n, 4), that follows a `SPANS` report of n rows."""


@dataclass(frozen=True)
class Hosted:
    """One model as a worker holds it.

    Parameters
    ----------
    model : int
        Index in the trace's models.
    spec : dict
        Fields of the `kernels.specs.ModelSpec`.
    seed : int
        Weights and inputs are made from it.
    first, last : int
        Layers of this worker's stage, `last` not included.
    """

    model: int
    spec: dict[str, Any]
    seed: int
    first: int
    last: int


@dataclass(frozen=True)
class Assignment:
    """What one worker is to be.

    Parameters
    ----------
    group, rank : int
        The group, and the worker's place in it: ``stage * op + share``.
    op, pp : int
        The group's parallel configuration.
    torch_device : str
        ``cpu`` or ``cuda:<index>``.
    core : int or None
        Core to pin to.
    store : str
        File over which the group's processes find each other.
    batches : tuple of int
        Batch sizes that will be asked for.
    models : tuple of Hosted
        What to hold.
    report_free : bool
        Say when the first stage is free (a pipeline with batching waits for it).
    timeout_s : float
        Give up on a peer after this many seconds of silence.
    """

    group: int
    rank: int
    op: int
    pp: int
    torch_device: str
    core: int | None
    store: str
    batches: tuple[int, ...]
    models: tuple[Hosted, ...]
    report_free: bool
    timeout_s: float

    @property
    def stage(self) -> int:
        """Pipeline stage of the worker."""
        return self.rank // self.op

    @property
    def share(self) -> int:
        """Its share of each operator of the stage."""
        return self.rank % self.op

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Assignment:
        """Read `to_json` back."""
        models = tuple(Hosted(**hosted) for hosted in data["models"])
        return cls(**{**data, "models": models, "batches": tuple(data["batches"])})


def receive_exactly(pipe: socket.socket, n: int) -> bytes:
    """Read `n` bytes.

    Raises
    ------
    RunError
        If the other side closes before.
    """
    chunks = bytearray()
    while len(chunks) < n:
        chunk = pipe.recv(n - len(chunks))
        if not chunk:
            raise RunError(f"run: the other side closed its pipe after {len(chunks)} of {n} bytes")
        chunks += chunk
    return bytes(chunks)


def send_json(pipe: socket.socket, data: object) -> None:
    """Send one JSON document, its length first."""
    body = json.dumps(data).encode()
    pipe.sendall(struct.pack("<I", len(body)) + body)


def receive_json(pipe: socket.socket) -> Any:
    """Receive one JSON document."""
    (n,) = struct.unpack("<I", receive_exactly(pipe, 4))
    return json.loads(receive_exactly(pipe, n))
