"""`Quantity`: what a question changes, how it is written into a case, and how it is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError
from ...worlds import Case
from ...worlds.fields import find_field, set_fields
from .kinds import Extreme, FewestDevices, HighestCv, HighestRate, QuestionBase, TightestSlo

if TYPE_CHECKING:
    from ..study import Study

__all__ = [
    "Quantity",
    "base_of",
    "cv_path",
    "given",
    "has_field",
    "number",
    "quantity_of",
    "slo_path",
    "value_of",
]

DEFAULT_SLO_SCALE = 5.0
"""What the serving world takes where neither slo nor slo_scale is given and the traffic says nothing."""
EXACT = 10_000
"""Whole quantities are found exactly in ranges up to this many values; greater ones (bytes) to the tolerance."""


def number(value: float) -> str:
    """A number as people write it: whole where it is, else four digits."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:.4g}"


@dataclass(frozen=True)
class Quantity:
    """A quantity that is searched.

    Parameters
    ----------
    name : str
        Path of the field, or another name.
    words : str
        How a value is said, such as ``{} devices``.
    verb : str
        What a planner does with it: needs, sustains, holds.
    hard : {"low", "high"}
        Which end makes it harder to attain.
    low, high : float
        Range.
    whole : bool
        Whether it is an integer.
    write : callable
        Value -> fields of the case by path.
    tolerance : float
        Relative; 0 for exact.
    fixed : Mapping[str, Any]
        Fields that all its points have beside it.
    base : float or None
        The base case's value.
    at_base : Mapping[str, Any] or None
        Fields of the point at `base`, where they are others than `write` gives.
    figure : callable
        Value -> the figure that stands in `words`.
    mend : str
        What to do if the whole range misses; by default to widen it.
    step : int
        Of whole quantities: what values between the ends are multiples of.
    """

    name: str
    words: str
    verb: str
    hard: Any
    low: float
    high: float
    whole: bool
    write: Callable[[float], Mapping[str, Any]]
    tolerance: float = 0.02
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    base: float | None = None
    at_base: Mapping[str, Any] | None = None
    figure: Callable[[float], str] = number
    mend: str = ""
    step: int = 1

    def say(self, value: float) -> str:
        """A value in words."""
        said = self.words.format(self.figure(value))
        return said.removesuffix("s") if said == "1 devices" else said

    def values(self, value: float) -> dict[str, Any]:
        """Fields of a point by path."""
        if self.at_base is not None and value == self.base:
            return {**self.fixed, **self.at_base}
        return {**self.fixed, **self.write(value)}


def gib(value: float) -> str:
    """Bytes as people write them."""
    return f"{value / 2**30:.3g} GiB"


def value_of(case: Any, path: str) -> Any:
    """The value of a field by its path; None where a part is missing."""

    def inner(part: Any, name: str) -> Any:
        return cast("Mapping[str, Any]", part).get(name) if isinstance(part, Mapping) else getattr(part, name, None)

    return reduce(inner, path.split("."), case)


def has_field(study: Study, path: str) -> bool:
    """Whether the cases of this world have that field."""
    try:
        return find_field(study.world.case, path) == path
    except InputError:
        return False


def given(study: Study, question: QuestionBase) -> dict[str, Any]:
    """Fields that the question sets for all its points, by full path."""
    return {find_field(study.world.case, name): value for name, value in question.given.items()}


def base_of(study: Study, question: QuestionBase) -> Case:
    """The base case of a question: the study's with what the question gives.

    Raises
    ------
    InputError
        If that is no valid case, or names a field that there is not.
    """
    return set_fields(study.base, given(study, question))


def quantity_of(study: Study, question: Any) -> Quantity:
    """What a question about one field searches.

    Raises
    ------
    InputError
        If the world's cases have no such field, or its values are no numbers.
    """
    base, fixed = base_of(study, question), given(study, question)
    found = _quantity(study, question, base, fixed)
    if found.name in fixed:
        raise InputError(f"{question.find}: {found.name} is what is asked for; leave it out of given")
    return found


