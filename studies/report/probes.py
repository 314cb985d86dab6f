"""How each question was answered: what was tried, with intervals, against the target; and what breaks first."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...worlds.look.figures import INK, Style
from ..questions.answer import Answer
from .chart import Chart, compose
from .curves import in_gib, scale_x, ticks
from .layout import kind_of
from .results import Frame, Results
from .words import cell, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_probes", "probe_charts", "probe_frame"]

MAX_PANELS = 6


def probe_frame(answers: Sequence[Answer]) -> Frame:
    """A row per probe: answer (its place), question, planner, quantity, value, mean, half_width, infeasible, …."""
    import pandas as pd

    names = ["answer", "question", "planner", "quantity", "value", "mean", "half_width", "infeasible", "replications"]
    rows = [
        (i, a.question, a.planner, a.quantity, p.value, p.estimate.mean, p.estimate.half_width, p.infeasible,
         p.estimate.n, a.target)
        for i, a in enumerate(answers)
        for p in a.probes
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*names, "target"])


def draw_probes(
    data: Frame, ax: Axes, *, answers: Sequence[tuple[int, Answer]], looks: Mapping[str, Style], factor: float
) -> Axes:
    """Draw some answers of `probe_frame`: probes with bars, the target, each answer's value and shaded interval."""
    for i, answer in answers:
        look = looks[answer.planner]
        part = data[(data["answer"] == i) & data["mean"].map(math.isfinite)].sort_values("value")
        ax.errorbar(
            part["value"], part["mean"] * factor, yerr=part["half_width"].fillna(0.0) * factor, color=look.colour,
            marker=look.mark, capsize=2.5, elinewidth=1.0, linewidth=1.0, linestyle=":",
        )  # fmt: skip
    left, right = ax.get_xlim()
    for _, answer in answers:
        colour = looks[answer.planner].colour
        if answer.value is None:
            continue
        if answer.estimate is not None and answer.estimate.n > 1:  # an end that is not known lies beyond the range
            low, high = left if answer.low is None else answer.low, right if answer.high is None else answer.high
            ax.axvspan(low, high, color=colour, alpha=0.14, linewidth=0)
        ax.axvline(answer.value, color=colour, linewidth=1.4)
    ax.set_xlim(left, right)
    for target in sorted({a.target for _, a in answers}):
        ax.axhline(factor * target, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    return ax


def probe_charts(results: Results) -> Iterator[Chart]:
    """A chart for each question, a panel for each quantity or variant that it searched."""
    asked: dict[str, list[Answer]] = {}
    for answer in results.answers:
        # The whole of an answer with parts repeats their probes.
        parts = any(a.part and a.planner == answer.planner for a in results.answers if a.question == answer.question)
        if len(answer.probes) > 1 and (answer.part or not parts):
            asked.setdefault(answer.question, []).append(answer)
    for i, (question, answers) in enumerate(asked.items(), 1):
        panels = _panels(answers, results)
        yield _chart(results, question, answers, panels, "probes" if len(asked) == 1 else f"probes-{i}")


def _panels(answers: Sequence[Answer], results: Results) -> dict[str, list[tuple[int, Answer]]]:
    """Title -> the answers that share a panel: one quantity, under fields that are the same for all its probes."""
    fixed = [_fixed(a) for a in answers]
    vary = {path for f in fixed for path in f if len({cell(g.get(path)) for g in fixed}) > 1}
    vary -= {a.quantity for a in answers} | {"cluster.price_per_hour"}
    found: dict[str, list[tuple[int, Answer]]] = {}
    several = len({a.quantity for a in answers}) > 1
    for i, (answer, values) in enumerate(zip(answers, fixed, strict=True)):
        name = results.names.get(answer.quantity, answer.quantity.rpartition(".")[2])
        words = [name] if several else []
        if not several:
            words = [plain(values.get(path)) for path in sorted(vary)]
        found.setdefault(", ".join(words), []).append((i, answer))
    return found


def _fixed(answer: Answer) -> dict[str, Any]:
    """Fields that all points of an answer share."""
    said = [dict(p.values) for probe in answer.probes for p in probe.points]
    return {path: v for path, v in said[0].items() if all(s.get(path, ...) == v for s in said)} if said else {}


def _chart(
    results: Results,
    question: str,
    answers: Sequence[Answer],
    panels: Mapping[str, list[tuple[int, Answer]]],
    name: str,
) -> Chart:
    data = probe_frame(answers)
    shown = list(panels.items())[:MAX_PANELS]
    alts = [f"What was tried of {mine[0][1].quantity} ({title}): target and answers" for title, mine in shown]
    note = "Every mark is a value that was tried. Dashed: the target. Upright line: the answer"
    note += ", in its shaded interval." if results.study.replications > 1 else "; one draw each: no interval is known."
    if len(panels) > len(shown):
        note += f" {len(panels) - len(shown)} more panels are not shown."
    return compose(
        name, question[:1].upper() + question[1:], list(zip(dict(shown), alts, strict=True)),
        lambda i, ax: _panel(ax, data, shown[i][1], results), note, data, results.looks,
    )  # fmt: skip


def _panel(ax: Axes, data: Frame, answers: Sequence[tuple[int, Answer]], results: Results) -> None:
    mine = data[data["answer"].isin([i for i, _ in answers])]
    share = all(0 < a.target <= 1 for _, a in answers)
    kind = kind_of(mine["value"], probes=True)
    scale_x(ax, kind)
    draw_probes(data, ax, answers=answers, looks=results.looks, factor=100.0 if share else 1.0)
    values = sorted(set(mine["value"]))
    marks = {a.value for _, a in answers if a.value is not None}
    ticks(ax, kind, sorted({values[0], values[-1], *(marks or values)}))
    quantity = answers[0][1].quantity
    ax.set_xlabel(results.names.get(quantity, quantity.rpartition(".")[2]))
    in_gib(ax, quantity, kind)
    ax.set_ylabel("attainment (%)" if share else "metric")
    if share:
        low = float((mine["mean"] - mine["half_width"].fillna(0.0)).min()) * 100
        low = max(0.0, min([low, *(100 * a.target for _, a in answers)]) - 4)
        ax.set_ylim(low, 100 + 0.03 * (100 - low))
