"""The `meshwright` command: finds the verbs when they are asked for, turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from .. import __version__
from ..compiling import voice
from ..errors import InputError, MeshwrightError, install_hint
from .verbs import COMMANDS, GROUPS, Stopped, Verbs

__all__ = ["COMMANDS", "GROUPS", "app", "run"]

DEBUG = "MESHWRIGHT_DEBUG"
"""Environment variable that asks for tracebacks, as ``--debug`` does."""

INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell reports for a program that SIGINT, or SIGPIPE, ended."""

EXTRAS = {
    "torch": "torch", "pyarrow": "parquet", "dask": "dask", "distributed": "dask", "ray": "ray", "triton": "triton",
    "fastapi": "serve", "uvicorn": "serve",
}  # fmt: skip
"""Module that is not installed -> the extra that brings it."""

# typer carries its own copy of click by now and used the installed one before: both name the class so.
_UsageError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if issubclass(c, Exception) and c.__name__ == "ClickException"
)

app = typer.Typer(
    cls=Verbs,
    name="meshwright",
    help="Plan how to spread models over devices, simulate the plan, run it for real, and compare.",
    epilog="Exit codes: 0 success, 1 a check or run failed, 2 bad input, 3 no feasible plan.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"meshwright {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (also after the verb).")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """`run` takes ``--debug`` out wherever it stands; the options are here for ``--help``."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns
    -------
    int
        The exit code: 0 success, 1 a check or run failed, 2 bad input, 3 no feasible plan; 130 interrupted, 141
        nobody reads the output any more.
    """
    words, debug = _without_debug(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        return _guarded(words, debug)


def _guarded(words: list[str], debug: bool) -> int:
    """`run`, with every error as one line and an exit code."""
    try:
        with voice():
            code = app(args=words, prog_name="meshwright", standalone_mode=False)
        sys.stdout.flush()
    except (Stopped, KeyboardInterrupt, BrokenPipeError, typer.Abort) as error:
        return _stopped(error)
    except _UsageError as error:
        return _usage(error)
    except Exception as error:
        if debug:
            raise
        return _fail(*_line(error))
    return code if isinstance(code, int) else 0


def _show_warning(default: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """A warning of ours in one line, without the line of code that it comes from; others as they are."""
    if category.__module__.startswith(__name__.partition(".")[0] + "."):
        print(f"warning: {message}", file=sys.stderr)
    else:
        default(message, category, *where)


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """``--debug`` is taken before and after the verb, but not behind a bare ``--``."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return kept + words[end:], len(kept) < end or bool(os.environ.get(DEBUG))


def _stopped(error: BaseException) -> int:
    """Ctrl-C is said; a reader that left (``| head``) is not: nobody reads."""
    if not isinstance(error.__cause__ or error, BrokenPipeError):
        return _fail("interrupted", INTERRUPTED)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit then goes nowhere
    return PIPE_CLOSED


def _fail(message: str, code: int) -> int:
    print(f"meshwright: {message}", file=sys.stderr)
    return code


def _line(error: Exception) -> tuple[str, int]:
    """What to print for an error, and the exit code."""
    if isinstance(error, MeshwrightError):
        return str(error), error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        extra = EXTRAS[error.name]
        return (
            f"this needs {error.name}, which is not installed; {install_hint(extra)}",
            InputError.exit_code,
        )
    if isinstance(error, MemoryError):
        return f"memory is short: {error or 'nothing more was given'}; ask for less, or take a larger machine", 1
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return f"{error.filename}: {error.strerror}", InputError.exit_code
    if isinstance(error, OSError):
        return str(error), 1
    return f"internal error: {type(error).__name__}: {error}; run it again with --debug for the traceback", 1


def _usage(error: Exception) -> int:
    """A wrong option, a missing argument, no argument at all: typer's message in one line."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help text
        print(context.get_help() if context else error, file=sys.stderr)
        return InputError.exit_code
    path = context.command_path if context else "meshwright"
    message = " ".join(error.format_message().split()).rstrip(".")  # pyright: ignore[reportAttributeAccessIssue]
    print(f"{path}: {message}; see '{path} --help'", file=sys.stderr)
    return InputError.exit_code
