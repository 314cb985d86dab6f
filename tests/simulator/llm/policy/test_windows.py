"""Layers with a sliding window: vLLM's hybrid allocator, block by block, against its rule written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import DecoderSpec, Iteration, iteration_cost
from meshwright.profiles.llm.cost.kinds.windows import windowed_area
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler

PLAIN = {"block_size": 4, "max_model_len": 512, "max_num_batched_tokens": 32, "enable_prefix_caching": False}
MODEL = DecoderSpec("m", 12, 2048, 16, 8192, 32768, 8, 128, window=1024, full_layers=2, max_positions=65536)


def held(config: V1Config, before: int, after: int) -> int:
    """Blocks of a request that had so many computed tokens when its step was decided, and has so many after it.

    vLLM frees what lies wholly behind the window of the next token (``get_num_skipped_tokens``), then allocates.
    """
    size = config.block_size
    blocks = (after + size - 1) // size
    gone = max(0, before - config.sliding_window + 1) // size if config.window_groups else 0
    return config.full_groups * blocks + config.window_groups * (blocks - gone)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(0, 2), st.integers(1, 5), st.sampled_from([1, 4, 8]), st.integers(60, 400),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=8), st.booleans(),
)  # fmt: skip
def test_blocks_are_those_of_the_rule(window, full, near, size, blocks, asked, chunked):
    config = V1Config(
        blocks * (full + near), **{**PLAIN, "block_size": size, "max_num_batched_tokens": 64 if not chunked else 16},
        sliding_window=window, full_groups=full, window_groups=near, enable_chunked_prefill=chunked,
    )  # fmt: skip
    scheduler = V1Scheduler(config)
    for number, (prompt, output) in enumerate(asked):
        scheduler.add(LLMRequest(number, prompt, output))
    done, before = 0, {}
    for _ in range(2000):
        if not (scheduler.running or scheduler.waiting):
            break
        step = scheduler.schedule()
        last = {r: r.computed - step.scheduled[r] for r in step.scheduled}
        expected = sum(held(config, last.get(r, before.get(r, 0)), r.computed) for r in scheduler.running)
        assert config.num_blocks - 1 - scheduler.pool.free_blocks == expected
        before |= last
        done += len(scheduler.complete(step))
    assert done == len(asked)
    assert scheduler.pool.free_blocks == config.num_blocks - 1


def test_a_wide_window_is_no_window():
    rng = np.random.default_rng(3)
    trace = LLMTrace(np.sort(rng.uniform(0, 1, 30)), rng.integers(4, 90, 30), rng.integers(2, 60, 30))
    cost = iteration_cost(MODEL, device("h100"), max_tokens=64, max_outputs=64)
    base = {**PLAIN, "num_blocks": 200}
    one = simulate_llm(trace, config=base, cost=cost)
    other = simulate_llm(trace, config=base | {"sliding_window": 1024, "full_groups": 0, "window_groups": 1}, cost=cost)
    assert one.finish.tolist() == other.finish.tolist()


def test_windows_hold_more_requests_in_the_same_memory():
    """5 of 6 groups keep 32 tokens: 6 requests of 250 tokens need 6 (63 + 5 (8 + 1)) blocks, not 6 x 6 x 63."""
    trace = LLMTrace(np.zeros(6), np.full(6, 200), np.full(6, 50))
    cost = iteration_cost(MODEL, device("h100"), max_tokens=64, max_outputs=64)
    sizes = {**PLAIN, "num_blocks": 1000, "full_groups": 1, "window_groups": 5}
    few = simulate_llm(trace, config=sizes | {"sliding_window": 500}, cost=cost)
    many = simulate_llm(trace, config=sizes | {"sliding_window": 32}, cost=cost)
    assert many.preemptions.sum() == 0
    assert many.finish.max() < few.finish.max()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sliding_window": 4}, "expected at least one group, and a window"),
        ({"window_groups": 1}, "expected at least one group, and a window"),
        ({"full_groups": 0}, "at least one group"),
        ({"sliding_window": -1}, "sliding_window: expected an integer >= 0"),
        ({"prefix_cache_retention_interval": 8}, "prefix_cache_retention_interval: is for layers with a sliding"),
        (
            {"sliding_window": 4, "window_groups": 1, "prefix_cache_retention_interval": 3},
            "prefix_cache_retention_interval: expected a multiple of block_size 4, 0 or None",
        ),
    ],
)
def test_bad_windows(more, says):
    with pytest.raises(InputError, match=says):
        V1Config(100, **{**PLAIN, **more})


def test_pairs_that_are_seen():
    for window in (1, 3, 7):
        for length in range(1, 12):
            pairs = sum(min(i + 1, window) for i in range(length))
            assert windowed_area(np.array([float(length)]), window)[0] == pairs


def test_layers_with_a_window_read_no_more_than_it():
    """Decodes by the roofline read bytes alone, so ten of twelve layers stop growing at 1,024 tokens."""
    cost = iteration_cost(MODEL, device("h100"), max_tokens=64, max_outputs=64)

    def attention(context: int) -> float:
        return sum(p.seconds for p in cost.explain(Iteration((), 8, 8 * context, 8)) if "attention of dec" in p.name)

    at, beyond, far = attention(1024), attention(16384), attention(31744)
    assert (far - beyond) / 15360 == pytest.approx((beyond - at) / 15360, rel=1e-6)
    whole = iteration_cost(
        DecoderSpec("w", 12, 2048, 16, 8192, 32768, 8, 128, max_positions=65536), device("h100"), max_tokens=64,
        max_outputs=64,
    )  # fmt: skip
    growth = sum(
        sign * sum(p.seconds for p in whole.explain(Iteration((), 8, 8 * n, 8)) if "attention of dec" in p.name)
        for sign, n in ((1, 16384), (-1, 1024))
    )
    assert beyond - at == pytest.approx(growth * 2 / 12, rel=1e-6)
