"""A verb of worlds before anybody says which: the worlds that have it, and how it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
import typer.main

from ...errors import InputError
from ...worlds.door import DOORS, DoorName
from ...worlds.registry import titles
from .flags import function_of

__all__ = ["overview", "refused"]

CALLS: dict[DoorName, tuple[str, str]] = {
    "plan": ("meshwright plan {world} --help", "meshwright new {world} > case.yaml && meshwright plan case.yaml"),
    "simulate": ("meshwright simulate plan.json", "meshwright simulate case.yaml --planner a,b"),
    "run": ("meshwright run plan.json", "meshwright run {world} --help"),
    "compare": ("meshwright compare plan.json", "meshwright compare {world} --help"),
    "export": ("meshwright export plan.json --to TARGET --out FOLDER", "meshwright export {world} --help"),
    "measure": ("meshwright measure {world} --out measured.json", "meshwright measure {world} --help"),
}
"""Two calls of each verb to begin with."""


def overview(verb: DoorName) -> Any:
    """The command that a verb is while its first word is missing: its help is all that it has."""

    def asked(ctx: typer.Context, what: str) -> None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(InputError.exit_code)

    word: Any = typer.Argument(metavar="WORLD|CASE.yaml|PLAN.json", autocompletion=_worlds(verb), help="What about.")
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        inspect.Parameter("what", keyword, default="", annotation=Annotated[str, word]),
    ]
    # \b: what follows stands as it is, line by line.
    having = titles(verb)
    worlds = "\n".join(f"{name:<10}{title}" for name, title in having.items())
    calls = "\n".join(call.format(world=next(iter(having))) for call in CALLS[verb])
    doc = f"{DOORS[verb]}\n\n\b\nWorlds:\n{worlds}\n\n\b\nSuch as:\n{calls}"
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(verb)(function_of(asked, verb, doc, parameters))
    return typer.main.get_command(single)


def refused(verb: DoorName, words: Sequence[str]) -> InputError:
    """What is wrong with a verb that begins with an option: nobody knows yet which options there are."""
    said = " ".join([*words[:2], *(["…"] if len(words) > 2 else [])])
    other = "or a case.yaml" if verb in ("plan", "measure") else "or a case.yaml, or a plan.json"
    return InputError(
        f"{verb}: the first word says what about: meshwright {verb} WORLD {said} (WORLD: {', '.join(titles(verb))}; "
        f"{other}); see 'meshwright {verb} --help'"
    )


def _worlds(verb: DoorName) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in titles(verb) if name.startswith(incomplete)]
