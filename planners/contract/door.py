"""The door between Meshwright and a planner from outside: what goes in, what comes out, and what goes wrong inside."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import InfeasibleError, InputError, MeshwrightError, RunError
from ...simulator.placement import Placement, PlacementSchedule
from ...simulator.plan.clusters import cluster_entry
from ...simulator.serving.plan.file import Plan
from ...wording import nearest
from ..alpaserve.clockwork import ScheduledPlan
from .file import line_of
from .problem import Problem

__all__ = ["call", "check_signature", "option_names", "refuse_options"]

Progress = Callable[[str], None]


class _Watched(Mapping[str, Any]):
    """Options that know which of them were read, so that a misspelled one is not dropped in silence."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self.read: dict[str, None] = {}

    def __getitem__(self, key: str) -> Any:
        self.read[key] = None
        return self._options[key]

    def __iter__(self) -> Iterator[str]:
        self.read.update(dict.fromkeys(self._options))
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return repr(self._options)


def check_signature(function: Callable[..., object], name: str) -> None:
    """Refuse what cannot be called as ``plan(problem)``.

    Raises
    ------
    InputError
        Saying how it is to be called instead.
    """
    signature = _signature(function)
    if signature is None:
        return
    needed = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind not in _VARIADIC]
    try:
        signature.bind(None, **dict.fromkeys(_keywords(signature)[0]))
    except TypeError:
        raise InputError(
            f"planner {name!r}: expected a function of one problem, plan(problem), options as keywords after it "
            f"(got one {'of ' + ', '.join(needed) if needed else 'without parameters'})"
        ) from None


def option_names(function: Callable[..., object]) -> tuple[str, ...] | None:
    """The options that a planner ``plan(problem, *, option=…)`` takes; None if its signature does not say."""
    signature = _signature(function)
    if signature is None:
        return None
    names, required, open_ended = _keywords(signature)
    return None if open_ended or not (names or required) else tuple(n for n in names if n != "progress")


def refuse_options(given: Iterable[str], known: Iterable[str], name: str, where: str) -> None:
    """Refuse options that a planner does not have.

    Raises
    ------
    InputError
        Naming the nearest one that it has.
    """
    has = sorted(known)
    for option in given:
        if option not in has:
            near = nearest(option, has)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(has) or 'none'}"
            raise InputError(f"{where}: planner {name!r} has no option {option!r}; {hint}")


def call(
    function: Callable[..., object],
    problem: Problem,
    name: str,
    *,
    progress: Progress | None = None,
    where: str = "options",
) -> Plan | ScheduledPlan:
    """Run a planner from outside on a problem.

    Parameters
    ----------
    function : callable
        ``plan(problem, **options)``; what it returns may be a Plan, a Placement, or one that changes over time.
    problem : Problem
        What to plan.
    name : str
        What the user calls the planner.
    progress : callable, optional
        Handed over to a planner that has a parameter `progress`.
    where : str
        Where options come from, for errors.

    Raises
    ------
    InputError
        If an option is unknown, or what is returned is no plan for this problem.
    RunError
        If the planner raises anything but an error of Meshwright's; those come out as they are, with the line of the
        planner that met them.
    """
    begun = time.perf_counter()
    known = option_names(function)
    if known is not None:
        refuse_options(problem.options, known, name, where)
    watched = _Watched(problem.options)
    handed = replace(problem, options=watched)
    watched.read.clear()
    signature = _signature(function)
    names, required, open_ended = _keywords(signature) if signature else ((), (), False)
    given = {key: value for key, value in problem.options.items() if open_ended or key in names}
    missing = [key for key in required if key not in given and key != "progress"]
    if missing:
        raise InputError(f"{where}: planner {name!r} needs the option {missing[0]!r}")
    if "progress" in names:
        given["progress"] = progress or _silent
    try:
        found = function(handed, **given)
    except InfeasibleError:
        raise
    except MeshwrightError as error:
        raise _located(error, function, name) from error
    except (Exception, SystemExit) as error:
        raise RunError(
            f"planner {name!r}: {type(error).__name__}: {_text(error)} ({line_of(error, _file_of(function))}); "
            "mend the planner (--debug shows the traceback)"
        ) from error
    unread = [key for key in problem.options if key not in given and key not in watched.read]
    refuse_options(unread, [key for key in watched.read if key not in unread], name, where)
    return _accepted(found, problem, name, time.perf_counter() - begun)


def _located(error: MeshwrightError, function: Callable[..., object], name: str) -> MeshwrightError:
    """An error of the same kind that says which line of the planner met it; the same one if the planner raised it."""
    file = _file_of(function)
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename == file:
        return error
    return type(error)(f"planner {name!r} ({line_of(error, file)}): {error}")


def _accepted(found: object, problem: Problem, name: str, seconds: float) -> Plan | ScheduledPlan:
    """What a planner returned, checked, as a plan."""
    returned = f"planner {name!r}: returned"
    if isinstance(found, Placement | PlacementSchedule):
        problem.check(found, f"{returned} a placement that does not fit the problem")
        found = problem.plan(found, name=name)
    if not isinstance(found, Plan | ScheduledPlan):
        if inspect.iscoroutine(found):
            found.close()
        what = "nothing" if found is None else f"a value of type {type(found).__name__}"
        raise InputError(f"{returned} {what}; expected a Plan (make one with problem.plan(placement, name=…))")
    cluster = found.cluster if isinstance(found, Plan) else cluster_entry(found.cluster)
    if cluster != cluster_entry(problem.cluster):
        made_for = found.cluster_spec if isinstance(found, Plan) else found.cluster
        raise InputError(f"{returned} a plan for {made_for}; expected one for {problem.cluster}")
    problem.check(found.placement, f"{returned} a plan that does not fit the problem")
    if isinstance(found, Plan) and found.serving != problem.serving:
        raise InputError(
            f"{returned} a plan served with {found.serving}; expected {problem.serving} (problem.plan says it right)"
        )
    entry = found.planner.model_copy(
        update={
            "seconds": found.planner.seconds or seconds,
            "options": found.planner.options or _plain(problem.options),
        }
    )
    predicted = dict(found.predicted)
    if "attainment" not in predicted or "goodput" not in predicted:
        predicted |= problem.predict(found.placement)
    if isinstance(found, Plan):
        return found.model_copy(update={"planner": entry, "predicted": predicted})
    return replace(found, planner=entry, predicted=predicted)


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a plan can hold them: what is no JSON value (a trace, say) as its text."""
    plain = (bool, int, float, str, list, dict, type(None))
    return {key: value if isinstance(value, plain) else str(value) for key, value in options.items()}


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # built in C
        return None


def _keywords(signature: inspect.Signature) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Keywords behind the problem: all, those without a default, and whether any other is taken."""
    parameters = list(signature.parameters.values())
    first = next((p for p in parameters if p.kind in _POSITIONAL), None)
    rest = [p for p in parameters if p is not first and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return (
        tuple(p.name for p in rest if p.kind == p.KEYWORD_ONLY or p.default is not p.empty),
        tuple(p.name for p in rest if p.kind == p.KEYWORD_ONLY and p.default is p.empty),
        any(p.kind == p.VAR_KEYWORD for p in parameters),
    )


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _file_of(function: Callable[..., object]) -> str:
    """The file that a planner stands in, so that errors can say its line rather than a library's."""
    while isinstance(function, partial):
        function = function.func
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    return getattr(code, "co_filename", "")


def _silent(what: str) -> None:
    """Nobody watches."""


def _text(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())[:300] or "no message"
    except Exception:  # its own __str__ is broken
        return "no message"
