"""The `meshwright` command: mounts the verbs, turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import __version__
from ..errors import MeshwrightError

__all__ = ["app", "run"]

app = typer.Typer(
    name="meshwright",
    help="Plan how to spread models over devices, simulate the plan, run it for real, and compare.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

GROUPS = ("trace", "profile")
"""Verbs with verbs of their own: module `.<name>` holds a typer app."""

COMMANDS = ("plan", "simulate", "export", "run", "compare", "reproduce", "demo", "doctor")
"""Plain verbs: module `.<name>_cmd` holds a function of that name."""


def _version(value: bool) -> None:
    if value:
        typer.echo(f"meshwright {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if debug:
        os.environ["MESHWRIGHT_DEBUG"] = "1"


def _mount() -> None:
    for name in GROUPS:
        app.add_typer(importlib.import_module(f".{name}", __package__).app, name=name)
    for name in COMMANDS:
        app.command(name)(getattr(importlib.import_module(f".{name}_cmd", __package__), name))


_mount()


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Returns the exit code: 0 success, 1 a check failed, 2 bad input, 3 no feasible plan."""
    try:
        code = app(args=list(arguments), prog_name="meshwright", standalone_mode=False)
    except MeshwrightError as error:
        if os.environ.get("MESHWRIGHT_DEBUG"):
            raise
        print(f"meshwright: {error}", file=sys.stderr)
        return error.exit_code
    except typer.TyperError as error:  # wrong option, missing argument
        error.show()
        return error.exit_code
    except typer.Abort:
        print("meshwright: interrupted", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("meshwright: interrupted", file=sys.stderr)
        return 130
    return code if isinstance(code, int) else 0
