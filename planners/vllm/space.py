"""What the planner may choose from: degrees and options of engines, and how requests find them; and its effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from pydantic import ValidationError

from ...errors import InputError
from ...profiles.llm.cost.iteration import PRECISIONS
from ...profiles.llm.cost.kinds.experts import ALL2ALL
from ...reprs import Shown
from ...simulator.llm.plan.drafts import DraftEntry
from ...simulator.llm.plan.entries import Option
from ...simulator.llm.policy.catalogue import POLICIES
from ...simulator.llm.policy.router import ROUTERS

__all__ = ["Effort", "SearchSpace"]

SPLITS = ("no", "also", "only")


@dataclass(frozen=True, slots=True, repr=False)
class SearchSpace(Shown):
    """The values of each option that are tried, in every combination that fits.

    Parameters
    ----------
    tp, pp, cp : sequence of int
        Degrees of tensor, pipeline and context parallelism of an engine.
    dp : sequence of int
        Of models of experts under vllm-v1: degrees of ranks with requests of their own that meet at the experts.
    expert_parallel : sequence of bool
        Of models of experts on several devices: whether these are spread over the devices instead of cut.
    eplb : sequence of bool
        Of spread experts: whether ranks bear equally popular ones (vLLM's ``--enable-eplb``).
    all2all : sequence of str
        Of spread experts under ``dp``: vLLM's ``--all2all-backend``, names of `ALL2ALL`.
    policies : sequence of str
        Schedulers: names of `POLICIES`.
    block_sizes : sequence of int
        Tokens in a KV block.
    batched_tokens, seqs : sequence of int
        ``max_num_batched_tokens`` and ``max_num_seqs``.
    chunked_prefill : sequence of bool
        Of vllm-v1: whether prompts may be split over steps.
    prefix_caching : sequence of bool
        Of vllm-v1; where it is True or False, True is tried only if requests share prefixes.
    utilizations : sequence of float
        ``gpu_memory_utilization``.
    routers : sequence of str
        Who gets a request, where there are several engines.
    precision, kv_precision : str or sequence of str
        Of weights and of the KV cache. Several are traded against each other by time and memory alone: what quality a
        format costs is not known here.
    speculative : sequence of DraftEntry or None
        Speculative decoding: each of these, and None for none. A mapping is taken for the fields of a `DraftEntry`.
    disaggregate : {"no", "also", "only"}
        Whether prompts and decodes may (or must) be on engines of their own; every ratio is tried, with equal engines.
    scheduler : mapping of str to value
        Further options that all schedulers get, by their own names; kept as pairs.

    Raises
    ------
    InputError
        On an empty choice, or a value out of its range.
    """

    tp: Sequence[int] = (1, 2, 4, 8)
    pp: Sequence[int] = (1, 2)
    cp: Sequence[int] = (1,)
    dp: Sequence[int] = (1,)
    expert_parallel: Sequence[bool] = (False, True)
    eplb: Sequence[bool] = (False,)
    all2all: Sequence[str] = (ALL2ALL[0],)
    policies: Sequence[str] = ("vllm-v1",)
    block_sizes: Sequence[int] = (16,)
    batched_tokens: Sequence[int] = (512, 2048, 8192)
    seqs: Sequence[int] = (256,)
    chunked_prefill: Sequence[bool] = (True,)
    prefix_caching: Sequence[bool] = (False, True)
    utilizations: Sequence[float] = (0.9,)
    routers: Sequence[str] = ("round_robin",)
    precision: str | Sequence[str] = "bf16"
    kv_precision: str | Sequence[str] = "bf16"
    speculative: Sequence[DraftEntry | None] = (None,)
    disaggregate: str = "no"
    scheduler: Mapping[str, Option] | tuple[tuple[str, Option], ...] = ()

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "scheduler", tuple(dict(self.scheduler).items()))
        except (TypeError, ValueError):
            raise InputError(f"space: scheduler: expected options by name (got {self.scheduler!r:.60})") from None
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, str) or field.name == "scheduler":
                continue
            if not isinstance(value, Sequence) or not value:
                raise InputError(f"space: {field.name}: expected one value or more (got {value!r})")
            each = cast("Sequence[Any]", value)
            if field.name == "speculative":
                each = [_draft(one) for one in each]
            object.__setattr__(self, field.name, tuple(dict.fromkeys(each)))
        for name in ("tp", "pp", "cp", "dp", "block_sizes", "batched_tokens", "seqs"):
            for value in getattr(self, name):
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise InputError(f"space: {name}: expected integers >= 1 (got {value!r})")
        for name, known in (("policies", POLICIES), ("routers", ROUTERS), ("all2all", ALL2ALL)):
            for value in getattr(self, name):
                if value not in known:
                    raise InputError(f"space: {name}: unknown {value!r}; expected some of {', '.join(known)}")
        for value in self.eplb:
            if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(f"space: eplb: expected true or false (got {value!r})")
        for name, formats in (("precision", self.precisions), ("kv_precision", self.kv_precisions)):
            for value in formats:
                if value not in PRECISIONS:
                    raise InputError(f"space: {name}: expected some of {', '.join(PRECISIONS)} (got {value!r})")
        for value in self.utilizations:
            if not 0 < value <= 1:
                raise InputError(f"space: utilizations: expected shares in (0, 1] (got {value})")
        if self.disaggregate not in SPLITS:
            raise InputError(f"space: disaggregate: expected one of {', '.join(SPLITS)} (got {self.disaggregate!r})")

    @property
    def options(self) -> tuple[tuple[str, Option], ...]:
        """Further options of the schedulers."""
        return tuple(dict(self.scheduler).items())

    @property
    def precisions(self) -> tuple[str, ...]:
        """Formats of the weights."""
        return (self.precision,) if isinstance(self.precision, str) else tuple(self.precision)

    @property
    def kv_precisions(self) -> tuple[str, ...]:
        """Formats of the KV cache."""
        return (self.kv_precision,) if isinstance(self.kv_precision, str) else tuple(self.kv_precision)


def _draft(said: Any) -> DraftEntry | None:
    """Drafts as they are given: an entry, its fields, or none.

    Raises
    ------
    InputError
        On anything else, or a field that is wrong.
    """
    if said is None or isinstance(said, DraftEntry):
        return said
    try:
        return DraftEntry.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "drafts"
        raise InputError(f"space: speculative: {where}: {first['msg']} (got {first['input']!r:.60})") from None


@dataclass(frozen=True, slots=True, repr=False)
class Effort(Shown):
    """How hard is searched.

    Parameters
    ----------
    eta : int
        One candidate in `eta` goes on from round to round; 1: all are tried on the whole trace.
    finalists : int
        Candidates of the last round; besides, the best of each way to cut engines goes there (`halving`).
    smallest : int
        Requests of the first round, at least.
    seeds : int
        Seeds of the last round: intervals come from them.
    share_steps : int
        In how many steps the shares of requests are tried that unlike engines get: 20 for steps of 5 %.
    """

    eta: int = 3
    finalists: int = 3
    smallest: int = 200
    seeds: int = 3
    share_steps: int = 20

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"effort: {field.name}: expected an integer >= 1 (got {value!r})")
