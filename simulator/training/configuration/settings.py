"""`Settings`: one training configuration, written down by hand."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from .columns import FLAGS, WORDS, Columns

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, repr=False)
class Settings(Shown):
    """One training configuration: how the devices share the work, and what each of them does with it.

    Parameters
    ----------
    tp, pp, dp : int
        Tensor-, pipeline- and data-parallel degrees; their product is the number of devices.
    microbatch, global_batch : int
        Samples of a microbatch and of an iteration.
    interleave : int
        Model chunks per stage (interleaved 1F1B).
    recompute : str
        What is recomputed in the backward pass: "none", "selective" (the attention core), "full" (every layer, from
        its input), or "chosen": the classes of tensors that add the least seconds such that the device's memory is
        enough (`activations.choices`).
    sequence_parallel : bool
        Whether norms and dropout are split along the sequence; has no effect at tp 1.
    zero : int
        0: replicated; 1: optimizer sharded over `dp` (Megatron's distributed optimizer); 2: gradients too; 3:
        parameters too.
    dtype : str
        "bf16", "fp16", "fp32", or "fp8": Transformer Engine's 8-bit products in a layer's matrices, from Hopper on.
    cp : int
        Context-parallel degree: devices that share a sequence, each with a part of the beginning and one of the end.
        Devices are tp x pp x dp x cp.
    context : str
        What they exchange: "ring" (keys and values, beside attention) or "all-to-all" (heads for sequence, Ulysses).
    ep, etp : int
        Expert-parallel degree, over which a layer's experts are spread within the tp x cp x dp devices of a stage, as
        Megatron Core folds them; and devices that share one expert, 0: tp.
    overlap_experts : bool
        Whether tokens travel to experts and back beside another microbatch's work, whose activations are kept
        meanwhile.
    shard : int
        Devices over which `zero` shards; 0: all dp x cp of them. Groups reduce their shares with each other (HSDP).
    reshard : bool
        False: with `zero` 3 parameters stay gathered from a layer's forward to its backward pass.
    schedule : str
        "1f1b", interleaved where `interleave` says so; "zb-h1"; "dualpipe"; or "zb-v", whose `interleave` is 2.
    offload_optimizer : bool
        Whether the optimizer's state is in the host's memory, and its step there.
    offload_activations : bool
        Whether what `recompute` leaves may be in the host's memory meanwhile, by classes of tensors, the cheapest that
        fits.
    first_layers, last_layers : int
        Layers of the first and of the last stage, where others have more (Megatron's
        ``--decoder-first-pipeline-num-layers`` and ``-last-``), in equal chunks; 0: as many as the others, or one less
        where only so they divide.

    Raises
    ------
    InputError
        On what is no single value of its kind. Whether the values go together is for `estimate` to say.
    """

    tp: int
    pp: int
    dp: int
    microbatch: int
    global_batch: int
    interleave: int = 1
    recompute: str = "none"
    sequence_parallel: bool = False
    zero: int = 0
    dtype: str = "bf16"
    cp: int = 1
    context: str = "ring"
    ep: int = 1
    etp: int = 0
    overlap_experts: bool = False
    shard: int = 0
    reshard: bool = True
    schedule: str = "1f1b"
    offload_optimizer: bool = False
    offload_activations: bool = False
    first_layers: int = 0
    last_layers: int = 0

    def __post_init__(self) -> None:
        expected = {name: f"one of {', '.join(words)}" for name, words in WORDS.items()}
        expected |= dict.fromkeys(FLAGS, "True or False")
        for name, value in self.by_row().items():
            flag = isinstance(value, bool | np.bool_)
            if flag != (name in FLAGS) or np.ndim(value):
                raise InputError(f"{name}: expected {expected.get(name, 'an integer')} (got {value!r})")

    def by_row(self) -> dict[str, Any]:
        """The fields that may differ from row to row of `Columns`, by name: all but the dtype."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "dtype"}

    @property
    def columns(self) -> Columns:
        """The configuration as columns of one row."""
        return Columns.of(**self.by_row())
