"""Studies on a running dask cluster: ``dask://HOST:PORT``."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ...errors import InputError, RunError, install_hint
from .executors import Crew, check_versions, in_time, knock
from .work import Cargo, evaluate_points

__all__ = ["dask_crew"]

ANSWER_S = 8.0
"""Seconds that a cluster has to answer: what is unreachable is said within ten."""

JOIN_S = 8.0
"""Seconds that a scheduler without workers has to get one."""

DESERTED_S = 60.0
"""Seconds without any worker after which a run ends."""


def dask_crew(name: str, address: str, place: tuple[str, int], cargo: Cargo) -> Crew:
    """Connect to a dask scheduler and check its workers.

    The shared data go to the cluster as a task's result, so that workers that join late get it from their peers and
    the scheduler makes it anew where every worker that held it died.

    Raises
    ------
    InputError
        If dask is not installed, nobody answers, there are no workers, or one lacks this version of the package.
    """
    try:
        import distributed
        from distributed.cfexecutor import ClientExecutor
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise InputError(f"executor: {name} needs dask; {install_hint('dask')}") from None
    knock(name, place)
    quiet = logging.getLogger("distributed")
    level = quiet.level
    try:
        quiet.setLevel(logging.CRITICAL)  # what goes wrong here is said once, below
        # A client that met another kind of server would go on trying when the process ends.
        in_time(lambda: asyncio.run(_greet(address)), name, ANSWER_S)
        client: Any = in_time(
            lambda: distributed.Client(address, timeout=ANSWER_S, set_as_default=False, name="meshwright"),
            name,
            ANSWER_S + 0.5,
        )
    finally:
        quiet.setLevel(level)
    try:
        _wait_for_workers(client, name)
        versions: Mapping[str, Any] = in_time(
            lambda: client.run(importlib.metadata.version, "meshwright", on_error="return"), name, ANSWER_S
        )
        check_versions(name, versions)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # data of some size in a task: meant so, it goes once
            held = client.submit(_same, cargo, key=f"meshwright-{cargo.digest[:16]}-{client.id}", pure=False)
        return _crew(name, client, ClientExecutor(client, pure=False), held, KilledWorker)
    except BaseException:
        client.close()
        raise


async def _greet(address: str) -> None:
    """Shake hands with a dask server."""
    from distributed.comm.core import connect

    comm = await connect(address, timeout=ANSWER_S)
    await comm.close()


def _same(cargo: Cargo) -> Cargo:
    """In a worker: keep the data for peers."""
    return cargo


def _crew(name: str, client: Any, executor: Any, held: Any, killed: type[BaseException]) -> Crew:
    seen = {"at": time.monotonic(), "workers": 1, "counted": 0.0}

    def workers() -> int:
        now = time.monotonic()
        if now - seen["counted"] > 2.0:  # workers join and leave
            seen["workers"], seen["counted"] = sum(client.nthreads().values()), now
        return max(1, int(seen["workers"]))

    def check() -> None:
        try:
            alone = not in_time(client.nthreads, name, ANSWER_S)
        except Exception:
            alone = True
        if not alone:
            seen["at"] = time.monotonic()
        elif time.monotonic() - seen["at"] > DESERTED_S:
            raise RunError(f"{name}: no worker for {DESERTED_S:.0f} s; see whether the cluster is up")

    def died(future: Future[Any], error: BaseException) -> str:
        return "worker process died (dask gave up on it after several workers)" if isinstance(error, killed) else ""

    def close(at_once: bool) -> None:
        if not at_once:
            held.release()
            client.close()
            return
        # What ended the run is what is to be said; a client whose scheduler went away may fail once more on closing.
        with suppress(Exception):
            held.release()
            executor.shutdown(wait=False)
            client.close()

    return Crew(name, executor, evaluate_points, held, workers, close, 1, died, check)


def _wait_for_workers(client: Any, name: str) -> None:
    end = time.monotonic() + JOIN_S
    while not client.nthreads():
        if time.monotonic() > end:
            raise InputError(f"executor: the scheduler at {name} has no workers; start some: dask worker HOST:PORT")
        time.sleep(0.2)
