"""Cases from what a person says: a file, values by name, a commented example to start from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ..errors import InputError
from ..wording import dotted, nearest, short
from .fields import checked, find_field, place, plain, section_of, steps
from .file.document import YamlDocument, problems
from .file.errors import Location
from .leaves import leaves
from .registry import WORLDS, names, open_world
from .world import Case, OpenWorld, World

__all__ = ["CaseFile", "build", "called", "example", "read_case", "said_by_name", "settled"]

C = TypeVar("C", bound=Case)

WIDTH = 118
"""Columns of a commented example."""


def called(planner: Any) -> str:
    """What tables call a planner: its label, or its name. Of a section of a case, or as a file says it."""
    if isinstance(planner, Mapping):
        said = cast("Mapping[str, Any]", planner)
        return str(said.get("label") or said.get("name") or "")
    return str(getattr(planner, "label", "") or getattr(planner, "name", ""))


class CaseFile:
    """A file that says a case: its world, and what it says of each field.

    Parameters
    ----------
    path : path
        A YAML file: ``world: NAME``, and the fields of that world's case. It may have a ``name``, which tables call it
        by, and ``planners`` instead of one ``planner``: names, or mappings as ``planner`` has them.

    Raises
    ------
    InputError
        If it cannot be read, is no YAML, or names no world; if it is a study, which is another verb's.
    """

    def __init__(self, path: str | Path) -> None:
        from .file.yaml import parse, read

        self.path = Path(path)
        self.document: YamlDocument = parse(read(path), str(path))
        said = dict(self.document.data)
        if "study" in said:
            raise InputError(f"{path}: is a study, which asks about a case: meshwright study {path}")
        name = said.pop("world", None)
        if not isinstance(name, str) or (name not in WORLDS and name not in names()):
            near = nearest(str(name), names())
            hint = f"did you mean {near!r}?" if near else f"write one of {', '.join(names())}"
            what = "is missing" if name is None else f"unknown world (got {name!r})"
            raise problems(self.document, [(("world",), f"{what}; {hint}")])
        self.world: OpenWorld = open_world(name)
        for verb, door in self.world.doors.items():
            for option in set(door.alone) & said.keys():
                how = f"meshwright {verb} {name} --{option} {path}"
                raise InputError(f"{path}: holds {option}, and is no case: {how}")
        title = said.pop("name", "")
        if not isinstance(title, str):
            raise problems(self.document, [(("name",), f"should be text (got {short(title)})")])
        self.name: str = title or self.path.stem
        self.planners: list[Any] = self._planners(said)
        self.said: dict[str, Any] = said

    def _planners(self, said: dict[str, Any]) -> list[Any]:
        """Each planner, as a case says one; none where the file compares none."""
        if "planners" not in said:
            return []
        listed = said.pop("planners")
        wrong = ""
        if "planner" in said:
            wrong = "planner says one already; leave one of the two out"
        elif not isinstance(listed, list) or not listed:
            wrong = f"should be a list of names, or of mappings with name, label and options (got {listed!r})"
        if wrong:
            raise problems(self.document, [(("planners",), wrong)])
        odd = [(n, one) for n, one in enumerate(cast("list[Any]", listed)) if not isinstance(one, str | dict)]
        if odd:
            what = "should be a name, or a mapping with name, label and options"
            raise problems(self.document, [(("planners", n), f"{what} (got {short(one)})") for n, one in odd])
        found: list[Any] = [{"name": one} if isinstance(one, str) else one for one in cast("list[Any]", listed)]
        names = [called(one) for one in found]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise problems(self.document, [(("planners",), f"{twice!r} stands twice; give each a label of its own")])
        return found

    def located(self, error: InputError, changed: Mapping[str, Any]) -> InputError:
        """An error of a door, whose lines begin with the fields that they are about, with this file and its lines.

        Parameters
        ----------
        error : InputError
            Lines that begin with no field of the case stay as they are.
        changed : mapping of str to value
            Path -> value that goes before the file's: of these no line of the file is to blame.
        """
        found: list[str] = []
        for line in str(error).splitlines():
            head, colon, what = line.partition(": ")
            loc = _location(head)
            if colon and loc and loc[0] in self.world.case.model_fields:
                found.append(str(_blamed(self.document, changed, [(loc, what)])))
            else:
                found.append(line)
        return InputError("\n".join(found))


WORD = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(\d+)\]")


def _location(text: str) -> Location:
    """``apps[0].name`` -> apps, 0, name; empty of what is no such path."""
    loc: Location = ()
    at = 0
    while at < len(text):
        found = WORD.match(text, at)
        if found is None:
            return ()
        loc += (found[1] if found[1] is not None else int(found[2]),)
        at = found.end()
    return loc


def _blamed(
    document: YamlDocument,
    changed: Mapping[str, Any],
    wrong: Sequence[tuple[Location, str]],
    planner: int | None = None,
) -> InputError:
    """What is wrong, each with its line of the file; but what was said instead of the file's by its path alone."""
    ours: list[str] = []
    theirs: list[tuple[Location, str]] = []
    for loc, what in wrong:
        path = dotted(loc)
        unsaid = loc[:1] and loc[0] not in document.data and not (planner is not None and loc[0] == "planner")
        if any(f"{path}.".startswith(f"{one}.") or (unsaid and one.startswith(f"{path}.")) for one in changed):
            ours.append(f"{path}: {what}")
        elif planner is not None and loc[:1] == ("planner",):
            theirs.append((("planners", planner, *loc[1:]), what))
        else:
            theirs.append((loc, what))
    return InputError("\n".join([*ours, *(str(problems(document, theirs)).splitlines() if theirs else [])]))


