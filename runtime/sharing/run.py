"""`run_sharing`: a world of training apps run for real: an arbiter, agents that train, slots of cores as GPUs."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false, reportUnnecessaryContains=false
import asyncio
import secrets
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from ...errors import InputError
from ...simulator.sharing.policy.contract import Policy
from ...simulator.sharing.world import SharingWorld
from ..termination import Termination
from .agent.fleet import AgentFleet
from .arbiter.lease_clock import Arbiter
from .arbiter.remote import ArbiterProcess
from .arbiter.service import check_installed, listen
from .arbiter.serving import Task
from .choice import PolicyChoice
from .conduct import conduct, rehearse, result_of, time_limit
from .options import RunOptions, check_slots
from .result import RealSharing

__all__ = ["run_sharing"]

READY_S = 60.0
"""How long agents may take to say hello, seconds; as long as they may take to start."""


def run_sharing(
    world: SharingWorld, policy: Policy | PolicyChoice, options: RunOptions | None = None, *,
    arbiter: Literal["thread", "process"] = "thread", restarts: int = 1,
) -> RealSharing:  # fmt: skip
    """Run a world's apps for real, under the same policy object that the simulator drives.

    Each app is a process that trains small torch jobs. A GPU is a slot on this machine's cores, which entitles a job to
    `slot_steps` training steps per second. The slowdown of distant GPUs, and the part of a container's start that this
    machine does not need, are imitated by waiting; see docs/sharing-run.md.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases, what a change of GPUs costs, what fails.
    policy : Policy or PolicyChoice
        The policy that decides which app gets which GPUs.
    options : RunOptions, optional
        How seconds and GPUs of the world map to those of this machine, and the time-outs.
    arbiter : {"thread", "process"}
        Whether the arbiter is a thread of this process, or a process of its own. The latter makes its policy from a
        `PolicyChoice`.
    restarts : int
        How often a killed arbiter process is started again; agents train on meanwhile.

    Raises
    ------
    InputError
        If torch, FastAPI or uvicorn are missing, the cluster has more GPUs than slots here, the cores are too slow for
        them, or the world does not end under this policy.
    RunError
        If the policy fails, agents cannot be started, the arbiter is killed, or the run takes too long.
    SystemExit
        With code 143, if this process is told to terminate (SIGTERM); agents and arbiter were ended.
    """
    options = options or RunOptions()
    if arbiter not in ("thread", "process"):
        raise InputError(f"run_sharing: arbiter: expected thread or process (got {arbiter!r})")
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise InputError(f"run_sharing: restarts: expected an integer >= 0 (got {restarts!r})")
    check_installed()
    check_slots(world, options)
    run: Callable[[Path], RealSharing]
    if arbiter == "thread":
        made = policy.make() if isinstance(policy, PolicyChoice) else policy
        limit_s = time_limit(rehearse(world, made), options)
        run = partial(_in_thread, world, made, options, limit_s)
    elif isinstance(policy, PolicyChoice):
        policy.make()  # what is wrong with it is said before anything starts
        run = partial(_in_process, Task(world, policy, options), restarts)
    else:
        raise InputError(
            f"run_sharing: policy: an arbiter's own process makes its policy by name; give PolicyChoice(name, options) "
            f"(got a {type(policy).__name__})"
        )
    if options.folder is None:
        with Termination("run_sharing"), TemporaryDirectory(prefix="meshwright-sharing-") as temporary:
            return run(Path(temporary))
    if options.folder.exists() and any(options.folder.iterdir()):
        raise InputError(f"run_sharing: folder: {options.folder} is not empty; checkpoints in it would be resumed")
    options.folder.mkdir(parents=True, exist_ok=True)
    with Termination("run_sharing"):
        return run(options.folder)


def _in_thread(world: SharingWorld, policy: Policy, options: RunOptions, limit_s: float, folder: Path) -> RealSharing:
    """The arbiter on a thread of this process."""
    listener = listen()
    loop = asyncio.new_event_loop()

    def gone(app: int, how: str) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(arbiter.gone, app, how)

    token = secrets.token_hex(16)  # others on this machine have no say
    fleet = AgentFleet(world, options, folder, listener.getsockname()[1], gone, token=token)
    arbiter = Arbiter(world, policy, options, fleet.end)
    failures: list[BaseException] = []
    over = threading.Event()

    def work() -> None:
        try:
            loop.run_until_complete(conduct(arbiter, listener, limit_s, ready_s=READY_S, token=token))
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    thread = threading.Thread(target=work, daemon=True, name="arbiter")
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
    return result_of(arbiter, policy)


def _in_process(task: Task, restarts: int, folder: Path) -> RealSharing:
    """The arbiter in a process of its own; agents are this one's."""
    listener, token = listen(), secrets.token_hex(16)
    try:
        with (
            ArbiterProcess(task, listener, folder, restarts, token) as arbiter,
            AgentFleet(task.world, task.options, folder, arbiter.port, arbiter.gone, token=token),
        ):
            return arbiter.wait()
    finally:
        listener.close()
