"""The line between who measures and the process that does it: start, messages, and the word that says what it calls."""

from __future__ import annotations

import pickle
import select
import sys
from pathlib import Path
from typing import Any

from ....errors import RunError
from ...children import ONE_THREAD, Child, Children
from ...serving.protocol import receive_json, send_json
from .job import Job

__all__ = ["heard", "marked", "started"]

NOTHING = -1
"""What the word says while nothing of a backend's is being called."""


def started(children: Children, job: Job, tensors: Any, stays: bool = False) -> Child:
    """A process that has been told its job.

    Parameters
    ----------
    children : Children
        Who starts it; files go into their folder.
    job : Job
        The job.
    tensors : dict
        The network's parameters and example; written once.
    stays : bool
        Whether it waits for programs to time (`contest`) or does the job's units and ends (`bench`).
    """
    import torch

    folder = children.folder
    if not (folder / "tensors.pt").exists():
        torch.save(tensors, folder / "tensors.pt")
    (folder / "job").write_bytes(pickle.dumps(job))
    (folder / "mark").write_bytes(NOTHING.to_bytes(8, sys.byteorder, signed=True))
    child = children.start(f"{__package__}.worker", "worker", ONE_THREAD)
    send_json(
        child.pipe, {"core": job.options.pinned(), "path": sys.path, "folder": str(folder), "stays": stays}
    )  # fmt: skip
    return child


def heard(child: Child, limit_s: float) -> dict[str, Any] | None:
    """What it says next; nothing if it has ended, `None` if it says nothing in time."""
    ready, _, _ = select.select([child.pipe], [], [], limit_s)
    if not ready:
        return None
    try:
        return receive_json(child.pipe)
    except (RunError, OSError):
        return {}


def marked(children: Children) -> int:
    """The number of what it was calling when it was last heard of; `NOTHING`: nothing."""
    return int.from_bytes(Path(children.folder / "mark").read_bytes()[:8], sys.byteorder, signed=True)
