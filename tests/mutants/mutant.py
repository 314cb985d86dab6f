"""`Mutant`: one wrong line that some test should notice."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["KINDS", "WORLDS", "Kind", "Mutant", "MutantError", "World"]

Kind = Literal[
    "wrong tie", "off by one", "leaked block", "wrong factor", "swapped link", "missing term", "wrong bound",
    "wrong order", "lost case",
]  # fmt: skip
World = Literal["serving", "llm", "training", "sharing", "planners", "inputs", "runtime"]
KINDS: tuple[str, ...] = Kind.__args__  # type: ignore[attr-defined]
WORLDS: tuple[str, ...] = World.__args__  # type: ignore[attr-defined]


class MutantError(Exception):
    """A mutant that cannot be planted as it is written."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug that is planted.

    Parameters
    ----------
    name : str
        Of this mutant alone.
    world : str
        Whose tests should notice.
    kind : str
        What went wrong.
    edits : tuple of (file, text, replacement)
        Each text stands once in its file. Several where both engines, or a policy and its compiled form, err alike.
    tests : tuple of str
        What pytest is given: related tests, the likeliest first.
    why : str
        What a user would have got.
    """

    name: str
    world: World
    kind: Kind
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]
    why: str

    def __post_init__(self) -> None:
        for field, value, known in (("world", self.world, WORLDS), ("kind", self.kind, KINDS)):
            if value not in known:
                raise MutantError(f"{self.name}: {field}: expected one of {', '.join(known)} (got {value!r})")
        if not self.edits or not self.tests or not self.why:
            raise MutantError(f"{self.name}: expected an edit, a test and a reason")

    @property
    def files(self) -> tuple[str, ...]:
        """Files that are changed."""
        return tuple(dict.fromkeys(file for file, *_ in self.edits))

    def planted(self, root: Path) -> dict[str, str]:
        """What its files read once it is planted.

        Raises
        ------
        MutantError
            If a file is missing, a text does not stand in it exactly once, nothing changes, or it is no Python then.
        """
        texts: dict[str, str] = {}
        for file, old, new in self.edits:
            if not (root / file).is_file():
                raise MutantError(f"{self.name}: no such file: {file}; was it renamed?")
            text = texts.get(file) or (root / file).read_text(encoding="utf-8")
            if text.count(old) != 1 or old == new:
                raise MutantError(
                    f"{self.name}: {file}: expected this text once, and another instead (found {text.count(old)} "
                    f"times); write the mutant anew: {old!r}"
                )
            texts[file] = text.replace(old, new)
        for file, text in texts.items():
            before = ast.dump(ast.parse((root / file).read_text(encoding="utf-8")))
            try:
                after = ast.dump(ast.parse(text))
            except SyntaxError as error:
                raise MutantError(f"{self.name}: {file}: is no Python any more: {error}") from None
            if before == after:
                raise MutantError(f"{self.name}: {file}: reads differently and says the same")
        return texts
