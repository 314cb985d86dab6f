"""What a model is asked for: its requests, drawn again under any seed, and the limits that make one good."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.llm.decoder import DecoderSpec
from ...profiles.llm.experts import SKEW
from ...profiles.llm.tower import Image, checked_images
from ...reprs import Shown
from ...seeds import generator, seed_sequence
from ...simulator.llm.result.objectives import Objective, Promises
from ...simulator.llm.workload.clients import Clients
from ...simulator.llm.workload.requests import LLMTrace
from ...traces.lengths import Lengths

__all__ = [
    "DrawnTraffic", "GivenTraffic", "LLMDemand", "LengthPairs", "LengthSource", "SpreadOutputs", "Traffic",
    "WithImages",
]  # fmt: skip

MAX_REQUESTS = 10_000_000
"""Of one model, drawn: as many as a case of a study has at most."""


class LengthSource(Protocol):
    """Prompt and output lengths to draw: a `LengthProfile`, or `LengthPairs`."""

    @property
    def name(self) -> str:
        """What they are like."""
        ...

    def sample(self, n: int, seed: int = 0) -> Lengths:
        """Lengths of `n` requests."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LengthPairs(Shown):
    """Lengths that were seen, drawn in pairs with replacement.

    Parameters
    ----------
    name : str
        Where they come from.
    prompt, output : ndarray of int64
        Tokens, >= 1.
    """

    name: str
    prompt: npt.NDArray[np.int64]
    output: npt.NDArray[np.int64]

    def sample(self, n: int, seed: int = 0) -> Lengths:
        """Lengths of `n` requests, from the stream ``("llm", "lengths")`` of `seed`."""
        rows = generator(seed, "llm", "lengths").integers(len(self.prompt), size=n)
        return Lengths(self.prompt[rows], self.output[rows])


