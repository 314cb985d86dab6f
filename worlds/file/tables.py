"""The table of fields in the documentation, out of the case models: ``python -m meshwright.worlds.file.tables``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from ..door import DOORS
from ..fields import plain
from ..leaves import Leaf, leaves
from ..registry import WORLDS, open_world
from ..world import OpenWorld

__all__ = ["fields_page", "rows"]

HEAD = """# Every field of every world

This page is written out of the case models: a field is called the same in a case file, as an option of the command
line, as an axis of a study and as a keyword in Python. Where its last word is unambiguous, that is its option and
keyword; everything may be said by its path: `-s workload.rate=60`. *met*: a circumstance, which decisions are compared
within; what is not met is decided.
"""


def fields_page() -> str:
    """All worlds, with their fields and what may be said at their doors."""
    return "\n".join([HEAD, *(line for name in WORLDS for line in _world(open_world(name)))])


def _world(world: OpenWorld) -> Iterator[str]:
    yield f"## {world.name}\n\n{world.title}\n"
    yield from rows(leaves(world.case))
    for name, door in world.doors.items():
        found = leaves(door.options)
        if found:
            yield f"**`meshwright {name} {world.name}`** ({DOORS[name][0].lower()}{DOORS[name][1:-1]}) also takes\n"
            yield from rows(found)


def rows(found: Iterable[Leaf]) -> Iterator[str]:
    """A table of fields."""
    yield "| Field | Option | What it is | Takes | Default |"
    yield "|---|---|---|---|---|"
    for leaf in found:
        takes = "; ".join(word for word in (", ".join(leaf.choices) or " or ".join(leaf.kinds), leaf.bounds) if word)
        says = leaf.says + (" (*met*)" if leaf.circumstance else "")
        cells = (f"`{leaf.path}`", f"`{leaf.flag}`", says, takes, _default(leaf))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(leaf: Leaf) -> str:
    if leaf.required:
        return "must be said"
    value = plain(leaf.default) if leaf.default is not None else None
    return "" if value in (None, "", [], {}) else f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(fields_page())
