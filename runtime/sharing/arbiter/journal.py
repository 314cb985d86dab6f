"""`Journal`: a file of what the arbiter did to its books, so that another process can continue where it was killed.

Books and policies know no clock and draw nothing: done again, the same lines make the same books, and give the policy
back what it remembered. Lines are handed to the operating system one by one: they outlive the process, not a power cut.
`journal_lines` says how a line looks, and how damage is found.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ....errors import InputError, RunError
from ....simulator.sharing.policy.contract import Policy
from ....simulator.sharing.world import SharingWorld
from ..messages import State
from .ledger import Decision, Ledger
from .lines import FORMAT, Line, Lines, Place, line_of, parse

__all__ = ["Journal", "KeptLedger", "read_journal"]


class Journal:
    """The arbiter's journal: a file to which lines are appended. Without a path, nothing is kept.

    An existing file is continued, after its lines have been checked. While it is open, no other process may write it.

    Parameters
    ----------
    path : Path, optional
        The file.

    Attributes
    ----------
    lines : tuple of dict
        Lines that the file had when it was opened.

    Raises
    ------
    InputError
        If nothing can be written there, another arbiter writes it, or a line of it is damaged.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.lines, self._end, self._broken = path, tuple[Line, ...](), Place(), ""
        self._file: int | None = None
        if path is None:
            return
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: cannot be written: it is no file; give another path")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError(f"{path}: another arbiter writes this journal; end that one first") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}; give another path") from None
        try:
            if path.stat().st_size:
                held = _read(path)
                _take_off(self._file, path, held)
                self.lines, self._end = held.lines, held.end
        except BaseException:
            self.close()
            raise

    def note(self, op: str, **what: Any) -> None:
        """Add a line.

        Raises
        ------
        RunError
            If it cannot be written: what is not written down must not be done.
        """
        if self._broken:
            raise RunError(self._broken)
        if self._file is None:
            return
        named = {"format": FORMAT, "run": secrets.token_hex(8)} if op == "task" else {}
        said = {"op": op, **named, **what}
        text, self._end = line_of(said, self._end)
        try:
            while text:  # a signal, or a disk that is nearly full, may cut a write short
                text = text[os.write(self._file, text) :]
        except OSError as error:
            self._broken = f"{self.path}: the journal cannot be written: {error.strerror}; the run ends"
            raise RunError(self._broken) from None

    def close(self) -> None:
        """Nothing more will be noted."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_journal(path: Path) -> list[Line]:
    """The lines of a journal. One that was cut short by its writer's death is taken off the file, and that is said.

    Raises
    ------
    InputError
        If it cannot be read, is no journal, or a line of it is damaged.
    """
    held = _read(path)
    if held.torn:
        Journal(path).close()
    return list(held.lines)


def _read(path: Path) -> Lines:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: cannot be read: it is no file; give the --journal of an arbiter")
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give the --journal of an arbiter") from None


def _take_off(file: int, path: Path, held: Lines) -> None:
    """Take a line that was cut short off a journal: what it would have said was never acted upon."""
    if held.torn:
        os.ftruncate(file, held.size)
        print(
            f"{path}:{held.end.number + 1}: cut short when its arbiter ended; taken off, the line before it counts",
            file=sys.stderr, flush=True,
        )  # fmt: skip


class KeptLedger(Ledger):
    """A `Ledger` that notes in a journal whatever changes it.

    Parameters
    ----------
    world, policy
        See `Ledger`.
    journal : Journal
        Where to.
    """

    def __init__(self, world: SharingWorld, policy: Policy, journal: Journal) -> None:
        super().__init__(world, policy)
        self._journal = journal
        self._inside = False  # one change may be made of others: only the outermost is noted

    def advance(self, now_s: float) -> None:
        """See `Ledger.advance`."""
        super().advance(now_s)
        if not self._inside:
            self._journal.note("advance", now_s=now_s)

    def arrive(self, app: int, state: State) -> None:
        """See `Ledger.arrive`."""
        self._inside = True
        super().arrive(app, state)
        self._noted("arrive", app=app, state=state.model_dump(exclude_defaults=True))

    def update(self, app: int, state: State) -> None:
        """See `Ledger.update`."""
        self._inside = True
        super().update(app, state)
        self._noted("update", app=app, state=state.model_dump(exclude_defaults=True))

    def leave(self, app: int, *, completed: bool) -> None:
        """See `Ledger.leave`."""
        outer = not self._inside
        self._inside = True
        super().leave(app, completed=completed)
        if outer:
            self._noted("leave", app=app, completed=completed)

    def switch(self, machine: int, *, up: bool) -> set[int]:
        """See `Ledger.switch`."""
        hit = super().switch(machine, up=up)
        self._journal.note("switch", machine=machine, up=up)
        return hit

    def take(self, app: int, gpus: Iterable[int]) -> None:
        """See `Ledger.take`."""
        gone = sorted(gpus)
        super().take(app, gone)
        if not self._inside:
            self._journal.note("take", app=app, gpus=gone)

    def lapse(self, now_s: float) -> bool:
        """See `Ledger.lapse`."""
        self._inside = True
        any_over = super().lapse(now_s)
        self._inside = False
        if any_over:
            self._journal.note("lapse", now_s=now_s)
        return any_over

    def decide(self) -> Decision:
        """See `Ledger.decide`."""
        self._inside = True
        decision = super().decide()
        self._noted("decide", given={str(app): list(gpus) for app, gpus in decision.given.items()})
        return decision

    def _noted(self, op: str, **what: Any) -> None:
        self._inside = False
        self._journal.note(op, **what)

    def redo(self, line: Mapping[str, Any]) -> None:
        """Do again what a line says, noting nothing; lines that are not of the books are passed over.

        Raises
        ------
        RunError
            If the policy decides otherwise than it did.
        """
        kept, self._journal = self._journal, Journal()
        try:
            self._redo(line)
        finally:
            self._journal = kept

    def _redo(self, line: Mapping[str, Any]) -> None:
        match line["op"]:
            case "advance":
                self.advance(line["now_s"])
            case "arrive":
                self.arrive(line["app"], State.model_validate(line["state"]))
            case "update":
                self.update(line["app"], State.model_validate(line["state"]))
            case "leave":
                self.leave(line["app"], completed=line["completed"])
            case "switch":
                self.switch(line["machine"], up=line["up"])
            case "take":
                self.take(line["app"], line["gpus"])
            case "lapse":
                self.lapse(line["now_s"])
            case "decide":
                given = {str(app): list(gpus) for app, gpus in self.decide().given.items()}
                if given != line["given"]:
                    raise RunError(
                        f"run_sharing: policy {self.policy.name} decides otherwise at {self.now_s:.6g} s than its "
                        f"journal says: its books cannot be gone on with (now {given}, then {line['given']})"
                    )
            case _:
                pass
