"""Programs of groups: order, what is kept, whose flags hold, and what is no program."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import pairwise

import pytest
from meshwright.errors import InputError
from meshwright.profiles.backends import InferenceGraph, Node, Value
from meshwright.runtime.backends.measure.overheads import context_ms
from meshwright.runtime.backends.measure.passes import packed
from meshwright.runtime.backends.measure.spread import median_and_spread
from meshwright.runtime.backends.program import Group, Program, in_order

V = Value("x", ())
GRAPH = InferenceGraph(
    (V,), (),
    (Node("a", "f", ("x",)), Node("b", "f", ("a",)), Node("c", "f", ("a", "x")), Node("d", "f", ("c", "b"))),
    "d",
)  # fmt: skip


def words(*results: str):
    """A callable that says what it was given."""

    def run(*given):
        return tuple(f"{name}({','.join(given)})" for name in results)

    return run


def test_groups_run_in_order() -> None:
    groups = [Group("one", 0b1000, words("d")), Group("two", 0b0110, words("b", "c")), Group("one", 1, words("a"))]
    program = Program(GRAPH, groups)
    assert [group.members for group in program.groups] == [1, 0b0110, 0b1000]
    assert program("x") == "d(c(a(x),x),b(a(x),x))"
    mark = [-1]
    assert len(program.timed(["x"], mark, [7, 8, 9])) == 3
    assert mark == [-1]
    assert len(program.timed(["x"], mark, [7, 8, -1])) == 2, "what comes after the last unit need not run"
    with pytest.raises(InputError, match="expected 1 inputs"):
        program("x", "y")


def test_what_holds_is_entered_once_for_groups_in_a_row() -> None:
    entered = list[str]()

    @contextmanager
    def held():
        entered.append("in")
        yield
        entered.append("out")

    groups = [
        Group(name, 1 << k, words(node.id)) for k, (name, node) in enumerate(zip("abba", GRAPH.nodes, strict=True))
    ]
    Program(GRAPH, groups, {"b": held})("x")
    assert entered == ["in", "out"]


def test_where_a_unit_fails_is_marked() -> None:
    """Whoever looks from outside sees which unit was being called."""

    def fails(*given):
        raise OSError("no")

    mark = [-1]
    groups = [Group("one", 1, words("a")), Group("two", 0b1110, fails)]
    with pytest.raises(OSError, match="no"):
        Program(GRAPH, groups).timed(["x"], mark, [3, 4])
    assert mark == [4]


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([0b0011, 0b0110, 0b1000], "node 'b' is in two groups"),
        ([0b0011, 0b1000], "node 'c' is in no group"),
        ([0b1001, 0b0110], "wait for each other in a circle"),
    ],
)
def test_what_is_no_program(sets, said) -> None:
    with pytest.raises(InputError, match=said):
        in_order(GRAPH, sets)


def test_units_are_spread_over_few_passes() -> None:
    """Where a unit occurs at several places, one that is free is taken; several results never meet in a pass."""
    assert packed({0: (0b11,), 1: (0b01, 0b100), 2: (0b10, 0b1000)}) == [{0: 0b11, 1: 0b100, 2: 0b1000}]
    assert packed({0: (0b11,), 1: (0b01,)}) == [{0: 0b11}, {1: 0b01}]
    assert packed({0: (0b11,), 1: (0b1100,)}, several={0, 1}) == [{0: 0b11}, {1: 0b1100}]


def test_how_well_a_median_is_known() -> None:
    """Five samples enclose it between the least and the largest with 94 %; more samples leave out the outermost."""
    assert median_and_spread([1.0, 1.0, 1.0, 1.0]) == (1.0, float("inf"))
    assert median_and_spread([8.0, 9.0, 10.0, 11.0, 12.0]) == (10.0, pytest.approx(0.2))
    assert median_and_spread([1.0, 9.0, 9.0, 9.0, 10.0, 11.0, 11.0, 11.0, 99.0]) == (10.0, pytest.approx(0.1))
    assert median_and_spread([1.0] * 3 + [10.0] * 44 + [99.0] * 3)[1] == 0


def test_contexts_are_measured() -> None:
    """A backend that does something on entering costs more than one that does nothing."""
    from meshwright.profiles.backends import Backend

    class Slow(Backend):
        name = "slow"

        @contextmanager
        def held(self):
            yield sum(range(3000))

    assert 0 <= context_ms(Backend()) < context_ms(Slow())


def test_the_loop_takes_at_most_ten_microseconds_a_group() -> None:
    """CPU time of this thread, the least of many calls; every second group enters and leaves torch-native's flag.

    A microsecond or two were seen; tests/benchmarks/runtime prints them.
    """
    pytest.importorskip("torch")
    from meshwright.runtime.backends import backend

    names = ["x", *(f"n{k}" for k in range(100))]
    nodes = tuple(Node(name, "nothing", (before,)) for before, name in pairwise(names))
    graph = InferenceGraph((Value("x", ()),), (), nodes, names[-1])
    groups = [Group("torch-native" if k % 2 else "other", 1 << k, lambda one: (one,)) for k in range(100)]
    program, least = Program(graph, groups, {"torch-native": backend("torch-native").held}), float("inf")
    for _ in range(200):
        begin = time.thread_time_ns()
        program(0.0)
        least = min(least, time.thread_time_ns() - begin)
    assert least / 1e3 / len(groups) <= 10
