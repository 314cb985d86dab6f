"""`run_sharing`: a world of training apps run for real: an arbiter, agents that train, slots of cores as GPUs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from ...errors import InputError, RunError
from ...simulator.sharing.policy import Policy
from ...simulator.sharing.result import SharingResult
from ...simulator.sharing.world import SharingWorld
from ..assignment import usable_cores
from .arbiter import Arbiter
from .fleet import AgentFleet
from .options import RunOptions, check_slots
from .result import Measured, RealSharing
from .service import check_installed, listen, serve_until

__all__ = ["run_sharing"]

LOAD = 0.7
"""Share of the cores that training on all slots may need: the rest is for talking and for the machine's own life."""


def run_sharing(
    world: SharingWorld, policy: Policy, *, time_scale: float = 60.0, slot_steps: float = 40.0,
    slots_per_core: int = 2, seed: int = 0, folder: Path | str | None = None, answer_s: float = 10.0,
    patience: float = 3.0,
) -> RealSharing:  # fmt: skip
    """Run a world's apps for real, under the very policy object that the simulator drives.

    Each app is a process that trains small torch jobs. A GPU is a slot on this machine's cores: a right to
    `slot_steps` training steps per second. Distance between GPUs, and what of a container's start this machine does
    not need, are waited out; see docs/sharing-run.md.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases, what a change of GPUs costs, what fails.
    policy : Policy
        Who gets GPUs.
    time_scale : float
        Seconds of the world that pass in a real one.
    slot_steps, slots_per_core, seed, folder, answer_s, patience
        See `RunOptions`.

    Raises
    ------
    InputError
        If torch, FastAPI or uvicorn are missing, the cluster has more GPUs than slots here, the cores are too slow for
        them, or the world does not end under this policy.
    RunError
        If the policy fails, agents cannot be started, or the run takes too long.
    """
    options = RunOptions(
        time_scale, slot_steps, slots_per_core, seed, Path(folder) if folder is not None else None, answer_s, patience
    )
    check_installed()
    check_slots(world, options)
    expected = _rehearse(world, policy)
    limit_s = expected.makespan_s / time_scale * patience + 30.0
    if options.folder is None:
        with TemporaryDirectory(prefix="meshwright-sharing-") as temporary:
            return _run(world, policy, options, Path(temporary), limit_s)
    if options.folder.exists() and any(options.folder.iterdir()):
        raise InputError(f"run_sharing: folder: {options.folder} is not empty; checkpoints in it would be resumed")
    options.folder.mkdir(parents=True, exist_ok=True)
    return _run(world, policy, options, options.folder, limit_s)


def _rehearse(world: SharingWorld, policy: Policy) -> SharingResult:
    """Simulate first: a world that does not end is refused, compiled parts of the policy are warm, and it is known how
    long to wait. The policy forgets it."""
    from ...simulator.sharing.reference import simulate_reference

    result = simulate_reference(world, policy)
    begin = getattr(policy, "begin", None)
    if begin is not None:
        begin()
    return result


def _run(world: SharingWorld, policy: Policy, options: RunOptions, folder: Path, limit_s: float) -> RealSharing:
    listener = listen()
    loop = asyncio.new_event_loop()

    def gone(app: int, how: str) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(arbiter.gone, app, how)

    fleet = AgentFleet(world, options, folder, listener.getsockname()[1], gone)
    arbiter = Arbiter(world, policy, options, fleet.end)
    failures: list[BaseException] = []
    over = threading.Event()

    def conduct() -> None:
        try:
            loop.run_until_complete(serve_until(arbiter, listener, _conduct(arbiter, limit_s)))
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    thread = threading.Thread(target=conduct, daemon=True, name="arbiter")
    try:
        with fleet:
            thread.start()
            while not over.wait(0.5):
                pass  # in pieces, so that Ctrl-C is heard; `join` that is interrupted forgets that the thread lives
    finally:
        if thread.ident is not None and not over.is_set():
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
            over.wait(10.0)
        if not loop.is_running():
            loop.close()
        listener.close()
    if failures:
        raise failures[0]
    return _result(arbiter, policy, options)


async def _conduct(arbiter: Arbiter, limit_s: float) -> None:
    try:
        await asyncio.wait_for(arbiter.ready(), limit_s)
        _check_agents(arbiter)
        await asyncio.wait_for(arbiter.run(), limit_s)
    except TimeoutError:
        running = [arbiter.world.apps[a].name for a in sorted(arbiter.ledger.active)]
        raise RunError(
            f"run_sharing: not over after {limit_s:.0f} s of real time; apps in the cluster: {', '.join(running)}; "
            "raise patience, or leave the machine more time (lower slot_steps)"
        ) from None


def _check_agents(arbiter: Arbiter) -> None:
    for app, agent in zip(arbiter.world.apps, arbiter.agents, strict=True):
        if agent.gone:
            raise RunError(f"run_sharing: agent of app {app.name!r} did not start: {agent.gone}")
    step_s = sorted(a.hello.step_s for a in arbiter.agents if a.hello)[len(arbiter.agents) // 2]
    slots, cores = arbiter.world.cluster.n_gpus, len(usable_cores())
    need = slots * arbiter.options.slot_steps * step_s
    if need > LOAD * cores:
        raise InputError(
            f"run_sharing: {slots} slots of {arbiter.options.slot_steps:g} steps/s of {step_s * 1e3:.2g} ms need "
            f"{need:.2g} cores, {LOAD:.0%} of {cores} are there; lower slot_steps to "
            f"{LOAD * cores / (slots * step_s):.3g}"
        )


def _result(arbiter: Arbiter, policy: Policy, options: RunOptions) -> RealSharing:
    last = [a.last for a in arbiter.agents if a.last is not None and a.last.over]
    measured = Measured(
        tuple(p for state in last for p in state.pauses), max((s.behind_s for s in last), default=0.0),
        sum(s.steps for s in last), arbiter.rounds, arbiter.longest_round_s,
    )  # fmt: skip
    result = SharingResult.of(arbiter.world, policy.name, arbiter.ledger.records, arbiter.ledger.granted)
    return RealSharing.from_run(result, options, measured, arbiter.lost)