def _quantity(study: Study, question: Any, base: Case, fixed: Mapping[str, Any]) -> Quantity:
    if isinstance(question, Extreme):
        return _extreme(study, question, base, fixed)
    if isinstance(question, FewestDevices):
        path = find_field(study.world.case, "cluster.devices")
        return Quantity(
            path,
            "{} devices",
            "needs",
            "low",
            *question.ends,
            True,
            lambda v: {path: int(v)},
            0.0,
            fixed,
            step=question.step,
        )
    if isinstance(question, HighestRate):
        path, what, verb, hard = *_rate(study, base), "sustains", "high"
    elif isinstance(question, HighestCv):
        path, what, verb, hard = *cv_path(study, base), "sustains", "high"
    elif isinstance(question, TightestSlo):
        path, what, verb, hard = *slo_path(study, base), "holds", "low"
    else:
        raise TypeError(f"{type(question).__name__} asks for no one quantity")
    said = value_of(base, path)
    middle = float(said) if said is not None else DEFAULT_SLO_SCALE if path.endswith("slo_scale") else 1.0
    low = middle / 8 if question.low is None else question.low
    high = middle * 8 if question.high is None else question.high
    return _checked(
        Quantity(
            path, what, verb, hard, low, high, False, lambda v: {path: v}, question.tolerance, fixed, middle
        ), question.find,
    )  # fmt: skip


def _checked(quantity: Quantity, find: str) -> Quantity:
    if quantity.low > quantity.high:
        raise InputError(
            f"{find}: low {quantity.low:g} is above high {quantity.high:g} (what is not given is an eighth "
            f"of the base case's value, or eight times it); give both"
        )
    return quantity


def _rate(study: Study, base: Case) -> tuple[str, str]:
    path = find_field(study.world.case, "workload.rate_scale")
    if value_of(base, "workload.rate") is not None and value_of(base, path) == 1:
        return "workload.rate", "{} requests/s"
    return path, _scale(base, "rate")


def _scale(base: Case, what: str) -> str:
    return f"{{}} × the trace's {what}" if value_of(base, "workload.trace") is not None else f"a {what} scale of {{}}"


def cv_path(study: Study, base: Case) -> tuple[str, str]:
    """Field of the CV, and how it is said: the CV itself for generated traffic, else a multiple of the fitted ones."""
    path = find_field(study.world.case, "workload.cv_scale")
    if value_of(base, "workload.trace") is None and value_of(base, path) == 1:
        return "workload.cv", "a CV of {}"
    return path, _scale(base, "CV")


def slo_path(study: Study, base: Case) -> tuple[str, str]:
    """Field of the SLO, and how it is said."""
    path = find_field(study.world.case, "workload.slo_scale")
    if value_of(base, "workload.slo") is not None:
        return "workload.slo", "an SLO of {} s"
    return path, f"an SLO of {{}} {value_of(base, 'workload.slo_words') or '× single-device latency'}"


def _extreme(study: Study, question: Extreme, base: Case, fixed: Mapping[str, Any]) -> Quantity:
    path = find_field(study.world.case, question.field)
    where = f"{question.find} {path}"
    if path == "seed":
        raise InputError(f"{where}: replications count the seed up; nothing is more or less of it")
    ends: list[float] = []
    for name in ("low", "high"):
        said = getattr(question, name)
        value = value_of(set_fields(base, {path: said}), path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{where}: {name} is no number (got {said!r}); only fields that hold numbers are searched")
        if value <= 0:
            raise InputError(f"{where}: {name} must be > 0 (got {said!r})")
        ends.append(value)
    whole = all(isinstance(v, int) for v in ends)
    low, high = ends
    if low > high:
        raise InputError(f"{where}: expected low <= high (got {question.low!r} and {question.high!r})")
    return Quantity(
        path, f"{path} = {{}}", "reaches", "high" if question.find == "highest" else "low", low, high,
        whole, lambda v: {path: int(v) if whole else v}, 0.0 if whole and high - low <= EXACT else question.tolerance,
        fixed, figure=gib if whole and isinstance(question.high, str) else number,
    )  # fmt: skip
