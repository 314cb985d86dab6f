"""`resume`: continue after an arbiter that was killed, from its journal. Agents have trained on in the meantime."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ....errors import InputError, RunError
from ..messages import State
from .checks import check_app, check_state
from .lease_clock import Arbiter
from .roster import Lost

__all__ = ["resume"]

SETTLE_S = 0.3
"""After the agents are back, how long to wait for what they could not say before, real seconds: some tries of theirs
(`agent.link.WAIT_S`)."""

SLACK_S = 0.1
"""By how much the books may be ahead of the clock, real seconds: agents and arbiter read it at different instants."""


async def resume(arbiter: Arbiter, lines: Sequence[dict[str, Any]]) -> None:
    """Do again what a journal says, wait for the agents, and make what they have agree with the books.

    Raises
    ------
    InputError
        If a line cannot follow those before it.
    RunError
        If the policy now decides otherwise than it did, or the machine's clock began anew.
    """
    ledger, agents = arbiter.ledger, arbiter.agents
    said: dict[int, State] = {}
    for number, line in enumerate(lines, start=1):
        try:
            _again(arbiter, line, said)
        except RunError:
            raise
        except Exception as error:  # each line is as an arbiter wrote it, but no arbiter would after those before it
            raise InputError(
                f"{arbiter.journal.path or 'journal'}:{number}: {line['op']!r} cannot be done again on the books that "
                f"the lines before it make ({type(error).__name__}: {error}); another run or version wrote it"
            ) from error
    if arbiter.now_s() + SLACK_S * arbiter.options.time_scale < ledger.now_s:
        raise RunError(
            f"run_sharing: the journal has come to {ledger.now_s:.6g} s, this machine's clock only to "
            f"{arbiter.now_s():.6g} s: it was started anew meanwhile, or it is another; start the run afresh"
        )
    for app, record in ledger.records.items():
        if not record.completed:
            agents[app].gone = "given up before the arbiter was started again"
    waiting = [app for app in range(len(agents)) if app not in ledger.records]
    for app in waiting:
        state = said.get(app)
        if state is not None and (state.over or app not in ledger.active):  # told, and not seen to
            arbiter.events.append((app, state))
        if agents[app].command.seq == 0:
            arbiter.roster.tell(app, arbiter.beginning())  # for who had not heard it
    ended = {app for app, state in said.items() if state.over}
    await asyncio.gather(*(_back(arbiter, app) for app in waiting if app not in ended))
    await asyncio.sleep(SETTLE_S)
    arbiter.take_in()
    ledger.advance(arbiter.now_s())
    await arbiter.ask(dict.fromkeys(ledger.active, ()), "report")
    # Who lost GPUs by the books, and was never told, is off them before anybody is given them.
    excess: dict[int, set[int]] = {}
    for app, book in ledger.active.items():
        last = agents[app].last
        has = {g for job in last.jobs for g in job.gpus} if last is not None else set[int]()
        if has - book.gpus:
            excess[app] = has - book.gpus
    await arbiter.change(excess, excess, hold=True)
    await arbiter.round(forced=True)


def _again(arbiter: Arbiter, line: dict[str, Any], said: dict[int, State]) -> None:
    """Do again what a line says; `said` is what agents said by themselves."""
    op = line["op"]
    if op in ("said", "arrive", "update"):
        state = State.model_validate(line["state"])
        check_state(arbiter.world, line["app"], state)
        if op == "arrive" and (line["app"] in arbiter.ledger.active or line["app"] in arbiter.ledger.records):
            raise InputError(f"app {line['app']} has arrived before")
        if op == "said":
            said[line["app"]] = state
        elif op == "update":
            arbiter.agents[line["app"]].last = state
    elif op == "hello":
        check_app(arbiter.world, line["app"])
    elif op == "take" and not all(0 <= g < arbiter.world.cluster.n_gpus for g in line["gpus"]):
        raise InputError(f"there are {arbiter.world.cluster.n_gpus} GPUs (got {line['gpus']})")
    arbiter.ledger.redo(line)
    if op == "begin":
        arbiter.epoch = float(line["epoch"])
    elif op == "lost":
        arbiter.lost.append(Lost(line["app"], line["at_s"], line["why"]))
    elif op == "switch":
        arbiter.machines.remove(next(m for m in arbiter.machines if m[1:] == (line["machine"], line["up"])))


async def _back(arbiter: Arbiter, app: int) -> None:
    try:
        await asyncio.wait_for(arbiter.agents[app].back.wait(), arbiter.options.orphan_s)
    except TimeoutError:
        arbiter.gone(app, f"did not come back to the arbiter within {arbiter.options.orphan_s:g} s")
