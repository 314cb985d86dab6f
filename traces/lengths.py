"""Distributions of prompt and output lengths like those of the vLLM paper's two data sets, which are not shipped.

What is known about these, and from where:

- means: ShareGPT 161.31 prompt and 337.99 output tokens, Alpaca 19.31 and 58.45, as printed in Fig. 11 of Kwon et al.
  (SOSP 2023); the thesis' text keeps their ratios, "8.4× longer input prompts and 5.8× longer outputs" (§5.6.1);
- the longest sequence: 2048 tokens, OPT's, prompt and output together (§5.3);
- the spread of ShareGPT's outputs is not printed, but Fig. 5.2 implies it. Orca (Max) holds 7 requests in Table 5.1's
  15,728 slots, and 13.3 % of the slots are reserved for tokens to come: 299 a request. A request of output O has
  O/2 tokens to come on average, and is there in proportion to O: E[O²] / 2 E[O] = 299, a CV of 0.877;
- the spreads of Alpaca: 19.67 ± 15.19 prompt and 64.51 ± 64.85 output tokens (Zhao et al., WildChat, ICLR 2024,
  Table 1; Llama-2's tokenizer, hence other means): CVs of 0.772 and 1.005;
- the spread of ShareGPT's prompts is not known as the paper cut them: it is taken to be that of its outputs. All shapes
  are taken to be log-normal.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from ..errors import InputError
from ..reprs import Shown
from ..seeds import generator
from .columns import FloatArray, LongArray

__all__ = ["ALPACA", "LENGTHS", "SHAREGPT", "LengthProfile", "Lengths", "length_profile"]

LONGEST = 2048
"""Tokens of the longest sequence, prompt and output together: OPT's context (thesis §5.3)."""
IMPLIED_CV = math.sqrt(2 * 0.133 * 15728 / 7 / 337.99 - 1)
"""Coefficient of variation of ShareGPT's outputs, by Fig. 5.2's 13.3 % (see above): 0.877."""

