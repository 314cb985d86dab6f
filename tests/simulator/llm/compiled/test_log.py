"""The log of engines that are simulated one after the other."""

from __future__ import annotations

import numpy as np
from meshwright.profiles.llm import ConstantCost
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.compiled.log import STATE, Log, narrowest


def test_tables_grow_and_keep_what_was_written() -> None:
    log = Log(0, len(STATE), np.int64)
    rng = np.random.default_rng(0)
    clock, state = rng.random((2, 30_000)), rng.integers(0, 2**40, (len(STATE), 30_000))
    for rows in np.split(np.arange(30_000), [10, 10, 5_000, 29_000]):
        log.add(clock[:, rows], state[:, rows])
    found = log.columns()
    assert np.array_equal(np.bincount(found["engine"], minlength=5), [10, 0, 4_990, 24_000, 1_000])
    assert np.array_equal([found["start"], found["end"]], clock)
    assert np.array_equal([found[name] for name in STATE], state)


def test_what_a_loop_does_not_tell_is_zero() -> None:
    log = Log(0, 7, np.int32)
    log.add(np.ones((2, 3)), np.ones((7, 3), dtype=np.int32))
    found = log.columns()
    assert [int(found[name].sum()) for name in STATE] == [3] * 7 + [0] * 3


def test_numbers_are_as_narrow_as_they_can_be() -> None:
    assert (narrowest(2**31 - 1), narrowest(2**31)) == (np.int32, np.int64)


def test_an_engine_without_requests_has_no_iterations() -> None:
    """A prompt that is computed in one step, over two engines of which one has nothing to do."""
    prompt, config = (
        30_000,
        {"num_blocks": 4096, "max_model_len": 2**16, "max_num_batched_tokens": 2**16, "block_size": 64},
    )
    result = simulate_llm(
        LLMTrace([0.0], [prompt], [3]), config=config, cost=ConstantCost(1.0), engines=2, engine="compiled"
    )
    assert result.iterations.prefill.tolist() == [prompt, 0, 0]
    assert result.iterations.used_tokens.tolist() == [-(-(prompt + n) // 64) * 64 for n in (0, 1, 2)]
    assert result.iterations.engine.tolist() == [0, 0, 0]
