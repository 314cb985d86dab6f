"""`Journal`: what the arbiter did to its books, line by line, so that another process can go on where it was killed.

Books and policies know no clock and draw nothing: done again, the same lines make the same books, and give the policy
back what it remembered. Lines are handed to the operating system one by one: they outlive the process, not a power cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from ...errors import InputError, RunError
from ...simulator.sharing.policy import Policy
from ...simulator.sharing.world import SharingWorld
from .ledger import Decision, Ledger
from .messages import State

__all__ = ["Journal", "KeptLedger", "read_journal"]

Line = dict[str, Any]


class Journal:
    """A file of JSON lines that grows; without a path, nothing is kept.

    Parameters
    ----------
    path : Path, optional
        Where.

    Raises
    ------
    InputError
        If nothing can be written there.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = path.open("a", encoding="utf-8")
            except OSError as error:
                raise InputError(f"{path}: cannot be written: {error.strerror}; give another path") from None

    def note(self, op: str, **what: Any) -> None:
        """Add a line."""
        if self._file is not None:
            self._file.write(json.dumps({"op": op, **what}) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Nothing more will be noted."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_journal(path: Path) -> list[Line]:
    """The lines of a journal. One that was cut short by its writer's death is taken off the file.

    Raises
    ------
    InputError
        If it cannot be read, or is no journal.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give the --journal of an arbiter") from None
    whole = data.rfind(b"\n") + 1
    lines: list[Line] = []
    for number, text in enumerate(data[:whole].splitlines(), start=1):
        try:
            line = json.loads(text)
            lines.append({"op": str(line["op"]), **line})
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{path}: line {number}: no line of a journal; give the --journal of an arbiter") from None
    if not lines or lines[0]["op"] != "task":
        raise InputError(f"{path}: no journal: it does not begin with a task; give the --journal of an arbiter")
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    return lines


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
