"""Ways through a network that between them time every unit once, each in its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

__all__ = ["packed"]


def packed(places: Mapping[int, Sequence[int]], several: Collection[int] = ()) -> list[dict[int, int]]:
    """Units spread over as few passes as a first fit finds.

    Parameters
    ----------
    places : mapping of int to sequence of int
        Unit -> the sets of nodes (bits) at which it occurs. In a pass it is timed at one of them, all else runs eager.
    several : collection of int
        Units with several results: one at most in a pass, because two of them could wait for each other.

    Returns
    -------
    list of dict of int to int
        Per pass unit -> the set of nodes that it is timed at; sets of a pass do not overlap.
    """
    passes, taken = list[dict[int, int]](), list[int]()
    for unit in sorted(places, key=lambda one: (-places[one][0].bit_count(), one)):
        free = [k for k in range(len(passes)) if unit not in several or not any(o in several for o in passes[k])]
        found = next(((k, bits) for k in free for bits in places[unit] if not taken[k] & bits), None)
        if found is None:
            passes.append({})
            taken.append(0)
            found = len(passes) - 1, places[unit][0]
        k, bits = found
        passes[k][unit] = bits
        taken[k] |= bits
    return passes
