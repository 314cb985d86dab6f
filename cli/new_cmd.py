"""`meshwright new`: a case of a world as a file to start from, or its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..worlds.world import OpenWorld

__all__ = ["listed", "new"]


def _worlds(incomplete: str) -> list[str]:
    from ..worlds.registry import names

    return [name for name in names() if name.startswith(incomplete)]


def listed() -> list[str]:
    """The worlds, a line each, with what they are about."""
    from ..worlds.registry import titles

    found = titles()
    return [f"{name:<{max(map(len, found))}}  {title}".rstrip() for name, title in found.items()]


def _files(world: str) -> Mapping[str, str]:
    from ..worlds.registry import open_world

    return getattr(open_world(world), "examples", {})


def _examples(ctx: typer.Context, incomplete: str) -> list[str]:
    world = ctx.params.get("world")
    return [name for name in (_files(world) if world else ()) if name.startswith(incomplete)]


def _forms(ctx: typer.Context, incomplete: str) -> list[str]:
    from ..worlds.registry import open_world

    world = ctx.params.get("world")
    forms = getattr(open_world(world), "schemas", dict)() if world else {}
    return [name for name in forms if name.startswith(incomplete)]


def _schema_of(world: OpenWorld, option: str) -> Mapping[str, Any]:
    """The JSON Schema of the files that an option takes."""
    from ..wording import nearest

    forms = getattr(world, "schemas", dict)()
    if option not in forms:
        near = nearest(option, forms)
        hint = f"did you mean {near!r}?" if near else f"those of {world.name}: {', '.join(forms) or 'none'}"
        raise InputError(f"--schema-of: no option {option!r} takes files that have a schema; {hint}")
    return forms[option]


def _written(world: str, name: str) -> str:
    """The text of an example of a world."""
    from ..wording import nearest
    from .study.examples import shipped

    files = _files(world)
    if name not in files:
        near = nearest(name, files)
        hint = f"did you mean {near!r}?" if near else f"those of {world}: {', '.join(files) or 'none'}"
        raise InputError(f"--example: no example {name!r}; {hint}")
    return shipped(files[name])


def new(
    world: Annotated[
        str, typer.Argument(help="Which world; without one they are listed.", autocompletion=_worlds)
    ] = "",
    named: Annotated[
        str | None,
        typer.Option("--example", help="A case of this name that somebody wrote instead.", autocompletion=_examples),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of case files instead.")] = False,
    plan_schema: Annotated[
        bool, typer.Option("--plan-schema", help="Print the JSON Schema of its plan files instead.")
    ] = False,
    schema_of: Annotated[
        str | None,
        typer.Option(
            "--schema-of",
            metavar="OPTION",
            autocompletion=_forms,
            help="Print the JSON Schema of the files that an option of its doors takes instead.",
        ),
    ] = None,
) -> None:
    """Write a case to start from: every field with what it is, commented out where its default holds."""
    from ..worlds.cases import example
    from ..worlds.registry import open_world

    if not world:
        typer.echo("\n".join(listed()))
        return
    found = open_world(world)
    if schema_of is not None:
        typer.echo(json.dumps(_schema_of(found, schema_of), indent=2, ensure_ascii=False))
        return
    if plan_schema:
        said = getattr(found, "plan_schema", dict)()
        if not said:
            raise InputError(f"--plan-schema: plan files of {world} have no schema")
        typer.echo(json.dumps(said, indent=2))
        return
    if schema:
        from ..worlds.file.case_schema import json_schema

        typer.echo(json.dumps(json_schema(found), indent=2, ensure_ascii=False))
        return
    if named is not None:
        typer.echo(_written(world, named), nl=False)
        return
    typer.echo(example(found, found.sample), nl=False)
