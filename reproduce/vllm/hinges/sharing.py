"""What Fig. 15's parallel sampling hinges on: lengths, and whether the samples of a request end together.

Computed from lengths alone: what samples share are the full blocks of their prompt, for as long as they run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ....seeds import generator
from ....traces.lengths import ALPACA, LengthProfile
from ...sensitivity import Sensitivity, Swing
from ..decoding_rates import BLOCK

__all__ = ["sample_sensitivity", "shared"]

Ints = npt.NDArray[np.int64]
REQUESTS = 4000


def shared(prompt: Ints, outputs: Ints) -> float:
    """Share of the blocks that samples save, over the time in which each runs, a step as long as any other.

    Parameters
    ----------
    prompt : ndarray of int64, shape (n_requests,)
        Tokens.
    outputs : ndarray of int64, shape (n_samples, n_requests)
        Tokens of each sample.
    """
    longest = outputs.max(axis=0)
    full = prompt // BLOCK
    saved = full * (outputs.sum(axis=0) - longest)
    return float(saved.sum() / sum(_held(prompt, output).sum() for output in outputs))


def _held(prompt: Ints, output: Ints) -> Ints:
    """Blocks of a sequence of its own, summed over its steps: Σ ⌈(p + t)/16⌉ for t = 1 … o."""

    def up_to(n: Ints) -> Ints:  # Σ ⌈x/16⌉ for x = 1 … n
        whole, rest = np.divmod(n, BLOCK)
        return BLOCK * whole * (whole + 1) // 2 + rest * (whole + 1)

    return up_to(prompt + output) - up_to(prompt)


Draw = Callable[[int, int], tuple[Ints, Ints]]
"""Samples of a request, seed -> prompts, and outputs of each sample."""


def _alike(profile: LengthProfile) -> Draw:
    def draw(samples: int, seed: int) -> tuple[Ints, Ints]:
        lengths = profile.sample(REQUESTS, seed)
        return lengths.prompt, np.tile(lengths.output, (samples, 1))

    return draw


def _apart(samples: int, seed: int) -> tuple[Ints, Ints]:
    """Every sample with a length of its own."""
    drawn = [ALPACA.sample(REQUESTS, seed + k) for k in range(samples)]
    return drawn[0].prompt, np.stack([lengths.output for lengths in drawn])


def _ranked(of_prompt: float) -> Draw:
    """Outputs whose ranks go with the prompts' so much (normal scores)."""

    def draw(samples: int, seed: int) -> tuple[Ints, Ints]:
        lengths = ALPACA.sample(REQUESTS, seed)
        rng = generator(seed, "fig15", "ranks")
        one = rng.standard_normal(REQUESTS)
        other = of_prompt * one + np.sqrt(1 - of_prompt**2) * rng.standard_normal(REQUESTS)
        prompt, output = np.sort(lengths.prompt), np.sort(lengths.output)
        return prompt[one.argsort().argsort()], np.tile(output[other.argsort().argsort()], (samples, 1))

    return draw


def _short_prompts(samples: int, seed: int) -> tuple[Ints, Ints]:
    """Six of ten prompts an instruction of some 12 tokens, the others with an input: the same mean and CV."""
    rng = generator(seed, "fig15", "prompts")
    bare, more = rng.normal(12.5, 3.0, REQUESTS).clip(4.0), rng.gamma(2.5, 29.6 / 2.5, REQUESTS)
    prompt = np.rint(np.where(rng.random(REQUESTS) < 0.6, bare, more)).clip(1).astype(np.int64)
    return prompt, np.tile(ALPACA.sample(REQUESTS, seed).output, (samples, 1))


WAYS: Mapping[str, tuple[tuple[str, Draw], tuple[str, Draw]]] = MappingProxyType(
    {
        f"CV of outputs, {ALPACA.output_cv:.2f}": (
            ("0.7", _alike(replace(ALPACA, output_cv=0.7))), ("1.3", _alike(replace(ALPACA, output_cv=1.3))),
        ),
        f"CV of prompts, {ALPACA.prompt_cv:.2f}": (
            ("0.4", _alike(replace(ALPACA, prompt_cv=0.4))), ("1.1", _alike(replace(ALPACA, prompt_cv=1.1))),
        ),
        "prompts, log-normal": (("log-normal", _alike(ALPACA)), ("six of ten some 12 tokens", _short_prompts)),
        "prompt and output, independent": (("ranks at -0.2", _ranked(-0.2)), ("ranks at 0.2", _ranked(0.2))),
        "samples of a request, as long as each other": (("each its own", _apart), ("as long", _alike(ALPACA))),
    }
)  # fmt: skip


def sample_sensitivity(paper: float, samples: int, seed: int) -> Sensitivity:
    """Alpaca's saving by parallel sampling (%) as each assumption is moved alone."""

    def percent(draw: Draw) -> float:
        return 100 * shared(*draw(samples, seed))

    ours = percent(_alike(ALPACA))
    swings = tuple(Swing(what, a, b, percent(low), percent(high)) for what, ((a, low), (b, high)) in WAYS.items())
    claim = f"Alpaca, {samples} samples: memory saved"
    return Sensitivity(claim, paper, ours, "%, from lengths alone", swings, _needed(paper, swings))


def _needed(paper: float, swings: Sequence[Swing]) -> str:
    below = [
        f"{s.assumption}: {end} gives {value:.1f} %"
        for s in swings
        for end, value in ((s.low, s.at_low), (s.high, s.at_high))
        if value <= 1.05 * paper
    ]
    return "at the paper's figure or below it, within 5 %: " + ("; ".join(below) or "none of the values tried")
