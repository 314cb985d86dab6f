"""`PromptDelay`: prompts wait a while after a step of prompts, so that more of them come together."""

from __future__ import annotations

from collections.abc import Sequence

from .state import Vllm06Request

__all__ = ["PromptDelay"]


class PromptDelay:
    """When prompts may be admitted.

    A prompt may when the oldest one that waits has waited `factor` times as long as the last step of prompts took, or
    when nothing runs. How long that was is told by when prompts were looked at next.

    Parameters
    ----------
    factor : float
        `Vllm06Config.delay_factor`; 0: at once.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.last_prompts_s = self._looked = 0.0
        self._prompts = False  # whether the step that was decided then had prompts

    def passed(self, now: float, waiting: Sequence[Vllm06Request], idle: bool) -> bool:
        """Whether a prompt may be admitted now; asked before each of them."""
        if self._prompts:
            self.last_prompts_s = now - self._looked
        self._looked, self._prompts = now, False
        if not (self.factor and waiting) or idle:
            return True
        oldest = min(r.request.arrival for r in waiting)
        return now - oldest > self.factor * self.last_prompts_s

    def admitted(self, any_prompt: bool) -> None:
        """What came of it: whether the step has prompts."""
        self._prompts = any_prompt
