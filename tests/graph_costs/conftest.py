"""Measured kernels, where they are."""

from pathlib import Path

import pytest


@pytest.fixture
def kernels() -> Path:
    folder = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
    if not folder.is_dir():
        pytest.skip("no measured kernels in ../shared/data")
    pytest.importorskip("pyarrow")
    return folder
