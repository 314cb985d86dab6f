"""What the layers of a checkpoint that predict further tokens take, as drafts of speculative decoding."""

from __future__ import annotations

from typing import Any

from ....hardware import DeviceSpec
from ...decoder import DecoderSpec
from ...tables.kernels import KernelTables
from ..iteration import iteration_cost
from ..overheads import Overheads
from ..table import TableCost

__all__ = ["draft_cost"]


def draft_cost(model: DecoderSpec, system: KernelTables | DeviceSpec, **options: Any) -> TableCost:
    """Cost of the model's own draft (`DecoderSpec.draft`): what ``Speculative(draft=...)`` takes.

    One pass joins the last hidden states with the embeddings of the tokens behind them, goes through one layer and the
    model's head. vLLM passes once for each draft token, and once with every prompt. The host's time of a step is the
    model's own, so that here a pass takes its launches and kernels alone.

    Parameters
    ----------
    model : DecoderSpec
        A model whose checkpoint has such a layer.
    system : KernelTables or DeviceSpec
        Kernels by operator, or a device. Tables by layer hold one model's own layers, and not this one.
    **options
        As `iteration_cost` takes them: the degrees and the precision of the model.

    Raises
    ------
    InputError
        If the checkpoint has no such layer, or on what `iteration_cost` refuses.
    """
    overheads = options.pop("overheads", None) or Overheads(scheduler_s=0.0, per_sequence_s=0.0)
    return iteration_cost(model.draft, system, overheads=overheads, **options)
