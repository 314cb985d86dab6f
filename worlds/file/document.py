"""`YamlDocument`: what a YAML file says, with the line of everything; and errors that name these lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...errors import InputError
from ...wording import dotted
from .errors import Location, explain

__all__ = ["YamlDocument", "listed", "problems", "validate"]

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class YamlDocument:
    """What a YAML file says.

    Parameters
    ----------
    data : dict
        The mapping at its top: text, numbers, booleans, None, lists and dicts with text keys.
    where : str
        Name of the file, for errors.
    """

    data: dict[str, Any]
    where: str
    root: Any = field(default=None, repr=False, compare=False)

    def line(self, loc: Sequence[str | int]) -> int | None:
        """Line of what is at `loc`, counted from 1: of its key where it has one, or of the nearest that encloses it;
        None where there is no file."""
        node, line = self.root, None
        if node is None:
            return None
        for step in loc:
            if node.id == "sequence" and isinstance(step, int) and 0 <= step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line + 1
            elif node.id == "mapping":
                found = next((pair for pair in node.value if pair[0].value == str(step)), None)
                if found is not None:
                    node, line = found[1], found[0].start_mark.line + 1
        return line or self.root.start_mark.line + 1


def problems(document: YamlDocument, found: Iterable[tuple[Sequence[str | int], str]]) -> InputError:
    """One error for all problems of a document: a line for each, in the order of the file.

    Parameters
    ----------
    document : YamlDocument
        Where they are.
    found : iterable of (loc, what)
        Path to each, and what is wrong there.
    """
    return listed(document.where, [(document.line(loc), tuple(loc), what) for loc, what in found])


def validate(document: YamlDocument, model: type[M]) -> M:
    """Build the model that a document describes. Nothing is converted in silence: text is no number, 4.0 no integer.

    Raises
    ------
    InputError
        All that is wrong, at once.
    """
    try:
        return model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        raise problems(document, explain(error, model, document.data)) from None


def listed(where: str, found: Iterable[tuple[int | None, Location, str]]) -> InputError:
    """Each problem once, by line."""
    lines: dict[str, int] = {}
    for line, loc, what in found:
        start = f"{where}:{line}" if line else where
        lines.setdefault(f"{start}: {dotted(loc)}: {what}" if loc else f"{start}: {what}", line or 0)
    return InputError("\n".join(sorted(lines, key=lambda text: lines[text])))
