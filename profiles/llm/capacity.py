"""How many KV blocks a device holds beside the weights: vLLM's formula, printed with its terms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from ...errors import InfeasibleError, InputError
from ...reprs import Shown
from .cost.kinds.experts import Spread
from .decoder import DecoderSpec, precision_bytes
from .decoder import weight_bytes as bytes_of_weight
from .parallel.layout import Parallel
from .parallel.ranks import Ranks, check_degrees, whole

__all__ = ["CapacityOptions", "KVCapacity", "NoRoomError", "kv_capacity"]

GIB = 2**30


class NoRoomError(InfeasibleError):
    """A device's memory is too small.

    Parameters
    ----------
    why : str
        The message.
    short_bytes : int
        How much more memory the device would need.
    """

    def __init__(self, why: str, short_bytes: int) -> None:
        super().__init__(why)
        self.short_bytes = short_bytes

    def __reduce__(self) -> tuple[type[NoRoomError], tuple[str, int]]:
        return type(self), (str(self), self.short_bytes)  # as worker processes send it


@dataclass(frozen=True, slots=True, repr=False)
class KVCapacity(Shown):
    """KV memory of one rank, and its terms.

    Parameters
    ----------
    memory_bytes : int
        Memory of the device.
    utilization : float
        Share of it that the engine takes (``gpu_memory_utilization``).
    weight_bytes, other_bytes : int
        Weights on this rank; activations at their peak, graphs and the runtime's own.
    block_bytes : int
        One block of this rank: ``2 x layers x block x KV heads x head size x bytes``; the layers are those of a group.
    block_size : int
        Tokens in a block.
    cp, dp : int
        Ranks that hold other tokens of the same sequences, and ranks that hold other sequences, of one engine.
    groups : int
        Groups of layers that have blocks of their own (`DecoderSpec.kv_groups`); a token takes a slot in each.
    """

    memory_bytes: int
    utilization: float
    weight_bytes: int
    other_bytes: int
    block_bytes: int
    block_size: int
    cp: int = 1
    dp: int = 1
    groups: int = 1

    @property
    def available_bytes(self) -> int:
        """What is left for keys and values."""
        return math.ceil(self.memory_bytes * self.utilization) - self.weight_bytes - self.other_bytes

    @property
    def num_blocks(self) -> int:
        """Whole blocks that fit on a rank."""
        return max(0, self.available_bytes // self.block_bytes)

    @property
    def engine_blocks(self) -> int:
        """Blocks of different tokens on all ranks of an engine: what its scheduler has to give."""
        return self.num_blocks * self.cp * self.dp

    @property
    def tokens(self) -> int:
        """Tokens that fit, of all ranks; more where layers with a window let go of what is behind it."""
        return self.engine_blocks // self.groups * self.block_size

    def explain(self) -> str:
        """The formula with its figures."""
        return (
            f"{self.memory_bytes / GIB:.2f} GiB x {self.utilization:g} - {self.weight_bytes / GIB:.2f} GiB weights - "
            f"{self.other_bytes / GIB:.2f} GiB other = {self.available_bytes / GIB:.2f} GiB; "
            f"/ {self.block_bytes} bytes a block = {self.num_blocks} blocks of {self.block_size} "
            f"{f'x {self.cp * self.dp} ranks ' if self.cp * self.dp > 1 else ''}"
            f"{f'/ {self.groups} groups of layers ' if self.groups > 1 else ''}= {self.tokens} tokens"
        )


@dataclass(frozen=True, slots=True, repr=False)
class CapacityOptions(Ranks):
    """The rarer options of `kv_capacity`.

    Parameters
    ----------
    cp, dp, ep, exchange
        As in `Ranks`.
    other_bytes : int
        Peak of activations at the largest batch, graphs and the runtime's own memory, bytes.
    mtp : bool
        Whether layers that predict further tokens are loaded, for speculative decoding: their weights count, and their
        keys and values, which lie in the same blocks.
    windows : bool
        Whether the scheduler knows windows, as vLLM's hybrid allocator does; else every layer holds all tokens.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    other_bytes: int = 0
    windows: bool = True
    mtp: bool = False

    def __post_init__(self) -> None:
        Ranks.__post_init__(self)  # super() knows the class from before it had slots
        other: Any = self.other_bytes
        if isinstance(other, bool) or not isinstance(other, int) or other < 0:
            raise InputError(f"other_bytes: expected an integer >= 0 (got {other!r})")


