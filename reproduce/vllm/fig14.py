"""Figure 14: parallel sampling and beam search with OPT-13B on Alpaca: latency over rate, vLLM and three Orcas."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...profiles.llm.iteration import IterationCost
from ...simulator.llm import LLMResult, LLMTrace
from ...simulator.llm.decoding.genealogy import SURVIVAL, Genealogy
from ...traces.lengths import ALPACA
from ..claims import Expectation, at_least, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity
from ..style import canvas, outside_legend
from . import decoding_rates as setup
from .decoding_rates import BASIC, Method
from .hinges.decoding import FINISHED, Moved, hinge, hosts, ratio
from .servers import HOST, MODELLED, Costs, HostTime
from .serving_rates import LATER

WIDEST = {False: Method(6), True: Method(6, True)}
METHODS = (BASIC, *(Method(n, beam) for beam in (False, True) for n in (2, 4, 6)))
FAST = (BASIC, WIDEST[False], WIDEST[True])

EXPECTED = {
    "basic": Expectation(
        "basic sampling: rate that vLLM sustains over Orca (Oracle)'s", "§5.6.3", "1.3×",
        within(1.3, 0.1, partly=0.25, beyond="above"), "{:.2f}×",
    ),
    "beam": Expectation(
        "beam search, six beams: rate that vLLM sustains over Orca (Oracle)'s", "§5.6.3", "2.3×",
        within(2.3, 0.1, partly=0.25, beyond="above"), "{:.2f}×",
    ),
    "more": Expectation(
        "with more samples vLLM gains more on Orca (Oracle): its gain with six over that with one", "§5.6.3", "above 1",
        at_least(1.05, partly=1.0), "{:.2f}",
    ),
    "beams": Expectation(
        "beams share more than samples, so the gain is greater: that of six beams over that of six samples", "§5.6.3",
        "above 1", at_least(1.05, partly=1.0), "{:.2f}",
    ),
}  # fmt: skip


def curves(fast: bool, seed: int, progress: Progress = quiet, costs: Costs = MODELLED) -> Frame:
    """Measure every method under every system.

    Returns
    -------
    DataFrame
        The columns of `decoding_rates.measure` after method, sequences, beam.
    """
    import pandas as pd

    methods, seconds = (FAST, 600.0) if fast else (METHODS, 3600.0)
    cost, steps, parts = costs.of(setup.OPT), len(methods) * len(setup.SYSTEMS), list[Frame]()
    for i, method in enumerate(methods):
        runs = {system: partial(_run, system, cost, seed) for system in setup.SYSTEMS}
        told = partial(_tell, progress, i * len(runs), steps, list(runs), method)
        frame = setup.measure(runs, partial(_at, method, seed), seconds, told)
        parts.append(frame.assign(method=str(method), sequences=method.sequences, beam=method.beam))
    progress(steps, steps, "")
    return pd.concat(parts, ignore_index=True)[["method", "sequences", "beam", *parts[0].columns[:5]]]


def _at(method: Method, seed: int, rate: float, seconds: float) -> LLMTrace:
    return setup.arrivals(ALPACA, rate, seconds, seed, method)


def _run(system: str, cost: IterationCost, seed: int, trace: LLMTrace, until: float | None) -> LLMResult:
    return setup.serve(system, setup.OPT, trace, cost, survivors=Genealogy(seed), until=until)


def _tell(progress: Progress, done: int, steps: int, systems: list[str], method: Method, system: str) -> None:
    progress(done + systems.index(system), steps, f"{system}, {method}")


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet, fits: Path | None = None) -> Report:
    """Make the figure. Full: seven methods, an hour of arrivals a point, as the paper's; fast: three, ten minutes."""
    session, costs = Session("vllm/fig14", fast, out, seed), Costs(fits)
    frame = session.table(curves(fast, seed, progress, costs))
    widths = (6,) if fast else (2, 4, 6)
    with canvas(2, len(widths), height=2.5) as (figure, axes):
        for row, beam in zip(axes, (False, True), strict=True):
            for ax, n in zip(row, widths, strict=True):
                method = str(Method(n, beam))
                setup.draw(frame[frame.method == method], ax, method)
        outside_legend(figure, axes[0, 0], ncols=min(4, 2 * len(widths)))
        session.figure(figure)

    gain, full = {}, {}
    for method, part in frame.groupby("method", sort=False):
        for name, into in (("sustained", gain), ("capacity", full)):
            rates = setup.sustained(part, name)
            into[method] = float(rates["vLLM"] / rates["Orca (Oracle)"])
    samples, beams = str(WIDEST[False]), str(WIDEST[True])
    headlines = ((BASIC, 1.3), (WIDEST[True], 2.3))
    hinges = {} if fits else {str(method): _hinges(method, paper, seed) for method, paper in headlines}
    needed = {method: one.needed for method, one in hinges.items()}
    return session.finish(
        [
            EXPECTED["basic"].judge(gain["basic"], why=needed.get("basic", "")),
            EXPECTED["beam"].judge(gain[beams], why=needed.get(beams, "")),
            EXPECTED["more"].judge(gain[samples] / gain["basic"], why="" if fits else _more(seed)),
            EXPECTED["beams"].judge(
                gain[beams] / gain[samples],
                why="shared blocks are read by each sequence for itself, and the host has each sequence to do",
            ),
        ],
        notes=[
            f"sustained: the highest rate up to which the normalized latency is {setup.LIMIT:g} s/token, interpolated; "
            "traces shorter than the paper's hour let rates above the capacity pass; the column capacity is without "
            "this",
            "gains over Orca (Oracle), sustained and in requests finished while others always wait: "
            + "; ".join(f"{method} {gain[method]:.2f}×, {full[method]:.2f}×" for method in gain),
            "every sequence of Orca's has a chunk and a prompt of its own; the copies that its beams would make are "
            "not charged, which favours it",
            f"{costs.told()}; the beams' one parameter is that of vllm/fig15",
        ],
        sensitivity=tuple(hinges.values()),
    )


