"""How a model is cut over devices: intra-operator and inter-operator degrees."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InputError
from ..reprs import Shown

__all__ = ["ParallelConfig"]


@dataclass(frozen=True, order=True, slots=True, repr=False)
class ParallelConfig(Shown):
    """Parallel configuration of a group of devices.

    Parameters
    ----------
    op : int
        Intra-operator degree: devices that share each operator of a stage.
    pp : int
        Inter-operator degree: number of pipeline stages.

    Raises
    ------
    InputError
        If a degree is not a positive integer.
    """

    op: int = 1
    pp: int = 1

    def __post_init__(self) -> None:
        for name in ("op", "pp"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"ParallelConfig.{name}: expected a positive integer (got {value!r})")

    @property
    def n_devices(self) -> int:
        """Devices that one replica occupies: ``op * pp``."""
        return self.op * self.pp

    def __str__(self) -> str:
        return f"op{self.op}pp{self.pp}"

    @classmethod
    def parse(cls, text: str) -> ParallelConfig:
        """Read ``"op2pp4"`` back."""
        match = re.fullmatch(r"op([0-9]{1,6})pp([0-9]{1,6})", text.strip())
        if match is None:
            raise InputError(f"parallel configuration: expected a form like 'op2pp4' (got {text!r})")
        return cls(int(match[1]), int(match[2]))
