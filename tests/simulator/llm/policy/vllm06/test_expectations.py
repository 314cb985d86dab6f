"""vLLM 0.6.6's own unit expectations of its scheduler, asked of ours; each test says which of vLLM's it is.

Not asked: what copies on write are passed on (``test_schedule_decode_blocks_to_copy_update``,
``test_schedule_swapped_blocks_to_copy``), since requests of one sequence, all that 0.6.6 has, never copy; several steps
at once; encoders.
"""

from __future__ import annotations

from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.simulator.llm import drive
from meshwright.simulator.llm.memory.blocks import Allocation
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm06 import Vllm06Config, Vllm06Request, Vllm06Scheduler, Vllm06Step
from meshwright.simulator.llm.policy.vllm06.state import Budget

SMALL = {"num_gpu_blocks": 8, "block_size": 4, "max_model_len": 16, "max_num_batched_tokens": 64, "max_num_seqs": 4}


def asked(name: int, prompt: int, output: int = 16, arrive_step: float = 0, **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt": prompt, "output": output, "arrive_step": arrive_step, **more}


def steps(config: dict[str, Any], *requests: dict[str, Any]) -> list[dict[str, Any]]:
    return drive("vllm-0.6", SMALL | config, requests)


class Bench:
    """A scheduler, and the requests that were given to it."""

    def __init__(self, **config: Any) -> None:
        self.scheduler = Vllm06Scheduler(Vllm06Config(**(SMALL | config)))
        self.given: list[Vllm06Request] = []

    def add(self, prompt: int | list[int], output: int = 16, **more: Any) -> Vllm06Request:
        tokens = tuple(prompt) if isinstance(prompt, list) else None
        length = len(prompt) if isinstance(prompt, list) else prompt
        self.given.append(self.scheduler.add(LLMRequest(len(self.given), length, output, tokens=tokens, **more)))
        return self.given[-1]

    def step(self) -> tuple[dict[Any, int], Vllm06Step]:
        """Decide and complete a step; what it schedules, and it."""
        step = self.scheduler.schedule()
        self.scheduler.complete(step)
        return {r.request.id: n for r, n in step.scheduled.items()}, step


# tests/core/test_scheduler.py


def test_scheduler_add_seq_group_and_abort_seq_group() -> None:
    bench = Bench()
    for k in range(4):
        bench.add(4)
        assert len(bench.scheduler.waiting) == k + 1
    for request in bench.given:
        bench.scheduler.abort(request)
    assert not bench.scheduler.waiting


def test_scheduler_schedule_simple() -> None:
    first, second, *_ = steps({}, *(asked(k, 4, 4) for k in range(4)))
    assert (first["scheduled"], first["prompts"], first["num_batched_tokens"]) == (dict.fromkeys(range(4), 4), 4, 16)
    assert (second["scheduled"], second["prompts"], second["num_batched_tokens"]) == (dict.fromkeys(range(4), 1), 0, 4)


def test_scheduler_prefill_prioritized() -> None:
    """What runs takes nothing of the budget that a step of prompts has."""
    config = {"num_gpu_blocks": 16, "max_model_len": 30, "max_num_batched_tokens": 30, "max_num_seqs": 2}
    done = steps(config, asked(1, 1), asked(2, 30, 1, arrive_step=1))
    assert [list(s["scheduled"]) for s in done[:2]] == [[1], [2]]


def test_scheduler_schedule_preempt_abort() -> None:
    bench = Bench(num_gpu_blocks=2, max_num_seqs=2)
    a, _ = bench.add(4), bench.add(4)
    assert bench.step()[0] == {0: 4, 1: 4}
    scheduled, step = bench.step()
    assert (scheduled, [r.request.id for r in step.preempted], step.num_batched_tokens) == ({0: 1}, [1], 1)
    bench.scheduler.abort(a)
    assert bench.step()[0] == {1: 5}  # its prompt of 4 and the token that it had


def test_scheduler_max_seqs() -> None:
    config = {"max_num_seqs": 2}
    done = steps(config, asked(0, 4), asked(1, 4, arrive_step=2), asked(2, 4, arrive_step=2))
    assert [list(s["scheduled"]) for s in done[:3]] == [[0], [0], [1]]


def test_scheduler_delay_factor() -> None:
    """A step of a prompt took 1: half of that must pass before the next one is looked at."""
    late = asked(1, 4, 2, arrive_step=1)
    assert [list(s["scheduled"]) for s in steps({"delay_factor": 0.5}, asked(0, 4, 4), late)[:3]] == [[0], [0], [1]]
    assert list(steps({}, asked(0, 4, 4), late)[1]["scheduled"]) == [1]
    # And by a clock: one second later not yet, 0.6 s after that.
    scheduler = Vllm06Scheduler(Vllm06Config(**SMALL, delay_factor=0.5))
    scheduler.add(LLMRequest(0, 4, 9, arrival=5.0))
    for arrives, now, expected in ((False, 5.0, 0), (True, 6.0, 0), (False, 6.4, 0), (False, 6.6, 1)):
        if arrives:
            scheduler.add(LLMRequest(1, 4, 9, arrival=now))
        step = scheduler.schedule(now)
        scheduler.complete(step)
        assert [r.request.id for r in step.scheduled] == [expected]


def test_prefill_schedule_max_prompt_len() -> None:
    (only,) = steps({"max_model_len": 30, "num_gpu_blocks": 64}, asked(0, 60))
    assert (only["ignored"], only["scheduled"], only["waiting"]) == ([0], {}, [])


def test_prefill_schedule_token_budget() -> None:
    config = {"num_gpu_blocks": 64, "max_model_len": 64}
    for budget, first in ((64, {0: 60}), (119, {0: 60}), (120, {0: 60, 1: 60})):
        done = steps(config | {"max_num_batched_tokens": budget}, asked(0, 60, 2), asked(1, 60, 2))
        assert done[0]["scheduled"] == first
        assert done[0]["waiting"] == [1][len(first) - 1 :]


def test_prefill_schedule_max_seqs() -> None:
    config = {"num_gpu_blocks": 64, "max_model_len": 64, "max_num_batched_tokens": 1000, "max_num_seqs": 2}
    first, *_ = steps(config, *(asked(k, 60, 2) for k in range(3)))
    assert (first["scheduled"], first["num_batched_tokens"], first["waiting"]) == ({0: 60, 1: 60}, 120, [2])


def test_prefill_schedule_max_lora() -> None:
    """Who has no slot keeps its place, and those behind it pass."""
    config = {"num_gpu_blocks": 64, "max_model_len": 64, "max_num_batched_tokens": 120, "max_loras": 1}
    adapted = [asked(k, 60, 1, lora=("x", "y", None, None)[k]) for k in range(4)]
    first, second, *_ = steps(config, *adapted)
    assert (sorted(first["scheduled"]), first["waiting"]) == ([0, 2], [1, 3])
    assert list(second["scheduled"]) == [3, 1]  # one step, sorted by adapter


def test_prefill_schedule_no_block_manager_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, waiting, ignored in ((Allocation.LATER, 3, 0), (Allocation.NEVER, 0, 3)):
        bench = Bench(num_gpu_blocks=128, max_model_len=64)
        for _ in range(3):
            bench.add(60)
        monkeypatch.setattr(bench.scheduler.memory, "can_allocate", lambda request, answer=answer: answer)
        scheduled, step = bench.step()
        assert (scheduled, len(bench.scheduler.waiting), len(step.ignored)) == ({}, waiting, ignored)


def three_decodes(monkeypatch: pytest.MonkeyPatch, **config: Any) -> Bench:
    """Three requests that decode, of which the second finds no block."""
    bench = Bench(num_gpu_blocks=64, max_model_len=64, max_num_batched_tokens=256, **config)
    for _ in range(3):
        bench.add(60, 3)
    bench.step()
    monkeypatch.setattr(bench.scheduler.memory, "can_append", lambda request, ahead: request.request.id != 1)
    return bench


def test_decode_schedule_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest goes first, then the one that lacks room; who was there before stands in front again."""
    bench = three_decodes(monkeypatch)
    scheduled, step = bench.step()
    assert (scheduled, [r.request.id for r in step.preempted], step.swap_out) == ({0: 1}, [2, 1], [])
    assert [r.request.id for r in bench.scheduler.waiting] == [1, 2]


@pytest.mark.parametrize(
    ("answer", "swapped", "ignored"), [(Allocation.LATER, 2, 0), (Allocation.NEVER, 0, 2), (Allocation.OK, 0, 0)]
)
def test_schedule_swapped_cannot_swap_in_and_infeasible_swap(
    answer: Allocation, swapped: int, ignored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = three_decodes(monkeypatch, num_cpu_blocks=32, preemption_mode="swap")
    scheduled, step = bench.step()
    assert (scheduled, len(step.swap_out)) == ({0: 1}, 30)
    assert [r.request.id for r in bench.scheduler.swapped] == [2, 1]  # in the order in which they went
    monkeypatch.setattr(bench.scheduler.memory, "can_swap_in", lambda request, ahead: answer)
    scheduled, step = bench.step()
    back = 2 - swapped - ignored
    assert (len(bench.scheduler.swapped), len(step.ignored)) == (swapped, ignored)
    assert scheduled == {0: 1, **({2: 1, 1: 1} if back else {})}
    assert len(step.swap_in) == 15 * back


def test_schedule_swapped_max_loras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of unlike adapters are swapped out; with one slot only the first comes back."""
    bench = Bench(
        num_gpu_blocks=64, max_model_len=64, max_num_batched_tokens=256, num_cpu_blocks=32, preemption_mode="swap",
        max_loras=2,
    )  # fmt: skip
    for lora in ("x", "y"):
        bench.add(60, 5, lora=lora)
    bench.step()
    monkeypatch.setattr(bench.scheduler.memory, "can_append", lambda request, ahead: False)
    bench.step()
    assert [r.request.id for r in bench.scheduler.swapped] == [1, 0]
    monkeypatch.undo()
    bench.scheduler.seats.most = 1
    assert bench.step()[0] == {1: 1}
    assert [r.request.id for r in bench.scheduler.swapped] == [0]


def test_scheduling_budget() -> None:
    budget = Budget(4, 4)
    assert [budget.fits(n) for n in (1, 4, 5)] == [True, True, False]
    budget.spend(2)
    assert (budget.left, budget.tokens, budget.seqs) == (2, 2, 1)
    assert [budget.fits(n) for n in (2, 3)] == [True, False]
    budget.seqs = 4
    assert not budget.fits(1)


@pytest.mark.parametrize("caching", [True, False])
def test_prefix_caching_aware_prefills(caching: bool) -> None:
    """Tokens that the cache holds take nothing of the budget: two prompts of 8 fit into 12 where 4 of each are held."""
    bench = Bench(
        num_gpu_blocks=16, max_model_len=12, max_num_batched_tokens=12, max_num_seqs=3, enable_prefix_caching=caching
    )
    head = [0, 1, 2, 3]
    bench.add([*head, 4, 5, 6, 7])
    assert bench.step()[0] == {0: 8}
    assert bench.step()[0] == {0: 1}
    bench.add([*head, 12, 13, 14, 15])
    bench.add([*head, 16, 17, 18, 19])
    scheduled, step = bench.step()
    assert scheduled == ({1: 8, 2: 8} if caching else {1: 8})
    assert list(step.cached.values()) == ([4, 4] if caching else [])


def test_no_multiple_partial_prefills_with_chunked_prefill_and_prefix_caching() -> None:
    bench = Bench(
        num_gpu_blocks=16, block_size=2, max_model_len=100, max_num_batched_tokens=4, max_num_seqs=3,
        enable_prefix_caching=True, enable_chunked_prefill=True,
    )  # fmt: skip
    tokens = list(range(8))
    bench.add(tokens)
    assert bench.step()[0] == {0: 4}
    bench.add(tokens)
    assert bench.step()[0] == {0: 4}  # the other prompt waits, though all of it is held by now
    bench.add([*tokens[:4], *range(12, 20)])
    # A decode; a prompt that is held whole; 4 tokens that are held and 2 of the 3 that are left: a whole block.
    assert bench.step()[0] == {1: 8, 2: 6, 0: 1}


# tests/core/test_chunked_prefill_scheduler.py

CHUNKED = {"enable_chunked_prefill": True, "num_gpu_blocks": 64, "max_model_len": 80, "max_num_seqs": 60}


def test_simple() -> None:
    first, second, *_ = steps({"enable_chunked_prefill": True}, *(asked(k, 4, 4) for k in range(4)))
    assert (first["scheduled"], first["num_batched_tokens"]) == (dict.fromkeys(range(4), 4), 16)
    assert (second["scheduled"], second["num_batched_tokens"]) == (dict.fromkeys(range(4), 1), 4)


def test_chunk_and_complex() -> None:
    requests = [asked(k, 60, arrive_step=k // 2) for k in range(4)]
    first, second, *_ = steps(CHUNKED, *requests[:2])
    assert (list(first["scheduled"].items()), first["prompts"]) == ([(0, 60), (1, 4)], 2)
    assert (list(second["scheduled"].items()), second["prompts"]) == ([(1, 56), (0, 1)], 1)
    second = steps(CHUNKED, *requests)[1]  # two more have come: the first of them gets what is left
    assert list(second["scheduled"].items()) == [(2, 7), (1, 56), (0, 1)]
    assert (second["prompts"], second["num_batched_tokens"]) == (2, 64)


def test_maximal_decoding() -> None:
    bench = Bench(max_num_seqs=2, max_model_len=8, max_num_batched_tokens=2, enable_chunked_prefill=True)
    for _ in range(2):
        bench.add(2)
    assert bench.step()[0] == {0: 2}
    bench.add(2)
    assert list(bench.step()[0].items()) == [(1, 1), (0, 1)]
    assert list(bench.step()[0].items()) == [(1, 1), (0, 1)]
    assert bench.step()[0] == {0: 1, 1: 1}
    bench.scheduler.abort(bench.given[0])
    assert list(bench.step()[0].items()) == [(2, 1), (1, 1)]


def test_prompt_limit_and_prompt_limit_exceed() -> None:
    longer = steps(CHUNKED | {"max_model_len": 64, "max_num_batched_tokens": 32, "max_num_seqs": 32}, asked(1, 48, 1))
    assert [s["scheduled"] for s in longer] == [{1: 32}, {1: 16}]
    (only,) = steps(CHUNKED | {"max_model_len": 32}, asked(2, 48))
    assert only["ignored"] == [2]


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_chunked_prefill_preempt_and_swap(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(
        num_gpu_blocks=16, num_cpu_blocks=16, max_model_len=200, max_num_batched_tokens=30, max_num_seqs=30,
        enable_chunked_prefill=True, preemption_mode=mode, watermark=0.0,
    )  # fmt: skip
    request = bench.add(60)
    assert bench.step()[0] == {0: 30}
    monkeypatch.setattr(bench.scheduler.memory, "can_append", lambda request, ahead: False)
    scheduled, step = bench.step()
    assert (scheduled, bool(step.swap_out)) == ({}, mode == "swap")
    bench.add(60)  # swapping in comes before new prompts; a recomputed one stands before them
    scheduled, step = bench.step()
    assert (scheduled, step.prompts, bool(step.swap_in)) == ({0: 30}, 1, mode == "swap")
    assert request.decoding == (mode == "swap")  # what was computed before is not computed again
    if mode == "recompute":
        monkeypatch.undo()
        assert bench.step()[0] == {0: 30}
        assert request.decoding


def test_chunked_prefill_max_seqs() -> None:
    done = steps(
        CHUNKED | {"max_num_seqs": 2, "num_gpu_blocks": 128}, asked(9, 65, 4), *(asked(k, 65, 4, 1) for k in range(4))
    )
    assert [list(s["scheduled"].items()) for s in done[:3]] == [[(9, 64)], [(0, 63), (9, 1)], [(0, 2), (9, 1)]]


def test_perfix_caching() -> None:
    """Chunks end with blocks: of the 14 tokens that are left of 64 the second prompt gets 12."""
    first, *_ = steps(
        CHUNKED | {"num_gpu_blocks": 32, "max_num_seqs": 10, "enable_prefix_caching": True},
        *(asked(k, 50, 2) for k in range(2)),
    )
    assert (first["scheduled"], first["prompts"], first["num_batched_tokens"]) == ({0: 50, 1: 12}, 2, 62)


# What vLLM has no test for


def test_priorities_preempt_who_is_less_urgent() -> None:
    """By hand: 4 blocks, a prompt takes 2. The urgent one is admitted a step after room was made for it."""
    config = {"num_gpu_blocks": 4, "policy": "priority"}
    prompts = [asked(0, 7, 4, priority=1), asked(1, 7, 2, priority=2)]
    done = steps(config, *prompts, asked(9, 7, 2, arrive_step=1, priority=0))
    assert [list(s["scheduled"]) for s in done] == [[0, 1], [0], [9], [9], [0], [0], [1]]
    assert [s["preempted"] for s in done] == [[], [1], [], [0], [], [], []]
    assert done[1]["waiting"] == [9, 1]


def test_how_much_is_cached_is_looked_up_once() -> None:
    """A prompt that waits does not see what becomes cached meanwhile (vLLM's ``ComputedBlocksTracker``)."""
    bench = Bench(num_gpu_blocks=5, max_num_seqs=2, enable_prefix_caching=True)
    tokens = list(range(8))
    bench.add([50, *range(51, 58)], 1)
    bench.add(tokens, 2)
    bench.add([*tokens, 9, 10], 2)
    assert bench.step()[0] == {0: 8, 1: 8}  # the third is looked at: no block is there for it, and nothing is cached
    scheduled, step = bench.step()
    assert (scheduled, step.cached) == ({2: 10}, {})
    bench.add([*tokens, 11], 1)
    assert bench.step()[0] == {1: 1, 2: 1}  # no block for it before these are done
    scheduled, step = bench.step()
    assert (scheduled, list(step.cached.values())) == ({3: 9}, [8])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"delay_factor": -1}, r"^delay_factor: expected a finite factor >= 0 \(got -1\)$"),
        ({"delay_factor": float("inf")}, "^delay_factor: "),
        ({"preemption_mode": "swap"}, "^preemption_mode: 'swap' needs room on the host; give num_cpu_blocks"),
        ({"preemption_mode": "drop"}, "^preemption_mode: expected 'recompute' or 'swap'"),
        ({"policy": "lifo"}, "^policy: expected one of fcfs, priority"),
        ({"policy": "priority", "preemption_mode": "swap", "num_cpu_blocks": 4}, "cannot swap under policy 'priority'"),
        ({"policy": "priority", "enable_chunked_prefill": True}, "has no priorities with chunked prefill"),
        (
            {"max_num_batched_tokens": 15},
            "^max_num_batched_tokens: without chunked prefill expected at least max_model_len 16",
        ),
        ({"max_num_batched_tokens": 3, "enable_chunked_prefill": True}, "expected at least max_num_seqs 4"),
        (
            {"max_num_batched_tokens": 15, "enable_chunked_prefill": True, "enable_prefix_caching": True},
            r"expected a multiple of block_size 4 \(got 15\)$",
        ),
        ({"num_lookahead_slots": -1}, "^num_lookahead_slots: expected an integer >= 0"),
        ({"num_gpu_blocks": 0}, "^num_gpu_blocks: expected an integer >= 1"),
        ({"watermark": 1}, "^watermark: "),
        ({"enable_prefix_caching": 1}, "^enable_prefix_caching: expected true or false"),
        ({"lookahead": 1}, "unknown option 'lookahead'"),
    ],
)
def test_bad_options_are_refused_in_one_line(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        steps(config, asked(0, 4))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "request_", "message"),
    [
        ({}, {"best_of": 2}, "takes samples as requests of their own"),
        ({}, {"lora": "x"}, "give max_loras"),
        ({"enable_prefix_caching": True}, {"cache_salt": "s"}, "cache_salt 's': vLLM 0.6.6 has none"),
    ],
)
def test_bad_requests_are_refused(config: dict[str, Any], request_: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        steps(config, asked(0, 4, 2, **request_))
