"""What a rank does of a configured run."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

__all__ = ["decoder_job"]


def decoder_job(job: dict[str, Any], *, rank: int, timeout: timedelta) -> dict[str, Any]:
    """Train for the job's steps; rank 0 answers losses and norms of gradients, all ranks seconds.

    The whole gradients of the first step and the weights after the last are written by rank 0 where they are asked for.
    """
    import torch

    from ..decoder.config import Adam, Config, Shape, Way
    from ..decoder.train import Training, drawn
    from ..decoder.weights import from_seed, save

    del timeout  # the process group has it
    config = Config(Shape(**job["shape"]), Way(**job["way"]))
    made = Training(
        config, from_seed(job["seed"]), getattr(torch, job["dtype"]), Adam(**job["adam"]), torch.device("cpu")
    )
    losses, norms, seconds = list[float](), list[float](), list[float]()
    for step, (tokens, labels) in zip(range(job["steps"]), drawn(config, job["seed"]), strict=False):
        begin = time.perf_counter()
        losses.append(made.gradients(tokens, labels))
        norms.append(made.norm())
        if step == 0 and job["keep"]:
            found = made.whole(gradients=True)
            if rank == 0:
                save(found, Path(job["arrays"]) / "gradients.pt")
        made.finish(norms[-1])
        seconds.append(time.perf_counter() - begin)
    if job["keep"]:
        values = made.whole()
        if rank == 0:
            save(values, Path(job["arrays"]) / "weights.pt")
    return {"losses": losses, "norms": norms, "seconds": seconds, "arrays": job["arrays"]}
