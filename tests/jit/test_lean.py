"""What kernels compute is what Python computes, and they give back all memory that they take."""

from typing import Any

import numpy as np
import pytest
from meshwright.jit import inner, kernel
from numba.core.runtime import _nrt_python, rtsys


@kernel(cache=False)
def elements(table, row, flags, at, unsigned):  # type: ignore[no-untyped-def]
    """Elements of every kind, by every kind of index."""
    table[at, -1] += row[unsigned] + row[-1]
    table[0, at] = table[-1, 0] * 2 + table.shape[1]
    flags[at] = not flags[at - 1]
    row[at] = flags[0] + row[np.uint32(1)]
    total = 0.0
    for i in range(table.shape[0]):
        line = table[i]
        line[0] += i
        for x in line[1:]:
            total += x
    return total, row[:2].sum(), flags.shape[0]


@inner
def _longer(of, other):  # type: ignore[no-untyped-def]
    """One of what it was given, under another name, or what it made."""
    best = of
    if other.shape[0] > of.shape[0]:
        best = other
    for _ in range(2):
        if best.shape[0] < 3:
            best = np.zeros(best.shape[0] + 1)
    same = best
    return same


@kernel(cache=False)
def names(a, b, turns):  # type: ignore[no-untyped-def]
    """Arrays under several names, handed on and back, alone and in tuples."""
    now, then = a, np.ones(b.shape[0])
    for k in range(turns):
        now, then = then, now
        both = now, _longer(now, b)
        then = both[k % 2]
        a = both[1]
    return a, (now, then)


@kernel(cache=False, rolled=True)
def rolled(a, b):  # type: ignore[no-untyped-def]
    """A short loop, and an expression of whole arrays."""
    out = a * 2 + b
    for i in range(a.shape[0]):
        out[i] -= b[a.shape[0] - 1 - i]
    return out


def _given() -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.random((3, 4)), rng.random(5), rng.random(6) < 0.5]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("at", [1, 2])
def test_elements(at: int, strided: bool) -> None:
    one, other = _given(), _given()
    if strided:
        one = [np.repeat(x, 2, axis=x.ndim - 1)[..., ::2] for x in one]
    assert elements(*one, at, np.uint64(3)) == elements.py_func(*other, at, np.uint64(3))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("a", "b"), [(1, 2), (4, 2), (2, 5), (3, 3)])
def test_arrays_under_several_names_and_their_memory(a: int, b: int) -> None:
    _nrt_python.memsys_enable_stats()
    names(np.ones(1), np.ones(1), 1)
    before = rtsys.get_allocation_stats()
    for turns in range(4):
        first, second = np.arange(float(a)), np.arange(float(b)) + 10
        for got, expected in zip(
            _flat(names(first, second, turns)), _flat(_names_plainly(first, second, turns)), strict=True
        ):
            np.testing.assert_array_equal(got, expected)
    del first, second, got, expected
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def _names_plainly(a: Any, b: Any, turns: int) -> Any:
    now, then = a, np.ones(b.shape[0])
    for k in range(turns):
        now, then = then, now
        both = now, _longer.py_func(now, b)
        then = both[k % 2]
        a = both[1]
    return a, (now, then)


def _flat(answer: Any) -> list[Any]:
    return [answer[0], *answer[1]]


def test_rolled_kernels_compute_the_same() -> None:
    a, b = np.arange(7.0), np.linspace(0, 1, 7)
    np.testing.assert_array_equal(rolled(a, b), a * 2 + b - b[::-1])
