"""A digest of the compiled engine's sources, for numba's cache.

numba looks only at the file of the function that it caches, not at those of the functions that are compiled into it. A
function that has this number in its closure is found again only as long as none of them has changed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ....profiles.llm.cost import grid as cost_grid

__all__ = ["sources"]


def sources() -> int:
    """A number that changes with any file of compiled code, the cost of an iteration included."""
    digest = hashlib.sha256(Path(cost_grid.__file__).read_bytes())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return int(digest.hexdigest()[:15], 16)
