"""What may be said at the doors of the training world besides the case."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..door import Options, Target
from ..limits import MAX_BATCH, MAX_DEVICES, MAX_REPEATS, MAX_SECONDS, MAX_TOKENS

__all__ = [
    "CompareOptions", "ExportOptions", "MeasureOptions", "PlanOptions", "RunOptions", "SimulateOptions",
]  # fmt: skip


Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Samples = Annotated[int, Field(ge=1, le=MAX_BATCH)]


class PlanOptions(Options):
    """What may be said besides the case."""

    explain: bool = Field(default=False, description="say how every operator is run")
    picture: Target = Field(default=None, description="draw how every operator is cut into this file")
    authors: Path | None = Field(
        default=None, description="of pipedream and piper: a file of their authors' format instead of a model"
    )
    top: int = Field(default=10, ge=1, description="of search: configurations that are listed")
    csv: Target = Field(default=None, description="of search: write everything that was evaluated")
    flags: bool = Field(default=False, description="of search: print the fastest as arguments of Megatron-LM")
    sweep: tuple[Annotated[int, Field(ge=1, le=MAX_DEVICES)], ...] = Field(
        default=(), description="of search: on so many devices each, such as 64,128,256"
    )
    days: float | None = Field(
        default=None, gt=0, description="of search: the fewest devices that finish in so many days"
    )
    tokens: float | None = Field(default=None, gt=0, description="with days: tokens that the whole run trains on")


class SimulateOptions(Options):
    """What may be said besides the case."""

    engine: Literal["compiled", "simpy"] = Field(default="compiled", description="compiled, or simpy, the reference")
    schedule: str | None = Field(default=None, description="gpipe, 1f1b, zb_h1, …; the plan's if left out")
    resharding: Literal["send_recv", "scatter_gather", "local_all_gather"] | None = Field(
        default=None, description="how tensors move between meshes; the plan's if left out"
    )
    links: Literal["apart", "shared"] | None = Field(
        default=None, description="whether collectives and messages on one link slow each other; else the plan's"
    )
    buckets: int | None = Field(
        default=None, ge=0, le=MAX_REPEATS,
        description="with links shared: buckets of gradients reduced beside the last backward pass; 0: after it",
    )  # fmt: skip
    timeline: Target = Field(default=None, description="write what ran where and when (Perfetto JSON; one plan)")
    png: Target = Field(default=None, description="draw the iteration and its memory into this file (one plan)")


class RunOptions(Options):
    """What may be said besides the plan."""

    iterations: int = Field(default=5, ge=1, le=MAX_REPEATS, description="iterations to train")
    dtype: Literal["float32", "float64"] = Field(default="float32", description="number format")
    precision: Literal["bf16", "fp16"] | None = Field(
        default=None, description="compute in half precision, with float32 master weights"
    )
    compare: bool = Field(default=True, description="train on one device too, and compare losses and gradients")
    data: str | None = Field(
        default=None, description="FILE.py:NAME of your batches: mappings from the model's inputs to arrays"
    )
    weights: str | None = Field(
        default=None, description="start from this state dict (.safetensors, .pt); or 'module': from your module's own"
    )
    save: Target = Field(default=None, description="write the trained weights here, by your module's names")
    optimizer: str | None = Field(
        default=None,
        description="a class of torch.optim, not the plan's, such as adamw:lr=3e-4,weight_decay=0.1,betas=0.9/0.95",
    )
    schedule: str | None = Field(
        default=None, description="of its learning rate, such as cosine:warmup=100,until=1000,least=0.1"
    )
    groups: tuple[str, ...] = Field(
        default=(),
        description="parameters with options of their own, such as *.bias:weight_decay=0,*norm*:weight_decay=0",
    )
    clip_norm: float | None = Field(default=None, gt=0, description="bring the norm of all gradients down to this")
    startup_timeout: float = Field(
        default=180.0, gt=0, le=MAX_SECONDS, description="seconds that the processes may take to start"
    )
    checkpoint_every: int | None = Field(
        default=None, ge=1, le=MAX_REPEATS,
        description="write a checkpoint after so many iterations; the run is then held against its simulation",
    )  # fmt: skip
    kills: tuple[str, ...] = Field(
        default=(),
        description="with checkpoint_every: SECONDS@RANK, such as 5@1,12.5@0: processes that are killed, seconds after "
        "the first iteration begins; the run goes on from its last checkpoint",
    )
    png: Target = Field(default=None, description="with checkpoint_every: draw the run beside the simulated one")


class CompareOptions(Options):
    """What may be said besides the plans."""

    rounds: int = Field(default=3, ge=1, le=MAX_REPEATS, description="how often each plan is measured and run")
    csv: Target = Field(default=None, description="write the table here")


class MeasureOptions(Options):
    """What may be said besides the plan, or the model."""

    rounds: int | None = Field(
        default=None, ge=1, le=MAX_REPEATS, description="of a plan: rounds, whose medians count; 3"
    )
    lengths: tuple[Tokens, ...] = Field(default=(), description="of a model: tokens of slices; 32nds of a sequence")
    contexts: tuple[Annotated[int, Field(ge=0, le=MAX_TOKENS)], ...] = Field(
        default=(), description="of a model: tokens before a slice; 0 among them"
    )
    samples: tuple[Samples, ...] = Field(default=(1,), description="of a model: sequences that go together")
    fast: bool = Field(default=False, description="one round, or fewer repeats")


class ExportOptions(Options):
    """What may be said besides the plan."""

    to: str = Field(default="", description="target: torch, megatron, deepspeed, nanotron or torchtitan")
    force: bool = Field(default=False, description="write into a folder that holds other files")
