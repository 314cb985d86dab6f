"""Figure 16: translation with a common prefix, LLaMA-13B: latency over rate, vLLM with reserved blocks and Orca."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from ...profiles.llm.iteration import IterationCost
from ...simulator.llm import LLMResult, LLMTrace, SimulateOptions, simulate_llm
from ...simulator.llm.decoding.workloads import with_prefix
from ...traces.lengths import LengthProfile
from ..claims import Expectation, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity
from ..style import canvas, outside_legend
from . import decoding_rates as setup
from .hinges.decoding import FINISHED, Moved, hinge, hosts, ratio
from .servers import LLAMA, MODELLED, Costs
from .serving_rates import LATER, UNLIMITED

SENTENCES = LengthProfile(
    "wmt16-like", 28.0, 40.0, prompt_cv=0.6, output_cv=0.6,
    source="assumed: news sentences of 21 words, 1.3 tokens per English and 1.9 per German word, long-tailed",
)  # fmt: skip
"""The thesis prints no lengths of its translations, and the data are not here; see `source`."""
PREFIXES = {"1-shot": 80, "5-shot": 341}
"""Panel -> tokens of the prefix (Fig. 16)."""
NAMES = ("Orca (Oracle)", "vLLM, not shared", "vLLM", LATER, "vLLM V1")
"""vLLM reserves blocks for the prefix, V1 finds them by their content. All but Orca (Oracle) and vLLM are ours."""

EXPECTED = {
    "1-shot": Expectation(
        "prefix of one example, 80 tokens: rate that vLLM sustains over Orca (Oracle)'s", "§5.6.4, Fig. 16a", "1.67×",
        within(1.67, 0.1, partly=0.25, beyond="above"), "{:.2f}×",
    ),
    "5-shot": Expectation(
        "prefix of five examples, 341 tokens: rate that vLLM sustains over Orca (Oracle)'s", "§5.6.4, Fig. 16b",
        "3.58×", within(3.58, 0.1, partly=0.25, beyond="above"), "{:.2f}×",
    ),
}  # fmt: skip


def serve(name: str, tokens: int, cost: IterationCost, trace: LLMTrace, until: float | None) -> LLMResult:
    """Requests served by one of `NAMES`, with a prefix of so many tokens."""
    if name == "vLLM V1":
        config = {"num_blocks": LLAMA.slots // setup.BLOCK, "max_model_len": 2048}
        config |= {"max_num_seqs": UNLIMITED, "max_num_batched_tokens": 2048}
        options = SimulateOptions(until=until)
        return simulate_llm(trace, policy="vllm-v1", config=config, cost=cost, options=options, engine="compiled")
    system = "vLLM" if name == "vLLM, not shared" else name
    if name in ("vLLM", LATER):
        return setup.serve(system, LLAMA, trace, cost, until=until, prefixes=(tokens,))
    return setup.serve(system, LLAMA, trace, cost, until=until)


def _at(tokens: int, seed: int, rate: float, seconds: float, sentences: LengthProfile = SENTENCES) -> LLMTrace:
    return with_prefix(setup.arrivals(sentences, rate, seconds, seed), tokens)


def curves(fast: bool, seed: int, progress: Progress = quiet, costs: Costs = MODELLED) -> Frame:
    """Measure all systems with both prefixes.

    Returns
    -------
    DataFrame
        The columns of `decoding_rates.measure` after panel and prefix (tokens).
    """
    import pandas as pd

    seconds, cost, parts = 120.0 if fast else 1200.0, costs.of(LLAMA), list[Frame]()
    for panel, tokens in PREFIXES.items():
        runs = {name: partial(serve, name, tokens, cost) for name in NAMES}

        def told(name: str, panel: str = panel, done: int = len(parts) * len(NAMES)) -> None:
            progress(done + NAMES.index(name), len(PREFIXES) * len(NAMES), f"{name}, {panel}")

        frame = setup.measure(runs, partial(_at, tokens, seed), seconds, told)
        parts.append(frame.assign(panel=panel, prefix=tokens))
    progress(len(PREFIXES) * len(NAMES), len(PREFIXES) * len(NAMES), "")
    return pd.concat(parts, ignore_index=True)[["panel", "prefix", *parts[0].columns[:5]]]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet, fits: Path | None = None) -> Report:
    """Make the figure. Full: twenty minutes of arrivals a point; fast: two."""
    session, costs = Session("vllm/fig16", fast, out, seed), Costs(fits)
    frame = session.table(curves(fast, seed, progress, costs))
    with canvas(1, 2, height=2.7) as (figure, axes):
        for ax, (panel, tokens) in zip(axes[0], PREFIXES.items(), strict=True):
            setup.draw(frame[frame.panel == panel], ax, f"{panel}, {tokens} tokens")
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    told_by = {} if fits else {panel: _hinges(panel, seed) for panel in PREFIXES}
    claims, told = [], []
    for panel, tokens in PREFIXES.items():
        rate, full = (setup.sustained(frame[frame.panel == panel], c) for c in ("sustained", "capacity"))
        more = full / full["Orca (Oracle)"]
        claims.append(
            EXPECTED[panel].judge(
                float(rate["vLLM"] / rate["Orca (Oracle)"]),
                why=told_by[panel].needed if panel in told_by else "",
            )
        )
        told.append(f"{tokens} tokens: " + ", ".join(f"{name} {more[name]:.2f}×" for name in NAMES[1:]))
    return session.finish(
        claims,
        notes=[
            f"lengths: {SENTENCES.source}",
            "requests finished while others always wait, over Orca (Oracle)'s: " + "; ".join(told),
            "Orca computes and keeps the whole prompt of every request; prompts cost computation and reading here",
            costs.told() + ("; LLaMA-13B takes what OPT-13B's fits say" if fits else ""),
            "LLaMA-13B has OPT-13B's memory for keys and values, 12 GiB; Table 1 does not list it",
        ],
        sensitivity=tuple(told_by.values()),
    )


def _hinges(panel: str, seed: int) -> Sensitivity:
    """What the gain over Orca (Oracle) hinges on."""
    tokens, modelled = PREFIXES[panel], MODELLED.of(LLAMA)

    def gain(cost: IterationCost = modelled, system: str = "vLLM", **lengths: float) -> float:
        at = partial(_at, tokens, seed, sentences=replace(SENTENCES, **lengths))
        return ratio(lambda name: partial(serve, name, tokens, cost), at, 60.0, system)

    moved = (
        *hosts(lambda host: gain(LLAMA.cost(host))),
        Moved("translations of 40 tokens", "20", "80",
              lambda: gain(output_mean=20.0), lambda: gain(output_mean=80.0)),
        Moved("sentences of 28 tokens", "14", "56", lambda: gain(prompt_mean=14.0), lambda: gain(prompt_mean=56.0)),
        Moved("vLLM's rule", "apart (0.2)", "prefix not shared",
              lambda: gain(system=LATER), lambda: gain(system="vLLM, not shared")),
    )  # fmt: skip
    paper = {"1-shot": 1.67, "5-shot": 3.58}[panel]
    return hinge(f"{panel}, {tokens} tokens: vLLM over Orca (Oracle)", paper, gain(), FINISHED, moved)


if __name__ == "__main__":
    main("vllm/fig16")
