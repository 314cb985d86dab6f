"""What `meshwright run` draws for an LLM engine."""

from __future__ import annotations

from pathlib import Path

from meshwright.cli.run_llm import LLMRun
from meshwright.cli.run_llm_workload import llm_workload


def test_lengths_shrink_for_a_small_model_but_not_for_a_plan() -> None:
    """A plan was made for the lengths as they are: too long ones are cut, as the planner cuts them."""
    small, said = llm_workload(LLMRun(model="tiny-llama", lengths="alpaca", requests=200), 384)
    assert said == "lengths like alpaca x 0.1875, seed 0"
    whole, said = llm_workload(LLMRun(plan=Path("plan.json"), lengths="alpaca", requests=200), 384)
    assert said == "lengths like alpaca, seed 0"
    assert int((whole.prompt_tokens + whole.output_tokens).max()) <= 384
    assert whole.output_tokens.mean() > 4 * small.output_tokens.mean()
