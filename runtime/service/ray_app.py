"""The placement as a Ray Serve application. Imported by what `meshwright export --to ray-serve` writes; needs ray."""

# ray is an extra: it is there where this module is imported. Its decorators are opaque to type checkers.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import os
import socket
import threading
from typing import Any

import ray
from ray import serve
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ...simulator.serving.plan.file import Plan
from ..listening import LOOPBACK, Listening, bearer_matches, token_of
from .http import Refusal, read_tokens, write_output
from .layout import deployment_name, equal_groups, held_models
from .member import Member

__all__ = ["build"]

BODY_BYTES = 16 * 2**20
"""Largest request body."""


def _member(plan: Plan, number: int, rank: int, address: str, port: int, kind: str) -> Member:
    """Become one device of a group. Ray shows each actor only its own GPU."""
    import torch

    group = plan.groups[number]
    os.environ |= {
        "MASTER_ADDR": address, "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(len(group.devices)),
    }  # fmt: skip
    torch.set_num_threads(1)
    device = "cuda:0" if kind == "cuda" else "cpu"
    return Member(held_models(plan, number), group.op, group.pp, range(len(group.devices)), rank, device)


@ray.remote
class Follower:
    """A device of a group other than its first."""

    def follow(self, plan: str, number: int, rank: int, address: str, port: int, kind: str) -> None:
        """Serve until the group ends."""
        _member(Plan.from_json(plan), number, rank, address, port, kind).follow()


@serve.deployment
class GroupReplica:
    """One group: this actor is its first device, and starts an actor in the replica's bundles for each other one."""

    def __init__(self, plan: str, number: int, kind: str) -> None:
        document = Plan.from_json(plan)
        self._max_batch = document.serving.max_batch
        self._held = held_models(document, number)
        size = len(document.groups[number].devices)
        address, port = ray.util.get_node_ip_address(), _free_port()
        bundles: Any = ray.util.get_current_placement_group() if size > 1 else None
        self._followers = [
            Follower.options(
                num_cpus=1, num_gpus=int(kind == "cuda"),
                scheduling_strategy=PlacementGroupSchedulingStrategy(bundles, placement_group_bundle_index=rank),
            ).remote()
            for rank in range(1, size)
        ]  # fmt: skip
        self._ended = [
            follower.follow.remote(plan, number, rank, address, port, kind)
            for rank, follower in enumerate(self._followers, 1)
        ]
        self._member = _member(document, number, 0, address, port, kind)
        self._member.start()

    async def infer(self, model: str, body: bytes) -> tuple[int, Any]:
        """Run one request: HTTP status, and the answer's body or the error."""
        import torch

        spec = self._held[model].spec
        try:
            tokens = read_tokens(body, spec.seq_len, spec.vocab, self._max_batch)
        except Refusal as refusal:
            return refusal.status, str(refusal)
        out = await asyncio.wrap_future(self._member.submit(model, torch.tensor(tokens)))
        out = out.float()
        return 200, write_output(model, "float32", list(out.shape), out.reshape(-1).tolist())

    def check_health(self) -> None:
        """Raise if a device of the group is gone: Ray then starts the replica anew."""
        ended, _ = ray.wait(self._ended, timeout=0) if self._ended else ([], [])
        if ended:
            raise RuntimeError("a device of the group has ended")


@serve.deployment
class Ingress:
    """Takes the requests: among the deployments that hold the model, the one with the fewest under way per replica."""

    def __init__(
        self, handles: dict[str, Any], models: dict[str, list[str]], replicas: dict[str, int], host: str
    ) -> None:
        self._token = Listening(host, token=token_of(None)).token  # from the environment of `ray start`
        self._handles, self._models, self._replicas = handles, models, replicas
        self._under_way = dict.fromkeys(handles, 0)
        self._lock = threading.Lock()

    async def __call__(self, request: Request) -> Response:
        """The Open Inference Protocol: ``POST /v2/models/NAME/infer``."""
        parts = request.url.path.strip("/").split("/")
        if parts[:2] == ["v2", "health"]:
            return JSONResponse({})
        if not bearer_matches(request.headers.get("authorization"), self._token):
            said = {"error": "expected the header Authorization: Bearer TOKEN, with this server's token"}
            return JSONResponse(said, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        if request.method != "POST" or len(parts) < 4 or parts[:2] != ["v2", "models"] or parts[-1] != "infer":
            return JSONResponse({"error": "expected POST /v2/models/NAME/infer"}, status_code=404)
        model = "/".join(parts[2:-1])  # the path is unquoted already, and a name may hold a slash
        if model not in self._models:
            return JSONResponse({"error": f"unknown model {model!a:.80}"}, status_code=404)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES:
                return JSONResponse({"error": f"expected a body up to {BODY_BYTES} bytes"}, status_code=413)
        with self._lock:
            name = min(self._models[model], key=lambda n: self._under_way[n] / self._replicas[n])
            self._under_way[name] += 1
        try:
            status, answer = await self._handles[name].infer.remote(model, body)
        finally:
            with self._lock:
                self._under_way[name] -= 1
        if status != 200:
            return JSONResponse({"error": answer}, status_code=status)
        return Response(answer, media_type="application/json")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def build(args: dict[str, str]) -> Any:
    """The application, from the ``args`` of serve-config.yaml: the plan's text, what a device is, where Ray listens."""
    plan = Plan.from_json(args["plan"], "serve-config.yaml: args.plan")
    handles, models, replicas = {}, {}, {}
    for numbers in equal_groups(plan):
        name = deployment_name(numbers[0])
        handles[name] = GroupReplica.options(name=name).bind(args["plan"], numbers[0], args["device"])
        replicas[name] = len(numbers)
        for model in plan.groups[numbers[0]].models:
            models.setdefault(model, []).append(name)
    return Ingress.options(name="ingress").bind(handles, models, replicas, args.get("host", LOOPBACK))
