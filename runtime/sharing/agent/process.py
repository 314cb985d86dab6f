"""`agent`: the process of one app. It waits for its arrival, trains on the slots it is granted, and reports."""

from __future__ import annotations

import queue
import time
from pathlib import Path

from ....simulator.sharing.world import SharingWorld
from ..messages import Answer, Command, Hello
from ..options import RunOptions
from .jobs import AgentJobs
from .link import Link
from .training import Trainer

__all__ = ["agent"]

WARM_STEPS = 20
"""Steps that are timed before the run: some ten milliseconds in all, above the resolution of CPU clocks."""


def agent(world: SharingWorld, index: int, options: RunOptions, folder: Path, port: int) -> None:
    """Be the agent of an app, to its end."""
    import torch

    torch.set_num_threads(1)
    link = Link(port, index, world.apps[index].name, options.orphan_s)
    link.say("hello", Hello(app=world.apps[index].name, step_s=_step_s(options.seed)))
    link.listen()
    begin = link.commands.get()
    jobs = AgentJobs(world, index, options, folder)
    jobs.epoch = begin.epoch
    time.sleep(max(0.0, jobs.clock(jobs.app.arrival_s) - time.monotonic()))
    link.say("state", jobs.state(jobs.app.arrival_s))
    held = False  # whether the arbiter is about to decide: then the app divides nothing by itself
    while jobs.over_at is None:
        command = _next(link, jobs.next_due() - time.monotonic())
        if command is not None:
            held = _obey(jobs, link, command)
        jobs.run_due()
        if not held and jobs.settle():
            link.over = jobs.over_at is not None
            link.say("state", jobs.state(jobs.world_s(time.monotonic())))


def _next(link: Link, wait_s: float) -> Command | None:
    """The next command if one comes before the next step is due."""
    try:
        # The wait may be infinite, which `get` does not take; waking up once an hour does no harm.
        return link.commands.get(timeout=min(wait_s, 3600.0)) if wait_s > 0 else link.commands.get_nowait()
    except queue.Empty:
        return None


def _obey(jobs: AgentJobs, link: Link, command: Command) -> bool:
    """Do as the arbiter says; whether the app is held afterwards."""
    if command.kind == "resume":
        return False
    if command.kind == "report":
        jobs.settle()
    elif command.kind == "release":
        jobs.release(command.gpus, command.at_s)
    elif command.kind == "divide":
        jobs.divide(command.gpus, command.at_s)
    link.over = jobs.over_at is not None
    link.say("answer", Answer(seq=command.seq, state=jobs.state(command.at_s)))
    return command.hold or command.kind != "divide"


def _step_s(seed: int) -> float:
    """CPU seconds of a training step, on a job that is thrown away; it also warms torch up."""
    trainer = Trainer(seed, -1, 0)
    for _ in range(3):
        trainer.step()
    begun = time.process_time()
    for _ in range(WARM_STEPS):
        trainer.step()
    return max(time.process_time() - begun, 1e-6) / WARM_STEPS
