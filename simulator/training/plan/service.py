"""`ServiceEntry`: what was measured of a training plan while it ran: hosts' work, messages, and how times vary."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from ....errors import InputError
from ....profiles.spread import Spread
from ...plan.entries import Entry, Problem, Seconds

__all__ = ["MessageTimes", "ServiceEntry", "service_problems"]


class MessageTimes(Entry):
    """A message between two stages, as it was while the plan ran."""

    what: Literal["forward", "backward", "tied"] = Field(description="activations, gradients, or those of tied weights")
    source: int = Field(ge=0, description="stage that sends")
    target: int = Field(ge=0, description="stage that receives")
    seconds: Seconds | None = Field(
        default=None, description="from the start of the send until the receiver has it; null: what the link says"
    )
    send_s: Seconds = Field(default=0.0, description="for which the sender's host works")
    receive_s: Seconds = Field(default=0.0, description="for which the receiver's host works once it is there")


class ServiceEntry(Entry):
    """Times in service. Those of stages are in the stages: means of what was measured while all of the plan ran."""

    begin_s: tuple[Seconds, ...] = Field(
        default=(), description="for each mesh, from an iteration's start until its first action: receives are posted"
    )
    messages: tuple[MessageTimes, ...] = ()
    passes: dict[str, Any] = Field(default_factory=dict, description="spread of what devices take, around 1")
    message_spread: dict[str, Any] = Field(default_factory=dict, description="spread of messages' times, around 1")

    @field_validator("passes", "message_spread")
    @classmethod
    def _spread(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            Spread.from_dict(value)
        except InputError as error:
            raise ValueError(str(error)) from None
        return value


def service_problems(service: ServiceEntry | None, meshes: int, stages: int) -> list[Problem]:
    """What contradicts the plan's numbers of meshes and stages."""
    if service is None:
        return []
    found: list[Problem] = []
    if service.begin_s and len(service.begin_s) != meshes:
        found.append((("service", "begin_s"), f"expected one for each of {meshes} meshes (got {len(service.begin_s)})"))
    for k, message in enumerate(service.messages):
        for end, stage in (("source", message.source), ("target", message.target)):
            if stage >= stages:
                found.append((("service", "messages", k, end), f"stage {stage} does not exist; the plan has {stages}"))
    return found
