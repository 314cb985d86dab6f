"""`conduct`: one run, from its first agent to its last app, whichever process the arbiter lives in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import InputError, RunError
from ...simulator.sharing.policy.contract import Policy
from ...simulator.sharing.result.columns import SharingResult
from ...simulator.sharing.world import SharingWorld
from ..serving.assignment import usable_cores
from .arbiter.checks import check_app
from .arbiter.comeback import resume
from .arbiter.lease_clock import Arbiter
from .arbiter.service import serve_until
from .messages import Hello
from .options import RunOptions
from .result import Measured, RealSharing

__all__ = ["check_agents", "conduct", "forget", "rehearse", "result_of", "time_limit"]

LOAD = 0.7
"""Share of the cores that training on all slots may need. The rest is for messages and for other processes; a guess,
above which steps are late on a machine of two cores."""


def rehearse(world: SharingWorld, policy: Policy) -> SharingResult:
    """Simulate first: a world that does not end is refused, compiled parts of the policy are warm, and it is known how
    long to wait. The policy forgets it."""
    from ...simulator.sharing.reference.engine import simulate_reference

    result = simulate_reference(world, policy)
    forget(policy)
    return result


def forget(policy: Policy) -> None:
    """A policy that remembers forgets: its world begins."""
    begin = getattr(policy, "begin", None)
    if begin is not None:
        begin()


def time_limit(expected: SharingResult, options: RunOptions) -> float:
    """After how many real seconds a run is given up."""
    return expected.makespan_s / options.time_scale * options.patience + 30.0  # half a minute for starting and ending


async def conduct(
    arbiter: Arbiter, listener: socket.socket, limit_s: float, *, lines: Sequence[dict[str, Any]] = (),
    ready_s: float | None = None, token: str | None = None, up: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Serve agents until the last app has ended.

    Parameters
    ----------
    arbiter : Arbiter
        The arbiter.
    listener : socket
        The socket on which agents reach it.
    limit_s : float
        Real seconds after the start at which the run is given up.
    lines : sequence of dict
        Journal lines of a killed arbiter, whose run this one continues.
    ready_s : float, optional
        Seconds to wait for agents to start; by default without limit.
    token : str, optional
        Token that agents must carry.
    up : callable, optional
        Called when the arbiter takes messages.

    Raises
    ------
    InputError
        If the cores are too slow for the slots.
    RunError
        If an agent does not start, the policy fails, or time is up.
    """

    begun = any(line["op"] == "begin" for line in lines)

    async def whole() -> None:
        if up is not None:
            up()
        try:
            if not begun:
                for line in lines:
                    if line["op"] == "hello":
                        check_app(arbiter.world, line["app"])
                        arbiter.roster.hello(line["app"], Hello.model_validate(line["hello"]))
                async with asyncio.timeout(ready_s):
                    await arbiter.ready()
                check_agents(arbiter)
                arbiter.begin()
            async with asyncio.timeout(limit_s):
                if begun:
                    await resume(arbiter, lines)
                await arbiter.run()
        except TimeoutError:
            missing = [x.name for x, a in zip(arbiter.world.apps, arbiter.agents, strict=True) if not a.hello]
            if missing and not begun:
                raise RunError(f"run_sharing: agents not there after {ready_s} s: {', '.join(missing)}") from None
            running = [arbiter.world.apps[a].name for a in sorted(arbiter.ledger.active)]
            raise RunError(
                f"run_sharing: not over after {limit_s:.0f} s of real time; apps in the cluster: "
                f"{', '.join(running) or 'none'}; raise patience, or leave the machine more time (lower slot_steps)"
            ) from None

    await serve_until(arbiter, listener, whole(), token)


def check_agents(arbiter: Arbiter) -> None:
    """See that every agent started, and that the cores can do what the slots promise."""
    for app, agent in zip(arbiter.world.apps, arbiter.agents, strict=True):
        if agent.gone:
            raise RunError(f"run_sharing: agent of app {app.name!r} did not start: {agent.gone}")
    if not arbiter.agents:
        return
    # The median: agents measure while others start, and some are disturbed.
    step_s = sorted(a.hello.step_s for a in arbiter.agents if a.hello)[len(arbiter.agents) // 2]
    slots, cores = arbiter.world.cluster.n_gpus, len(usable_cores())
    need = slots * arbiter.options.slot_steps * step_s
    if need > LOAD * cores:
        raise InputError(
            f"run_sharing: {slots} slots of {arbiter.options.slot_steps:g} steps/s of {step_s * 1e3:.2g} ms need "
            f"{need:.2g} cores, {LOAD:.0%} of {cores} are there; lower slot_steps to "
            f"{LOAD * cores / (slots * step_s):.3g}"
        )


def result_of(arbiter: Arbiter, policy: Policy) -> RealSharing:
    """What came out."""
    last = [a.last for a in arbiter.agents if a.last is not None and a.last.over]
    measured = Measured(
        tuple(p for state in last for p in state.pauses), max((s.behind_s for s in last), default=0.0),
        sum(s.steps for s in last), arbiter.rounds, arbiter.longest_round_s,
        tuple(a.last.profiled if a.last is not None and a.last.over else () for a in arbiter.agents),
    )  # fmt: skip
    result = SharingResult.of(arbiter.world, policy.name, arbiter.ledger.records, arbiter.ledger.granted)
    return RealSharing.from_run(result, arbiter.options, measured, arbiter.lost)
