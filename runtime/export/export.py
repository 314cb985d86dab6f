"""`export`: the files that start a plan on another system."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import InputError
from ...simulator.serving.plan.file import Plan
from .k8s import k8s
from .options import ExportOptions
from .ray_serve import ray_serve
from .torchrun import torchrun
from .tree import File, write_tree
from .triton import triton
from .vllm import vllm

__all__ = ["TARGETS", "export"]

TARGETS: dict[str, Callable[[Plan, ExportOptions], dict[str, File]]] = {
    "torchrun": torchrun,
    "k8s": k8s,
    "ray-serve": ray_serve,
    "triton": triton,
    "vllm": vllm,
}
"""Target -> what makes its files from a plan."""


def export(plan: Plan, to: str, out: str | Path, *, force: bool = False, **options: Any) -> list[Path]:
    """Write the files that start `plan` on another system.

    Parameters
    ----------
    plan : Plan
        What to start.
    to : str
        A key of `TARGETS`.
    out : path
        Folder to write to: new, empty, or an earlier export's (whose files are replaced).
    force : bool
        Write although `out` holds other files.
    **options
        Fields of `ExportOptions`.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        On an unknown target or option, a plan that the target cannot hold, or a folder with other files. Nothing is
        written then.
    """
    if to not in TARGETS:
        near = difflib.get_close_matches(str(to), TARGETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(TARGETS)}"
        raise InputError(f"export: unknown target {to!r}; {hint}")
    unknown = [name for name in options if name not in ExportOptions.names()]
    if unknown:
        near = difflib.get_close_matches(unknown[0], ExportOptions.names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ExportOptions.names())}"
        raise InputError(f"export: unknown option {unknown[0]!r}; {hint}")
    files = TARGETS[to](plan, ExportOptions(**options))
    digest = hashlib.sha256(plan.to_json().encode()).hexdigest()
    about = {"target": to, "meshwright": __version__, "plan_sha256": digest}
    return write_tree(files, out, about, force)
