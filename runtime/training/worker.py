"""A training worker, the process of one rank: started by `session.TrainingSession`, runs jobs until its pipe closes."""

from __future__ import annotations

import gc
import os
import socket
import sys
from datetime import timedelta
from typing import Any

from ...errors import InputError, RunError
from ..lifeline import die_with_parent
from ..serving.protocol import receive_json, send_json

__all__ = ["main"]

BYSTANDER = ("Connection closed by peer", "Connection reset", "Timed out", "timed out", "timeout", "Broken pipe")
"""Parts of gloo's error texts by which a rank is known to have only noticed another's failure. gloo has no error codes,
so these texts are matched; a version that words them otherwise makes the blame less exact, no more."""


def main(arguments: list[str]) -> None:
    """Run as a worker. Arguments: descriptors of the pipe and of the lifeline, and the parent's process id."""
    descriptor, lifeline, parent = (int(a) for a in arguments)
    die_with_parent(lifeline, parent)
    pipe = socket.socket(fileno=descriptor)
    hello = receive_json(pipe)
    if hello["core"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {hello["core"]})  # before torch is loaded: its helper threads inherit it
    import torch
    import torch.distributed as dist

    from .configured.job import decoder_job
    from .job import run_job
    from .measure.job import measure_job
    from .measure.slices_job import measure_sliced_job, measure_slices_job

    kinds = {
        "run": run_job, "measure": measure_job, "measure_sliced": measure_sliced_job,
        "measure_slices": measure_slices_job, "decoder": decoder_job,
    }  # fmt: skip

    torch.set_num_threads(1)
    timeout = timedelta(seconds=hello["timeout_s"])
    dist.init_process_group(
        "gloo", init_method=f"file://{hello['store']}", rank=hello["rank"], world_size=hello["world"], timeout=timeout
    )
    gc.freeze()  # collections before each run need not walk through all that torch has loaded
    send_json(pipe, {"ready": True})
    while True:
        try:
            job: dict[str, Any] = receive_json(pipe)
        except (RunError, OSError):
            os._exit(0)  # the parent is done; tearing process groups down could only hang
        try:
            answer = kinds[job["kind"]](job, rank=hello["rank"], timeout=timeout)
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            known = isinstance(error, InputError | RunError)
            if os.environ.get("MESHWRIGHT_DEBUG"):
                import traceback

                traceback.print_exc()
                text += "\n" + traceback.format_exc()
            secondary = any(sign in text for sign in BYSTANDER)
            said = text if known else f"{type(error).__name__}: {text}"
            send_json(pipe, {"error": said, "secondary": secondary, "input": isinstance(error, InputError)})
            continue
        send_json(pipe, answer)


if __name__ == "__main__":
    main(sys.argv[1:])
