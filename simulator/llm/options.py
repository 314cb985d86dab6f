"""`SimulateOptions`: the rarer options of `simulate_llm`, beyond scheduler, cost and number of engines."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ...errors import InputError
from ...profiles.llm.times import StepTimes
from ...profiles.spread import Spread
from ...reprs import Shown
from .decoding.genealogy import Survivors
from .decoding.speculative import Speculative
from .fleet.faults import Faults
from .fleet.pools import Pools
from .fleet.scaling import Autoscaling
from .memory.adapters import AdapterCost
from .memory.swapping import SwapCost
from .times import StepDraws

__all__ = ["SimulateOptions"]


@dataclass(frozen=True, slots=True, repr=False)
class SimulateOptions(Shown):
    """The rarer options of `simulate_llm`.

    Parameters
    ----------
    swap : SwapCost, optional
        Cost of moving KV blocks to the host and back; needed if the policy may swap.
    concurrency : int, optional
        Closed loop with so many requests (or conversations) in flight: when one finishes, the next is sent. Arrival
        times are ignored.
    until : float, optional
        Stop at this time, seconds; requests in flight stay unfinished.
    too_long : {"error", "ignore"}
        What happens to requests that cannot run to their end. ``"error"``: an error before anything runs. ``"ignore"``:
        what the engine does, which ignores prompts that do not fit and ends outputs at ``max_model_len``.
    padded : bool
        Whether the padding of a prompt batch counts as computed (vLLM 0.2 pads prompts).
    survivors : Survivors, optional
        Which beams of a beam search survive, under policies that share blocks (``"vllm-paper"``, ``"vllm-0.2"``).
        Without it `Genealogy` draws them from the simulation's seed, the same for every policy and rate.
    pools : Pools, optional
        Disaggregated serving: prompts on some engines, decodes on others, with transfers between them. `engines` is
        then left at 1.
    faults : Faults, optional
        Engines that fail; their requests are tried again elsewhere.
    scaling : Autoscaling or sequence of them, optional
        Engines that are added and removed; with pools, one for each role.
    speculative : Speculative, optional
        Speculative decoding (policy ``"vllm-v1"``); the seed decides which draft tokens are accepted.
    adapters : AdapterCost, optional
        Cost of bringing LoRA adapters to the device; without it they take no time.
    times : StepTimes, Spread or StepDraws, optional
        How the times of steps vary: factors on `cost`, drawn by the simulation's seed (`simulator.llm.times`), or those
        of one run that were drawn before. A `Spread` is that of every step.

    Raises
    ------
    InputError
        On a value of another kind, or out of its range. What does not go together is said by `simulate_llm`.
    """

    swap: SwapCost | None = None
    concurrency: int | None = None
    until: float | None = None
    too_long: str = "error"
    padded: bool = False
    survivors: Survivors | None = None
    pools: Pools | None = None
    faults: Faults | None = None
    scaling: Autoscaling | Sequence[Autoscaling] | None = None
    speculative: Speculative | None = None
    times: StepTimes | Spread | StepDraws | None = None
    adapters: AdapterCost | None = None

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            at_least_one("concurrency", self.concurrency)
        if not isinstance(self.padded, bool):
            raise InputError(f"padded: expected True or False (got {self.padded!r})")
        if self.until is not None:
            if isinstance(self.until, bool) or not isinstance(self.until, Real):
                raise InputError(f"until: expected finite seconds > 0 (got {self.until!r})")
            if not (math.isfinite(self.until) and self.until > 0):
                raise InputError(f"until: expected finite seconds > 0 (got {self.until})")
        if self.too_long not in ("error", "ignore"):
            raise InputError(f"too_long: expected 'error' or 'ignore' (got {self.too_long!r})")
        # Users bring swap costs and genealogies of their own: what counts is the method.
        _has_method("swap", self.swap, "seconds", "SwapCost")
        _has_method("adapters", self.adapters, "seconds", "AdapterCost")
        _has_method("survivors", self.survivors, "parents", "Survivors")
        if self.speculative is not None and not isinstance(self.speculative, Speculative):
            raise InputError(f"speculative: expected Speculative (got {self.speculative!r})")
        if self.times is not None and not isinstance(self.times, (StepTimes, Spread, StepDraws)):
            raise InputError(f"times: expected StepTimes, Spread or StepDraws (got {self.times!r})")
        if self.pools is not None and not isinstance(self.pools, Pools):
            raise InputError(f"pools: expected Pools (got {type(self.pools).__name__})")


def at_least_one(name: str, value: Any) -> None:
    """Refuse what is no integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")


def _has_method(name: str, value: Any, method: str, kind: str) -> None:
    if value is not None and not callable(getattr(value, method, None)):
        raise InputError(f"{name}: expected {kind} with a method {method} (got {value!r})")
