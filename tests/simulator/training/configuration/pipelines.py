"""An independent pipeline: actions of every stage in Megatron-LM's order, run one by one."""

from __future__ import annotations


def actions(pp: int, rank: int, interleave: int, microbatches: int) -> list[tuple[str, int, int]]:
    """(kind, chunk, microbatch) in the order of (interleaved) 1F1B."""
    total = microbatches * interleave

    def at(k: int, backward: bool) -> tuple[int, int]:
        if interleave == 1:
            return 0, k
        chunk = k // pp % interleave
        return (interleave - 1 - chunk if backward else chunk), k // (pp * interleave) * pp + k % pp

    warm = pp - rank - 1 if interleave == 1 else (pp - rank - 1) * 2 + (interleave - 1) * pp
    warm = min(warm, total)
    order = [("F", *at(k, False)) for k in range(warm)]
    for k in range(total - warm):
        order += [("F", *at(k + warm, False)), ("B", *at(k, True))]
    return order + [("B", *at(k, True)) for k in range(total - warm, total)]


def run(
    forward: list[float],
    backward: list[float],
    interleave: int,
    microbatches: int,
    first: tuple[float, float] = (0.0, 0.0),
    last: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, list[int]]:
    """Seconds until all stages are done, and the most chunks that each stage held. `first` and `last` are what the
    first chunk of all and the last one take more, forward and backward."""
    pp = len(forward)
    queues = [actions(pp, rank, interleave, microbatches) for rank in range(pp)]
    done: dict[tuple[str, int, int], float] = {}
    clock, position, held, peak = [0.0] * pp, [0] * pp, [0] * pp, [0] * pp
    last_one = pp * interleave - 1
    while any(position[r] < len(queues[r]) for r in range(pp)):
        moved = False
        for rank in range(pp):
            if position[rank] == len(queues[rank]):
                continue
            kind, chunk, micro = queues[rank][position[rank]]
            virtual = chunk * pp + rank
            if kind == "F":
                needs = [("F", virtual - 1, micro)] if virtual else []
            else:
                needs = [("F", virtual, micro)] + ([("B", virtual + 1, micro)] if virtual < last_one else [])
            if any(need not in done for need in needs):
                continue
            seconds = (forward if kind == "F" else backward)[rank] / interleave
            seconds += (first[kind == "B"] if virtual == 0 else 0.0) + (
                last[kind == "B"] if virtual == last_one else 0.0
            )
            clock[rank] = max([clock[rank], *(done[need] for need in needs)]) + seconds
            done[kind, virtual, micro] = clock[rank]
            held[rank] += 1 if kind == "F" else -1
            peak[rank] = max(peak[rank], held[rank])
            position[rank] += 1
            moved = True
        assert moved, "deadlock"
    return max(clock), peak
