"""`join`: agents for apps of an arbiter that runs already, in processes under this one."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from ....errors import InputError
from ....simulator.sharing.world import SharingWorld
from ....wording import nearest
from ...listening import bearer_header, token_of
from ...termination import Termination
from ..documents import from_document
from ..options import RunOptions
from .fleet import AgentFleet

__all__ = ["join"]


def join(
    port: int, names: Sequence[str] = (), folder: Path | None = None, *, token: str | None = None
) -> dict[str, str]:
    """Start agents for an arbiter that is already running, and wait until the last agent has ended.

    Parameters
    ----------
    port : int
        Port on which the arbiter listens on this machine.
    names : sequence of str
        Apps to start agents for; by default all.
    folder : Path, optional
        Where checkpoints and logs go; by default in a temporary folder, gone afterwards.
    token : str, optional
        The arbiter's; by default what the environment's MESHWRIGHT_TOKEN says, if anything.

    Returns
    -------
    dict of str to str
        App -> how its agent ended, ``exit code 0`` if all was well.

    Raises
    ------
    InputError
        If no arbiter answers, an app is unknown, or the folder holds something.
    RunError
        If the processes cannot be started.
    """
    token = token or token_of(None)
    told = _world(port, token)
    world = from_document(SharingWorld, told["world"], "arbiter: world")
    options = from_document(RunOptions, told["options"], "arbiter: options")
    numbers = {app.name: number for number, app in enumerate(world.apps)}
    for name in names:
        if name not in numbers:
            near = nearest(name, numbers)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(numbers)}"
            raise InputError(f"agents: the arbiter has no app {name!r}; {hint}")
    wanted = [numbers[name] for name in dict.fromkeys(names)] or list(numbers.values())
    if folder is None:
        with Termination("agents"), TemporaryDirectory(prefix="meshwright-agents-") as temporary:
            return _stay(world, options, Path(temporary), port, wanted, token)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"agents: {folder} is not empty; checkpoints in it would be resumed")
    folder.mkdir(parents=True, exist_ok=True)
    with Termination("agents"):
        return _stay(world, options, folder, port, wanted, token)


def _world(port: int, token: str | None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    told: Any
    try:
        connection.request("GET", "/world", headers=bearer_header(token))
        response = connection.getresponse()
        told = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise InputError(f"agents: no arbiter at 127.0.0.1:{port}: {error}; start one with serve") from None
    finally:
        connection.close()
    if response.status == 401:
        raise InputError(f"agents: the arbiter at 127.0.0.1:{port} asks for its token; give --token-file")
    if response.status != 200 or not isinstance(told, dict) or not {"world", "options"} <= told.keys():
        raise InputError(f"agents: what answers at 127.0.0.1:{port} is no arbiter; give the port that serve names")
    return cast("dict[str, Any]", told)


def _stay(
    world: SharingWorld, options: RunOptions, folder: Path, port: int, wanted: list[int], token: str | None
) -> dict[str, str]:
    ended: dict[str, str] = {}
    all_over = threading.Event()

    def gone(app: int, how: str) -> None:
        ended[world.apps[app].name] = how
        if len(ended) == len(wanted):
            all_over.set()

    with AgentFleet(world, options, folder, port, gone, wanted, token):
        while not all_over.wait(0.5):
            pass  # in pieces, so that Ctrl-C is heard
    return ended
