"""`Turns`: how the passes of a stage take turns, under the schedules that let one choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown

__all__ = ["Turns"]


@dataclass(frozen=True, slots=True, repr=False)
class Turns(Shown):
    """Turns of forward and backward passes.

    Parameters
    ----------
    k, warmup : int or sequence of int
        ``kfkb``: of every stage, or of each, the passes in turn, and the forward passes before the first backward (−1:
        as GraphPipe's Table 3.2 says).
    order : sequence of str
        ``explicit``: for each stage its passes, such as ``"4F 1B 1F 4B"``.
    """

    k: int | Sequence[int] = 1
    warmup: int | Sequence[int] = -1
    order: Sequence[str] = ()

    def check(self, n_stages: int) -> None:
        """See that what is said stage by stage is said of each.

        Raises
        ------
        InputError
            If it is not.
        """
        for name, values in (("k", self.k), ("warmup", self.warmup)):
            if not isinstance(values, int) and len(values) != n_stages:
                raise InputError(
                    f"make_program: {name}: expected one for each of {n_stages} stages (got {len(values)})"
                )
