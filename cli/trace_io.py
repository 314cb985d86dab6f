"""What the trace verbs share: reading with progress and warnings, model names, splits, tables."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ..traces import Trace

__all__ = [
    "MAX_MODELS", "model_list", "plain_json", "print_frame", "print_json", "progress_bar", "read_trace", "said",
    "split_of",
]  # fmt: skip

MAX_MODELS = 100_000  # as `profiles.profile_set` has it, which generating a trace must not import
"""More models than this on a command line are taken for a slip of the keyboard."""


def model_list(text: str | None) -> list[str] | None:
    """``"8"`` is eight models, model-0 to model-7; otherwise names separated by commas."""
    if text is None:
        return None
    if text.strip().isdecimal():
        count = int(text) if len(text.strip()) < 9 else MAX_MODELS + 1
        if not 1 <= count <= MAX_MODELS:
            raise InputError(f"--models: expected 1 … {MAX_MODELS} models, or their names (got {text[:40]})")
        return [f"model-{i}" for i in range(count)]
    return [name.strip() for name in text.split(",")]


def split_of(text: str) -> Any:
    """``uniform``, ``power_law:0.5``, or shares separated by commas."""
    if text == "uniform":
        return None
    law, _, exponent = text.partition(":")
    try:
        return {"power_law": float(exponent or 0.5)} if law == "power_law" else [float(x) for x in text.split(",")]
    except ValueError:
        raise InputError(
            f"--split: expected uniform, power_law:EXPONENT or shares such as 0.7,0.2,0.1 (got {text!r})"
        ) from None


@contextmanager
def said() -> Iterator[None]:
    """Print the warnings about a trace that come up inside, a line each, to standard error."""
    from ..traces import TraceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TraceWarning)
        yield
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A callback that draws a bar on standard error; None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def read_trace(paths: Sequence[Path], format: str | None, **options: Any) -> Trace:
    """Read a trace with progress and warnings; options that are None were not given."""
    from ..traces import read

    given = {name: value for name, value in options.items() if value is not None}
    path = paths[0] if len(paths) == 1 else list(paths)
    with said(), progress_bar("reading") as progress:
        return read(path, format, progress=progress, **given)


def print_json(value: Any) -> None:
    """Print JSON; what JSON has no word for (NaN, infinity) becomes null."""
    typer.echo(json.dumps(plain_json(value), indent=2, allow_nan=False))


def plain_json(value: Any) -> Any:
    """A value as JSON can say it; what it has no word for (NaN, infinity) becomes null."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_frame(frame: pd.DataFrame) -> None:
    """Print a table for a person."""
    typer.echo(frame.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}"))
