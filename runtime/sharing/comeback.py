"""`resume`: an arbiter goes on after one that was killed, by its journal; agents have trained on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ...errors import RunError
from .arbiter import Arbiter
from .messages import State
from .roster import Lost

__all__ = ["resume"]

SETTLE_S = 0.3
"""After the agents are back, how long to wait for what they could not say before, real seconds."""

SLACK_S = 0.1
"""By how much the books may be ahead of the clock, real seconds."""


async def resume(arbiter: Arbiter, lines: Sequence[dict[str, Any]]) -> None:
    """Do again what a journal says, wait for the agents, and make what they have agree with the books.

    Raises
    ------
    RunError
        If the policy now decides otherwise than it did, or the machine's clock began anew.
    """
    ledger, agents = arbiter.ledger, arbiter.agents
    said: dict[int, State] = {}
    for line in lines:
        ledger.redo(line)
        if line["op"] == "begin":
            arbiter.epoch = float(line["epoch"])
        elif line["op"] == "said":
            said[line["app"]] = State.model_validate(line["state"])
        elif line["op"] == "update":
            agents[line["app"]].last = State.model_validate(line["state"])
        elif line["op"] == "lost":
            arbiter.lost.append(Lost(line["app"], line["at_s"], line["why"]))
        elif line["op"] == "switch":
            arbiter.machines.remove(next(m for m in arbiter.machines if m[1:] == (line["machine"], line["up"])))
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


async def _back(arbiter: Arbiter, app: int) -> None:
    try:
        await asyncio.wait_for(arbiter.agents[app].back.wait(), arbiter.options.orphan_s)
    except TimeoutError:
        arbiter.gone(app, f"did not come back to the arbiter within {arbiter.options.orphan_s:g} s")
