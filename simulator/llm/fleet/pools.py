"""`Pools`: engines that process prompts, engines that decode, and the link over which keys and values go."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from ....profiles.hardware import LinkSpec
from ....profiles.llm.decoder import DecoderSpec, precision_bytes
from ....profiles.llm.iteration import IterationCost
from ....reprs import Shown

__all__ = ["HANDOFFS", "NICS", "Pools"]

HANDOFFS = ("reserve", "buffer")
NICS = ("both", "sender", "receiver", "none")


@dataclass(frozen=True, slots=True, repr=False)
class Pools(Shown):
    """Disaggregated serving: prompts on one pool of engines, decodes on another (DistServe; vLLM's P/D connectors).

    A prefill engine processes the prompt and gives the first token. The keys and values of the prompt then go over
    `link`, in whole blocks, to a decode engine, which gives all other tokens. The prefill engine holds the blocks until
    the transfer has ended. A decode engine that runs out of blocks preempts its latest request and computes prompt and
    tokens again itself.

    Parameters
    ----------
    prefill, decode : int
        Engines of each pool.
    link : LinkSpec
        Bytes per second that one engine can send and one can receive (all of its NICs together), and the seconds that
        a message is on its way besides.
    kv_bytes_per_token : int, optional
        Bytes of keys and values of one token over all layers. Without it, from the cost's model at `kv_precision`.
    kv_precision : str
        Precision of the KV cache, if `kv_bytes_per_token` is to be derived.
    decode_config : mapping or dataclass, optional
        Options of the decode engines' scheduler; by default those of the prefill engines (``config``).
    decode_cost : IterationCost, optional
        Seconds of the decode engines' iterations; by default ``cost``.
    decode_router : str
        Which decode engine a request goes to, chosen when its prompt is processed: a name of `ROUTERS`.
    handoff : {"reserve", "buffer"}
        ``"reserve"``: the decode engine first reserves blocks, first come first served, at one of its scheduling
        decisions, then the transfer begins; blocks whose content it has cached are not sent (DistServe, vLLM).
        ``"buffer"``: the transfer begins at once into memory of the decode engine's host, which has room, and the
        request is admitted when it has blocks (Mooncake's, LMCache's way).
    serialise : {"both", "sender", "receiver", "none"}
        Whose NIC carries one transfer at a time, in the order in which they were asked for. A transfer that waits for
        its receiver keeps its sender's NIC, so those behind it wait too.
    overlap_layers : int
        With ``"buffer"``: layers whose keys and values are sent as soon as each is computed in the prompt's last
        iteration, so that only the end of the transfer is seen; 0: nothing is sent before the iteration ends.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    prefill: int
    decode: int
    link: LinkSpec
    kv_bytes_per_token: int | None = None
    kv_precision: str = "float16"
    decode_config: Any = None
    decode_cost: IterationCost | None = None
    decode_router: str = "least_outstanding"
    handoff: str = "reserve"
    serialise: str = "both"
    overlap_layers: int = 0

    def __post_init__(self) -> None:
        for name in ("prefill", "decode"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"pools: {name}: expected an integer >= 1 (got {value!r})")
        if not isinstance(self.link, LinkSpec):
            raise InputError(f"pools: link: expected a LinkSpec (got {type(self.link).__name__})")
        size: Any = self.kv_bytes_per_token
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise InputError(f"pools: kv_bytes_per_token: expected an integer >= 1 (got {size!r})")
        precision_bytes(self.kv_precision)
        for name, known in (("handoff", HANDOFFS), ("serialise", NICS)):
            if getattr(self, name) not in known:
                raise InputError(f"pools: {name}: expected one of {', '.join(known)} (got {getattr(self, name)!r})")
        layers: Any = self.overlap_layers
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 0:
            raise InputError(f"pools: overlap_layers: expected an integer >= 0 (got {layers!r})")
        if layers and self.handoff != "buffer":
            raise InputError("pools: overlap_layers: nothing is reserved before a prompt ends; use handoff='buffer'")
        if self.decode_cost is not None and not callable(getattr(self.decode_cost, "seconds", None)):
            raise InputError(f"pools: decode_cost: expected an IterationCost (got {type(self.decode_cost).__name__})")

    def token_bytes(self, cost: IterationCost) -> int:
        """Bytes of keys and values of one token.

        Raises
        ------
        InputError
            If they are neither given nor follow from the cost's model.
        """
        if self.kv_bytes_per_token is not None:
            return self.kv_bytes_per_token
        model = getattr(cost, "model", None)
        if not isinstance(model, DecoderSpec):
            raise InputError(
                f"pools: kv_bytes_per_token: a {type(cost).__name__} knows no model; give the bytes of a token"
            )
        return model.kv_bytes_per_token(self.kv_precision)

    def left(self, transfer_s: float, iteration_s: float) -> float:
        """Seconds of a transfer that are left when the prompt's last iteration ends.

        Of `overlap_layers` layers that are computed one after the other in `iteration_s` seconds, each is sent in its
        share of `transfer_s` once it is computed and the one before is sent (a two-stage flow shop of equal jobs).
        """
        layers = self.overlap_layers
        if not layers or not math.isfinite(transfer_s):
            return transfer_s
        return max(transfer_s / layers, transfer_s - iteration_s * (layers - 1) / layers)
