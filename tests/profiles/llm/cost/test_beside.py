"""Decodes beside a prompt's chunk, where the engine's attention folds the heads of a group only without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from meshwright.profiles import device
from meshwright.profiles.llm import Iteration, KernelTables, compiled, decoder, iteration_cost
from meshwright.profiles.llm.cost.beside import L2_RATE, beside_chunks

RUN = Path(__file__).parents[5] / "shared" / "data" / "vllm_runs" / "rtxpro6000_llama-3.1-8b" / "kernels"


def test_groups_of_heads_read_for_themselves_beside_a_chunk() -> None:
    model = decoder("Llama-3.1-8B")
    cost = iteration_cost(model, device("a100-80gb"))
    alone = Iteration((), 32, 32 * 1500, 32)
    parts = {p.name: p.seconds for p in cost.explain(alone)}
    both = {p.name: p.seconds for p in cost.explain(Iteration(((512, 0),), 32, 32 * 1500, 32))}
    assert both["attention of decodes"] / parts["attention of decodes"] == pytest.approx(4 / L2_RATE)
    assert sum(both.values()) == pytest.approx(cost.seconds(Iteration(((512, 0),), 32, 32 * 1500, 32)))


def test_its_compiled_twin_says_the_same() -> None:
    cost = iteration_cost(decoder("Llama-3.1-70B"), device("a100-80gb"), tp=4)
    new, before = np.array([700]), np.array([300])
    step = Iteration(((700, 300),), 48, 48 * 900, 48)
    assert compiled()(cost.grid(), 48, 48 * 900, new, before, 48) == pytest.approx(cost.seconds(step), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "on", "times"),
    [
        ("Llama-3.1-8B", "NVIDIA A100-SXM4-80GB, VLLM, 0.14.0", 4 / L2_RATE),
        ("Llama-3.1-70B", "l40s-48gb", 8 / L2_RATE),
        ("opt-13b", "a100-80gb", 1.0),
        ("Llama-3.1-8B", "h100-80gb", 1.0),
        ("Llama-3.1-8B", "NVIDIA B200", 1.0),
        ("DeepSeek-V3", "a100-80gb", 1.0),
    ],
)
def test_only_where_the_engine_takes_the_second_kernel(name: str, on: str, times: float) -> None:
    assert beside_chunks(decoder(name), on) == pytest.approx(times)


@pytest.mark.skipif(not RUN.is_dir(), reason="needs the published tables of an RTX PRO 6000 beside the checkout")
def test_the_one_public_table_that_has_both_bears_the_rate_out() -> None:
    layers = KernelTables.load(RUN, tp=1).layers
    assert layers is not None
    found: list[float] = []
    for new in (256, 1024, 2048):
        for decodes in (4, 16, 64):
            for context in (1024, 2048):
                both, chunk = (float(layers.mixed.at(new, 0, n, context)[0]) for n in (decodes, 0))
                found.append((both - chunk) / float(layers.decode.at(decodes, context)[0]))
    assert float(np.median(found)) == pytest.approx(4 / L2_RATE, rel=0.05)