def _gain(
    method: Method,
    seed: int,
    host: HostTime = HOST,
    survival: float = SURVIVAL,
    system: str = "vLLM",
    **options: Any,
) -> float:
    """The gain over Orca (Oracle) while requests always wait."""
    cost = setup.OPT.cost(host)

    def run(name: str, trace: LLMTrace, until: float | None) -> LLMResult:
        survivors = Genealogy(seed, survival)
        return setup.serve(name, setup.OPT, trace, cost, survivors=survivors, until=until, **options)

    return ratio(lambda name: partial(run, name), partial(_at, method, seed), 300.0, system)


def _more(seed: int) -> str:
    """Why more samples may gain no more: six samples' gain over one's, with other host times."""
    six = WIDEST[False]
    of_requests = replace(HOST, sequence_s=HOST.sequence_s / six.sequences)
    free = _gain(six, seed, HostTime(0.0, 0.0)) / _gain(BASIC, seed, HostTime(0.0, 0.0))
    once = _gain(six, seed, of_requests) / _gain(BASIC, seed)
    return (
        f"the host has each sample to do: while requests always wait it is {free:.2f} without host time, and "
        f"{once:.2f} if host time is each request's"
    )


def _hinges(method: Method, paper: float, seed: int) -> Sensitivity:
    """What the gain over Orca (Oracle) hinges on."""
    gain = partial(_gain, method, seed)
    moved = hosts(gain, method.sequences)
    moved += (
        Moved("prompts with decodes", "apart (0.2)", "≤ 256 running",
              lambda: gain(system=LATER), lambda: gain(max_num_seqs=256)),
    )  # fmt: skip
    if method.beam:
        moved += (
            Moved(f"beams that go on, {SURVIVAL:g}", "0.5", "0.95",
                  lambda: gain(survival=0.5), lambda: gain(survival=0.95)),
        )  # fmt: skip
    return hinge(f"{method}: vLLM over Orca (Oracle)", paper, gain(), FINISHED, moved)


if __name__ == "__main__":
    main("vllm/fig14")
