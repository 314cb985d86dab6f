"""One answer, six samples and six beams in one batch, on vLLM's shared blocks and on Orca's chunks: what sharing saves.

python examples/decoding_methods.py
"""

from __future__ import annotations

import numpy as np
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import Genealogy, LLMTrace, SimulateOptions, SwapCost, simulate_llm
from meshwright.traces.lengths import ALPACA

COST = LinearCost(base_s=0.02, token_s=1e-4, context_s=1e-6)


def requests(n: int = 400, rate: float = 16.0) -> LLMTrace:
    """A third of the requests wants one answer, a third six samples, a third the best of six beams."""
    lengths = ALPACA.sample(n, seed=0)
    kind = np.arange(n) % 3
    arrival = np.cumsum(np.random.default_rng(0).exponential(1 / rate, n))
    return LLMTrace(arrival, lengths.prompt, lengths.output, best_of=np.where(kind == 0, 1, 6), beam=kind == 2)


def main() -> None:
    """Serve them twice."""
    trace = requests()
    blocks = {"num_gpu_blocks": 983, "num_cpu_blocks": 4096}
    paged = simulate_llm(
        trace,
        policy="vllm-0.2",
        config=blocks,
        cost=COST,
        options=SimulateOptions(swap=SwapCost(layers=40, piece_bytes=163_840), survivors=Genealogy(seed=0)),
    )
    chunks = simulate_llm(trace, policy="orca-oracle", config={"num_slots": 15_728}, cost=COST)
    for name, result in (("vLLM", paged), ("Orca (Oracle)", chunks)):
        print(
            f"{name}: {1000 * result.normalized_latency:.0f} ms per token, {result.mean_batch:.1f} requests in the "
            f"batch, {result.memory_saving:.0%} of the blocks saved"
        )


if __name__ == "__main__":
    main()
