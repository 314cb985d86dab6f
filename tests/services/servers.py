"""Every HTTP server that the project has, each in a thread of this process, and raw sockets to talk to it."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshwright.runtime.listening import Listening
from meshwright.runtime.web import Limits, WebServer

TOKEN = "a-token-of-the-tests"
LIMITS = Limits(head_s=1.0, body_s=1.0, idle_s=1.0, write_s=1.0, grace_s=10.0, connections=200)
PATIENCE_S = 60.0
"""How long a test waits for what must come, however late."""


@dataclass(frozen=True)
class Served:
    """A server under test.

    Parameters
    ----------
    server : WebServer
        It.
    health : str
        Path that answers 200.
    path, body : str, bytes
        A POST that is answered with 200 or 201.
    wrong : bytes
        JSON of the wrong kind.
    idle : callable
        Whether nothing of any request is left in it.
    probed : bool
        Whether `health` is answered without the token.
    """

    server: WebServer
    health: str
    path: str
    body: bytes
    wrong: bytes
    idle: Callable[[], bool] = lambda: True
    probed: bool = True

    def head(self, *fields: str, path: str | None = None, token: str | None = TOKEN) -> bytes:
        """A POST's head, without how long its body is."""
        said = [f"POST {path or self.path} HTTP/1.1", "Host: here", "Content-Type: application/json", *fields]
        if token is not None:
            said.append(f"Authorization: Bearer {token}")
        return ("\r\n".join(said) + "\r\n").encode("utf-8")

    def post(self, body: bytes, *fields: str, path: str | None = None) -> bytes:
        """A whole POST."""
        return self.head(f"Content-Length: {len(body)}", "Connection: close", *fields, path=path) + b"\r\n" + body

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE_S)

    def send(self, data: bytes) -> tuple[int, Any]:
        """What comes back: status and JSON. There is exactly one answer."""
        with self.connect() as line:
            line.sendall(data)
            return self.answer(line)

    def answer(self, line: socket.socket) -> tuple[int, Any]:
        """Read to the end."""
        said = b""
        while part := line.recv(65536):
            said += part
        head, _, body = said.partition(b"\r\n\r\n")
        assert b"application/json" in head.lower() or head.startswith(b"HTTP/1.1 200"), said
        return int(head.split()[1]), json.loads(body) if body else None

    def healthy(self) -> bool:
        """Whether it says that it is well, to a probe if it has one."""
        token = "" if self.probed else f"Authorization: Bearer {TOKEN}\r\n"
        said = f"GET {self.health} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{token}\r\n"
        return self.send(said.encode())[0] == 200


def vanish(line: socket.socket) -> None:
    """Leave without a word: the connection is reset."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def until(what: Callable[[], bool]) -> bool:
    """Whether something comes true, however late."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def own_threads() -> int:
    """Threads but those of asyncio's and AnyIO's pools, which stay and are bounded."""
    return sum(not thread.name.startswith(("asyncio_", "AnyIO worker")) for thread in threading.enumerate())


