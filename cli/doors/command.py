"""The verbs that are doors of worlds: `plan`, `simulate`, `run`, `compare`, `export`, `measure`.

What a verb takes depends on the world that its first word names: a world, a file with a case, or a plan. Each such
command is made out of the fields of the world's case and of the door's options; nothing here knows any world.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from ...errors import InputError, RunError
from ...worlds.before import check_asked, check_number
from ...worlds.cases import CaseFile, called, settled
from ...worlds.door import DOORS, Answer, Asked, Door, DoorName
from ...worlds.faces import checked_options
from ...worlds.fields import find_field
from ...worlds.leaves import leaves, parse
from ...worlds.registry import WORLDS, names, open_world, world_of_plan
from ...worlds.world import Case, OpenWorld
from ..grouped_help import Grouped
from ..status import status
from ..trace_io import print_json
from .cases import ALL, PLANNER, cases_of
from .flags import Flag, flags_of, function_of, values_of
from .written import written_lines

__all__ = ["Subject", "door_command", "subject_of"]

CASE, HERE = "The case", "Here"
DOING: dict[DoorName, str] = {
    "plan": "planning", "simulate": "simulating", "run": "running", "compare": "comparing", "export": "exporting",
    "measure": "measuring",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What the first word of a verb names.

    Parameters
    ----------
    world : OpenWorld
        Whose door is asked.
    file : CaseFile, optional
        The file of a case.
    plans : bool
        Whether the words are plan files.
    """

    world: OpenWorld
    file: CaseFile | None = None
    plans: bool = False


