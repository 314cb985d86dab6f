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
        "figure01": "meshwright.reproduce.alpaserve.fig01",
        "figure02": "meshwright.reproduce.alpaserve.fig02",
        "figure04": "meshwright.reproduce.alpaserve.fig04",
        "figure05": "meshwright.reproduce.alpaserve.fig05",
        "figure06": "meshwright.reproduce.alpaserve.fig06",
        "figure07": "meshwright.reproduce.alpaserve.fig07",
        "figure08": "meshwright.reproduce.alpaserve.fig08",
        "figure09": "meshwright.reproduce.alpaserve.fig09",
        "figure10": "meshwright.reproduce.alpaserve.fig10",
        "figure12": "meshwright.reproduce.alpaserve.fig12",
        "figure13": "meshwright.reproduce.alpaserve.fig13",
        "figure14": "meshwright.reproduce.alpaserve.fig14",
        "figure15": "meshwright.reproduce.alpaserve.fig15",
        "figure16": "meshwright.reproduce.alpaserve.fig16",
        "figure17": "meshwright.reproduce.alpaserve.fig17",
        "table1": "meshwright.reproduce.alpaserve.table1",
        "table2": "meshwright.reproduce.alpaserve.table2",
        "table2_1": "meshwright.reproduce.terapipe.table1",
        "table2_2": "meshwright.reproduce.terapipe.table2",
        "table2_3": "meshwright.reproduce.terapipe.table3",
        "table2_4": "meshwright.reproduce.terapipe.table4",
        "figure2_3": "meshwright.reproduce.terapipe.fig3",
        "figure2_5": "meshwright.reproduce.terapipe.fig5",
        "figure2_6": "meshwright.reproduce.terapipe.fig6",
        "figure2_7": "meshwright.reproduce.terapipe.fig7",
        "figure3_07": "meshwright.reproduce.alpa.fig07",
        "figure3_08": "meshwright.reproduce.alpa.fig08",
        "figure3_09": "meshwright.reproduce.alpa.fig09",
        "figure3_10": "meshwright.reproduce.alpa.fig10",
        "figure3_11": "meshwright.reproduce.alpa.fig11",
        "figure3_12": "meshwright.reproduce.alpa.fig12",
        "table3_5": "meshwright.reproduce.alpa.table5",
        "graphpipe3_6": "meshwright.reproduce.graphpipe.fig6",
        "graphpipe3_7": "meshwright.reproduce.graphpipe.fig7",
        "graphpipe3_9": "meshwright.reproduce.graphpipe.fig9",
        "graphpipe_table3_1": "meshwright.reproduce.graphpipe.table1",
        "themis_figure1": "meshwright.reproduce.themis.fig01",
        "themis_figure2": "meshwright.reproduce.themis.fig02",
        "themis_figure3": "meshwright.reproduce.themis.fig03",
        "themis_figure4": "meshwright.reproduce.themis.fig04",
        "themis_figure5": "meshwright.reproduce.themis.fig05",
        "themis_figure8": "meshwright.reproduce.themis.fig08",
        "themis_table1": "meshwright.reproduce.themis.table1",
        "themis_table2": "meshwright.reproduce.themis.table2",
        "themis_table4": "meshwright.reproduce.themis.table4",
        "figure4_1": "meshwright.reproduce.cache_parallel.fig1",
        "figure4_2": "meshwright.reproduce.cache_parallel.fig2",
        "figure4_3": "meshwright.reproduce.cache_parallel.fig3",
        "figure4_4": "meshwright.reproduce.cache_parallel.fig4",
        "figure4_5": "meshwright.reproduce.cache_parallel.fig5",
        "figure5_02": "meshwright.reproduce.vllm.fig02",
        "figure5_11": "meshwright.reproduce.vllm.fig11",
        "figure5_12": "meshwright.reproduce.vllm.fig12",
        "figure5_13": "meshwright.reproduce.vllm.fig13",
        "figure5_14": "meshwright.reproduce.vllm.fig14",
        "figure5_15": "meshwright.reproduce.vllm.fig15",
        "figure5_16": "meshwright.reproduce.vllm.fig16",
        "figure5_17": "meshwright.reproduce.vllm.fig17",
        "figure5_18": "meshwright.reproduce.vllm.fig18",
        "figure5_19": "meshwright.reproduce.vllm.fig19",
        "table5_1": "meshwright.reproduce.vllm.table1",
        "themis_figure9": "meshwright.reproduce.themis.fig09",
        "themis_figure10": "meshwright.reproduce.themis.fig10",
        "themis_figure11": "meshwright.reproduce.themis.fig11",
        "themis_figure12": "meshwright.reproduce.themis.fig12",
        "themis_figure13": "meshwright.reproduce.themis.fig13",
        "themis_figure14": "meshwright.reproduce.themis.fig14",
        "themis_figure15": "meshwright.reproduce.themis.fig15",
        "themis_figure16": "meshwright.reproduce.themis.fig16",
        "themis_figure17": "meshwright.reproduce.themis.fig17",
        "themis_figure18": "meshwright.reproduce.themis.fig18",
        "themis_figure19": "meshwright.reproduce.themis.fig19",
        "themis_table3": "meshwright.reproduce.themis.table3",
        "themis_table5": "meshwright.reproduce.themis.table5",
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
