"""No test of its own (its name says so): tests/test_draws.py runs it and reads what was drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(), st.floats(), st.text(), st.lists(st.integers(0, 10**6)))
def test_draws(whole, real, text, several):
    print(f"drawn: {whole!r} {real!r} {text!a} {several!r}")


@pytest.mark.slow
def test_takes_long():
    print("slow: ran")
