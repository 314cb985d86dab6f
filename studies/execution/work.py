"""What runs in a worker: points of a study, evaluated against the data that all points share."""

from __future__ import annotations

import hashlib
import pickle
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import __version__
from ...errors import InputError, MeshwrightError
from ...worlds.names import check_declared
from ...worlds.outcome import Outcome
from ..point import Point
from ..study import Study

__all__ = ["Cargo", "Done", "Shared", "evaluate", "evaluate_points", "hold"]


@dataclass(frozen=True)
class Shared:
    """A study and the data of its world."""

    study: Study
    data: Any


@dataclass(frozen=True, slots=True)
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

    @classmethod
    def of(cls, shared: Shared) -> Cargo:
        """Pack.

        Raises
        ------
        InputError
            If something of it cannot travel.
        """
        try:
            packed = pickle.dumps(shared, protocol=5)
        except Exception as error:
            raise InputError(
                f"study: cannot be sent to workers: {one_line(error)}; define its world and planners in a module"
            ) from None
        return cls(hashlib.sha256(packed).hexdigest(), packed)


@dataclass(frozen=True, slots=True)
class Done:
    """What a task gave.

    Parameters
    ----------
    outcomes : tuple of Outcome
        Of its first points; a task of several points ends early when they turn out long.
    version : str
        Version of the package in the worker.
    seconds : float
        What it took there; for the size of later tasks alone, never stored.
    """

    outcomes: tuple[Outcome, ...]
    version: str
    seconds: float


_held: dict[str, Shared] = {}
"""What this worker process has unpacked, by digest: the last two studies that it worked for."""

_unpacking = threading.Lock()


def hold(cargo: Cargo) -> Shared:
    """Unpack in this process, once."""
    with _unpacking:
        if cargo.digest not in _held:
            while len(_held) > 1:
                del _held[next(iter(_held))]
            _held[cargo.digest] = pickle.loads(cargo.packed)
        return _held[cargo.digest]


def held(digest: str) -> Shared | None:
    """What this process has unpacked already."""
    return _held.get(digest)


def evaluate_points(cargo: Cargo | str, points: Sequence[Point], budget_s: float) -> Done | None:
    """Evaluate points in a worker, one at least, until `budget_s` is spent.

    Parameters
    ----------
    cargo : Cargo or str
        The shared data, or their digest where this process may hold them.

    Returns
    -------
    Done, or None if this process does not hold the data.
    """
    shared = held(cargo) if isinstance(cargo, str) else hold(cargo)
    return None if shared is None else evaluate_some(shared, points, budget_s)


def evaluate_some(shared: Shared, points: Sequence[Point], budget_s: float) -> Done:
    """Evaluate points until `budget_s` is spent; one at least."""
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    for point in points:
        outcomes.append(evaluate(shared, point))
        if time.perf_counter() - began > budget_s:
            break
    return Done(tuple(outcomes), __version__, time.perf_counter() - began)


def evaluate(shared: Shared, point: Point) -> Outcome:
    """Evaluate a point: an error in it is an outcome, so that one bad point does not end a study."""
    try:
        world = shared.study.world
        outcome = world.evaluate(shared.study.case(point), shared.data)
        check_declared(world, outcome.metrics)
        return outcome
    except MeshwrightError as error:
        return Outcome("failed", error=" ".join(str(error).split()) or type(error).__name__)
    except (Exception, SystemExit) as error:  # a planner of the user's may raise anything
        return Outcome("failed", error=one_line(error))


def one_line(error: BaseException) -> str:
    """An unexpected error in one line that is the same in every process: without memory addresses."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", " ".join(f"{type(error).__name__}: {error}".split()))
