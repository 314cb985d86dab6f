"""`meshwright doctor`: what is installed, what this machine has, and what of Meshwright works here."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["doctor"]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is installed and what works here. Exit code 1 if what no world can do without does not."""
    from .diagnosis import diagnose

    findings = diagnose()
    if as_json:
        typer.echo(json.dumps(findings, indent=2))
    else:
        for section, entries in findings.items():
            if isinstance(entries, dict):
                typer.echo(f"{section}:")
                width = max(map(len, entries))
                for name, value in entries.items():
                    typer.echo(f"  {name:<{width}}  {_text(value)}")
    if not findings["ok"]:
        raise typer.Exit(1)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not installed" if value is None else str(value)