def subject_of(word: str) -> Subject:
    """What a word names: a world, a YAML file with a case, or a plan file.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if word in WORLDS or (not Path(word).suffix and word in names()):
        return Subject(open_world(word))
    if Path(word).suffix in (".yaml", ".yml"):
        file = CaseFile(word)
        return Subject(file.world, file)
    if not Path(word).suffix and not Path(word).exists():
        raise InputError(f"{word}: is no world ({', '.join(names())}) and no file")
    return Subject(world_of_plan(word), plans=True)


def door_command(verb: DoorName, subject: Subject) -> Any:
    """The command that a verb is for a subject.

    Raises
    ------
    InputError
        If its world has no such door.
    """
    world = subject.world
    door = world.doors.get(verb)
    if door is None:
        raise InputError(f"{verb}: the world {world.name} has no such door; it has {', '.join(world.doors)}")
    shown = _case_flags(world, door, subject)
    options = flags_of(leaves(door.options), HERE, door.options.model_fields, lambda path: ())
    _distinct(shown, options, world, verb)

    def call(**said: Any) -> None:
        _call(verb, door, subject, shown, options, said)

    parameters = [
        *(_plans(verb) if subject.plans else ()),
        *(f.signature() for f in (*shown, *options)),
        *_common(door, shown),
    ]
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    kind = type("Shown", (Grouped,), {"rare": frozenset(f.parameter for f in shown if f.hidden)})
    single.command(verb, cls=kind)(function_of(call, verb, f"{DOORS[verb]}\n\n{world.title}", parameters))
    made: Any = typer.main.get_command(single)
    made.name = f"{verb} {world.name}"
    return made


def _case_flags(world: OpenWorld, door: Door, subject: Subject) -> list[Flag]:
    found = leaves(world.case)
    if door.says == "nothing" and (subject.plans or not door.needs_plan):
        sayable = door.also + door.of_plans if subject.plans else door.also
        found = tuple(leaf for leaf in found if leaf.path.startswith(sayable))
    elif subject.plans or not (door.needs_plan or door.says == "case"):
        found = tuple(leaf for leaf in found if leaf.circumstance or leaf.path.startswith(door.also))
    return flags_of(found, CASE, world.essentials, world.known)


def _distinct(case: Sequence[Flag], options: Sequence[Flag], world: OpenWorld, verb: str) -> None:
    """One name, one thing."""
    taken = {flag.parameter for flag in case} | {"plans", "changed", "out", "as_json", "help_all"}
    for flag in options:
        if flag.parameter in taken:
            raise InputError(
                f"world {world.name!r}: {verb}: option {flag.parameter!r} has the name of a field; rename it"
            )


def _plans(verb: str) -> list[inspect.Parameter]:
    said = typer.Argument(
        help="Plan files; several are compared on the same case." if verb != "export" else "Plan file."
    )
    return [inspect.Parameter("plans", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[list[Path], said])]


def _common(door: Door, shown: Sequence[Flag]) -> list[inspect.Parameter]:
    """What every door takes."""
    kinds: dict[str, Any] = {}
    if shown:
        setting: Any = typer.Option(
            "--set", "-s", metavar="PATH=VALUE", help="Any field, by its path or last word.", rich_help_panel=CASE
        )
        kinds["changed"] = Annotated[list[str] | None, setting]
    if door.out:
        kinds["out"] = Annotated[Path | None, typer.Option("--out", help=door.out, rich_help_panel=HERE)]
    printed: Any = typer.Option("--json", help="Print JSON for machines.", rich_help_panel=HERE)
    kinds["as_json"] = Annotated[bool, printed]
    defaults: dict[str, Any] = {"as_json": False}
    if any(flag.hidden for flag in shown):
        everything: Any = typer.Option(
            "--help-all", is_eager=True, callback=_help_all, help="Show every field, and exit.", rich_help_panel=HERE
        )
        kinds["help_all"] = Annotated[bool, everything]
        defaults["help_all"] = False
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(n, keyword, default=defaults.get(n), annotation=kind) for n, kind in kinds.items()]


def _help_all(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta["everything"] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def _call(
    verb: DoorName,
    door: Door,
    subject: Subject,
    shown: Sequence[Flag],
    options: Sequence[Flag],
    said: Mapping[str, Any],
) -> None:
    """Ask at the door, print the answer, write the plan."""
    out: Path | None = said.get("out")
    if (wanted := said.get("options")) and "help" in wanted:
        return _say_options(subject, said)
    chosen = checked_options(door.options, values_of(options, said))
    check_asked(subject.world, verb, chosen, out)
    changed = {**values_of(shown, said), **_changed(subject.world, said.get("changed") or (), shown)}
    folder = Path() if subject.file is None else subject.file.path.parent
    name = "" if subject.file is None else subject.file.name
    plans: dict[str, Any] = {}
    cases: tuple[Case, ...] = ()
    alone = next((option for option in door.alone if getattr(chosen, option) is not None), None)
    if alone is None:
        plans = _loaded(subject, said)
        changed |= door.stands_in(chosen, changed)
        said_cases = cases_of(subject.world, subject.file, verb, plans, changed)
        cases = tuple(settled(subject.world, case, folder) for case in said_cases)
        check_number(subject.world, verb, chosen, plans or [called(getattr(case, "planner", None)) for case in cases])
    elif subject.plans or subject.file is not None or changed:
        more = ", ".join(changed) or "the file"
        line = f"meshwright {verb} {subject.world.name} --{alone} FILE"
        raise InputError(f"--{alone}: goes with neither case nor plan: {line}; leave {more} out")
    try:
        with status(DOING[verb]) as say:
            if alone is None and not plans and door.needs_plan and verb != "plan":
                plans = _planned(subject, cases, folder, say)
                cases = cases[:1]
            answer = door(Asked(cases, plans, chosen, folder, name, out, say))
    except InputError as error:
        if subject.file is None or type(error) is not InputError:
            raise
        raise subject.file.located(error, changed) from None
    _print(verb, answer, out, bool(said.get("as_json")))


def _say_options(subject: Subject, said: Mapping[str, Any]) -> None:
    """``-o help``: the options of the planners that are named, where the world knows them one by one."""
    tell: Any = getattr(subject.world, "options_text", None)
    if tell is None:
        raise InputError(f"--options: help: the page of the world {subject.world.name} lists them; -o NAME=VALUE")
    in_file: Any = {} if subject.file is None else subject.file.said.get("planner", {})
    default = next(leaf.default for leaf in leaves(subject.world.case) if leaf.path == PLANNER)
    named = said.get("planner") or in_file.get("name") or default
    text, document = tell(list(subject.world.planners()) if named == ALL else named.split(","))
    if said.get("as_json"):
        print_json(document)
    else:
        typer.echo(text)


def _loaded(subject: Subject, said: Mapping[str, Any]) -> dict[str, Any]:
    """The plans by their paths."""
    paths: list[Path] = list(said.get("plans") or ())
    seen: dict[Path, Path] = {}
    for path in paths:
        if (before := seen.setdefault(path.resolve(), path)) is not path:
            also = "" if str(before) == str(path) else f", as {before} before"
            raise InputError(f"{path}: is named twice{also}; name each plan once")
    for path in paths:
        if world_of_plan(path).name != subject.world.name:
            raise InputError(f"{path}: is a plan of another world than {paths[0]}; compare plans of one world")
    return {str(path): subject.world.load(path) for path in paths}


def _changed(world: OpenWorld, words: Sequence[str], shown: Sequence[Flag]) -> dict[str, Any]:
    """``-s workload.rate=60`` -> path and value, of what can be said here."""
    here = {flag.leaf.path for flag in shown}
    known = {leaf.path: leaf for leaf in leaves(world.case)}
    short = {leaf.name: leaf.path for leaf in leaves(world.case)}
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--set: expected PATH=VALUE (got {word!r})")
        path = short.get(name) or find_field(world.case, name)
        if not any(f"{path}.".startswith(f"{one}.") for one in here):
            raise InputError(f"--set: {path}: is decided by the plan, and cannot be said here; plan again to change it")
        leaf = known.get(path)
        if leaf is None:  # what a mapping holds: planner.options.beam
            above = next(known[p] for p in known if path.startswith(f"{p}."))
            inside = parse(above, f"{path[len(above.path) + 1 :]}={value}")
            found[path] = next(iter(inside.values()))
        else:
            found[path] = parse(leaf, value)
    return found


def _planned(subject: Subject, cases: Sequence[Case], folder: Path, say: Any) -> dict[str, Any]:
    """Each case planned, for a door that takes plans."""
    found: dict[str, Any] = {}
    door, titled = subject.world.doors["plan"], "" if subject.file is None else subject.file.name
    for case in cases:
        answer = door(Asked((case,), {}, door.options(), folder, titled, None, say))
        name = called(getattr(case, "planner", None)) or "plan"
        if answer.plan is None:
            raise InputError(f"{name}: writes no plan that could be taken further")
        found[name] = answer.plan
    return found


def _print(verb: str, answer: Answer, out: Path | None, as_json: bool) -> None:
    if verb == "plan" and out is not None:
        if answer.plan is None:
            raise InputError("--out: what was decided is held by no plan file")
        answer.plan.save(out)
    if as_json:
        print_json({**answer.document, "out": None if out is None else str(out)})
    else:
        if answer.text:
            typer.echo(answer.text)
        if verb == "plan" and out is not None:
            typer.echo(f"plan written: {out}")
        for line in written_lines(answer.written, out):
            typer.echo(f"written: {line}")
    if answer.failed:
        raise RunError(answer.failed)
