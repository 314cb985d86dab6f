"""Microseconds of a program's loop a group, against calling the same functions in a bare loop; only printed."""

import time

import pytest

torch = pytest.importorskip("torch")
from meshwright.profiles.backends import InferenceGraph, Node, Value  # noqa: E402
from meshwright.runtime.backends import Group, Program, backend  # noqa: E402

GROUPS = 200


def fastest_us(call, times=200):
    """Of a group."""
    best = float("inf")
    for _ in range(times):
        begin = time.thread_time_ns()
        call()
        best = min(best, time.thread_time_ns() - begin)
    return best / 1e3 / GROUPS


def chain(reads: int) -> InferenceGraph:
    """Each operator reads the ones before it."""
    names = ["x", *(f"n{k}" for k in range(GROUPS))]
    read = [tuple(names[max(0, k + 1 - reads) : k + 1]) for k in range(GROUPS)]
    nodes = tuple(Node(name, "nothing", before) for name, before in zip(names[1:], read, strict=True))
    return InferenceGraph((Value("x", ()),), (), nodes, names[-1])


@pytest.mark.parametrize("reads", [1, 3])
@pytest.mark.parametrize("name", ["torch-onednn", "torch-native"])
def test_the_loop_between_groups(name, reads, benchmark):
    """Every second group is on a backend whose flag is entered and left; none does anything."""

    def nothing(*given):
        return (given[0],)

    graph, held = chain(reads), backend(name).held
    groups = [Group(name if k % 2 else "other", 1 << k, nothing) for k in range(GROUPS)]
    program, x = Program(graph, groups, {name: held}), torch.zeros(1)

    def bare():
        for _ in range(GROUPS):
            nothing(x)

    ours, bound = fastest_us(lambda: program(x)), fastest_us(bare)
    print(f"\n{name}, {reads} values a group: {ours:.2f} us a group, {ours / bound:.1f} of a bare loop's {bound:.2f}")
    benchmark.pedantic(lambda: program(x), rounds=20)
