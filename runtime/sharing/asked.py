"""`told`: what a request's body says, as a message; wrong ones are refused with the field that is wrong."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...wording import amiss, dotted, short
from ..web import JsonRefusal, read_json

__all__ = ["detail", "number_of", "told"]

M = TypeVar("M", bound=BaseModel)


async def told(request: Any, kind: type[M]) -> M:
    """The message in a request's body.

    Raises
    ------
    JsonRefusal
        400 if it is no JSON, 422 if it is no such message.
    """
    said = read_json(await request.body())
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = dotted(first["loc"])
        raise JsonRefusal(422, f"{place + ': ' if place else ''}{amiss(first)}") from None


def number_of(text: str, what: str) -> int:
    """A number in a path or a query.

    Raises
    ------
    JsonRefusal
        422 if it is none.
    """
    if not re.fullmatch("[0-9]{1,15}", text):
        raise JsonRefusal(422, f"{what} (got {short(text)})")
    return int(text)


def detail(_: int, message: str) -> dict[str, str]:
    """The body of an error, as FastAPI has it."""
    return {"detail": message}
