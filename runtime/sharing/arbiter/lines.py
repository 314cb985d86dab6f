"""The lines of a journal: each with its number and a checksum over itself and all before it, and what each may say.

``{"n": 3, "sum": "0f…", "op": "advance", "now_s": 5.0}``: the checksum of a line is made of that of the line before,
its number and the bytes of what it says; the first line names its run. So a line that is missing, doubled, moved,
edited or of another file is found, and which it is. Only what a writer's death leaves, the beginning of a last line
without its end, is no damage.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ....errors import InputError
from ....wording import amiss, dotted, short
from ..messages import Hello, State

__all__ = ["FORMAT", "Line", "Lines", "Place", "line_of", "parse"]

Line = dict[str, Any]
"""What a line says: its `op`, and the fields of that."""

FORMAT = 2
"""Written into the first line; 1 had neither numbers nor checksums."""

_LINE = re.compile(rb'\{"n": ([1-9][0-9]{0,14}), "sum": "([0-9a-f]{16})", ("op": .*\})', re.DOTALL)
_CUT = re.compile(rb'[0-9a-f]{0,16}|[0-9a-f]{16}"[ -~]*')
_MEND = "give the --journal of an arbiter as it was written"


@dataclass(frozen=True, slots=True)
class Place:
    """The end of a journal: the number and the checksum of its last line.

    Parameters
    ----------
    number : int
        Number of the last line; 0 if there is none.
    checksum : str
        Checksum of the last line and all before it.
    """

    number: int = 0
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """The content of a journal.

    Parameters
    ----------
    lines : tuple of dict
        Its complete lines.
    end : Place
        Number and checksum of the last complete line.
    size : int
        Bytes of the complete lines.
    torn : int
        Bytes of an incomplete last line, left by a writer that was killed.
    """

    lines: tuple[Line, ...]
    end: Place
    size: int
    torn: int


def line_of(said: Line, after: Place) -> tuple[bytes, Place]:
    """The bytes of a line, and where the journal ends with it."""
    body = json.dumps(said, allow_nan=False).encode()[1:]
    place = Place(after.number + 1, _checksum(after, after.number + 1, body))
    return _head(place.number) + f'{place.checksum}", '.encode() + body + b"\n", place


def parse(data: bytes, where: str) -> Lines:
    """The lines of a journal.

    Parameters
    ----------
    data : bytes
        All of it.
    where : str
        Its path, for messages.

    Raises
    ------
    InputError
        The first line that is not what was written there.
    """
    *texts, rest = data.split(b"\n")
    end, found = Place(), list[Line]()
    for number, text in enumerate(texts, start=1):
        line, end = _read(text, end, f"{where}:{number}")
        if (number == 1) != (line["op"] == "task"):
            says = "it does not begin with a task" if number == 1 else "a second task"
            raise InputError(f"{where}:{number}: no journal: {says}; {_MEND}")
        found.append(line)
    if rest:
        _check_torn(rest, end, f"{where}:{end.number + 1}")
    if not found:
        raise InputError(f"{where}:1: no journal: it does not begin with a task; {_MEND}")
    return Lines(tuple(found), end, len(data) - len(rest), len(rest))


def _read(text: bytes, before: Place, where: str) -> tuple[Line, Place]:
    """What a line says, and where the journal ends with it."""
    matched = _LINE.fullmatch(text)
    due = before.number + 1
    if matched is None:
        if due == 1 and text.startswith(b'{"op": "task"'):
            raise InputError(f"{where}: written by an older version (format 1, now {FORMAT}); resume it with that one")
        raise InputError(f"{where}: damaged: no line of a journal (got {short(text[:60])}); {_MEND}")
    number = int(matched[1])
    if number != due:
        what = f"line {due} is missing" if number > due else f"line {number} again, or out of its place"
        raise InputError(f"{where}: damaged: {what}; {_MEND}")
    place = Place(number, matched[2].decode())
    if _checksum(before, number, matched[3]) != place.checksum:
        raise InputError(
            f"{where}: damaged: its checksum does not fit what it says and what stands before it (edited, or of "
            f"another journal); {_MEND}"
        )
    line: Line = json.loads(b"{" + matched[3])
    _check_said(line, where)
    return line, place


def _check_torn(rest: bytes, end: Place, where: str) -> None:
    """See that bytes without a line's end are the beginning of the next line, and not a whole one that was damaged."""
    due, head = end.number + 1, _head(end.number + 1)
    begins = head.startswith(rest) or (rest.startswith(head) and _CUT.fullmatch(rest, len(head)))
    for brace in re.finditer(rb"\}.", rest, re.DOTALL):
        whole = _LINE.fullmatch(rest, 0, brace.start() + 1)
        if whole is not None and _checksum(end, due, whole[3]) == whole[2].decode():
            begins = False  # all of it is there, and then something else than its end
    if not begins:
        raise InputError(f"{where}: damaged: not the beginning of line {due} (got {short(rest[:60])}); {_MEND}")


def _head(number: int) -> bytes:
    return f'{{"n": {number}, "sum": "'.encode()


def _checksum(before: Place, number: int, body: bytes) -> str:
    return hashlib.blake2b(f"{before.checksum} {number} ".encode() + body, digest_size=8).hexdigest()


# ---- what a line may say


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Task(_Said):
    op: Literal["task"]
    format: int
    run: str = ""
    task: Any = None
    limit_s: float = 0.0
    port: int = 0


class _Hello(_Said):
    op: Literal["hello"]
    app: int = Field(ge=0)
    hello: Hello


class _Begin(_Said):
    op: Literal["begin"]
    epoch: float


class _Told(_Said):
    """``said``: what an agent said by itself; ``arrive``, ``update``: what the books were told of it."""

    op: Literal["said", "arrive", "update"]
    app: int = Field(ge=0)
    state: State


class _Lost(_Said):
    op: Literal["lost"]
    app: str
    at_s: float
    why: str


class _Passed(_Said):
    op: Literal["advance", "lapse"]
    now_s: float = Field(ge=0)


class _Leave(_Said):
    op: Literal["leave"]
    app: int = Field(ge=0)
    completed: bool


class _Switch(_Said):
    op: Literal["switch"]
    machine: int = Field(ge=0)
    up: bool


class _Take(_Said):
    op: Literal["take"]
    app: int = Field(ge=0)
    gpus: tuple[int, ...]


class _Decide(_Said):
    op: Literal["decide"]
    given: dict[str, tuple[int, ...]]


_ANY: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        _Task | _Hello | _Begin | _Told | _Lost | _Passed | _Leave | _Switch | _Take | _Decide,
        Field(discriminator="op"),
    ]
)


def _check_said(line: Line, where: str) -> None:
    """See that a line says something that this version knows: it may be of a newer one."""
    try:
        _ANY.validate_python(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{where}: {dotted(first['loc'])}: {amiss(first)}") from None
    if line["op"] == "task" and line["format"] != FORMAT:
        raise InputError(f"{where}: format: expected {FORMAT} (got {line['format']}); resume it with its own version")