ROUNDS = 500
"""Most steps of the fixed point. It takes some tens; a profile that needs more has no solution."""
CLOSE = 1e-10
"""Relative error at which the moments count as met: far below what any sample can show."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lengths(Shown):
    """Lengths of some requests.

    Parameters
    ----------
    prompt, output : ndarray of int64
        Tokens, >= 1.
    """

    prompt: LongArray
    output: LongArray

    def __len__(self) -> int:
        return len(self.prompt)


@dataclass(frozen=True, slots=True, repr=False)
class LengthProfile(Shown):
    """Independent log-normal prompts and outputs, rounded to tokens, of which only those that fit the model are kept.

    Keeping ``prompt + output <= longest`` alone takes the long ones away, so the log-normals are those whose *kept*
    pairs have the means and CVs given: found by a fixed point over the exact distribution, not by sampling.

    Parameters
    ----------
    name : str
        Name of the data set that it resembles.
    prompt_mean, output_mean : float
        Tokens, after truncation.
    prompt_cv, output_cv : float
        Standard deviation over mean, after truncation.
    longest : int
        Tokens of the longest sequence.
    source : str
        Where the figures come from.

    Raises
    ------
    InputError
        On means or CVs that are not positive, or that no truncated log-normal has.
    """

    name: str
    prompt_mean: float
    output_mean: float
    prompt_cv: float = IMPLIED_CV
    output_cv: float = IMPLIED_CV
    longest: int = LONGEST
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("prompt_mean", "output_mean", "prompt_cv", "output_cv"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"lengths {self.name!r}: {field}: expected a positive number (got {value!r})")
        if min(self.prompt_mean, self.output_mean) < 1 or self.prompt_mean + self.output_mean >= self.longest:
            raise InputError(
                f"lengths {self.name!r}: means of {self.prompt_mean:g} and {self.output_mean:g} tokens need to be >= 1 "
                f"and together below the longest sequence, {self.longest}"
            )

    def sample(self, n: int, seed: int = 0) -> Lengths:
        """Draw the lengths of `n` requests, from the stream ``("lengths", name)`` of `seed`.

        Raises
        ------
        InputError
            On a negative `n`, or a profile that cannot be met.
        """
        if isinstance(n, bool) or n < 0:
            raise InputError(f"lengths {self.name!r}: expected a number of requests >= 0 (got {n!r})")
        prompt_pmf, output_pmf = _fitted(self)
        output_cdf = np.cumsum(output_pmf)
        marginal = np.cumsum(prompt_pmf * output_cdf[::-1])
        draws = generator(seed, "lengths", self.name).random((2, n))
        prompt = 1 + _indices(marginal / marginal[-1], draws[0])
        room = output_cdf[self.longest - 1 - prompt]  # of outputs up to longest - prompt
        output = 1 + _indices(output_cdf, draws[1] * room)
        return Lengths(prompt, np.minimum(output, self.longest - prompt))

    def moments(self) -> tuple[float, float, float, float]:
        """Exact prompt mean, prompt CV, output mean, output CV of what `sample` draws."""
        return _moments(*_fitted(self))


SHAREGPT = LengthProfile(
    "sharegpt-like", 161.31, 337.99, source="means: Kwon et al. 2023, Fig. 11; output CV: implied by its Fig. 2"
)
ALPACA = LengthProfile(
    "alpaca-like", 19.31, 58.45, 15.19 / 19.67, 64.85 / 64.51,
    source="means: Kwon et al. 2023, Fig. 11; CVs: Zhao et al. 2024 (WildChat), Table 1",
)  # fmt: skip

LENGTHS: Mapping[str, LengthProfile] = MappingProxyType({"sharegpt": SHAREGPT, "alpaca": ALPACA})
"""Name -> profile."""


FOUND: Mapping[LengthProfile, tuple[float, float, float, float]] = MappingProxyType(
    {SHAREGPT: (162.44618107739922, 0.9020474075995798, 360.2629251269001, 1.056767380125534)}
)
"""Where the fixed point of a profile ends, in 37 steps from its means and CVs: a tenth of a second of every command.
From there it is checked, and goes on if it should not be met."""


def length_profile(name: str) -> LengthProfile:
    """A shipped profile.

    Raises
    ------
    InputError
        If there is none of that name; gives the nearest.
    """
    if name not in LENGTHS:
        near = difflib.get_close_matches(str(name).lower(), LENGTHS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"shipped: {', '.join(LENGTHS)}"
        raise InputError(f"lengths: unknown profile {name!r}; {hint}")
    return LENGTHS[name]


@lru_cache(maxsize=64)
def _fitted(profile: LengthProfile) -> tuple[FloatArray, FloatArray]:
    """Untruncated probabilities of 1, 2, … longest − 1 prompt and output tokens whose kept pairs meet the profile."""
    target = np.array([profile.prompt_mean, profile.prompt_cv, profile.output_mean, profile.output_cv])
    guess = np.array(FOUND.get(profile, target))
    for _ in range(ROUNDS):
        prompt = _lognormal(guess[0], guess[1], profile.longest)
        output = _lognormal(guess[2], guess[3], profile.longest)
        found = np.array(_moments(prompt, output))
        if np.all(np.abs(found / target - 1) < CLOSE):
            return prompt, output
        guess = guess * (target / found)
        if not np.all(np.isfinite(guess) & (guess < 1e6)):
            break
    raise InputError(
        f"lengths {profile.name!r}: no truncated log-normals have these means and CVs below {profile.longest} tokens; "
        "lower the CVs or the means"
    )


def _lognormal(mean: float, cv: float, longest: int) -> FloatArray:
    """Probabilities of a log-normal rounded to 1, 2, … longest − 1 (what rounds to 0 is 1; what is longer is lost)."""
    sigma = math.sqrt(math.log1p(cv * cv))
    mu = math.log(mean) - sigma * sigma / 2
    edges = np.log(np.arange(1, longest) + 0.5)
    # The normal distribution's, by its definition: scipy's is as exact, and takes longer to load than all of this.
    scaled: list[float] = ((mu - edges) / (sigma * math.sqrt(2))).tolist()
    below: FloatArray = np.array([0.5 * math.erfc(each) for each in scaled])
    return np.diff(below, prepend=0.0)


def _indices(cdf: FloatArray, draws: FloatArray) -> LongArray:
    """Inverse of a cumulative distribution."""
    return np.asarray(np.searchsorted(cdf, draws, side="right"), dtype=np.int64)


def _moments(prompt: FloatArray, output: FloatArray) -> tuple[float, float, float, float]:
    """Mean and CV of prompts and outputs, given that both together are not too long."""
    tokens = np.arange(1, len(prompt) + 1)
    found: list[float] = []
    for mine, other in ((prompt, output), (output, prompt)):
        kept = mine * np.cumsum(other)[::-1]
        kept = kept / kept.sum()
        mean = float(kept @ tokens)
        found += [mean, math.sqrt(float(kept @ (tokens - mean) ** 2)) / mean]
    return found[0], found[1], found[2], found[3]
