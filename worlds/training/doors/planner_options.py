"""The options of planners of training, with what they do."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ....planners.training import planner_options

__all__ = ["described", "options_text"]

WIDTH = 100


def options_text(planners: Sequence[str]) -> tuple[str, Any]:
    """The options of some planners; those with the same options together.

    Returns
    -------
    text : str
        For people.
    document : list
        For machines.

    Raises
    ------
    InputError
        On a planner that plans no training.
    """
    groups: dict[type[Any], list[str]] = {}
    for name in planners:
        groups.setdefault(planner_options(name), []).append(name)
    document = [
        {"planners": names, "options": [
            {"name": o, "default": default, "values": kind, "text": text} for o, default, kind, text in described(c)
        ]}
        for c, names in groups.items()
    ]  # fmt: skip
    lines: list[str] = []
    for options, names in groups.items():
        lines.append(f"options of {', '.join(names)} (-o NAME=VALUE; lists with commas):")
        for name, default, kind, text in described(options):
            lines.append(f"  {name}={default}  ({kind})")
            lines += [f"      {line}" for line in textwrap.wrap(text, WIDTH - 6)]
    return "\n".join(lines), document


def described(options: type[Any]) -> list[tuple[str, str, str, str]]:
    """(name, default, values, text) of each option, from the class and the parameters of its docstring."""
    defaults = {f.name: _plain(f.default) for f in fields(options)}
    page = inspect.getdoc(options) or ""
    body = page.partition("Parameters\n----------\n")[2].partition("\n\nRaises\n")[0]
    said: dict[str, tuple[str, str]] = {}
    for part in re.split(r"\n(?=\S)", body):
        head, _, text = part.partition("\n")
        names, _, kind = head.partition(" : ")
        for name in names.split(","):
            said[name.strip()] = (kind.removesuffix(", optional"), " ".join(text.split()))
    return [(name, default, *said.get(name, ("", ""))) for name, default in defaults.items()]


def _plain(value: Any) -> str:
    """As on the command line: JSON, and text without quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)).replace(" ", "") if isinstance(value, tuple) else str(value)
