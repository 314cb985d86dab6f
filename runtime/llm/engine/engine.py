"""`LLMEngine`: a scheduler's decisions, carried out on a real model, step by step.

The scheduler and its block manager are the simulator's own objects, made by ``POLICIES[policy].scheduler(config)``;
the engine adds the model, the keys and values in the blocks, and the tokens.
"""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from types import TracebackType
from typing import Any

from torch import Tensor

from ....errors import InputError, RunError
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.named import decoder
from ....simulator.llm.policy.catalogue import policy_config, policy_named
from ....simulator.llm.policy.request import LLMRequest
from ....simulator.llm.policy.work import Work
from .adapters.table import Adapter, Emitted, Finished, adapter_of
from .options import EngineConfig
from .plan import StepPlan
from .prompts import drawn_prompt
from .runner import Memory, Runner
from .sampling import GREEDY, Sampling

__all__ = ["LLMEngine", "StepOutput", "StepTimes"]


@dataclass(slots=True)
class StepTimes:
    """Seconds of the parts of a step.

    Parameters
    ----------
    schedule : float
        The scheduler's decision.
    build : float
        Laying out the batch.
    forward : float
        Running the model; on a GPU only launching it.
    sample : float
        Choosing tokens, on a GPU with the wait for the model; then telling the scheduler, and handling finished
        requests.
    """

    schedule: float = 0.0
    build: float = 0.0
    forward: float = 0.0
    sample: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return self.schedule + self.build + self.forward + self.sample


@dataclass(slots=True)
class StepOutput:
    """What a step gave.

    Parameters
    ----------
    emitted : list of Emitted
        New tokens. Beams say nothing before they finish.
    finished : list of Finished
        Requests that have all their tokens.
    ignored : list
        Ids of requests that the scheduler gave up.
    work : list of Work
        What was decided in this step, in the simulator's terms; several where steps took no time.
    ran : Work, optional
        The decision that was carried out; None if nothing was computed.
    times : StepTimes
        Where the time went.
    """

    emitted: list[Emitted] = field(default_factory=list[Emitted])
    finished: list[Finished] = field(default_factory=list[Finished])
    ignored: list[str | int] = field(default_factory=list[str | int])
    work: list[Work] = field(default_factory=list[Work])
    ran: Work | None = None
    times: StepTimes = field(default_factory=StepTimes)


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """A step that is decided and not completed."""

    step: Any
    plan: StepPlan
    work: Work


