"""A scheduler of your own: short prompts first. Step by step, on a clock, in the planner, and for real.

It changes one decision of today's vLLM, the order in which requests are admitted. The very same object decides in
`drive`, in the simulator and in the real engine. The last part needs torch: ``pip install -e '.[torch]'``.

Run: ``python examples/own_llm_policy.py`` (some seconds)
"""

from dataclasses import replace

from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import (
    POLICIES,
    LLMTrace,
    V1Scheduler,
    V1Step,
    draw,
    drive,
    register_policy,
    simulate_llm,
)


class ShortPromptsFirst(V1Scheduler):
    """Of those that wait the shortest prompt is admitted first; who was preempted stays in front."""

    def schedule(self) -> V1Step:
        """Decide the next step."""
        self.waiting.sort(key=lambda r: (not r.resumed, r.request.prompt, r.order))
        return super().schedule()


register_policy("short-prompts-first", replace(POLICIES["vllm-v1"], scheduler=ShortPromptsFirst))
BOTH = ("vllm-v1", "short-prompts-first")


def step_by_step() -> None:
    """No clock: who is admitted when, with room for one at a time."""
    requests = [{"id": f"{n} tokens", "prompt": n, "output": 2} for n in (60, 20, 40)]
    for policy in BOTH:
        records = drive(policy, {"num_blocks": 6, "max_num_seqs": 1}, requests)
        print(f"{policy}: admitted", ", ".join(name for record in records for name in record["new"]))


def on_a_clock() -> None:
    """A server that is nearly full: short prompts gain, long ones pay."""
    trace = draw([50, 200, 2000], [100, 100, 100], 300, rate=2.0, seed=0)
    cost = LinearCost(base_s=0.02, token_s=2e-4, context_s=1e-6)
    config = {"num_blocks": 4000, "max_model_len": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 8}
    for policy in BOTH:
        result = simulate_llm(trace, policy=policy, config=config, cost=cost)
        ttft = result.first_token - result.arrival
        means = (f"{n} tokens {ttft[trace.prompt_tokens == n].mean():.2f} s" for n in (50, 200, 2000))
        print(f"{policy}: mean TTFT {ttft.mean():.2f} s; prompts of {', '.join(means)}")


def for_real() -> None:
    """The real engine, one sequence at a time."""
    from meshwright.runtime.llm.engine import LLMEngine, serve_trace

    trace = LLMTrace([0.0, 0.0, 0.0], [60, 20, 40], [2, 2, 2])
    for policy in BOTH:
        with LLMEngine("tiny-llama", policy, {"num_blocks": 6, "max_num_seqs": 1, "max_model_len": 80}) as engine:
            result = serve_trace(engine, trace)
        order = [str(trace.prompt_tokens[row]) for row in result.first_token.argsort()]
        print(f"{policy}: for real, first tokens of the prompts of {', '.join(order)} tokens")


if __name__ == "__main__":
    step_by_step()
    on_a_clock()
    for_real()
