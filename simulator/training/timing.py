"""`Timing`: what the actions of a program take, and over which links their messages go."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .action_columns import REDUCE, UPDATE, B, F, W
from .program import Program
from .program_messages import Messages, Pair, messages_of

__all__ = ["ActionTimes", "Link", "Prepared", "Timing", "prepared"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Link:
    """What one message between two stages takes.

    Parameters
    ----------
    seconds : float
        From when the link is free to when the last byte has arrived.
    gather_s : float
        What the receiving mesh then does to have its shards (the local all-gather), seconds.
    resources : tuple
        What the message occupies meanwhile, by any names: a mesh's ports, a node's network adapters. Messages that
        share one go one after the other, first asked first served.
    """

    seconds: float = 0.0
    gather_s: float = 0.0
    resources: tuple[Hashable, ...] = ()


@dataclass(frozen=True, eq=False)
class Timing:
    """Seconds of the actions of a program.

    Parameters
    ----------
    forward_s, backward_input_s, backward_weight_s : array_like, shape (n_stages,) or (n_stages, n_slices)
        One microbatch (or slice of one). A backward whose weights' half is not split off takes the sum of both.
    reduce_s, update_s : array_like, shape (n_stages,)
        Once an iteration.
    links : mapping, optional
        (what, source stage, target stage) -> `Link`; what is missing takes no time.
    overlap : bool
        Whether messages go beside computation. If not, a sender is busy until its message has arrived, and a receiver
        while it gathers.

    Raises
    ------
    InputError
        If something is negative or not finite.
    """

    forward_s: npt.ArrayLike
    backward_input_s: npt.ArrayLike
    backward_weight_s: npt.ArrayLike = 0.0
    reduce_s: npt.ArrayLike = 0.0
    update_s: npt.ArrayLike = 0.0
    links: Mapping[Pair, Link] = field(default_factory=lambda: MappingProxyType({}))
    overlap: bool = False

    def __post_init__(self) -> None:
        for name in ("forward_s", "backward_input_s", "backward_weight_s", "reduce_s", "update_s"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if not np.all(np.isfinite(values) & (values >= 0)):
                raise InputError(f"Timing.{name}: expected finite seconds >= 0 (got {values.tolist()})")
        for pair, link in self.links.items():
            if not all(np.isfinite(x) and x >= 0 for x in (link.seconds, link.gather_s)):
                raise InputError(f"Timing.links: {pair}: expected finite seconds >= 0 (got {link})")


@dataclass(frozen=True, eq=False)
class Prepared:
    """What both engines run on.

    Parameters
    ----------
    messages : Messages
        Which send each receive waits for.
    duration : ndarray, shape (n,)
        Seconds of each computation; 0 for sends and receives.
    seconds, gather_s : ndarray, shape (n_pairs,)
        Of each message of a pair.
    resources : ndarray of int32, shape (n_pairs, most)
        What each pair's messages occupy, −1 for nothing.
    n_resources : int
        How many there are.
    overlap : bool
        As in `Timing`.
    """

    messages: Messages
    duration: Floats
    seconds: Floats
    gather_s: Floats
    resources: npt.NDArray[np.int32]
    n_resources: int
    overlap: bool


@dataclass(frozen=True, eq=False)
class ActionTimes:
    """When everything happened, seconds.

    Parameters
    ----------
    start, finish : ndarray, shape (n,)
        Of each action: a receive lasts while its mesh waits (and gathers), a send while it keeps its mesh.
    sent, arrived : ndarray, shape (n_messages,)
        When each message's first byte left and its last came; NaN for numbers not in use.
    """

    start: Floats
    finish: Floats
    sent: Floats
    arrived: Floats


def prepared(program: Program, timing: Timing) -> Prepared:
    """Lay the seconds beside the actions.

    Raises
    ------
    InputError
        If the arrays are not of this program's stages and slices.
    """
    c, messages = program.columns, messages_of(program)
    slices = int(c.slice.max(initial=0)) + 1
    table = np.zeros((9, program.n_stages, slices))
    for op, name in ((F, "forward_s"), (B, "backward_input_s"), (W, "backward_weight_s")):
        table[op] = _shaped(getattr(timing, name), (program.n_stages, slices), name)
    for op, name in ((REDUCE, "reduce_s"), (UPDATE, "update_s")):
        table[op] = _shaped(getattr(timing, name), (program.n_stages, 1), name)
    flat = table.reshape(-1)
    at = c.op.astype(np.int64) * (program.n_stages * slices) + c.stage * slices + c.slice
    duration = flat[at]
    if np.any(table[W]):
        whole = np.flatnonzero((c.op == B) & ~_split(program, slices))
        duration[whole] += table[W][c.stage[whole], c.slice[whole]]
    links = [timing.links.get(pair, Link()) for pair in messages.pairs]
    names = {name: k for k, name in enumerate(dict.fromkeys(name for link in links for name in link.resources))}
    most = max((len(link.resources) for link in links), default=0)
    resources = np.full((len(links), most), -1, dtype=np.int32)
    for k, link in enumerate(links):
        resources[k, : len(link.resources)] = [names[name] for name in link.resources]
    seconds = np.array([link.seconds for link in links], dtype=np.float64)
    gather_s = np.array([link.gather_s for link in links], dtype=np.float64)
    return Prepared(messages, duration, seconds, gather_s, resources, len(names), timing.overlap)


def _shaped(values: npt.ArrayLike, shape: tuple[int, int], name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(f"Timing.{name}: expected {shape[0]} stages, or stages x slices (got {array.shape})") from None


def _split(program: Program, slices: int) -> npt.NDArray[np.bool_]:
    """For each action, whether the weights' half of its stage, microbatch and slice is an action of its own."""
    c = program.columns
    unit = (c.stage.astype(np.int64) * program.microbatches + c.microbatch) * slices + c.slice
    split = np.zeros(program.n_stages * program.microbatches * slices, dtype=bool)
    split[unit[c.op == W]] = True
    return split[unit]
