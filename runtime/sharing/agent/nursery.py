"""The parent of all agents: imports torch once, forks one process for each app, and tells when one ends.

Started as ``python -m meshwright.runtime.sharing.agent.nursery <pipe fd> <lifeline fd> <parent pid> <task file>`` by
`fleet.AgentFleet`. Its process ends when its parent's does, and its agents with it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from pathlib import Path

from ....simulator.sharing.world import SharingWorld
from ...children import ending
from ...lifeline import die_with_parent
from ..documents import from_document
from ..options import RunOptions

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Fork the agents and wait for them."""
    descriptor, lifeline, parent = (int(a) for a in arguments[:3])
    task = json.loads(Path(arguments[3]).read_text())
    world = from_document(SharingWorld, task["world"], "world")
    options = from_document(RunOptions, task["options"], "options")
    folder, port = task["folder"], task["port"]
    import torch

    from .process import agent

    torch.set_num_threads(1)
    me = os.getpid()
    agents: dict[int, int] = {}
    for index in task["apps"]:
        pid = os.fork()
        if pid == 0:
            os.close(descriptor)
            code = 1
            try:
                log = os.open(Path(folder) / f"agent-{index}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(log, 1)
                os.dup2(log, 2)
                die_with_parent(lifeline, me)
                agent(world, index, options, Path(folder), port)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        agents[pid] = index
    die_with_parent(lifeline, parent)
    pipe = socket.socket(fileno=descriptor)
    _tell(pipe, {"pids": {str(index): pid for pid, index in agents.items()}})
    while agents:
        pid, status = os.wait()
        index = agents.pop(pid)
        how = ending(os.waitstatus_to_exitcode(status))
        said = (Path(folder) / f"agent-{index}.log").read_text(errors="replace").strip().splitlines()
        _tell(pipe, {"app": index, "how": how + (f": {said[-1]}" if said else "")})
    os._exit(0)


def _tell(pipe: socket.socket, what: dict[str, object]) -> None:
    pipe.sendall(json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
