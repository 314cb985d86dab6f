"""What runs in a worker: one point of a study, evaluated against the data that all points share."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import MeshwrightError
from .outcome import Outcome
from .point import Point
from .study import Study

__all__ = ["Cargo", "Shared", "evaluate", "evaluate_point"]


@dataclass(frozen=True)
class Shared:
    """A study and the data of its world."""

    study: Study
    data: Any


@dataclass(frozen=True)
class Cargo:
    """`Shared`, packed for the way to a worker; unpacked there once, however many points follow.

    Parameters
    ----------
    digest : str
        Tells one cargo from another.
    packed : bytes
        Our own objects, on the executor's own channel: never read from a file.
    """

    digest: str
    packed: bytes

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cargo) and other.digest == self.digest


@lru_cache(maxsize=2)
def _unpack(cargo: Cargo) -> Shared:
    return pickle.loads(cargo.packed)


def evaluate_point(cargo: Cargo, point: Point) -> Outcome:
    """Evaluate a point in a worker."""
    return evaluate(_unpack(cargo), point)


def evaluate(shared: Shared, point: Point) -> Outcome:
    """Evaluate a point: an error in it is an outcome, so that one bad point does not end a study."""
    try:
        return shared.study.world.evaluate(shared.study.case(point), shared.data)
    except MeshwrightError as error:
        return Outcome("failed", error=" ".join(str(error).split()))
    except Exception as error:
        return Outcome("failed", error=" ".join(f"{type(error).__name__}: {error}".split()))