class Traffic(Protocol):
    """Requests of one model; the same seed gives the same ones."""

    def trace(self, seed: int) -> LLMTrace:
        """Requests under a seed."""
        ...

    @property
    def per_second(self) -> float:
        """Requests per second; NaN if they all come at once."""
        ...

    @property
    def source(self) -> str:
        """Where they come from, in words."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class SpreadOutputs(Shown):
    """Lengths whose outputs spread otherwise around the same mean; which request has the longer one does not change.

    Parameters
    ----------
    lengths : LengthSource
        What they are like else.
    cv : float
        Coefficient of variation of output lengths, >= 0; 0: all alike. Outputs have a token at least, so that a spread
        much above that of `lengths` makes them longer on average.
    """

    lengths: LengthSource
    cv: float

    @property
    def name(self) -> str:
        """What they are like."""
        return f"{self.lengths.name} (output CV {self.cv:g})"

    def sample(self, n: int, seed: int = 0) -> Lengths:
        """Lengths of `n` requests."""
        drawn = self.lengths.sample(n, seed)
        mean, own = float(drawn.output.mean()), float(drawn.output.std())
        by = (drawn.output - mean) / own if own else generator(seed, "llm", "output spread").standard_normal(n)
        return Lengths(drawn.prompt, np.maximum(1, np.rint(mean * (1 + self.cv * by))).astype(np.int64))


@dataclass(frozen=True, slots=True, repr=False)
class WithImages(Shown):
    """Lengths of texts, each with images before it.

    Parameters
    ----------
    lengths : LengthSource
        What they are like else.
    tokens : int
        Tokens that the images of a request become.
    """

    lengths: LengthSource
    tokens: int

    @property
    def name(self) -> str:
        """What they are like."""
        return f"{self.lengths.name} (and {self.tokens} tokens of images)"

    def sample(self, n: int, seed: int = 0) -> Lengths:
        """Lengths of `n` requests."""
        drawn = self.lengths.sample(n, seed)
        return Lengths(drawn.prompt + self.tokens, drawn.output)


@dataclass(frozen=True, slots=True, repr=False)
class DrawnTraffic(Shown):
    """Lengths of a profile, Poisson or Gamma arrivals.

    Parameters
    ----------
    lengths : LengthSource
        Prompt and output lengths: a `LengthProfile` or `LengthPairs`.
    rate : float
        Requests per second, > 0.
    n : int
        Requests, >= 1.
    cv : float
        Coefficient of variation of the gaps; 1 for Poisson.
    stream : int
        Models with different ones have requests that have nothing to do with each other.
    classes : tuple of (str, float)
        Classes of requests and their shares, which add up to 1; a request's is drawn, from a stream of its own.
    clients : Clients, optional
        How they are sent; by default with Gamma gaps of that CV, straight into the engine. Some have no rate.
    """

    lengths: LengthSource
    rate: float
    n: int = 2000
    cv: float = 1.0
    stream: int = 0
    classes: tuple[tuple[str, float], ...] = ()
    clients: Clients | None = None

    def __post_init__(self) -> None:
        if self.clients is not None and self.clients.rateless:
            object.__setattr__(self, "rate", math.nan)
        elif not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"rate: expected finite requests per second > 0 (got {self.rate})")
        if isinstance(self.n, bool) or self.n < 1:
            raise InputError(f"n: expected at least one request (got {self.n!r})")
        if self.n > MAX_REQUESTS:
            raise InputError(
                f"{self.n:.3g} requests are drawn; expected at most {MAX_REQUESTS:.0e}: give a shorter duration"
            )

    def trace(self, seed: int) -> LLMTrace:
        """Arrivals and lengths from streams of their own: another rate moves no length."""
        if self.stream:
            seed = int(seed_sequence(seed, "llm", "demand", self.stream).generate_state(1)[0])
        drawn = self.lengths.sample(self.n, seed)
        said = self.clients or Clients("gamma", self.cv)
        more: dict[str, Any] = said.columns(self.n, self.rate, seed) | {"clients": self.clients}
        if self.classes:
            names, shares = zip(*self.classes, strict=True)
            drawing = generator(seed, "llm", "classes")
            more["kind"] = drawing.choice(len(names), size=self.n, p=np.array(shares) / sum(shares))
            more["classes"] = names
        return LLMTrace(more.pop("arrival"), drawn.prompt, drawn.output, **more)

    @property
    def per_second(self) -> float:
        """Requests per second, asked for."""
        return self.rate

    @property
    def source(self) -> str:
        """Where they come from."""
        if self.clients is not None:
            at = "" if self.clients.rateless else f" at {self.rate:g}/s"
            return f"{self.lengths.name} lengths{at}, {self.clients.explain()}"
        arrivals = "Poisson" if self.cv == 1 else f"Gamma (CV {self.cv:g})"
        return f"{self.lengths.name} lengths, {arrivals} arrivals at {self.rate:g}/s"


@dataclass(frozen=True, slots=True, repr=False)
class GivenTraffic(Shown):
    """A trace as it is under seed 0; under another, the same arrivals with the lengths in another order.

    Shuffling keeps the arrivals, their bursts, and every pair of lengths; it forgets which lengths come together. It is
    what tells noise from difference where there is only one trace. Traces whose requests depend on each other
    (conversations, shared prefixes) stay as they are, and their intervals have no width.

    Parameters
    ----------
    given : LLMTrace
        The trace.
    name : str
        Where it comes from.
    """

    given: LLMTrace
    name: str = "given"

    def trace(self, seed: int) -> LLMTrace:
        """Requests under a seed."""
        t = self.given
        if seed == 0 or t.after is not None or t.prefix_ids is not None:
            return t
        order = generator(seed, "llm", "pairing").permutation(len(t))
        return t.dealt(order)

    @property
    def per_second(self) -> float:
        """Requests per second from the first to the last."""
        seconds = float(self.given.arrival[-1] - self.given.arrival[0])
        return (len(self.given) - 1) / seconds if seconds > 0 else math.nan

    @property
    def source(self) -> str:
        """Where they come from."""
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class LLMDemand(Shown):
    """A model, its requests, and its service-level objectives.

    Parameters
    ----------
    model : DecoderSpec
        The decoder.
    traffic : Traffic
        Its requests.
    ttft_s, tpot_s : float
        Limits of the time to first token and of the time per further token, seconds; infinite for none.
    name : str
        What plans call it; the decoder's name if empty.
    slo : tuple of Objective
        Further limits and percentiles, of all requests or of a class.
    images : tuple of (int, int)
        Heights and widths, pixels, of the images of every request; their tokens are among the prompt's.
    expert_skew : float
        How unequally experts are chosen (`profiles.llm.experts.SKEW`).

    Raises
    ------
    InputError
        On a limit that is not above 0, or images without a tower that sees.
    """

    model: DecoderSpec
    traffic: Traffic
    ttft_s: float = math.inf
    tpot_s: float = math.inf
    name: str = ""
    slo: tuple[Objective, ...] = ()
    images: tuple[Image, ...] = ()
    expert_skew: float = SKEW

    @property
    def promises(self) -> Promises:
        """Everything that its users are promised."""
        return Promises(self.ttft_s, self.tpot_s, self.slo)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.model.name)
        for field in ("ttft_s", "tpot_s"):
            if not getattr(self, field) > 0:
                raise InputError(f"{self.name}: {field}: expected a limit > 0 seconds (got {getattr(self, field)})")
        object.__setattr__(self, "images", checked_images(self.images, self.model.tower, self.model.name))
