"""`Link`: an agent's connection to the arbiter. Commands come in on a thread, answers go out on the caller's."""

from __future__ import annotations

import http.client
import json
import os
import queue
import sys
import threading
import time

from pydantic import BaseModel

from ...listening import bearer_header, token_of
from ..messages import Command

__all__ = ["Link"]

WAIT_S = 0.1
"""Between tries to reach an arbiter that does not answer, real seconds."""


class Link:
    """An agent's connection to the arbiter on this machine.

    An arbiter that is gone may come back: training goes on meanwhile, and messages wait. If it stays away, or gives
    this agent up, the agent ends with exit code 3 and says so on standard error.

    Parameters
    ----------
    port : int
        Port on which the arbiter listens.
    app : int
        Number of the agent's app.
    name : str
        Name of the app.
    orphan_s : float
        Real seconds for which to try to reach the arbiter.
    token : str, optional
        The arbiter's token; by default that of the environment variable MESHWRIGHT_TOKEN, if it is set.
    """

    def __init__(self, port: int, app: int, name: str, orphan_s: float, token: str | None = None) -> None:
        self._headers = {"Content-Type": "application/json"} | bearer_header(token or token_of(None))
        self.port, self.app, self.name, self.orphan_s = port, app, name, orphan_s
        self.over = False  # its app is done: what the arbiter has to say does not matter any more
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._out = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def listen(self) -> None:
        """Take commands from now on."""
        threading.Thread(target=self._listen, daemon=True, name="commands").start()

    def say(self, what: str, message: BaseModel) -> None:
        """Tell the arbiter something."""
        self._request(self._out, "POST", what, message.model_dump_json())

    def _listen(self) -> None:
        # Well above the service's long poll (`roster.POLL_S`): a time-out means that the arbiter hangs.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        after = 0
        while True:
            command = Command.model_validate_json(self._request(connection, "GET", f"command?after={after}", None))
            if command.kind != "wait":
                after = command.seq
                self.commands.put(command)

    def _request(self, connection: http.client.HTTPConnection, method: str, what: str, body: str | None) -> bytes:
        status, said, why = 0, b"", ""
        until = time.monotonic() + self.orphan_s
        while True:
            try:
                connection.request(method, f"/apps/{self.app}/{what}", body, self._headers)
                response = connection.getresponse()
                status, said = response.status, response.read()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                why = str(error) or type(error).__name__
                if time.monotonic() >= until:
                    break
                time.sleep(WAIT_S)
        if status == 200:
            return said
        if status == 0:
            self._end(f"the arbiter at 127.0.0.1:{self.port} does not answer, tried for {self.orphan_s:g} s: {why}")
        self._end(f"the arbiter refused {what!r}: {status} {_detail(said)}")
        return b""  # not reached

    def _end(self, why: str) -> None:
        if self.over and threading.current_thread() is not threading.main_thread():
            sys.exit()  # this thread; the agent ends by itself
        print(f"agent of app {self.name!r}: {why}", file=sys.stderr, flush=True)
        os._exit(3)


def _detail(said: bytes) -> str:
    try:
        return str(json.loads(said)["detail"])
    except (ValueError, KeyError, TypeError):
        return said[:200].decode(errors="replace")
