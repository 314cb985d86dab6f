"""What the headlines of Fig. 12 hinge on: each assumption moved alone, both systems of a ratio measured anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....errors import InputError
from ....profiles.llm import IterationCost
from ....traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ...sensitivity import Sensitivity, Swing
from ..servers import HOST, SERVERS, HostTime
from ..serving_rates import LATER, curve

__all__ = ["LIMIT", "Setting", "found", "needed"]

LIMIT = 0.5
"""Seconds per token up to which a rate counts as sustained; the paper says "similar latencies"."""
SECONDS = {"sharegpt-like": 1800.0, "alpaca-like": 600.0}
"""Of arrivals at each rate."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is assumed of both systems of a ratio.

    Parameters
    ----------
    model : str
        A key of `SERVERS`.
    lengths : LengthProfile
        Distribution of the requests' lengths.
    system : str
        vLLM, or `LATER`.
    host : HostTime
        What the host adds.
    computing : float
        How much faster the devices compute than their roofline says.
    limit : float
        Seconds per token up to which a rate counts as sustained.
    options : mapping of str to Any
        Options of every policy.
    """

    model: str
    lengths: LengthProfile
    system: str = "vLLM"
    host: HostTime = HOST
    computing: float = 1.0
    limit: float = LIMIT
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def lead(self, over: str, seed: int) -> float:
        """The rate that vLLM sustains over another system's; NaN where a curve does not cross the limit."""
        server = SERVERS[self.model]
        cost: IterationCost = server.cost(self.host, computing=self.computing)
        seconds = SECONDS[self.lengths.name]
        try:
            ours, theirs = (
                curve(s, server, self.lengths, cost, seconds, seed, self.limit, **self.options).sustained(self.limit)
                for s in (self.system, over)
            )
        except InputError:
            return float("nan")
        return ours / theirs


Change = tuple[str, str, str, Callable[[Setting], Setting], Callable[[Setting], Setting]]
"""What is assumed, the values it is moved to, and how."""


def _spread(lengths: LengthProfile) -> Change:
    return (
        f"outputs' CV, {lengths.output_cv:.2f}", "0.6", "1.2",
        lambda s: replace(s, lengths=replace(s.lengths, output_cv=0.6)),
        lambda s: replace(s, lengths=replace(s.lengths, output_cv=1.2)),
    )  # fmt: skip


LONG, SHORT = _spread(SHAREGPT), _spread(ALPACA)
HOSTED: Change = (
    f"host: {1e3 * HOST.iteration_s:.1f} ms, {1e3 * HOST.sequence_s:.2f} ms a sequence", "none",
    "20 ms, 0",
    lambda s: replace(s, host=HostTime(0.0, 0.0)), lambda s: replace(s, host=HostTime(0.02, 0.0)),
)  # fmt: skip
STEP: Change = (
    f"host: {1e3 * HOST.iteration_s:.1f} ms an iteration", "20 ms", "40 ms",
    lambda s: replace(s, host=replace(s.host, iteration_s=0.02)),
    lambda s: replace(s, host=replace(s.host, iteration_s=0.04)),
)  # fmt: skip
EACH: Change = (
    f"host: {1e3 * HOST.sequence_s:.2f} ms a sequence", "0.1 ms", "0.2 ms",
    lambda s: replace(s, host=replace(s.host, sequence_s=1e-4)),
    lambda s: replace(s, host=replace(s.host, sequence_s=2e-4)),
)  # fmt: skip
SPEED: Change = (
    "FLOP/s, 70 % of the sheet", "× 0.5", "× 10",
    lambda s: replace(s, computing=0.5), lambda s: replace(s, computing=10.0),
)  # fmt: skip
ALLOWED: Change = (
    "latency limit, 0.5 s/token", "0.25", "1",
    lambda s: replace(s, limit=0.25), lambda s: replace(s, limit=1.0),
)  # fmt: skip
RULE: Change = (
    "prompts with decodes", "apart (0.2)", "≤ 256 running",
    lambda s: replace(s, system=LATER), lambda s: replace(s, options={"max_num_seqs": 256}),
)  # fmt: skip

LARGE = (LONG, HOSTED, STEP, EACH, SPEED, RULE)

HEADLINES: tuple[tuple[str, float, str, Setting, tuple[Change, ...]], ...] = (
    ("OPT-13B, ShareGPT", 1.7, "Orca (Oracle)", Setting("OPT-13B", SHAREGPT), (LONG, HOSTED, ALLOWED, RULE)),
    ("OPT-175B, ShareGPT", 1.7, "Orca (Oracle)", Setting("OPT-175B", SHAREGPT), LARGE),
    ("OPT-175B, ShareGPT", 2.7, "Orca (Max)", Setting("OPT-175B", SHAREGPT), LARGE),
    ("OPT-13B, Alpaca", 1.3, "Orca (Oracle)", Setting("OPT-13B", ALPACA), (SHORT, HOSTED, RULE)),
    ("OPT-66B, Alpaca", 22.0, "FasterTransformer", Setting("OPT-66B", ALPACA), (SHORT, HOSTED, ALLOWED, RULE)),
)
"""Title, the paper's figure (of a range its lower end), over whom, what is assumed, what is moved."""


def found(seed: int, progress: Callable[[int, int, str], None]) -> tuple[Sensitivity, ...]:
    """Every headline beside what it hinges on."""
    results: list[Sensitivity] = []
    for k, (title, paper, over, setting, changes) in enumerate(HEADLINES):
        progress(k, len(HEADLINES), f"what {title} over {over} hinges on")
        ours = setting.lead(over, seed)
        swings = tuple(
            Swing(what, low, high, down(setting).lead(over, seed), up(setting).lead(over, seed))
            for what, low, high, down, up in changes
        )
        results.append(
            Sensitivity(f"{title}: vLLM over {over}", paper, ours, f"× {over}", swings, needed(paper, ours, swings))
        )
    return tuple(results)


def needed(paper: float, ours: float, swings: Sequence[Swing]) -> str:
    """Which of the ends that were tried reach the paper's figure, in words; or fall below it, where ours is above."""
    ends = [(f"{s.assumption}: {end}", at) for s in swings for end, at in ((s.low, s.at_low), (s.high, s.at_high))]
    if ours >= paper:
        below = [end for end, at in ends if at < paper]
        return f"above {paper:g}; " + ("below it with " + "; ".join(below) if below else "so are all ends tried")
    reached = [end for end, at in ends if at >= paper]
    return f"{paper:g} is reached with " + "; ".join(reached) if reached else f"no end tried reaches {paper:g}"
