"""Where tests find measured data: the excerpts in this folder, and the full sets where they lie beside the repository.

A test of measured data stands under ``@measured`` and takes `data`, a folder; a public clone has the excerpts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent
"""Excerpts of public data; README.md says of which, under which licence, and how they were cut."""
FULL = Path(__file__).parents[3] / "shared" / "data"

PLACES = [pytest.param(SAMPLES, id="excerpt"), *([pytest.param(FULL, id="full")] if FULL.is_dir() else [])]
measured = pytest.mark.parametrize("data", PLACES)
SYSTEMS = [
    pytest.param(folder, id=f"{place.id}-{folder.name}")
    for place in PLACES
    for folder in sorted(place.values[0].glob("kernels/*_sxm"))  # type: ignore[union-attr]
]
"""Folders of measured kernels and collectives."""
