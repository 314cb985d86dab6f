"""Which module makes which figure, and how to run one."""

from __future__ import annotations

import argparse
import difflib
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..errors import InputError
from .report import Progress, Report, quiet, verdict_table

__all__ = ["FIGURES", "main", "reproduce", "titles"]

FIGURES: Mapping[str, str] = MappingProxyType(
    {
        name: f"meshwright.reproduce.{name}"
        for name in (
            *("figure01", "figure02", "figure04", "figure05", "figure06", "figure07", "figure08", "figure09"),
            *("figure10", "figure12", "figure13", "figure14", "figure15", "figure16", "figure17"),
            *("table1", "table2"),
            *("table2_1", "table2_2", "table2_3", "table2_4", "figure2_3", "figure2_5", "figure2_6", "figure2_7"),
            *("figure3_07", "figure3_08", "figure3_09", "figure3_10", "figure3_11", "figure3_12", "table3_5"),
            *("graphpipe3_6", "graphpipe3_7", "graphpipe3_9", "graphpipe_table3_1"),
            *("themis_figure1", "themis_figure2", "themis_figure3", "themis_figure4", "themis_figure5"),
            *("themis_figure8", "themis_table1", "themis_table2", "themis_table4"),
            *("figure4_1", "figure4_2", "figure4_3", "figure4_4", "figure4_5"),
            *("figure5_02", "figure5_11", "figure5_12", "figure5_13"),
            *("figure5_14", "figure5_15", "figure5_16", "figure5_17"),
            *("figure5_18", "figure5_19", "table5_1"),
            *("themis_figure9", "themis_figure10", "themis_figure11", "themis_figure12", "themis_figure13"),
            *("themis_figure14", "themis_figure15", "themis_figure16", "themis_figure17", "themis_figure18"),
            *("themis_figure19", "themis_table3", "themis_table5"),
        )
    }
)
"""Name -> module that makes it. Plain numbers: AlpaServe (OSDI 2023), whose Figures 3 and 11 are drawings without data;
with a chapter: of the thesis of TeraPipe, Alpa, AlpaServe and vLLM, ch. 2 (TeraPipe), ch. 3 (Alpa, whose Figures 3.12
and 3.13 are one here) and ch. 5; of that on GraphPipe and cache parallelism, ch. 3 (graphpipe3_6 …) and ch. 4;
themis_figure1 …: of Themis (NSDI 2020)."""


def reproduce(
    name: str, *, fast: bool = False, out: str | Path = "reproduce-out", seed: int = 0, progress: Progress = quiet
) -> Report:
    """Make one figure or table: data, picture and verdicts.

    Parameters
    ----------
    name : str
        A key of `FIGURES`.
    fast : bool
        Seconds instead of minutes: shorter traces, fewer points and repetitions.
    out : path
        Folder for CSV, PNG and JSON.
    seed : int
        Seed, >= 0.
    progress : callable
        Told of every step.

    Raises
    ------
    InputError
        On an unknown name; the message gives the nearest one.
    """
    if name not in FIGURES:
        near = difflib.get_close_matches(name, FIGURES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(FIGURES)}"
        raise InputError(f"reproduce: unknown figure {name!r}; {hint}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed: expected an integer >= 0 (got {seed!r})")
    return importlib.import_module(FIGURES[name]).run(fast, Path(out), seed, progress)


def titles() -> dict[str, str]:
    """Name -> what it shows."""
    return {name: importlib.import_module(module).TITLE for name, module in FIGURES.items()}


def main(name: str) -> None:
    """What ``python -m meshwright.reproduce.<name>`` does: run, print the verdicts."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog=f"python -m {FIGURES[name]}")
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
