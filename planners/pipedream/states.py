"""`PipeDreamStates`: the cuts of a layer graph that PipeDream's optimiser considers, as antichains of layers.

A state is an antichain: a set of layers none of which comes before another. It stands for all layers up to it. The next
state replaces a layer that still feeds later ones by one of the layers that it feeds; layers of the antichain that now
lie before another one drop out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import LimitError
from .profile import PipeDreamProfile

__all__ = ["PipeDreamStates", "antichain_states"]

Floats = npt.NDArray[np.float64]
MOST_STATES = 20_000
"""Most states. The table of which state comes before which has the square of this (400 MB), and the programme's time
grows with it; the number itself is a guess. The authors' largest profile has 1,490 states."""


@dataclass(frozen=True, eq=False)
class PipeDreamStates:
    """The states of a profile in a topological order; the last one holds all layers that any of them holds.

    Parameters
    ----------
    members : ndarray of bool, shape (n_states, n_layers)
        The layers of each state.
    before : ndarray of bool, shape (n_states, n_states)
        [i, j]: whether state i comes before state j.
    compute_s, activation_bytes, parameter_bytes : ndarray, shape (n_states,)
        Sums over the layers up to each state.
    output_bytes : ndarray, shape (n_states,)
        Bytes of the results that cross each state: made up to it, and read after it.
    """

    members: npt.NDArray[np.bool_]
    before: npt.NDArray[np.bool_]
    compute_s: Floats
    activation_bytes: Floats
    parameter_bytes: Floats
    output_bytes: Floats


def antichain_states(profile: PipeDreamProfile, *, compat: bool = False) -> PipeDreamStates:
    """List all antichain states of a profile.

    Parameters
    ----------
    profile : PipeDreamProfile
        A profile as `for_planning` returns it.
    compat : bool
        Reproduce the authors' program. It begins at the first layer without inputs; other such layers enter only with
        the layers that read them. And its count of what crosses a state includes every layer of the antichain, and
        every layer before one of these that also feeds something else, even if that lies inside the state.

    Raises
    ------
    LimitError
        If there are too many.
    """
    order = profile.order()
    place = {k: n for n, k in enumerate(order)}
    n = len(order)
    out, before, after = [0] * n, [0] * n, [0] * n
    edges = sorted({(place[a], place[b]) for a, b in profile.edges})
    own = edges
    sources = [place[k] for k in range(n) if all(b != k for _, b in profile.edges)]
    root = -1
    # An empty layer before all sources makes the start a single antichain. It has the last number, so that the numbers
    # of the real layers stay as they are.
    if len(sources) > 1 and not compat:
        root = n
        out, before, after = [*out, 0], [1 << root] * n + [0], [*after, 0]
        edges = [*((root, s) for s in sources), *edges]
    # In the order of the heads: what is before `a` is complete when it is added to what is before `b`.
    for a, b in sorted(edges, key=lambda e: e[1]):
        out[a] |= 1 << b
        before[b] |= before[a] | 1 << a
    # In the reverse order of the tails, so that `after[b]` is complete; the root is before all others, so it is last.
    for a, b in sorted(edges, key=lambda e: -1 if e[0] == root else -e[0] - 2):
        after[a] |= after[b] | 1 << b
    if root >= 0:
        after[root] = (1 << n) - 1
    # Layers before `a` that also feed something which is neither `a` nor before it.
    open_before = [
        sum(1 << p for p in _bits(before[a]) if out[p] & ~(before[a] | 1 << a)) for a in range(len(out))
    ]  # fmt: skip

    def wide(antichain: int) -> int:
        found = antichain
        for a in _bits(antichain):
            found |= open_before[a]
        return found

    start = 1 << (root if root >= 0 else sources[0])
    number: dict[int, int] = {start: 0}
    queue, links = [start], list[tuple[int, int]]()
    for antichain in queue:
        whole = wide(antichain)
        for x in _bits(whole):
            for y in _bits(out[x] & ~antichain):
                if after[y] & whole:
                    continue
                mixed = whole & ~(1 << x) | 1 << y
                following = sum(1 << v for v in _bits(mixed) if not after[v] & mixed)
                if following not in number:
                    number[following] = len(queue)
                    queue.append(following)
                    if len(queue) > MOST_STATES:
                        raise LimitError(
                            f"pipedream: our limit of {MOST_STATES:,} antichain states ended the search, so whether "
                            "there is a plan is not known: they multiply with every parallel branch; fold each branch "
                            "into one layer, or use a planner that works along branches"
                        )
                links.append((number[antichain], number[following]))
    return _states(profile, order, [(a, wide(a)) for a in queue], before, links, root, own, compat)


def _states(
    profile: PipeDreamProfile, order: tuple[int, ...], antichains: list[tuple[int, int]], before: list[int],
    links: list[tuple[int, int]], root: int, edges: list[tuple[int, int]], compat: bool,
) -> PipeDreamStates:  # fmt: skip
    n, size = len(order), len(antichains)
    held: list[int] = []
    for antichain, _ in antichains:
        mask = antichain
        for a in _bits(antichain):
            mask |= before[a]
        held.append(mask)
    # Fewer layers first: a state always comes after those that it contains. Ties by discovery, for a fixed order.
    turn = sorted(range(size), key=lambda s: (held[s].bit_count(), s))
    place = {s: k for k, s in enumerate(turn)}
    reach = np.zeros((size, size), bool)
    into: list[set[int]] = [set() for _ in range(size)]
    for a, b in links:
        if a != b:
            into[place[b]].add(place[a])
    for b in range(size):
        for a in into[b]:
            reach[:, b] |= reach[:, a]
            reach[a, b] = True
    layers = [profile.layers[k] for k in order]
    members = np.array([[held[s] >> v & 1 for v in range(n)] for s in turn], bool).reshape(size, n)
    if compat:
        made = np.array([[antichains[s][1] >> v & 1 for v in range(n)] for s in turn], bool).reshape(size, n)
    else:
        readers = np.zeros((n, n))
        for a, b in edges:
            readers[a, b] = 1.0
        made = np.logical_and(members, (~members).astype(np.float64) @ readers.T > 0)
    bytes_of = np.array([x.activation_bytes for x in layers])
    skip = slice(1, None) if root >= 0 else slice(None)  # the layer of nothing alone is no state
    back = np.argsort(np.array(order))
    return PipeDreamStates(
        members[skip][:, back],
        reach[skip, skip],
        (members @ np.array([x.forward_ms + x.backward_ms for x in layers]) / 1e3)[skip],
        (members @ bytes_of)[skip],
        (members @ np.array([x.parameter_bytes for x in layers]))[skip],
        np.asarray(made @ bytes_of, np.float64)[skip],
    )


def _bits(mask: int) -> list[int]:
    found: list[int] = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
