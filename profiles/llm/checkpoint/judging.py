"""Fields of a config.json that no part of the reader takes: harmless, empty, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fields import CHANGING, HARMLESS, PARTS, empty

__all__ = ["Judge"]

REASON = {name: why for why, names in HARMLESS.items() for name in names.split()}


class Judge:
    """Judges fields one by one.

    Parameters
    ----------
    wrong : list of str
        What is wrong with the file; lines are added to it.
    """

    def __init__(self, wrong: list[str]) -> None:
        self.wrong = wrong
        self.alike: dict[tuple[str, str], list[str]] = {}  # what fields change, and what helps -> those fields
        self.known = True  # whether the family is: else it is no news that its fields are not

    def __call__(self, field: str, value: Any) -> None:
        """Judge one field: it is known to be harmless, it is empty, or it is an error."""
        if field.startswith("_"):
            return
        if field in CHANGING:
            known = CHANGING[field]
            if not known.harmless(value):
                self.alike.setdefault((known.what, known.mend), []).append(f"{field}: {_short(value)}")
            return
        if field in REASON or empty(value):
            return
        if PARTS.match(field) and isinstance(value, Mapping):
            self.wrong.append(
                f"{field}: {_short(value)}: this part's weights and work are not modelled; give the text part alone "
                f"(what text_config holds, as a file of its own), or ignore=({field!r},) to leave it out"
            )
            return
        if not self.known:
            return
        self.wrong.append(
            f"{field}: {_short(value)}: not known here; if it changes neither weights, KV cache nor FLOPs, take it out "
            f"of the file (or ignore=({field!r},))"
        )

    def sum_up(self) -> None:
        """Add a line for all fields that change the same thing."""
        self.wrong += [f"{', '.join(fields)}: {what}; {mend}" for (what, mend), fields in self.alike.items()]


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
