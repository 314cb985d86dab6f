"""What a step of the mean batch rests on: how wrong it may be, and how much of it devices spend sending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....profiles.llm import Iteration, TableCost
from ....profiles.llm.cost.bands import Band
from ....simulator.llm import LLMPlanResult
from ....simulator.llm.plan.costs import Tables, deployment_cost

__all__ = ["Step", "linked_words", "steps_of"]

SENT = ("all-reduces", "sends between stages", "gathering the logits", "dispatch to experts", "combine experts")
"""Parts of an iteration that rest on links, and all whose names begin with `EXCHANGE`."""
EXCHANGE = "exchange of "


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a model's first deployment that decodes the model's mean batch.

    Parameters
    ----------
    band : Band
        How wrong its time may be.
    sent : float
        Share of its time that devices spend sending each other something.
    """

    band: Band
    sent: float


def steps_of(result: LLMPlanResult, tables: Tables | None) -> dict[str, Step]:
    """Model -> its step; models whose costs have no parts are left out."""
    found: dict[str, Step] = {}
    for name, each in result.results.items():
        cost = deployment_cost(result.plan, result.plan.deployments_of(name)[0], tables)
        decodes = max(1, round(float(each.mean_batch)))
        length = float((each.trace.prompt_tokens + each.trace.output_tokens / 2).mean())
        if isinstance(cost, TableCost):
            iteration = Iteration((), decodes, round(decodes * length), decodes)
            parts = cost.explain(iteration)
            sent = sum(p.seconds for p in parts if p.name in SENT or p.name.startswith(EXCHANGE))
            found[name] = Step(cost.band(iteration), sent / sum(p.seconds for p in parts))
    return found


def linked_words(links: Mapping[str, Sequence[str]], steps: Mapping[str, Mapping[str, Step]]) -> list[str]:
    """The links of plans, each with how much of a step rests on them."""
    found: list[str] = []
    for path, lines in links.items():
        before = f"{path}: " if len(links) > 1 else ""
        shares = ", ".join(f"{step.sent:.0%} of a step of {name}" for name, step in steps[path].items() if step.sent)
        found += [f"{before}{line}" + (f" ({shares} rests on links)" if shares else "") for line in lines]
    return found
