"""What exports of every world say: which plan, and how what was written is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .door import Asked

if TYPE_CHECKING:
    from ..simulator.plan.file import PlanFile

__all__ = ["NEXT", "folder_of", "one_plan"]

NEXT = {
    "torchrun": "start each node K with {out}/launch-node-K.sh",
    "k8s": "start it with: kubectl apply -k {out}",
    "ray-serve": "start it with: cd {out} && serve run serve-config.yaml",
    "triton": "start each node K with {out}/node-K/start.sh in the Triton container",
    "torch": "start it as {out}/README.md says: cd {out} && torchrun --nproc-per-node DEVICES train.py",
    "megatron": "start it on every node with NODE_RANK, MASTER_ADDR and MEGATRON set: {out}/train.sh",
    "deepspeed": "give {out}/ds_config.json to deepspeed.initialize; {out}/README.md says what goes into code",
    "vllm": "start each node K with {out}/node-K/serve.sh, or docker compose -f {out}/node-K/docker-compose.yaml up",
}
"""Target -> how what was written is started."""


def folder_of(out: Path | None) -> Path:
    """The folder that an export writes to.

    Raises
    ------
    InputError
        If nobody says any.
    """
    if out is None:
        raise InputError("export: --out is missing; say where: meshwright export PLAN --to TARGET --out FOLDER")
    return out


def one_plan(asked: Asked) -> PlanFile:
    """The plan of a door that takes one.

    Raises
    ------
    InputError
        If there are several.
    """
    if len(asked.plans) != 1:
        raise InputError(f"expected one plan (got {len(asked.plans)})")
    return next(iter(asked.plans.values()))
