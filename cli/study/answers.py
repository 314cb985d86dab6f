"""Answers of a study in words: the sentences, and small tables of what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...simulator.metrics import Estimate
    from ...studies import Session
    from ...studies.questions.answer import Answer

__all__ = ["answer_lines", "hopeless", "not_answered"]

MAX_PROBES = 24


def answer_lines(session: Session) -> list[str]:
    """All answers: for each question its table of what was tried, then a sentence for each planner."""
    lines: list[str] = []
    whole = [answer for answer in session.answers if not answer.part]
    for question in dict.fromkeys(answer.question for answer in whole):
        answers = [answer for answer in whole if answer.question == question]
        lines.append("")
        if len({answer.quantity for answer in answers}) == 1 and not any(answer.table for answer in answers):
            lines += _probes(answers)
        for answer in answers:
            lines += _effects(answer)
        lines += [*([""] if lines[-1] else []), *(answer.sentence for answer in answers)]
    return lines


def hopeless(answers: Sequence[Answer]) -> str:
    """The sentence of a question that no planner has an answer to: nothing in range attains the target; else empty."""
    for question in dict.fromkeys(answer.question for answer in answers):
        asked = [answer for answer in answers if answer.question == question and not answer.part]
        if asked and all(_missed(answer) for answer in asked):
            return asked[0].sentence
    return ""


def not_answered(answers: Sequence[Answer]) -> str:
    """Why the first question that could not be answered was not; else empty."""
    return next((f"{answer.planner}: {answer.question}: {answer.error}" for answer in answers if answer.error), "")


def _missed(answer: Answer) -> bool:
    """What breaks first says 0 where the base case misses the target already, and nothing where nothing breaks."""
    return not answer.error and (answer.value == 0 if answer.table else answer.value is None)


def _probes(answers: Sequence[Answer]) -> list[str]:
    """What was tried: a row for each value, a column for each planner."""
    from .words import aligned

    tried = {a.planner: {probe.value: probe.estimate for probe in a.probes} for a in answers}
    values = sorted({value for probes in tried.values() for value in probes})
    if not values or len(tried) < len(answers):
        return []
    head = [answers[0].quantity.rpartition(".")[2], *tried]
    rows = [[f"{v:.6g}", *(_cell(probes.get(v)) for probes in tried.values())] for v in values]
    return aligned([head, *rows[:MAX_PROBES]])


def _effects(answer: Answer) -> list[str]:
    """What breaks first: a row for each factor, a column for each change."""
    from .words import aligned

    if not answer.table:
        return []
    changes = sorted({effect.change for effect in answer.table})
    head = [answer.planner, *(f"{100 * change:+.3g} %".replace("-", "−") for change in changes)]
    known = {(effect.factor, effect.change): effect.estimate for effect in answer.table}
    rows = [[factor, *(_cell(known.get((factor, change))) for change in changes)] for factor, _ in known]
    return [*aligned([head, *dict.fromkeys(map(tuple, rows))], left=0), ""]


def _cell(estimate: Estimate | None) -> str:
    from .words import interval

    if estimate is None:
        return ""
    return interval(100 * estimate.mean, 100 * estimate.half_width) + " %"
