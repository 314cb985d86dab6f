"""`Options`: what the accuracy page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InputError
from ...reprs import Shown

__all__ = ["WORLDS", "Given", "Options"]

WORLDS = ("serving", "llm", "training", "sharing")


@dataclass(frozen=True, slots=True, repr=False)
class Given(Shown):
    """Files that a user has.

    Parameters
    ----------
    silicon : Path, optional
        Table of measured engines, as ``meshwright compare llm --silicon`` reads it; goes with `kernels`.
    kernels : Path, optional
        Folder of kernel tables.
    vllm_run : Path, optional
        Folder of a recorded run of vLLM.

    Raises
    ------
    InputError
        On a file that is not there, or tables without what they go with.
    """

    silicon: Path | None = None
    kernels: Path | None = None
    vllm_run: Path | None = None

    def __post_init__(self) -> None:
        for name in ("silicon", "kernels", "vllm_run"):
            path = getattr(self, name)
            if path is not None and not path.exists():
                raise InputError(f"accuracy: {name}: expected a file or folder that is there (got {path})")
        if self.silicon is not None and self.kernels is None:
            raise InputError("accuracy: silicon: needs kernels, the folder with the kernel tables of each system")
        if self.kernels is not None and self.silicon is None and self.vllm_run is None:
            raise InputError("accuracy: kernels: goes with silicon or vllm_run")


@dataclass(frozen=True, slots=True, repr=False)
class Options(Shown):
    """What is computed and measured.

    Parameters
    ----------
    here : bool
        Whether this machine's part is measured.
    worlds : tuple of str
        Worlds that have lines.
    given : Given
        Files that the user has.
    seed : int
        Seed of everything random, >= 0.

    Raises
    ------
    InputError
        On an unknown world or a negative seed.
    """

    here: bool = True
    worlds: tuple[str, ...] = WORLDS
    given: Given = field(default_factory=Given)
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = [name for name in self.worlds if name not in WORLDS]
        if wrong or not self.worlds:
            raise InputError(
                f"accuracy: worlds: expected some of {', '.join(WORLDS)} (got {', '.join(wrong) or 'none'})"
            )
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"seed: expected an integer >= 0 (got {self.seed!r})")
