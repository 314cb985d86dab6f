"""One device of one group, under torchrun: ``torchrun … -m meshwright.runtime.service.group --plan P --group G``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence

from ...errors import InputError, MeshwrightError
from ...simulator.plan import Plan
from ..assignment import device_kind, usable_cores
from .http import read_tokens, serve, write_output
from .layout import held_models, positions
from .member import Member

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="meshwright.runtime.service.group", description=__doc__)
    parser.add_argument("--plan", required=True, help="the plan file")
    parser.add_argument("--group", type=int, required=True, help="number of the group in the plan")
    parser.add_argument("--host", default="0.0.0.0", help="address that the group's first device listens on")
    parser.add_argument("--port", type=int, default=8000, help="port that it listens on")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="what a device is")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to end. Exit code 2 on a plan or group that cannot be served."""
    options = _parser().parse_args(arguments)
    try:
        _serve(options)
    except MeshwrightError as error:
        sys.exit(f"meshwright group {options.group}: {error}")


def _serve(options: argparse.Namespace) -> None:
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
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        if os.environ.get("LOCAL_RANK") == "0":  # another node's first process: says that it is up, takes no requests
            health, _ = serve(options.host, options.port, [], lambda model, body: b"")
            threading.Thread(target=health.serve_forever, daemon=True, name="health").start()
        member.follow()
        return

    def infer(model: str, body: bytes) -> bytes:
        spec = held[model].spec
        tokens = read_tokens(body, spec.seq_len, spec.vocab, plan.serving.max_batch)
        out = member.submit(model, torch.tensor(tokens)).result().float()
        return write_output(model, "float32", list(out.shape), out.reshape(-1).tolist())

    member.start()
    server, port = serve(options.host, options.port, list(held), infer)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"group {options.group} ({group.config}) serves {len(held)} models on port {port}", flush=True)
    server.serve_forever()
    member.stop()


def _pin(number: int) -> None:
    """A CPU device is a core: run on that one alone, before torch makes threads that inherit it."""
    cores = usable_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores[number % len(cores)]})


if __name__ == "__main__":
    main()
