"""`serve`: the arbiter as a process of its own, from its command line to the result that it leaves in a file."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import InputError, MeshwrightError, RunError
from ....files import check_target, write_text
from ....reprs import Shown
from ....simulator.sharing.world import SharingWorld
from ...lifeline import die_with_parent
from ...listening import token_of
from ...termination import Termination
from ..choice import PolicyChoice, check_named
from ..conduct import conduct, forget, rehearse, result_of, time_limit
from ..documents import from_document, to_document
from ..options import RunOptions, check_slots
from ..result import RealSharing
from .journal import Journal
from .lease_clock import Arbiter
from .service import check_installed, listen

__all__ = ["Handed", "Task", "raise_failure", "serve"]


@dataclass(frozen=True, slots=True, repr=False)
class Task(Shown):
    """What an arbiter needs to start.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases.
    policy : PolicyChoice
        The policy that decides which app gets which GPUs.
    options : RunOptions
        Options of the run.
    """

    world: SharingWorld
    policy: PolicyChoice
    options: RunOptions


@dataclass(frozen=True, slots=True)
class Handed:
    """What a parent hands to the arbiter's process: its end is the arbiter's, too.

    Parameters
    ----------
    listener : int
        Descriptor of the socket on which agents ask. The parent keeps it open: while an arbiter is started again,
        agents that ask are in its queue.
    lifeline : int
        Descriptor of a pipe that breaks with the parent.
    parent : int
        Process id of the parent.
    """

    listener: int
    lifeline: int
    parent: int


def serve(
    task: Task | None, *, port: int = 0, journal: Path | None = None, out: Path | None = None,
    handed: Handed | None = None, token: str | None = None, policy: str | None = None,
) -> RealSharing:  # fmt: skip
    """Run an arbiter in this process until the last app has ended.

    Parameters
    ----------
    task : Task, optional
        What to run; without it, the run that `journal` records is continued.
    port : int
        Port for agents on this machine; 0 takes any free one.
    journal : Path, optional
        File that records what is done, so that an arbiter that was killed can be started again.
    out : Path, optional
        File for the result or, if something went wrong, for the error.
    handed : Handed, optional
        By a parent.
    token : str, optional
        What agents have to carry; by default what the environment's MESHWRIGHT_TOKEN says, if anything.
    policy : str, optional
        The policy that `journal` has to name; a ``module:factory`` of a journal is called only if this says the same.

    Raises
    ------
    InputError
        See `run_sharing`; or if there is nothing to go on with.
    RunError
        See `run_sharing`.
    """
    try:
        token = token or token_of(None)
        if out is not None:
            check_target(out)
        result = _serve(task, port, journal, handed, token, policy)
    except MeshwrightError as error:
        if out is not None and handed is not None:
            write_text(out, json.dumps({"error": type(error).__name__, "message": str(error)}) + "\n")
        raise
    if out is not None:
        result.save(out)
    return result


def raise_failure(said: dict[str, Any]) -> None:
    """Raise what went wrong in an arbiter's process, if its file says so."""
    if "error" in said:
        raise (InputError if said["error"] == "InputError" else RunError)(str(said["message"]))


def _serve(
    task: Task | None, port: int, path: Path | None, handed: Handed | None, token: str | None, named: str | None
) -> RealSharing:  # fmt: skip
    if handed is not None:
        die_with_parent(handed.lifeline, handed.parent)
    check_installed()
    if task is None and path is None:
        raise InputError("serve: expected a world, or the --journal of an arbiter to go on with")
    if task is None and path is not None and not path.exists():
        raise InputError(f"{path}: cannot be read: No such file or directory; give the --journal of an arbiter")
    if task is not None and path is not None and path.exists() and path.stat().st_size:
        raise InputError(f"{path}: another run's journal stands there; --resume goes on with it, or take it away")
    with closing(Journal(path)) as journal:
        return _conduct(task, port, journal, handed, token, named)


def _conduct(
    task: Task | None, port: int, journal: Journal, handed: Handed | None, token: str | None, named: str | None
) -> RealSharing:  # fmt: skip
    lines = journal.lines
    if task is None:
        if not lines:
            raise InputError(f"{journal.path}:1: no journal: it is empty; give the --journal of an arbiter")
        first = lines[0]
        task = from_document(Task, first.get("task"), f"{journal.path}:1: task")
        if handed is None:  # else the parent that goes on with its own journal named it
            check_named(task.policy.name, named, f"{journal.path}:1")
        port, limit_s = port or int(first["port"]), float(first["limit_s"])
        policy = task.policy.make()
        if any(line["op"] == "begin" for line in lines):
            forget(policy)
        else:
            rehearse(task.world, policy)
    else:
        check_slots(task.world, task.options)
        policy = task.policy.make()
        limit_s = time_limit(rehearse(task.world, policy), task.options)
    listener = listen(port) if handed is None else socket.socket(fileno=handed.listener)
    port = listener.getsockname()[1]
    if not lines:
        journal.note("task", task=to_document(task), limit_s=limit_s, port=port)
    arbiter = Arbiter(task.world, policy, task.options, journal=journal)
    termination = Termination("serve")
    if handed is None:  # else its parent is told
        termination.begin()

    def up() -> None:
        if handed is None:
            names = ", ".join(app.name for app in task.world.apps)
            print(f"arbiter at 127.0.0.1:{port}, policy {policy.name}, apps: {names}", file=sys.stderr, flush=True)

    async def whole() -> None:
        # A signal that raises in whichever task runs leaves others that nobody awaits: the loop is told instead.
        with termination.in_loop():
            await conduct(arbiter, listener, limit_s, lines=lines, token=token, up=up)

    try:
        asyncio.run(whole())
    finally:
        listener.close()
        termination.end()
    return result_of(arbiter, policy)
