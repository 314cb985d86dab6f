"""`meshwright export` of a world file: its policy as settings of another system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..errors import InputError

__all__ = ["export_world"]


def export_world(
    file: Path, to: str, out: Path, *, policy: str, at_s: float | None, namespace: str, force: bool
) -> dict[str, Any]:
    """Write, and say on standard error what of the policy the target keeps.

    Returns
    -------
    dict
        What was written, for machines.

    Raises
    ------
    InputError
        On what is wrong on the command line or in the file.
    """
    from ..runtime.export.sharing import export_sharing, fit_of
    from ..worlds.sharing.build import in_file_words
    from ..worlds.sharing.file import load_world

    loaded = load_world(file)
    called = policy or next(iter(loaded.planners))
    try:
        name = loaded.planner(called).name
    except InputError as error:
        raise InputError(f"--policy: {error}") from None
    made = loaded.policy(called)
    try:
        paths = export_sharing(loaded.world, made, to, out, force=force, namespace=namespace, at_s=at_s)
    except InputError as error:
        raise in_file_words(error) from None
    kept = "yes"
    if to != "scheduler-plugin":
        fit = fit_of(to, name, made.preempts, loaded.world.lease_s)
        kept = fit.kept
        if kept == "no":
            typer.echo(f"{to} cannot express {name}: these are the nearest settings; {out}/plugin runs it", err=True)
        else:
            typer.echo(f"{to} orders apps as {name} does, not everything else; see {out}/README.md", err=True)
    else:
        typer.echo(f"a stub: {out}/README.md says what is yours to write", err=True)
    return {"target": to, "policy": name, "kept": kept, "out": str(out), "files": [str(path) for path in paths]}
