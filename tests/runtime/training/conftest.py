"""Four processes that train, started once for all files here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from meshwright.runtime.training import TrainingSession


@pytest.fixture(scope="package")
def session() -> Iterator[TrainingSession]:
    """For runs that end well, or are refused before they start."""
    from meshwright.runtime.training import TrainingSession

    with TrainingSession(4, timeout_s=60.0) as started:
        yield started
