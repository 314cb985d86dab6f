"""Measured kernels: a clone has an excerpt of them."""

from pathlib import Path

import pytest
from sample_data import PLACES


@pytest.fixture(params=PLACES)
def kernels(request: pytest.FixtureRequest) -> Path:
    return request.param / "kernels"
