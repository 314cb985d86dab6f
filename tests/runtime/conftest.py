"""Workers of the runtime's tests are forked from a process that has loaded torch; see forked.py."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def warm() -> Iterator[None]:
    """For all tests below, but those that ask for `cold`."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    from forked import warm_workers

    with warm_workers():
        yield


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are started as users start them."""
    from forked import spawned
    from meshwright.runtime import children

    monkeypatch.setattr(children, "started", spawned)
