"""Figure 17: rounds of chat with OPT-13B: prompts of up to 1024 tokens, latency over rate, vLLM and three Orcas."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ...profiles.llm.iteration import IterationCost
from ...simulator.llm import LLMResult, LLMTrace
from ...simulator.llm.decoding.workloads import chat_rounds
from ...traces.lengths import SHAREGPT, LengthProfile
from ..claims import Expectation, at_least, at_most, between, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity
from ..style import BLUE, canvas, outside_legend
from . import decoding_rates as setup
from .hinges.decoding import Moved, hinge, hosts, ratio
from .servers import HOST, MODELLED, Costs

ROUNDS = 3.51
"""Mean rounds of a conversation of ShareGPT (Zhao et al., WildChat, ICLR 2024, Table 1); the thesis gives none."""
ORCAS = ("Orca (Max)", "Orca (Pow2)", "Orca (Oracle)")

EXPECTED = {
    **{
        orca: Expectation(
            f"rate that vLLM sustains over {orca}'s", "§5.6.5, Fig. 17", "2×",
            within(2.0, 0.1, partly=0.25, beyond="above"), "{:.2f}×",
        )
        for orca in ORCAS
    },
    "long": Expectation(
        "requests whose prompt has 1024 tokens (%)", "§5.6.5", "most", at_least(50.0, partly=33.0), "{:.0f} %",
    ),
    "alike": Expectation(
        "the three Orcas behave alike: the highest rate that one sustains over the lowest", "§5.6.5", "similar",
        at_most(1.15, partly=1.3), "{:.2f}",
    ),
    "chunk": Expectation(
        "slots that each Orca takes for a prompt of 1024 tokens and any answer: the least of all", "§5.6.5",
        "1024 + 1024", between(2048, 2048), "{:.0f}", kind="identity",
    ),
}  # fmt: skip


def _at(rounds: float, seed: int, rate: float, seconds: float, lengths: LengthProfile = SHAREGPT) -> LLMTrace:
    drawn = lengths.sample(20_000, seed)
    n = max(1, round(rate * seconds))
    return chat_rounds(drawn.prompt, drawn.output, n, rate=rate, rounds=rounds, seed=seed)


def serve(system: str, cost: IterationCost, trace: LLMTrace, until: float | None) -> LLMResult:
    """Serve the rounds of all chats with one system."""
    return setup.serve(system, setup.OPT, trace, cost, until=until)


def least_chunk() -> int:
    """The fewest slots that any Orca takes for a prompt of 1024 tokens, over answers of 1 to 1024 tokens."""
    from ...simulator.llm.memory.buddy import BuddyAllocator
    from ...simulator.llm.policy.orca import RESERVES

    taken: list[int] = []
    for reserve in RESERVES.values():
        for answer in (1, 2, 100, 1024):
            chunk = BuddyAllocator(setup.OPT.slots).allocate(reserve(1024, answer, 2048))
            assert chunk is not None
            taken.append(chunk.size)
    return min(taken)


def curves(fast: bool, seed: int, progress: Progress = quiet, costs: Costs = MODELLED) -> tuple[Frame, Frame]:
    """Measure all systems.

    Returns
    -------
    DataFrame
        The columns of `decoding_rates.measure`.
    DataFrame
        For other conversations, while requests always wait: columns rounds, share_1024 (of the prompts), capacity_ratio
        (vLLM over Orca (Oracle)), orcas_ratio (the fastest of the three over the slowest).
    """
    import pandas as pd

    seconds, cost = 1800.0 if fast else 3600.0, costs.of(setup.OPT)
    runs = {system: partial(serve, system, cost) for system in setup.SYSTEMS}
    systems = list(runs)
    frame = setup.measure(
        runs, partial(_at, ROUNDS, seed), seconds, lambda name: progress(systems.index(name), len(runs) + 1, name)
    )
    progress(len(runs), len(runs) + 1, "longer and shorter conversations")
    rows: list[dict[str, float]] = []
    for rounds in (1.0, 2.0, ROUNDS, 6.0, 12.0):
        most = {name: setup.capacity(runs[name], partial(_at, rounds, seed), seconds) for name in systems}
        prompts = _at(rounds, seed, 1.0, 5000.0).prompt_tokens
        row = {"rounds": rounds, "share_1024": float(np.mean(prompts == 1024))}
        row |= {"capacity_ratio": most["vLLM"] / most["Orca (Oracle)"]}
        orcas = [most[orca] for orca in ORCAS]
        rows.append(row | {"orcas_ratio": max(orcas) / min(orcas)})
    progress(len(runs) + 1, len(runs) + 1, "")
    return frame, pd.DataFrame(rows)


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet, fits: Path | None = None) -> Report:
    """Make the figure. Full: an hour of arrivals a point; fast: half an hour."""
    session, costs = Session("vllm/fig17", fast, out, seed), Costs(fits)
    frame, other = curves(fast, seed, progress, costs)
    session.table(frame)
    session.table(other, "_rounds")
    with canvas(1, 2, height=2.7) as (figure, axes):
        setup.draw(frame, axes[0, 0], f"conversations of {ROUNDS:g} rounds")
        ax = axes[0, 1]
        ax.plot(100 * other.share_1024, other.capacity_ratio, color=BLUE, marker="o")
        for row in other.itertuples():
            ax.annotate(f"{row.rounds:g}", (100 * row.share_1024, row.capacity_ratio), (4, -9), fontsize=7,
                        textcoords="offset points")  # fmt: skip
        ax.set(xlabel="prompts of 1024 tokens (%)", ylabel="vLLM / Orca (Oracle)", title="capacity, by mean rounds")
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    rate, full = setup.sustained(frame), setup.sustained(frame, "capacity")
    hinges = () if fits else (_hinges(seed),)
    long, longest = other[other.rounds == ROUNDS].iloc[0], other.iloc[-1]
    why = (
        f"of requests finished while others always wait it is {{:.2f}}; prompts of 1024 tokens and ShareGPT's answers "
        f"fit {_most_held(seed):.2f} times as often in blocks as in seven chunks of 2048, and prompts and iterations "
        f"of more requests take their time; {' '.join(one.needed for one in hinges)}"
    )
    of_rounds = (
        f"conversations of {longest.rounds:g} rounds have {longest.share_1024:.0%} of their prompts at 1024 tokens; "
        f"then the Orcas are {longest.orcas_ratio:.2f} apart while requests always wait, and vLLM is at "
        f"{longest.capacity_ratio:.2f} times Orca (Oracle)"
    )
    orcas = rate[list(ORCAS)]
    return session.finish(
        [
            *(
                EXPECTED[orca].judge(float(rate["vLLM"] / rate[orca]), why=why.format(full["vLLM"] / full[orca]))
                for orca in ORCAS
            ),
            EXPECTED["long"].judge(100 * long.share_1024, why=of_rounds),
            EXPECTED["alike"].judge(float(orcas.max() / orcas.min()), why=of_rounds),
            EXPECTED["chunk"].judge(least_chunk()),
        ],
        notes=[
            f"conversations have {ROUNDS:g} rounds on average, as ShareGPT's (WildChat, Table 1), in a geometric "
            "distribution (assumed), messages and answers ShareGPT's lengths; a request is some round of some "
            "conversation, cut to its last 1024 tokens",
            "nothing is kept between rounds, as in the thesis, so rounds arrive at random each by itself",
            f"sustained: up to {setup.LIMIT:g} s/token; {costs.told()}",
        ],
        sensitivity=hinges,
    )


def _most_held(seed: int) -> float:
    """Requests with prompts of 1024 tokens that blocks hold, over the seven of 2048-token chunks.

    An answer of n tokens is there in proportion to n, and has n/2 tokens on average.
    """
    answers = np.minimum(SHAREGPT.sample(20_000, seed).output, 1024)
    held = 1024 + float((answers**2).mean() / (2 * answers.mean()))
    return setup.OPT.slots / held / (setup.OPT.slots // 2048)


def _hinges(seed: int) -> Sensitivity:
    """What the gain over Orca (Oracle) hinges on, by rates sustained."""
    modelled = MODELLED.of(setup.OPT)

    def gain(
        cost: IterationCost = modelled, rounds: float = ROUNDS, limit: float = setup.LIMIT, **lengths: float
    ) -> float:
        at = partial(_at, rounds, seed, lengths=replace(SHAREGPT, **lengths))
        return ratio(lambda name: partial(serve, name, cost), at, 1800.0, limit=limit)

    fast, slow = (setup.OPT.cost(HOST, computing=x) for x in (10.0, 0.5))
    moved = (
        *hosts(lambda host: gain(setup.OPT.cost(host))),
        Moved(f"mean rounds, {ROUNDS:g}", "1", "12", lambda: gain(rounds=1.0), lambda: gain(rounds=12.0)),
        Moved("answers of 338 tokens", "169", "507",
              lambda: gain(output_mean=169.0), lambda: gain(output_mean=507.0)),
        Moved("FLOP/s, 70 % of the sheet", "× 0.5", "× 10", lambda: gain(slow), lambda: gain(fast)),
        Moved(f"latency limit, {setup.LIMIT:g} s/token", "0.1", "0.4",
              lambda: gain(limit=0.1), lambda: gain(limit=0.4)),
    )  # fmt: skip
    return hinge("chat: vLLM over Orca (Oracle)", 2.0, gain(), "× Orca (Oracle), sustained", moved)


if __name__ == "__main__":
    main("vllm/fig17")
