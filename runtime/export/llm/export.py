"""`export_llm`: the files that start an LLM plan on vLLM."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .... import __version__
from ....errors import InputError
from ....simulator.llm.plan.file import LLMPlan
from ..options import ExportOptions
from ..tree import File, write_tree
from .k8s import k8s
from .scripts import scripts

__all__ = ["LLM_TARGETS", "export_llm"]

LLM_TARGETS: dict[str, Callable[[LLMPlan, ExportOptions], dict[str, File]]] = {"vllm": scripts, "k8s": k8s}
"""Target -> what makes its files from a plan."""


def export_llm(plan: LLMPlan, to: str, out: str | Path, *, force: bool = False, **options: Any) -> list[Path]:
    """Write the files that start `plan` on vLLM.

    Parameters
    ----------
    plan : LLMPlan
        What to start.
    to : {"vllm", "k8s"}
        Scripts and docker-compose files per node, or Kubernetes manifests.
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
    for what, name, known in (
        ("target", to, list(LLM_TARGETS)),
        *(("option", name, list(ExportOptions.names())) for name in options),
    ):
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"an LLM plan goes to {', '.join(known)}"
            raise InputError(f"export: unknown {what} {name!r}; {hint}")
    files = LLM_TARGETS[to](plan, ExportOptions(**options))
    digest = hashlib.sha256(plan.to_json().encode()).hexdigest()
    about = {"target": f"llm-{to}", "meshwright": __version__, "plan_sha256": digest}
    return write_tree(files, out, about, force)
