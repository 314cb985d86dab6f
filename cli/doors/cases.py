"""Which cases a command line asks for: what a file says, what is said instead, one for each planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ...errors import InputError
from ...worlds.cases import CaseFile, build, called
from ...worlds.door import DoorName
from ...worlds.world import Case, OpenWorld

__all__ = ["ALL", "PLANNER", "cases_of", "planners_named"]

PLANNER, OPTIONS, ALL = "planner.name", "planner.options", "all"


def cases_of(
    world: OpenWorld, file: CaseFile | None, verb: DoorName, plans: Mapping[str, Any], changed: Mapping[str, Any]
) -> tuple[Case, ...]:
    """The case, once for each planner that is named.

    Parameters
    ----------
    world : OpenWorld
        Whose case.
    file : CaseFile, optional
        What says it, but for what is changed.
    verb : str
        The door that is asked.
    plans : mapping of str to PlanFile
        Of which the case is, where there are any.
    changed : mapping of str to value
        Path -> value that the command line says.

    Raises
    ------
    InputError
        All that is wrong: what the file says with its lines, the rest by its path.
    """
    if plans:
        if world.doors[verb].says == "nothing" and not world.doors[verb].also:
            return ()
        return (build(world, world.case_of(plans, changed, verb), changed),)
    said = {} if world.doors[verb].needs_plan else dict(world.case_of({}, changed, verb))
    said = said if file is None else {**said, **file.said}
    document = None if file is None else file.document
    chosen = _chosen(world, file, verb, changed)
    own: Any = said.get("planner", {})
    changed = {path: value for path, value in changed.items() if path != PLANNER}
    names = [_name(one) for one, _ in chosen]
    cases: list[Case] = []
    wrong: dict[str, None] = {}
    for one, number in chosen:
        here, named = said, _options(world, changed, _name(own if one is None else one), names)
        if number is not None:
            here = {**said, "planner": one}
        elif one is not None:
            too = own if len(chosen) == 1 and isinstance(own, Mapping) else {}
            here, named = {**said, "planner": {**too, **one}}, {**named, PLANNER: _name(one)}
        try:
            cases.append(build(world, here, named, document, number))
        except InputError as error:
            wrong |= dict.fromkeys(str(error).splitlines())
    if wrong:
        raise InputError("\n".join(wrong))
    return tuple(cases)


def _name(planner: Any) -> str:
    """A planner's name, of what a file says of it; empty where that is no planner."""
    return str(cast("Mapping[str, Any]", planner).get("name", "")) if isinstance(planner, Mapping) else ""


def _chosen(
    world: OpenWorld, file: CaseFile | None, verb: DoorName, changed: Mapping[str, Any]
) -> list[tuple[Any, int | None]]:
    """The planners that are named, as a file says one, each with its number in the file's list; None: the case's."""
    named = changed.get(PLANNER)
    listed = [] if file is None else file.planners
    one = world.doors[verb].one
    if named is None:
        found: list[tuple[Any, int | None]] = [(planner, number) for number, planner in enumerate(listed)]
        return (found[:1] if one else found) or [(None, None)]
    words = planners_named(world, str(named))
    if len(set(words)) < len(words):
        raise InputError(f"--planner: each once (got {named})")
    if one and len(words) > 1:
        raise InputError(f"--planner: {verb} takes one (got {named})")
    known: dict[str, tuple[Any, int | None]] = {called(planner): (planner, n) for n, planner in enumerate(listed)}
    return [known.get(word) or ({"name": word}, None) for word in words]


def planners_named(world: OpenWorld, text: str) -> list[str]:
    """``a,b`` -> both; `ALL` stands for those that the world knows. A comma in the name of a file separates nothing."""
    file = text.rpartition(":")[0]
    if "," in file and Path(file).is_file():
        return [text]
    words = [word.strip() for word in text.split(",")]
    return [name for word in words for name in (world.planners() if word == ALL else (word,))]


def _options(world: OpenWorld, changed: Mapping[str, Any], planner: str, all_of: Sequence[str]) -> dict[str, Any]:
    """What is changed for a planner: one option at a time, beside the file's others; of several planners, those have an
    option that know it."""
    found: dict[str, Any] = {}
    for path, value in changed.items():
        if path == OPTIONS and isinstance(value, Mapping):
            found |= {f"{path}.{name}": inner for name, inner in cast("Mapping[str, Any]", value).items()}
        else:
            found[path] = value
    has: Any = getattr(world, "has_option", None)
    if has is None:
        return found
    words = {path: path.removeprefix(f"{OPTIONS}.") for path in found if path.startswith(f"{OPTIONS}.")}
    others = {path for path, word in words.items() if any(has(name, word) for name in all_of)}
    return {path: value for path, value in found.items() if path not in others or has(planner, words[path])}