def settled(world: World, case: C, folder: Path) -> C:
    """A case with what the files that it names say where nobody else does; worlds without such files leave it."""
    settle: Any = getattr(world, "settled", None)
    return case if settle is None else settle(case, folder)


def read_case(path: str | Path, changed: Mapping[str, Any] | None = None) -> Case:
    """The case that a file says, with other values at some paths.

    Raises
    ------
    InputError
        All that is wrong, with file and line.
    """
    file = CaseFile(path)
    return build(file.world, file.said, changed or {}, file.document)


def build(
    world: OpenWorld,
    said: Mapping[str, Any],
    changed: Mapping[str, Any],
    document: YamlDocument | None = None,
    planner: int | None = None,
) -> Case:
    """A case from plain data and values by path.

    Parameters
    ----------
    world : OpenWorld
        Whose case.
    said : mapping
        Nested, as a file says it.
    changed : mapping of str to value
        Path of a field -> its value instead; as `said_by_name` gives them.
    document : YamlDocument, optional
        The file that `said` is from, for errors.
    planner : int, optional
        Which of the file's `planners` is the case's.

    Raises
    ------
    InputError
        All that is wrong.
    """
    whole = dict(said)
    for path, value in changed.items():
        whole = place(whole, steps(world.case, path), value)
    built, wrong = checked(world.case, whole)
    if built is not None:
        return built
    wrong = [each for one in wrong for each in _needed(world.case, *one)]
    if document is not None:
        raise _blamed(document, changed, wrong, planner)
    raise InputError("\n".join(f"{dotted(loc)}: {what}" if loc else what for loc, what in wrong))


def _needed(model: type[BaseModel], loc: Location, what: str) -> Iterator[tuple[Location, str]]:
    """A section that is missing is missing by its fields that must be said."""
    path = ".".join(map(str, loc))
    inside = [leaf for leaf in leaves(model) if leaf.path.startswith(f"{path}.")]
    if what != "is missing" or not inside:
        yield loc, what
        return
    section = _section_at(model, loc)
    must = [name for name, field in section.model_fields.items() if field.is_required()]
    for name in must:
        yield (*loc, name), what
    if not must:  # it has a rule of its own about what must be said, which an empty one breaks
        yield from ((loc + deeper, said) for deeper, said in checked(section, {})[1])


def _section_at(model: type[BaseModel], loc: Location) -> Any:
    """The model of a section."""
    inner: Any = model
    for step in loc:
        inner = section_of(inner.model_fields[str(step)].annotation)
    return inner


def said_by_name(world: OpenWorld, said: Mapping[str, Any]) -> dict[str, Any]:
    """Path -> value, from names: a field's path, its last word where that is unique, or a section with its fields.

    Raises
    ------
    InputError
        On a name that no field has; names the nearest.
    """
    short = {leaf.name: leaf.path for leaf in leaves(world.case)}
    found: dict[str, Any] = {}
    for name, value in said.items():
        section = world.case.model_fields.get(name)
        if section is not None and section_of(section.annotation) is not None and isinstance(value, Mapping):
            inside = _inside(name, value, section.annotation)
            found.update({find_field(world.case, path): plain(inner) for path, inner in inside})
        else:
            found[short.get(name) or find_field(world.case, name)] = plain(value)
    return found


def _inside(path: str, value: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    """Path and value of what a section holds, at any depth; of a field its own."""
    section = section_of(kind)
    if section is None or not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in cast("Mapping[str, Any]", value).items():
        field = section.model_fields.get(key)
        yield from _inside(f"{path}.{key}", inner, None if field is None else field.annotation)


def example(world: OpenWorld, values: Mapping[str, Any]) -> str:
    """A case file to start from: every field with what it is; those that have no value in `values` commented out.

    Parameters
    ----------
    world : OpenWorld
        Whose case.
    values : mapping of str to value
        Path -> value: a case that works as it stands.
    """
    head = [
        f"# {world.title}",
        "# meshwright plan FILE --out plan.json; every field may also be said as an option.",
        "",
    ]
    return "\n".join([*head, f"world: {world.name}", *_section(world.case, "", values, 0)]) + "\n"


def _section(model: type[BaseModel], prefix: str, values: Mapping[str, Any], depth: int) -> Iterator[str]:
    told = {leaf.path: leaf for leaf in leaves(model)}
    for name, field in model.model_fields.items():
        path, inner = f"{prefix}{name}", section_of(field.annotation)
        if inner is not None:
            some = any(key.startswith(f"{path}.") for key in values)
            yield f"{'' if some else '# '}{'  ' * depth}{name}:"
            yield from _section(inner, f"{path}.", values, depth + 1)
            continue
        leaf = told[name]
        value = values.get(path, leaf.default)
        shown = json.dumps(plain(value), ensure_ascii=False) if value is not None else ""
        line = f"{'' if path in values else '# '}{'  ' * depth}{name}: {shown}".rstrip()
        words = "; ".join(word for word in (leaf.says, leaf.bounds) if word)
        yield (f"{line:<36}  # {words}" if words else line)[: WIDTH + 60]