class LLMEngine:
    """A language model with random weights, served for real.

    Parameters
    ----------
    model : DecoderSpec or str
        Its shape, or the name of one.
    policy : {"vllm-v1", "sarathi", "vllm-0.2"}
        The scheduler; or one of your own in `POLICIES` with paged memory.
    config : mapping or dataclass
        The policy's options, by vLLM's own names. ``max_model_len`` is by default at most the model's positions.
    options : EngineConfig, optional
        Where and how; or its fields as further arguments: ``device, dtype, seed, tp, cp, threads, …``.

    Raises
    ------
    InputError
        On an unknown policy or option, or a model that cannot be run so.
    RunError
        If another process of a parallel engine cannot be started.

    Notes
    -----
    On a CPU it sets torch's number of threads in this process to ``threads`` (1). With ``tp * cp > 1`` it starts the
    other processes and is rank 0 of torch.distributed's default group; `close` ends them.
    """

    def __init__(
        self, model: DecoderSpec | str, policy: str = "vllm-v1", config: Any = None, *,
        options: EngineConfig | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        self.spec = decoder(model) if isinstance(model, str) else model
        if options is not None and fields:
            raise InputError(f"engine: give options or single fields, not both (got options and {', '.join(fields)})")
        try:
            self.options = options or EngineConfig(**fields)
        except TypeError as error:
            raise InputError(f"engine: {str(error).partition('() ')[2] or error}") from None
        self.policy = policy_named(policy)
        adapter = adapter_of(self.policy)
        self.name = policy
        self.config: Any = policy_config(self.policy.config, _with_length(self.policy.config, config, self.spec))
        self.scheduler = self.policy.scheduler(self.config)
        self.options.check_device()
        pool = self.scheduler.pool if hasattr(self.scheduler, "pool") else self.scheduler.memory.gpu
        host = getattr(self.config, "num_cpu_blocks", 0)
        self.memory = Memory(pool.size, host, self.config.block_size, self.config.max_model_len)
        self.adapter: Adapter = adapter(self.scheduler, self.options.seed)
        self.runner: Any = _runner(self.spec, self.memory, self.options)
        self._deep = self.policy.in_flight(self.config)
        self._flying: deque[_Flight] = deque()
        self._known: set[str | int] = set()
        self._stalled = False

    def __enter__(self) -> LLMEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the other processes of a parallel engine, if there are any."""
        close = getattr(self.runner, "close", None)
        if close is not None:
            close()

    @property
    def busy(self) -> bool:
        """Whether requests are left."""
        return bool(self._flying) or self.policy.busy(self.scheduler)

    def add(self, request: LLMRequest, token_ids: Sequence[int] | None = None, sampling: Sampling = GREEDY) -> None:
        """A request arrives.

        Parameters
        ----------
        request : LLMRequest
            Lengths, id and the rest. It ends after ``output`` tokens, or at a stop token.
        token_ids : sequence of int, optional
            Its prompt; by default ``request.tokens``, or tokens drawn at random for its id.
        sampling : Sampling
            How tokens are chosen; beams are always the likeliest.

        Raises
        ------
        InputError
            If it cannot run to its end, another request has its id, or the tokens do not fit the vocabulary.
        """
        why = self.policy.cannot(self.config, request) or self.policy.fatal(self.config, request)
        if why is not None:
            raise InputError(f"request {request.id!r}: {why}")
        if request.id in self._known:
            raise InputError(f"request {request.id!r}: another request under way has this id")
        token_ids = request.tokens if token_ids is None else token_ids
        if token_ids is None:
            token_ids = drawn_prompt(self.options.seed, request.id, request.prompt, self.spec.vocab)
        tokens = tuple(int(token) for token in token_ids)
        if len(tokens) != request.prompt:
            raise InputError(f"request {request.id!r}: expected {request.prompt} token ids (got {len(tokens)})")
        if not 0 <= min(tokens) <= max(tokens) < self.spec.vocab:
            raise InputError(
                f"request {request.id!r}: token ids must be in [0, {self.spec.vocab}) "
                f"(got {min(tokens)} to {max(tokens)})"
            )
        self.adapter.add(replace(request, tokens=tokens), tokens, sampling)
        self._known.add(request.id)

    def abort(self, request: str | int) -> bool:
        """A request leaves before its end, and its blocks are free again; whether it was there."""
        self._known.discard(request)
        return self.adapter.abort(request)

    def step(self) -> StepOutput:
        """Carry out one decision of the scheduler.

        Returns
        -------
        StepOutput
            Empty if nothing is left to do.

        Raises
        ------
        RunError
            If nothing that waits fits, with nothing running; or another process died.
        """
        out = StepOutput()
        if not self._flying and self.policy.busy(self.scheduler):
            self._decide(out)
        if not self._flying:
            return out
        flight = self._flying[0]
        out.ran, times = flight.work, out.times
        begin = perf_counter()
        packed = flight.plan.fill()
        built = perf_counter()
        times.build += built - begin
        logits: Tensor | None = self.runner.run(packed)
        times.forward += perf_counter() - built
        if self._deep > 1 and self.policy.busy(self.scheduler):
            self._decide(out)  # while a GPU still computes
        self._flying.popleft()
        begin = perf_counter()
        outcome = self.adapter.complete(flight.step, flight.plan, logits)
        times.sample += perf_counter() - begin
        out.emitted, out.finished = outcome.emitted, outcome.finished
        self._known.difference_update(f.request for f in out.finished)
        return out

    def _decide(self, out: StepOutput) -> None:
        """Let the scheduler decide; what takes no time is done at once."""
        begin = perf_counter()
        step = self.scheduler.schedule()
        decided = perf_counter()
        work = self.policy.work(self.scheduler, step, False)
        out.work.append(work)
        noted = perf_counter()
        plan = self.adapter.lay_out(step)
        out.times.schedule += decided - begin
        out.times.build += perf_counter() - noted
        ignored = self.adapter.ignored(step)
        out.ignored += ignored
        self._known.difference_update(ignored)
        if plan is not None:
            self._stalled = False
            self._flying.append(_Flight(step, plan, work))
            return
        self.adapter.complete(step, None, None)
        if not self._flying and (self._stalled or not (work.ignored or work.preempted)):
            raise RunError(
                f"engine: {work.waiting} requests wait and none of them fits, with nothing running; give it more "
                "blocks or a larger max_num_batched_tokens"
            )
        self._stalled = not work.ignored


def _with_length(kind: type[Any], config: Any, spec: DecoderSpec) -> Any:
    """Options with a ``max_model_len`` that the model can take, where none was given."""
    if config is None:
        raise InputError("config: expected the policy's options, the number of KV blocks at least (got None)")
    if not isinstance(config, Mapping):
        return config
    longest = min(kind.__dataclass_fields__["max_model_len"].default, spec.longest)
    return {"max_model_len": longest, **config}


def _runner(spec: DecoderSpec, memory: Memory, options: EngineConfig) -> Any:
    if options.world == 1:
        return Runner(spec, memory, options)
    from .processes.leader import Leader

    return Leader(spec, memory, options)