def open_files() -> int:
    """Open files and sockets of this process; 0 where the system does not say."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 0


@contextmanager
def running(server: WebServer) -> Iterator[WebServer]:
    """In a thread, to its end."""
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    try:
        yield server
    finally:
        server.drain()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a server that was told to end goes on"


def _where() -> Listening:
    return Listening(token=TOKEN)


def _endpoint(stack: ExitStack, folder: Path) -> Served:
    from meshwright.profiles.llm.decoder import DecoderSpec
    from meshwright.runtime.llm.engine import LLMEngine
    from meshwright.runtime.llm.engine.endpoint.server import Endpoint

    spec = DecoderSpec("attacked", layers=1, hidden=32, heads=4, ffn=48, vocab=300, kv_heads=2, head_dim=8,
                       max_positions=4096)  # fmt: skip
    engine = LLMEngine(spec, "vllm-v1", {"num_blocks": 600, "block_size": 8, "max_model_len": 4096})
    endpoint = Endpoint(engine)
    server = stack.enter_context(running(endpoint.server(_where(), LIMITS)))

    def idle() -> bool:
        thread = endpoint.thread
        if thread is None:
            return False
        zero = (thread.work.running, thread.work.waiting, thread.usage) == (0, 0, 0.0)
        return zero and not engine.busy and engine.scheduler.pool.free_blocks == 599

    body = json.dumps({"prompt": "hello", "max_tokens": 40, "ignore_eos": True}).encode()
    return Served(server, "/health", "/v1/completions", body, b'{"prompt": {}}', idle)


def plan_of_one() -> Any:
    from meshwright.profiles import ModelProfile
    from meshwright.simulator import Cluster, Group, ParallelConfig, Placement, Plan
    from meshwright.simulator.serving.plan.file import ModelEntry, PlannerEntry, Serving

    one = ParallelConfig(1, 1)
    profile = ModelProfile.from_stages("m", {one: {1: [0.001]}}, weight_bytes={one: [1e6]})
    plan = Plan.of(
        Cluster(1, 1, "cpu-core"), Placement([Group(one, ["m"])]), {"m": profile},
        planner=PlannerEntry(name="test"), serving=Serving(max_batch=1),
    )  # fmt: skip
    models = tuple(ModelEntry(**{**dict(m), "architecture": "cpu-gpt-tiny"}) for m in plan.models)
    return plan.model_copy(update={"models": models})


INFER = json.dumps(
    {"inputs": [{"name": "tokens", "shape": [1, 16], "datatype": "INT64", "data": list(range(16))}]}
).encode()


def _group(stack: ExitStack, folder: Path) -> Served:
    from meshwright.runtime.service.group import body_limit, infer_with
    from meshwright.runtime.service.http import OPEN_PATHS, application
    from meshwright.runtime.service.layout import held_models
    from meshwright.runtime.service.member import Member

    held = held_models(plan_of_one(), 0)
    member = Member(held, 1, 1, [0], 0, "cpu")
    member.start()
    stack.callback(member.stop)
    limits = Limits(**{**_fields(LIMITS), "body_bytes": body_limit(16, 1)})
    app = application(list(held), infer_with(member, held, 1))
    server = stack.enter_context(running(WebServer(app, _where(), limits, open_paths=OPEN_PATHS)))
    return Served(server, OPEN_PATHS[1], "/v2/models/m/infer", INFER, b'{"inputs": 1}', member._inbox.empty)


def _router(stack: ExitStack, folder: Path) -> Served:
    from meshwright.runtime.service.http import OPEN_PATHS, application
    from meshwright.runtime.service.router import Router

    group = _group(stack, folder)
    router = Router(plan_of_one(), [group.server.url], token=TOKEN)
    limits = Limits(**{**_fields(LIMITS), "body_bytes": 2**20})
    app = application(router.models, router.infer)
    server = stack.enter_context(running(WebServer(app, _where(), limits, open_paths=OPEN_PATHS)))

    def idle() -> bool:
        return router._policy.outstanding == [0] and group.idle() and group.server.connections == 0

    return Served(server, OPEN_PATHS[1], "/v2/models/m/infer", INFER, b'{"inputs": 1}', idle)


def _fields(limits: Limits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in limits.__dataclass_fields__}


def _world() -> Any:
    from meshwright.simulator.sharing import App, SharedCluster, SharingWorld

    return SharingWorld(SharedCluster.uniform(1, 2), (App.single("x", 0.0, 100.0, gpus=2),), lease_s=100.0)


def _extender(stack: ExitStack, folder: Path) -> Served:
    from meshwright.runtime.export.sharing import export_sharing
    from meshwright.runtime.sharing.asked import detail
    from meshwright.runtime.sharing.documents import from_document, read_document, to_document
    from meshwright.runtime.sharing.extender.pods_arbiter import Extender
    from meshwright.runtime.sharing.extender.service import OPEN_PATHS, extender_application
    from meshwright.runtime.sharing.extender.task import ExtenderTask
    from meshwright.simulator.sharing import baseline

    export_sharing(_world(), baseline("fifo"), "scheduler-plugin", folder / "plugin")
    task = from_document(ExtenderTask, read_document(folder / "plugin/arbiter.json"), "arbiter.json")
    extender = Extender(task, decides=False)
    extender.register(to_document(_world().apps[0]), 0.0)
    limits = Limits(**{**_fields(LIMITS), "body_bytes": 2**20})
    app = extender_application(extender, lambda: 1.0)
    server = stack.enter_context(running(WebServer(app, _where(), limits, error=detail, open_paths=OPEN_PATHS)))
    return Served(server, "/health", "/apps/x/view", b'{"number": 0, "held": [], "lapsed": []}', b'{"number": -1}')


def _arbiter(stack: ExitStack, folder: Path) -> Served:
    from meshwright.runtime.sharing import Arbiter, RunOptions
    from meshwright.runtime.sharing.arbiter.service import application
    from meshwright.runtime.sharing.asked import detail
    from meshwright.simulator.sharing import baseline

    arbiter = Arbiter(_world(), baseline("fifo"), RunOptions())
    limits = Limits(**{**_fields(LIMITS), "body_bytes": 2**20})
    server = stack.enter_context(running(WebServer(application(arbiter), _where(), limits, error=detail)))
    state = b'{"at_s": 0.0, "phase": 0, "jobs": [{"job": 0, "left_s": 100.0}]}'
    return Served(server, "/", "/apps/0/state", state, b'{"at_s": "x"}', probed=False)


SERVERS: dict[str, Callable[[ExitStack, Path], Served]] = {
    "endpoint": _endpoint,
    "group": _group,
    "router": _router,
    "extender": _extender,
    "arbiter": _arbiter,
}
