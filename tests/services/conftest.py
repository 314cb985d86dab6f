"""Servers that the tests of this folder attack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

for needed in ("torch", "fastapi", "uvicorn", "httpx"):
    pytest.importorskip(needed)

from servers import SERVERS, Served  # noqa: E402


@pytest.fixture(scope="module", params=list(SERVERS))
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Each server of the project in turn."""
    with ExitStack() as stack:
        yield SERVERS[request.param](stack, tmp_path_factory.mktemp("served"))
