"""Keys and values on their way from prefill to decode engines, compiled: `fleet.network.Network`, and who holds them.

A transfer keeps its sender's and its receiver's NIC (those that `Pools.serialise` says) from when both are free until
its bytes are sent, in the order in which transfers were asked for. It has arrived `latency` later: then the sender's
blocks are free. Its event carries how often the request was tried before, and is void after another try.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.blocks import release
from ..fleet.tables import FleetRules, Tables
from ..rules import BARE, CALL
from .events import MOVED, MOVES, schedule
from .members import let_go, wake
from .tables import Handoff, Ledger

__all__ = ["release_sent", "transfer"]

_inline: Any = inner(**BARE)
_call: Any = inner(**CALL)


@_inline
def _left(h: Handoff, seconds: float, computed: float) -> float:
    """Seconds of a transfer that are left when the prompt's last iteration ends: `Pools.left`."""
    if h.layers == 0 or not seconds < np.inf:
        return seconds
    return max(seconds / h.layers, seconds - computed * (h.layers - 1) / h.layers)


@_call
def transfer(x: FleetRules, s: Tables, d: Ledger, h: Handoff, row: int, blocks: int, now: float) -> None:
    """Blocks of a prompt go from the engine that processed it to the one that decodes."""
    e = d.member[h.sender[row]].slot
    sender, receiver = h.desk[e], h.desk[d.member[h.receiver[row]].slot]
    size = blocks * x.size * h.token_bytes
    # Else it waited for a receiver: nothing was sent while it was computed.
    computed = s.busy[e] - sender.began if s.busy[e] == now else 0.0
    seconds = _left(h, size / h.bandwidth, computed)
    start = now
    if h.by_sender:
        start = max(start, sender.sent)
    if h.by_receiver:
        start = max(start, receiver.received)
    sender.sent = receiver.received = start + seconds
    end = start + seconds + h.latency
    h.time[0, row], h.time[1, row], h.size[row] = start, end, size
    schedule(s, end, MOVES, MOVED, row, d.trip[row].retries)


@_call
def release_sent(x: FleetRules, s: Tables, d: Ledger, h: Handoff, k: int, row: int, now: float) -> None:
    """Prefill engine `k` need not hold a request's blocks any more. They stay in its prefix cache."""
    e = d.member[k].slot
    release(x, s, e, row)
    h.desk[e].held -= 1
    let_go(s, d, k, row, now)
    wake(s, d, k, now)
