"""`Turns`: how the passes of a stage take turns, under the schedules that let one choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown

__all__ = ["Turns"]


@dataclass(frozen=True, slots=True, repr=False)
class Turns(Shown):
    """How forward and backward passes take turns, for schedules that leave that open.

    Parameters
    ----------
    k, warmup : int or sequence of int
        For ``kfkb``: the number of passes of a kind in a row, and of forward passes before the first backward pass (−1:
        as in GraphPipe's Table 3.2). One number for all stages, or one for each.
    order : sequence of str
        For ``explicit``: the passes of each stage, such as ``"4F 1B 1F 4B"``.
    """

    k: int | Sequence[int] = 1
    warmup: int | Sequence[int] = -1
    order: Sequence[str] = ()

    def check(self, n_stages: int) -> None:
        """Check that what is given for each stage has as many elements as there are stages.

        Raises
        ------
        InputError
            If it has not.
        """
        for name, values in (("k", self.k), ("warmup", self.warmup)):
            if not isinstance(values, int) and len(values) != n_stages:
                raise InputError(
                    f"make_program: {name}: expected one for each of {n_stages} stages (got {len(values)})"
                )
