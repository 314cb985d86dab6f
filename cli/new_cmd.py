"""`meshwright new`: a case of a world as a file to start from, or its JSON Schema."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["new"]


def _worlds(incomplete: str) -> list[str]:
    from ..worlds.registry import names

    return [name for name in names() if name.startswith(incomplete)]


def new(
    world: Annotated[str, typer.Argument(help="Which world: serving, llm, training, sharing.", autocompletion=_worlds)],
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of case files instead.")] = False,
) -> None:
    """Write a case to start from: every field with what it is, commented out where its default holds."""
    from ..worlds.cases import example, json_schema
    from ..worlds.registry import open_world

    found = open_world(world)
    if schema:
        typer.echo(json.dumps(json_schema(found), indent=2))
        return
    typer.echo(example(found, found.sample), nl=False)
