"""What the LLM world needs of a machine."""

from __future__ import annotations

from ..need import Need

__all__ = ["NEEDS"]


def _simulation() -> str:
    from ...profiles.llm import LinearCost
    from ...simulator.llm import LLMTrace, simulate_llm

    cost = LinearCost(base_s=0.5, token_s=0.0, context_s=0.0)
    config = {"num_blocks": 8, "max_model_len": 64}
    finishes = [
        simulate_llm(LLMTrace([0.0], [4], [3]), config=config, cost=cost, engine=engine).finish.tolist()
        for engine in ("compiled", "simpy")
    ]
    if finishes != [[1.5]] * 2:
        raise ValueError(f"expected finishes [1.5] from both engines (got {finishes})")
    return "both engines agree"


def _engine() -> str:
    from ...runtime.llm.engine import LLMEngine, serve_trace
    from ...simulator.llm import LLMTrace

    with LLMEngine("tiny-llama", "vllm-v1", {"num_blocks": 8, "max_model_len": 64}) as engine:
        result = serve_trace(engine, LLMTrace([0.0], [4], [3]))
    if result.generated.tolist() != [3]:
        raise ValueError(f"expected 3 tokens (got {result.generated.tolist()})")
    return "tiny-llama said 3 tokens"


def _endpoint() -> str:
    from ...runtime.llm.engine.endpoint.server import check_installed

    check_installed()
    return "meshwright run llm --model MODEL --serve"


def _triton() -> str:
    import torch
    import triton

    return f"Triton {triton.__version__}, {'on the GPU' if torch.cuda.is_available() else 'no GPU: torch kernels run'}"


NEEDS = (
    Need("LLM simulation", _simulation),
    Need("LLM engine", _engine),
    Need("LLM endpoint", _endpoint),
    Need("LLM kernels in Triton", _triton),
)
