"""Calls that no handler says: kept as calls (kind ``call``), cut over the batch where a probe allows it.

Begin with `call` (`fall_back`). `said` writes the arguments down, `probe` runs the call on random rows, `decompose`
decides which calls torch takes apart before the walk.
"""

from .call import fall_back
from .decompose import decomposed

__all__ = ["decomposed", "fall_back"]
