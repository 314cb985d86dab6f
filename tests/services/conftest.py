"""Servers that the tests of this folder attack."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests import the helpers beside them

for needed in ("torch", "fastapi", "uvicorn", "httpx"):
    pytest.importorskip(needed)

from servers import SERVERS, Served  # noqa: E402


@pytest.fixture(scope="module", params=list(SERVERS))
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Each server of the project in turn."""
    with ExitStack() as stack:
        yield SERVERS[request.param](stack, tmp_path_factory.mktemp("served"))
