"""Workers that measure are forked from a process that has loaded torch; see tests/runtime/forked.py."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def warm() -> Iterator[None]:
    """For all tests below."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    from forked import warm_workers

    with warm_workers():
        yield
