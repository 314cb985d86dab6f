"""The study files that ship, to start from."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..errors import InputError

__all__ = ["EXAMPLES", "example_text", "shipped"]

EXAMPLES = {
    "capacity": "capacity-study.yaml",
    "sweep": "sweep.yaml",
    "headroom": "headroom.yaml",
    "breaks": "breaks-first.yaml",
    "llm": "llm-capacity.yaml",
    "sharing": "sharing-study.yaml",
    "training": "training-study.yaml",
}
"""Name -> file of `examples/`, which is shipped as data of the package."""


def example_text(name: str) -> str:
    """The text of an example.

    Raises
    ------
    InputError
        If there is none of that name; names the nearest.
    """
    known = EXAMPLES | {Path(file).stem: file for file in EXAMPLES.values()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the examples are {', '.join(EXAMPLES)}"
        raise InputError(f"--example: no example {name!r}; {hint}")
    return shipped(known[name])


def shipped(file: str) -> str:
    """The text of a file of `examples/`."""
    return (Path(__file__).resolve().parents[1] / "examples" / file).read_text(encoding="utf-8")
