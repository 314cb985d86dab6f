"""Who evaluates points: this process, spawned processes, a cluster, or an executor of the user's own."""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ... import __version__
from ...errors import InputError, RunError
from ...spawning import check_workers
from ..point import Point
from .work import Cargo, Done, Shared, evaluate_points, evaluate_some, one_line

__all__ = ["Crew", "InProcess", "check_versions", "crew", "in_time", "knock"]

FORMS = "processes, dask://HOST:PORT, ray, ray://HOST:PORT"

T = TypeVar("T")

Task = Callable[[Any, Sequence[Point], float], Done | None]


def _never(future: Future[Any], error: BaseException) -> str:
    """No error means that a worker died alone."""
    return ""


def _nothing() -> None:
    """Nothing to look after."""


@dataclass(frozen=True)
class Crew:
    """An executor and how one study uses it.

    Parameters
    ----------
    name : str
        For messages.
    executor : Executor
        Takes `task`.
    task : callable
        ``task(cargo, points, budget_s)``, run in a worker.
    cargo : Any
        How a worker gets at the shared data: themselves, a reference on the cluster, or their digest.
    workers : callable
        How many points can be worked on at a time, now.
    close : callable
        ``close(at_once)``: hand back what was started; `at_once` ends what still runs.
    alone : int
        As many points at a time can run so that a worker's death is the fault of the point that it ran.
    died : callable
        ``died(future, error)``: how the worker of a task died, in words; empty for another error, or where a death
        ends the whole executor.
    check : callable
        Called when nothing was heard for some seconds; raises where waiting is in vain.
    spare : Cargo, optional
        What to send along with a task whose worker does not hold the data.
    recall : bool
        Whether tasks that have not begun are taken back when nobody waits for them any more.
    """

    name: str
    executor: Executor
    task: Task
    cargo: Any
    workers: Callable[[], int]
    close: Callable[[bool], None]
    alone: int = 1
    died: Callable[[Future[Any], BaseException], str] = _never
    check: Callable[[], None] = _nothing
    spare: Cargo | None = None
    recall: bool = True

    def submit(self, points: Sequence[Point], budget_s: float, with_data: bool = False) -> Future[Done | None]:
        """Send points to a worker."""
        cargo = self.spare if with_data else self.cargo
        return self.executor.submit(self.task, cargo, points, budget_s)

    def explain(self, error: BaseException) -> RunError:
        """An error that came instead of a result and was no point's fault."""
        if isinstance(error, RunError):
            return error
        if isinstance(error, BrokenExecutor):
            return RunError(f"{self.name}: a worker died and took the executor along; make a new one")
        if isinstance(error, CancelledError):
            return RunError(f"{self.name}: the cluster dropped the work; see whether it is still up")
        error = getattr(error, "cause", None) or error  # Ray wraps what a worker raised, with its traceback
        if isinstance(error, ModuleNotFoundError):
            return RunError(f"{self.name}: a worker lacks a package: {error}; install it there")
        return RunError(f"{self.name}: work cannot be sent: {one_line(error)}")


