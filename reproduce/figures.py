"""How to make one figure, from Python and as `python -m` on its module."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .catalogue import FIGURES, named
from .report import Progress, Report, quiet, verdict_table

__all__ = ["check_takes", "main", "reproduce"]


def reproduce(
    name: str,
    *,
    fast: bool = False,
    out: str | Path = "reproduce-out",
    seed: int = 0,
    progress: Progress = quiet,
    trace: Sequence[str | Path] = (),
    fits: str | Path | None = None,
) -> Report:
    """Make one figure or table: data, picture and verdicts.

    Parameters
    ----------
    name : str
        A key of `FIGURES`, such as vllm/fig12, or the thesis' number for it, vllm/5.12.
    fast : bool
        Seconds instead of minutes: shorter traces, fewer points and repetitions.
    out : path
        Folder for CSV, PNG and JSON; each paper has a folder in it.
    seed : int
        Seed, >= 0.
    progress : callable
        Told of every step.
    trace : sequence of paths
        Your own download of the traces that a figure is of, in place of synthetic traffic of their character.
    fits : path, optional
        Your own download of fitted iteration times (`profiles.llm.load_fits`), in place of a modelled cost.

    Raises
    ------
    InputError
        On an unknown name; the message gives the nearest one. On traces or fits for a figure that takes none.
    """
    figure = named(name)
    check_takes((figure.name,), trace, fits)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed: expected an integer >= 0 (got {seed!r})")
    more: dict[str, Any] = {"trace": [Path(path) for path in trace]} if trace else {}
    more |= {} if fits is None else {"fits": Path(fits)}
    return importlib.import_module(figure.module).run(fast, Path(out), seed, progress, **more)


def check_takes(names: Sequence[str], trace: Sequence[str | Path], fits: str | Path | None) -> None:
    """Refuse traces, and fits, for figures that take none.

    Raises
    ------
    InputError
        Naming the figures that do.
    """
    takes = {"--trace": {n for n, f in FIGURES.items() if f.takes_trace}}
    takes |= {"--fits": {n for n, f in FIGURES.items() if f.takes_fits}}
    what = {"--trace": "figures of the Azure traces are", "--fits": "figures whose iterations may be fitted ones are"}
    for option, given in (("--trace", bool(trace)), ("--fits", fits is not None)):
        others = [name for name in names if name not in takes[option]]
        if given and others:
            more = f" and {len(others) - 1} more" * (len(others) > 1)
            able = ", ".join(sorted(takes[option]))
            raise InputError(f"reproduce: {others[0]}{more}: takes no {option}; {what[option]} {able}")


def main(name: str) -> None:
    """What ``python -m meshwright.reproduce.vllm.fig12`` does: run, print the verdicts."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog=f"python -m {FIGURES[name].module}")
    parser.add_argument("--fast", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--out", default="reproduce-out", help="folder for CSV, PNG and JSON")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    report = reproduce(name, fast=arguments.fast, out=arguments.out, seed=arguments.seed)
    console = Console()
    console.print(f"{report.name}: {report.title} ({report.seconds:.1f} s)")
    console.print(verdict_table([report]))
    for note in report.notes:
        console.print(f"note: {note}")
    console.print("written: " + ", ".join(str(path) for path in report.files), soft_wrap=True)
