"""`Timing`: what the actions of a program take, and over which links their messages go."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown
from . import timing_kernels
from .program.actions import Program
from .program.kernels import RECEIVE, SEND
from .program.messages import Messages, Pair, messages_of

__all__ = ["ActionTimes", "Link", "Prepared", "Timing", "prepared"]

_compiled: Any = timing_kernels  # numba functions have no types

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Link(Shown):
    """Times of a message between two stages, and what it occupies.

    Parameters
    ----------
    seconds : float or array_like, shape (n_microbatches, n_slices)
        Seconds from when the link is free until the last byte has arrived; one number, or one for each message.
    gather_s : float or array_like
        Seconds of the all-gather in the receiving mesh that follows; one number, or one for each message.
    resources : tuple
        What the message occupies meanwhile, under any names: a mesh's ports, a node's network adapters. Messages that
        share a resource go one after another, in the order in which they were requested.
    send_s, receive_s : float
        Seconds that the hosts work for it: the sender's from the start of its send on, also where messages overlap
        computation; the receiver's once the message is there (and gathered).
    """

    seconds: float | Floats = 0.0
    gather_s: float | Floats = 0.0
    resources: tuple[Hashable, ...] = ()
    send_s: float = 0.0
    receive_s: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Timing(Shown):
    """Seconds that the actions of a program take.

    Parameters
    ----------
    forward_s, backward_input_s, backward_weight_s : array_like
        Seconds of a pass of one microbatch, or of one slice of it; shape (n_stages,), (n_stages, n_slices) or
        (n_stages, n_microbatches, n_slices). A backward pass that is not split takes the sum of both halves. Where a
        stage has fewer microbatches or slices than another, the rest of its row is not read.
    reduce_s, update_s : array_like, shape (n_stages,)
        Seconds of the gradient reduction and of the update, once per iteration.
    links : mapping, optional
        (what, source stage, target stage) -> `Link`; missing ones take no time.
    overlap : bool
        Whether messages overlap computation. If not, a sender is busy until its message has arrived, and a receiver is
        busy while it gathers.
    begin_s : array_like, shape (n_meshes,)
        Seconds from an iteration's start until each mesh begins its first action.

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
    begin_s: npt.ArrayLike = 0.0

    def __post_init__(self) -> None:
        for name in ("forward_s", "backward_input_s", "backward_weight_s", "reduce_s", "update_s", "begin_s"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if not np.all(np.isfinite(values) & (values >= 0)):
                raise InputError(f"Timing.{name}: expected finite seconds >= 0 (got {values.tolist()})")
        for pair, link in self.links.items():
            every = (link.seconds, link.gather_s, link.send_s, link.receive_s)
            if not all(np.all(np.isfinite(x) & (np.asarray(x) >= 0)) for x in every):
                raise InputError(f"Timing.links: {pair}: expected finite seconds >= 0 (got {link})")


@dataclass(frozen=True, eq=False)
class Prepared:
    """The seconds of every action and message of a program, as arrays that both engines read.

    Parameters
    ----------
    messages : Messages
        Which send each receive waits for.
    duration : ndarray, shape (n,)
        Seconds of each computation; of sends and receives, those that hosts work.
    seconds, gather_s : ndarray, shape (n_pairs,) or (n_messages,)
        Seconds of a message and of the gather after it: for each pair of stages or, where messages of a pair differ,
        for each message.
    resources : ndarray of int32, shape (n_pairs, most)
        Resources that the messages of each pair occupy; −1 fills the row.
    n_resources : int
        Number of resources.
    overlap : bool
        As in `Timing`.
    begin_s : ndarray, shape (n_meshes,)
        As in `Timing`.
    """

    messages: Messages
    duration: Floats
    seconds: Floats
    gather_s: Floats
    resources: npt.NDArray[np.int32]
    n_resources: int
    overlap: bool
    begin_s: Floats

    def sending_s(self, message: npt.NDArray[np.int64]) -> Floats:
        """Seconds of messages, by their numbers."""
        return self.seconds[message if self.each else message // self.messages.units]

    def gathering_s(self, message: npt.NDArray[np.int64]) -> Floats:
        """Seconds for which the receiver of messages gathers, by their numbers."""
        return self.gather_s[message if self.each else message // self.messages.units]

    @property
    def each(self) -> bool:
        """Whether the messages of a pair differ."""
        return len(self.seconds) != len(self.messages.pairs)


@dataclass(frozen=True, eq=False)
class ActionTimes:
    """When actions and messages began and ended, seconds.

    Parameters
    ----------
    start, finish : ndarray, shape (n,)
        Start and end of each action. A receive lasts while its mesh waits (and gathers), a send while it keeps its mesh
        busy.
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
    shape = (program.n_stages, program.microbatches, slices)
    passes: list[Floats] = []
    steps = np.zeros((3, 4), dtype=np.int64)
    for which, name in enumerate(("forward_s", "backward_input_s", "backward_weight_s")):
        table, apart = _shaped(getattr(timing, name), shape, name)
        steps[which] = (sum(map(len, passes)), *apart)
        passes.append(table)
    once = np.empty((2, program.n_stages))
    for which, name in enumerate(("reduce_s", "update_s")):
        table, (apart, *_) = _shaped(getattr(timing, name), (program.n_stages, 1, 1), name)
        once[which] = table if apart else table[0]
    duration: Floats = _compiled.durations(c.op, c.stage, c.microbatch, c.slice, np.concatenate(passes), steps, once)
    links = [timing.links.get(pair, Link()) for pair in messages.pairs]
    names = {name: k for k, name in enumerate(dict.fromkeys(name for link in links for name in link.resources))}
    most = max((len(link.resources) for link in links), default=0)
    resources = np.full((len(links), most), -1, dtype=np.int32)
    for k, link in enumerate(links):
        resources[k, : len(link.resources)] = [names[name] for name in link.resources]
    each = any(np.ndim(x) for link in links for x in (link.seconds, link.gather_s))
    seconds, gather_s = (
        _of_messages([getattr(link, name) for link in links], messages, slices, name, each)
        for name in ("seconds", "gather_s")
    )
    if any(link.send_s or link.receive_s for link in links):
        hosts = np.array([[link.send_s, link.receive_s] for link in links])
        for way, kind in enumerate((SEND, RECEIVE)):
            rows = messages.kind == kind
            duration[rows] = hosts[messages.pair[rows], way]
    begin_s = np.asarray(timing.begin_s, dtype=np.float64)
    if begin_s.ndim and begin_s.shape != (program.n_meshes,):
        raise InputError(f"Timing.begin_s: expected {program.n_meshes} meshes (got {begin_s.shape})")
    begin_s = np.ascontiguousarray(np.broadcast_to(begin_s, program.n_meshes))
    return Prepared(messages, duration, seconds, gather_s, resources, len(names), timing.overlap, begin_s)


def _of_messages(values: Sequence[float | Floats], messages: Messages, slices: int, name: str, each: bool) -> Floats:
    """Seconds by pair; or if `each` by message, of which a pair has `units`: of no microbatch, then of each."""
    if not each:
        return np.array(values, dtype=np.float64)
    table = np.zeros((len(values), messages.units // slices, slices))
    for k, value in enumerate(values):
        array = np.asarray(value, dtype=np.float64)
        whole = array.ndim == 0 or messages.pairs[k][0] == "tied"
        rows = table[k] if whole else table[k, 1 : 1 + array.shape[0]]
        try:
            rows[...] = array
        except ValueError:
            raise InputError(
                f"Timing.links: {messages.pairs[k]}: {name}: expected at most {table.shape[1] - 1} microbatches x "
                f"{slices} slices (got {array.shape})"
            ) from None
    return table.reshape(-1)


def _shaped(values: npt.ArrayLike, shape: tuple[int, int, int], name: str) -> tuple[Floats, tuple[int, int, int]]:
    """The values flat, and how far apart those of two stages, microbatches and slices are: 0 where they are equal."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim in (1, 2):
        array = array[:, None, :] if array.ndim == 2 else array[:, None, None]
    elif array.ndim == 0:
        array = array[None, None, None]
    if array.ndim != 3 or any(have not in (1, want) for have, want in zip(array.shape, shape, strict=True)):
        raise InputError(
            f"Timing.{name}: expected {shape[0]} stages, or stages x {shape[2]} slices, or stages x {shape[1]} "
            f"microbatches x slices (got {np.shape(values)})"
        )
    stages, rows, columns = array.shape
    apart = (rows * columns if stages > 1 else 0, columns if rows > 1 else 0, 1 if columns > 1 else 0)
    return np.ascontiguousarray(array).reshape(-1), apart
