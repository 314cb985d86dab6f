"""`meshwright new`: a case of a world as a file to start from, or its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from ..errors import InputError

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
) -> None:
    """Write a case to start from: every field with what it is, commented out where its default holds."""
    from ..worlds.cases import example
    from ..worlds.registry import open_world

    if not world:
        typer.echo("\n".join(listed()))
        return
    found = open_world(world)
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
