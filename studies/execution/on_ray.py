"""Studies on a Ray cluster: ``ray`` for the one of this machine, or a new one; ``ray://HOST:PORT`` for another."""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from ...errors import InputError, install_hint
from .executors import Crew, check_versions, in_time, knock
from .work import Cargo, evaluate_points

__all__ = ["RayExecutor", "ray_crew"]

ANSWER_S = 9.0
"""Seconds that a cluster has to answer: what is unreachable is said within ten."""

START_S = 90.0
"""Seconds that a cluster which answered has to start this driver's own process there."""


class RayExecutor(Executor):
    """Ray tasks as an executor: one CPU each, never run twice by Ray itself."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send a task."""
        if fn not in self._remote:
            self._remote[fn] = self._ray.remote(num_cpus=1, max_retries=0)(fn)
        reference = self._remote[fn].remote(*args, **kwargs)
        return reference.future()


def ray_crew(name: str, place: tuple[str, int] | None, workers: int | None, cargo: Cargo) -> Crew:
    """Connect to a Ray cluster, or start one here, and check its nodes.

    Parameters
    ----------
    place : (host, port), optional
        Of a Ray client server. If not given: the cluster of ``RAY_ADDRESS`` or of this machine; else a new one,
        which ends with the study.
    workers : int, optional
        CPUs of a new one; one or none takes all.

    Raises
    ------
    InputError
        If Ray is not installed, nobody answers, or a node lacks this version of the package.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the coming default; says nothing on stderr
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise InputError(f"executor: {name} needs Ray; {install_hint('ray')}") from None
    if place is not None:
        knock(name, place)
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, name, place, workers)
    try:
        check_versions(name, _versions(ray))
        executor = RayExecutor(ray)
        held = ray.put(cargo)
    except BaseException:
        if ours:
            ray.shutdown()
        raise

    def cpus() -> int:
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def died(future: Future[Any], error: BaseException) -> str:
        kinds = ("WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "LocalRayletDiedError")
        found = next((k for k in kinds if isinstance(error, getattr(ray.exceptions, k, ()))), "")
        if not found:
            return ""
        return "worker process died" + (" (out of memory)" if found == "OutOfMemoryError" else "")

    def close(at_once: bool) -> None:
        if ours:
            ray.shutdown()

    return Crew(name, executor, _evaluate, [cargo.digest, [held]], cpus, close, 1, died)


def _evaluate(cargo: Any, points: Any, budget_s: float) -> Any:
    """In a worker: fetch the data, once in its life."""
    import ray

    digest, (held,) = cargo
    done = evaluate_points(digest, points, budget_s)
    return evaluate_points(ray.get(held), points, budget_s) if done is None else done


def _connect(ray: Any, name: str, place: tuple[str, int] | None, workers: int | None) -> None:
    said: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if place is not None:
        in_time(lambda: _greet(place), name, ANSWER_S)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # said below
                in_time(lambda: ray.init(f"ray://{place[0]}:{place[1]}", **said), name, START_S)
        except InputError as error:
            raise InputError(f"{error}; a cluster with tokens needs RAY_AUTH_MODE=token here too") from None
        return
    address = os.environ.get("RAY_ADDRESS")
    try:
        if address:
            in_time(lambda: ray.init(**said), f"{name} (RAY_ADDRESS={address})", ANSWER_S)
            return
        if _runs_here():
            in_time(lambda: ray.init("auto", **said), f"{name} on this machine", START_S)
        else:
            count = workers if workers and workers > 1 else None
            ray.init("local", num_cpus=count, include_dashboard=False, **said)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"executor: Ray cannot start here: {' '.join(str(error).split())[:200]}") from None


def _runs_here() -> bool:
    """Whether a cluster runs on this machine. Ray itself would look for minutes for one that was killed."""
    note = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    try:
        host, _, port = note.read_text().strip().rpartition(":")
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, ValueError):
        return False
    return True


def _greet(place: tuple[str, int]) -> None:
    """Wait until a port speaks Ray's protocol."""
    grpc: Any = importlib.import_module("grpc")
    with grpc.insecure_channel(f"{place[0]}:{place[1]}") as channel:
        grpc.channel_ready_future(channel).result()


def _versions(ray: Any) -> dict[str, Any]:
    """Node -> version of the package there, or the error of asking; a standard library function asks."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(num_cpus=0, max_retries=0)(importlib.metadata.version)
    nodes = [node for node in ray.nodes() if node.get("Alive") and node.get("Resources", {}).get("CPU")]
    asked = {
        str(node["NodeManagerAddress"]): ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote("meshwright")
        for node in nodes
    }
    found: dict[str, Any] = {}
    for node, reference in asked.items():
        try:
            found[node] = ray.get(reference, timeout=60)
        except Exception as error:
            found[node] = getattr(error, "cause", None) or error
    return found
