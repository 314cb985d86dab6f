"""A kernel and all that is compiled into it become machine code once, together, and behave as numba's own."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from meshwright.jit import inner, kernel
from numba.core.codegen import JITCodeLibrary


@inner
def deepest(x: float) -> float:
    if x < 0:
        raise ValueError("below", x)
    return math.sqrt(x)


@inner
def between(x: Any) -> float:
    return deepest(x[0]) + max(x[0], 2.0)


@kernel(cache=False)
def called(x: Any) -> Any:
    return np.full(3, between(x)).sum()


@kernel(cache=False)
def calling(x: Any) -> Any:
    return called(x) + between(x)


@inner
def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


@kernel(cache=False)
def recursive(n: int) -> int:
    return factorial(n)


FIRST = 1


@inner
def shared(x: float) -> float:
    total = 0.0
    for k in range(40):  # too long to be put into its callers
        total += math.sin(x + k) * math.cos(x * k)
    return total


@inner
def either(kind: int, x: float) -> float:
    return 2.0 * x if kind == FIRST else shared(x)


@inner
def also(x: float) -> float:
    return shared(x) + 1.0


@kernel(cache=False)
def folding(x: float) -> float:
    return also(x) + either(FIRST, x)


@kernel(cache=False)
def folding_first(x: float) -> float:
    return either(FIRST, x) + also(x)


def test_what_one_caller_needs_no_more_is_there_for_another() -> None:
    """`either` of a known kind calls nothing: what it called must be linked behind all of its callers."""
    wanted = sum(math.sin(0.5 + k) * math.cos(0.5 * k) for k in range(40)) + 1.0 + 2.0 * 0.5
    assert folding(0.5) == pytest.approx(wanted)
    assert folding_first(0.5) == pytest.approx(wanted)


def test_only_what_python_calls_becomes_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    specific = JITCodeLibrary._finalize_specific

    def counted(self: Any) -> None:
        if self.name != "nrt":  # the run time that numba brings along, once a process
            made.append(self.name)
        specific(self)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", counted)
    assert calling(np.array([4.0])) == 3 * 6.0 + 6.0
    assert made == ["called", "calling"]  # not what they call, of ours or of numba's
    assert called(np.array([9.0])) == 3 * 12.0  # it was compiled inside another, and is called from Python
    assert made == ["called", "calling"]


def test_an_error_of_a_part_says_what_it_says() -> None:
    with pytest.raises(ValueError, match="below") as raised:
        calling(np.array([-1.0]))
    assert raised.value.args == ("below", -1.0)


def test_a_part_that_calls_itself() -> None:
    assert recursive(10) == math.factorial(10)


def test_numba_itself_goes_on_as_before() -> None:
    from numba import njit

    calling(np.array([1.0]))  # compiles `max` and `np.full` as parts

    @njit
    def own(x: Any) -> float:
        return np.full(2, max(x, 1.0)).sum()

    assert own(3.0) == 6.0


KEPT = """
import numpy as np
from tests.jit.test_linked import between
from meshwright.jit import kernel
@kernel
def kept(x):
    return between(x)
print(kept(np.array([4.0])), sum(kept.stats.cache_hits.values()))
try:
    kept(np.array([-1.0]))
except ValueError as error:
    print(error.args)
"""


def test_it_is_found_again_with_its_parts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(KEPT.replace("tests.jit.test_linked", "test_linked"))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.path.dirname(__file__)}
    said = [
        subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["6.0 0\n('below', -1.0)\n", "6.0 1\n('below', -1.0)\n"]
