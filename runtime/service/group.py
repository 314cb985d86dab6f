"""One device of one group, under torchrun: ``torchrun … -m meshwright.runtime.service.group --plan P --group G``."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace

from ...errors import InputError, MeshwrightError
from ...simulator.serving.plan.file import Plan
from ..listening import Listening, add_listening_arguments, listening_of
from ..serving.assignment import device_kind, usable_cores
from ..web import Limits, WebServer, serve_app
from ..web.limits import add_limit_arguments, limits_of
from .http import OPEN_PATHS, Infer, application, read_tokens, write_output
from .layout import Held, held_models, positions
from .member import Member

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="meshwright.runtime.service.group", description=__doc__)
    parser.add_argument("--plan", required=True, help="the plan file")
    parser.add_argument("--group", type=int, required=True, help="number of the group in the plan")
    add_listening_arguments(parser, 8000)
    add_limit_arguments(parser)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="what a device is")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to end. Exit code 2 on a plan or group that cannot be served."""
    options = _parser().parse_args(arguments)
    try:
        _serve(options)
    except MeshwrightError as error:
        print(f"meshwright group {options.group}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _serve(options: argparse.Namespace) -> None:
    where, limits = listening_of(options), limits_of(options)
    plan = Plan.load(options.plan)
    held = held_models(plan, options.group)
    group = plan.groups[options.group]
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size != len(group.devices):
        raise InputError(
            f"started with {size} processes, the group has {len(group.devices)} devices; see torchrun's -n"
        )
    order = positions(plan, group)
    kind = device_kind(plan, options.device)
    if kind == "cpu":
        _pin(group.devices[order[rank]] % plan.cluster.devices_per_node)
    import torch

    torch.set_num_threads(1)
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(device)
    member = Member(held, group.op, group.pp, order, rank, device)
    if member.position > 0:
        # torchrun tells all members at once, but the first still drains: it tells the others when nothing is left.
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, signal.SIG_IGN)
        if os.environ.get("LOCAL_RANK") == "0":  # another node's first process: says that it is up, takes no requests
            _be_healthy(where, limits)
        member.follow()
        return
    member.start()

    def ready(server: WebServer) -> None:
        print(f"group {options.group} ({group.config}) serves {len(held)} models on port {server.port}", flush=True)

    longest = max((model.spec.seq_len for model in held.values()), default=1)
    bounds = replace(limits, body_bytes=body_limit(longest, plan.serving.max_batch))
    app = application(list(held), infer_with(member, held, plan.serving.max_batch))
    serve_app(app, where, bounds, open_paths=OPEN_PATHS, ready=ready)
    member.stop()


def body_limit(seq_len: int, max_batch: int) -> int:
    """Largest body that a request of the longest model needs, with room for spaces; a mebibyte at least."""
    return max(2**20, 64 * seq_len * max_batch)


def infer_with(member: Member, held: dict[str, Held], max_batch: int) -> Infer:
    """`infer` of a group's application; a body is read in a thread, so that nobody waits for it."""

    async def infer(model: str, body: bytes) -> bytes:
        import torch

        spec = held[model].spec
        tokens = await asyncio.to_thread(read_tokens, body, spec.seq_len, spec.vocab, max_batch)
        out = await asyncio.wrap_future(member.submit(model, torch.tensor(tokens)))
        values = out.float()
        return write_output(model, "float32", list(values.shape), values.reshape(-1).tolist())

    return infer


def _be_healthy(where: Listening, limits: Limits) -> None:
    """Answer for health, and for nothing else, in a thread."""

    async def nothing(model: str, body: bytes) -> bytes:
        return b""

    def serve() -> None:
        serve_app(application([], nothing), where, limits, open_paths=OPEN_PATHS)

    threading.Thread(target=serve, daemon=True, name="health").start()


def _pin(number: int) -> None:
    """A CPU device is a core: run on that one alone, before torch makes threads that inherit it."""
    cores = usable_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores[number % len(cores)]})


if __name__ == "__main__":
    main()