class InProcess(Executor):
    """Evaluates in this process, at once; the result is there when `submit` returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn`."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def crew(executor: str | Executor, workers: int | None, shared: Shared) -> Crew:
    """Get an executor ready.

    Parameters
    ----------
    executor : str or concurrent.futures.Executor
        ``processes``, ``dask://HOST:PORT``, ``ray``, ``ray://HOST:PORT``, or one's own.
    workers : int, optional
        Processes; one evaluates here, none given takes all cores. A cluster has as many as it has.
    shared : Shared
        What every worker needs.

    Raises
    ------
    InputError
        If there is no such executor, nobody answers there within 10 s, or its workers lack this version.
    """
    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise InputError(f"workers: expected a whole number >= 1 (got {workers!r})")
    if isinstance(executor, Executor):
        return _own(executor, workers, shared)
    if executor == "processes":
        count = check_workers(workers or os.cpu_count() or 1)
        return _here(shared) if count == 1 else _processes(shared, count)
    scheme, host, port = _parse(executor)
    if scheme == "dask":
        from .on_dask import dask_crew

        return dask_crew(executor, f"tcp://{host}:{port}", (host, port), Cargo.of(shared))
    from .on_ray import ray_crew

    return ray_crew(executor, (host, port) if host else None, workers, Cargo.of(shared))


def _parse(said: str) -> tuple[str, str, int]:
    """Scheme, host and port of a cluster; no host for ``ray`` alone."""
    scheme = said.partition(":")[0]
    if said == "ray":
        return "ray", "", 0
    if scheme not in {"dask", "ray"}:
        near = difflib.get_close_matches(scheme, ["processes", "dask", "ray"], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"executor: there is no {said!r}; {hint}expected one of {FORMS}")
    try:
        url = urlsplit(said)
        host, port = url.hostname, url.port
        extra = url.path.strip("/") or url.query or url.username
    except ValueError:
        host, port, extra = None, None, ""
    if not host or not port or extra:
        raise InputError(f"executor: expected {scheme}://HOST:PORT (got {said!r})")
    return scheme, f"[{host}]" if ":" in host else host, port


def _here(shared: Shared) -> Crew:
    return Crew(
        "this process",
        InProcess(),
        evaluate_some,
        shared,
        lambda: 1,
        lambda at_once: None,
    )


def _processes(shared: Shared, count: int) -> Crew:
    from .processes import Processes, start_worker

    cargo = Cargo.of(shared)
    pool = Processes(count, start_worker, (cargo,))
    # a process has two tasks at most, and Python's pools stumble over one that was taken back when a process is ended
    return Crew(
        f"{count} processes", pool, evaluate_points, cargo.digest, lambda: count, pool.close, count, pool.died,
        recall=False,
    )  # fmt: skip


def _own(executor: Executor, workers: int | None, shared: Shared) -> Crew:
    """Whatever it is, the data travel only to workers that say that they lack them."""
    cargo = Cargo.of(shared)
    count = workers if workers and workers > 1 else getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    return Crew(
        type(executor).__name__, executor, evaluate_points, cargo.digest, lambda: int(count), lambda at_once: None,
        spare=cargo,
    )  # fmt: skip


def knock(name: str, place: tuple[str, int]) -> None:
    """Refuse an address at which nobody listens.

    Raises
    ------
    InputError
        Within 5 s for every address that the host's name stands for, and mostly at once.
    """
    host, port = place
    try:
        socket.create_connection((host.strip("[]"), port), timeout=5.0).close()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error) or "no answer"
        raise InputError(f"executor: nobody answers at {name}: {why.lower()}; expected one of {FORMS}") from None


def in_time(connect: Callable[[], T], name: str, limit_s: float) -> T:
    """What `connect` gives, within `limit_s`: clusters' own clients would try for minutes at a port that says nothing.

    Raises
    ------
    InputError
        If it gives nothing in time, or an error.
    """
    result: Future[T] = Future()

    def call() -> None:
        try:
            result.set_result(connect())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=call, daemon=True).start()  # one that is given up does not keep the process from ending
    try:
        return result.result(limit_s)
    except InputError:
        raise
    except TimeoutError:
        raise InputError(f"executor: nothing answers at {name} within {limit_s:.0f} s") from None
    except Exception as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"executor: no cluster answers at {name}: {why}") from None


def check_versions(name: str, found: Mapping[str, Any]) -> None:
    """Refuse workers that lack this version of the package.

    Parameters
    ----------
    found : Mapping
        Worker -> version of the package that is installed there, or the error of asking.

    Raises
    ------
    InputError
        Naming the first.
    """
    try:
        ours = importlib.metadata.version("meshwright")
    except importlib.metadata.PackageNotFoundError:
        ours = __version__
    bad = {worker: got for worker, got in found.items() if got != ours}
    if not bad:
        return
    worker, got = next(iter(sorted(bad.items(), key=lambda item: str(item[0]))))
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    if isinstance(got, importlib.metadata.PackageNotFoundError):
        what = "has no meshwright"
    elif isinstance(got, BaseException):
        what = f"cannot say its version of meshwright: {one_line(got)}"
    else:
        what = f"has meshwright {got}"
    raise InputError(f"executor: {name}: worker {worker}{more} {what}, this is {ours}; install {ours} there")
