"""`DraftEntry`: speculative decoding as a plan says it, what its drafts cost, and the memory that they take."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, field_validator

from ....errors import InputError
from ....profiles.hardware import DeviceSpec
from ....profiles.llm.cost.iteration import iteration_cost
from ....profiles.llm.cost.kinds.draft import draft_cost
from ....profiles.llm.cost.overheads import Overheads
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.iteration import IterationCost
from ....profiles.llm.named import decoder
from ....profiles.llm.tables.kernels import KernelTables
from ...plan.entries import Entry
from ..decoding.speculative import Speculative

__all__ = ["MTP", "DraftEntry"]

MTP = "mtp"
"""Draft that is the checkpoint's own: its layers that predict further tokens."""

Share = Annotated[float, Field(ge=0, le=1)]


class DraftEntry(Entry):
    """Draft tokens of an engine: how many, from where, how often they are accepted.

    The acceptance is the user's: it depends on both models and on what is asked, and no plan can know it.
    """

    tokens: int = Field(gt=0, le=64, description="draft tokens of a sequence and step (num_speculative_tokens)")
    acceptance: Share | tuple[Share, ...] = Field(
        description="probability that a draft token is accepted, given those before it: one, or one for each"
    )
    draft: str = Field(
        default="", description="a shipped decoder on the same devices; mtp: the checkpoint's own layer; empty: neither"
    )
    draft_s: float = Field(default=0.0, ge=0, le=60, description="further seconds of a step for making drafts")

    @field_validator("acceptance", mode="after")
    @classmethod
    def _one_number(cls, said: Any) -> Any:
        return float(said) if isinstance(said, int | float) else said

    def speculative(
        self, model: DecoderSpec, system: KernelTables | DeviceSpec, *, tp: int, pp: int, precision: str, kv: str
    ) -> Speculative:
        """What `simulate_llm` takes; the draft is cut like the model.

        Raises
        ------
        InputError
            On an unknown draft, degrees that it does not take, or a number of acceptances that is not that of tokens.
        """
        cost = None
        if self.draft:
            cost = _cost(self.draft, model, _Same(system), tp, pp, precision, kv)
        return Speculative(self.tokens, self.acceptance, cost, self.draft_s, lookahead=bool(self.draft))

    def weight_bytes(self, tp: int, weights: str) -> int:
        """Bytes of a draft model's weights on a rank; the checkpoint's own layers are counted with the model."""
        if self.draft in ("", MTP):
            return 0
        return math.ceil(decoder(self.draft).weight_bytes(weights) / tp)

    def kv_share(self, model: DecoderSpec, kv: str) -> float:
        """Share of the KV memory that is left for the model: a draft model keeps keys and values of the same tokens."""
        if self.draft in ("", MTP):
            return 1.0
        own, other = (spec.kv_bytes_per_token(kv) for spec in (model, decoder(self.draft)))
        return own / (own + other)

    def __str__(self) -> str:
        by = {"": "drafts", MTP: "drafts of its own layer"}.get(self.draft, f"drafts of {self.draft}")
        return f"{self.tokens} {by}"


class _Same:
    """Tables hold mappings and have no hash: they are told apart as objects."""

    def __init__(self, system: KernelTables | DeviceSpec) -> None:
        self.system = system

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.system is self.system

    def __hash__(self) -> int:
        return id(self.system)


@lru_cache(maxsize=256)
def _cost(draft: str, model: DecoderSpec, on: _Same, tp: int, pp: int, precision: str, kv: str) -> IterationCost:
    """Seconds of a draft's passes: kernels and launches; the host's time of a step is the model's own."""
    same: dict[str, Any] = {"tp": tp, "precision": precision, "kv": kv}
    system = on.system
    if pp > 1:
        raise InputError("speculative: drafts are not modelled in a pipeline; set pp to 1")
    if draft == MTP:
        return draft_cost(model, system, **same)
    return iteration_cost(decoder(draft), system, overheads=Overheads(scheduler_s=0.0, per_sequence_s=0.0), **same)
