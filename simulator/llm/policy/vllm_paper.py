"""The scheduler of the vLLM paper (§5.4.3, §5.4.5): prompts and running sequences in one step, no padding.

A step gives every running sequence a token and lets waiting prompts join; all their tokens are concatenated to one
sequence. What the paper leaves open is as in vLLM 0.1.0, released while it was written: who runs comes first, then who
was swapped, then who waits; nobody joins while somebody is swapped or was preempted in this step. vLLM 0.2 (`vllm02`)
later gave prompts steps of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from .vllm02 import Vllm02Scheduler
from .vllm02_state import PagedConfig, Vllm02Step

__all__ = ["VllmPaperConfig", "VllmPaperScheduler"]


@dataclass(frozen=True, slots=True)
class VllmPaperConfig(PagedConfig):
    """Engine arguments of the paper's vLLM: those of `PagedConfig`.

    `max_num_batched_tokens` counts prompt tokens and a token of each running sequence; by default it is
    ``max(2560, max_model_len)``, vLLM 0.1.0's.
    """

    @property
    def token_budget(self) -> int:
        """Tokens in a step."""
        return self.max_num_batched_tokens or max(2560, self.max_model_len)


class VllmPaperScheduler(Vllm02Scheduler):
    """The policy: as vLLM 0.2's, with prompts and decodes in one step."""

    def schedule(self) -> Vllm02Step:
        """Decide the next step."""
        step = self._decodes()
        if not (step.preempted or self.swapped):
            decodes = len(step.scheduled)
            step.num_batched_tokens += sum(self._admit(step))
            if step.prompts:
                step.kind = "mixed" if decodes else "prompt"
        return step

    def _takes(self, step: Vllm02Step, lengths: list[int]) -> bool:
        """Whether prompts of these lengths fit beside the decodes of a step."""
        return step.num_batched_tokens + sum(lengths) <= self.config.token_budget
