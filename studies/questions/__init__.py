"""Questions of a study: what is the least, the most, the cheapest that still attains a target, and what breaks first.

`answers` follows the searches of all questions side by side on a session, so that every point that they try lands in
the store, is taken from there when the study goes on, and runs wherever the session runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from ...errors import InputError
from ...wording import amiss
from ...worlds import Case
from ...worlds.file.errors import unknown_key
from ..point import Point
from . import cheapest as questions_cheapest
from . import headroom, sensitivity
from .answer import Answer, Effect, Probe, headline
from .bisection import Rule, Search, drive
from .kinds import KINDS, CheapestCluster, Extreme, Headroom, Question, QuestionBase, WhatBreaksFirst
from .quantity import quantity_of
from .words import answer_of, title

if TYPE_CHECKING:
    from ..session import Session
    from ..study import Study

__all__ = ["Answer", "Effect", "Probe", "Question", "answer", "answers", "cases", "headline", "question"]

Searches = Callable[[Any, Any], tuple[Search, ...]]
Answers = Callable[[Any, Any, Sequence[Search]], tuple[Answer, ...]]


def _searches(study: Study, question: Any) -> tuple[Search, ...]:
    """The searches of a question about one quantity: one for each planner."""
    quantity, rule = quantity_of(study, question), Rule.of(question)
    return tuple(Search(planner, quantity, rule, study.replications, study.confidence) for planner in study.planners)


def _answers(study: Study, question: Any, done: Sequence[Search]) -> tuple[Answer, ...]:
    what = title(question, f"{question.find} {question.field}" if hasattr(question, "field") else "")
    return tuple(answer_of(search, what) for search in done)


OWN: dict[type[Any], tuple[Searches, Answers]] = {
    CheapestCluster: (questions_cheapest.searches, questions_cheapest.answers),
    WhatBreaksFirst: (sensitivity.searches, sensitivity.answers),
    Headroom: (headroom.searches, headroom.answers),
}
"""Kind of question -> what it searches, and what the searches come to; the others search one quantity."""


def _kind(question: object) -> tuple[Searches, Answers]:
    return OWN.get(type(question), (_searches, _answers))


def cases(study: Study) -> Iterator[Case]:
    """Cases at the ends of all that the questions of a study will try.

    They name all files, device types and profiles that the questions need, so that these are found missing before any
    work.

    Raises
    ------
    InputError
        If a question asks for something that the study's cases do not have, or a range ends at no valid case.
    """
    for question in study.questions:
        start, _ = _kind(question)
        for search in start(study, question):
            ends = (search.bisection.easy_end, search.bisection.hard_end)
            for value in dict.fromkeys((*ends, *search.first)):
                yield study.case(Point(0, tuple(search.quantity.values(value).items()), search.planner))


def question(said: Any) -> Any:
    """A question from what a study file says, such as ``{"find": "fewest devices", "high": 16}``.

    Raises
    ------
    InputError
        If it makes no sense; all that is wrong.
    """
    if isinstance(said, QuestionBase):
        return said
    try:
        return TypeAdapter[Any](Question).validate_python(said)
    except ValidationError as error:
        raise InputError("\n".join(map(_problem, error.errors(include_url=False)))) from None


def _problem(error: Any) -> str:
    """One of pydantic's errors in a line; its location begins with the kind of question."""
    where = ".".join(map(str, ("question", *error["loc"][1:])))
    if error["type"] == "extra_forbidden":
        kind, name = error["loc"][0], str(error["loc"][-1])
        return f"{where}: {unknown_key(name, list(KINDS.get(kind, Extreme).model_fields))}"
    return f"{where}: {amiss(error)}"


def answers(session: Session, questions: Sequence[Any]) -> tuple[Answer, ...]:
    """Answer several questions, their searches side by side.

    Parameters
    ----------
    session : Session
        Where points are asked for and evaluated.
    questions : sequence of Question
        What is asked; mappings and text as in a study file do too. Files that they name must be those of the study.

    Returns
    -------
    tuple of Answer
        In the order of the questions; for each, in the order of the planners.
    """
    study, asked = session.study, [question(q) for q in questions]
    started = [(q, *_kind(q)) for q in asked]
    followed = [(q, start(study, q), finish) for q, start, finish in started]
    drive(session, [search for _, searches, _ in followed for search in searches])
    return tuple(a for q, searches, finish in followed for a in finish(study, q, searches))


def answer(session: Session, asked: Any) -> tuple[Answer, ...]:
    """Answer one question: an answer for each planner, and its parts where it has any."""
    return answers(session, [asked])