def kv_capacity(
    model: DecoderSpec,
    memory_bytes: int,
    *,
    tp: int = 1,
    pp: int = 1,
    utilization: float = 0.9,
    block_size: int = 16,
    weights: str = "float16",
    kv: str = "float16",
    options: CapacityOptions | None = None,
    **fields: Any,
) -> KVCapacity:
    """KV memory of the fullest rank of an engine.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    memory_bytes : int
        Memory of one device, bytes.
    tp, pp : int
        Degrees of tensor and pipeline parallelism. KV heads are repeated where `tp` is above their number.
    utilization : float
        Share of the memory that the engine takes, in (0, 1].
    block_size : int
        Tokens in a block.
    weights, kv : str
        Precision of the weights and of the KV cache.
    options : CapacityOptions, optional
        Further degrees, and the memory that is neither weights nor KV cache.
    **fields
        Single fields of `CapacityOptions` instead: ``dp=2, ep=2``.

    Raises
    ------
    InputError
        On a degree that does not divide the heads, or a value out of range.
    NoRoomError
        If the weights leave no room for one block.
    """
    share: Any = utilization
    if not isinstance(share, Real) or not 0 < float(share) <= 1:
        raise InputError(f"utilization: expected a share of the memory in (0, 1] (got {share!r})")
    given: Any = model
    if not isinstance(given, DecoderSpec):
        raise InputError(f"model: expected a DecoderSpec, as decoder(name) gives it (got {given!r})")
    o = CapacityOptions.of(options, fields)
    whole("block_size", block_size)
    whole("memory_bytes", memory_bytes)
    check_degrees(model, tp, pp)
    Spread(tp, o.dp, o.ep).check(model)
    layout = Parallel(tp=tp, cp=o.cp, exchange=o.exchange)
    if o.cp > 1:
        layout.check(model)
    joining = 0
    if o.mtp:
        own = model.draft  # which says if there is none
        joining = model.mtp_layers * own.joining_weights  # whole on every rank
        far_layers = model.full_layers + model.mtp_layers if model.window and model.full_layers else model.full_layers
        model = replace(model, layers=model.layers + model.mtp_layers, full_layers=far_layers)
    # The fullest rank has the most layers that a stage can have and the larger of embedding and head, which may meet in
    # no real stage: an upper bound of its weights.
    layers = -(-model.layers // pp)
    ends = max(model.embedding_weights, model.head_weights or model.embedding_weights) if pp > 1 else (
        model.embedding_weights + model.head_weights
    )  # fmt: skip
    moe = min(model.moe_layers, layers)
    wide = layout.matrix_tp
    routed = moe * model.experts * model.expert_weights
    q = 2 * model.hidden * (model.heads + 2 * model.kv_heads) * model.head_dim
    rest = layers * model.attention_weights + (layers - moe) * model.ffn_weights + moe * model.moe_weights - routed
    # All but experts is split over the tensor-parallel group; "helix" splits all but Q, K and V further.
    mine = (rest + ends) / tp if wide == tp else (layers * q / 2 + ends) / tp + (rest - layers * q / 2) / wide
    count = -(-(rest + ends + routed) // tp) if wide == tp and o.dp == 1 else math.ceil(mine + routed / (tp * o.dp))
    # Projections to the latents are whole on every rank.
    whole_ones = layers * model.hidden * (model.q_rank + model.kv_rank + model.rope_dim) if model.kv_rank else 0
    count += math.ceil(whole_ones * (1 - 1 / tp)) + joining
    weight_bytes = math.ceil(count * bytes_of_weight(weights))
    if model.tower is not None:  # in 16 bits whatever the decoder's; on every stage, though the first alone needs it
        weight_bytes += math.ceil(2 * model.tower.weights / model.tower.split(tp))
    size, far, near = model.kv_groups if o.windows else (model.layers, 1, 0)
    block = -(-size // pp) * block_size * model.kv_numbers(tp) * precision_bytes(kv)
    groups = far + near
    found = KVCapacity(memory_bytes, utilization, weight_bytes, o.other_bytes, block, block_size, o.cp, o.dp, groups)
    if found.num_blocks < 1:
        raise NoRoomError(
            f"{model.name}: its weights leave no room for one KV block on a rank ({found.explain()}); "
            "raise tp or pp, or take a device with more memory",
            math.ceil((block + weight_bytes + o.other_bytes) / utilization) - memory_bytes,
        )
    return found
