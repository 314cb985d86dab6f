"""Bandwidths on the way of weights to a device, measured on this machine: disk, host memory, network stack.

Each is bytes over seconds, the median of rounds:

- ``disk``: a file of random bytes is written and synced, dropped from the page cache before every round
  (``posix_fadvise``, DONTNEED), and read from its beginning to its end. Before it is read, pages at sixteen places are
  asked for without waiting (``preadv2``, NOWAIT): those that are there at once were not dropped.
- ``host_memory``: a copy in memory by one thread; bytes copied, not bytes moved (which are twice as many).
- ``network``: TCP over loopback between two processes. No adapter and no wire is in it: an upper bound of what this
  machine's processors can send and receive, and no measurement of its network.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ...errors import InputError, RunError
from ...files import readable

__all__ = ["KIND", "Bandwidths", "measure_bandwidths", "read_bandwidths"]

KIND = "meshwright-bandwidths"

LEAST_BYTES = 1 << 16
BLOCK = 1 << 23
"""Bytes of one read or send."""

PLACES = 16
"""Places of a file at which it is asked whether the page cache still holds it."""

TIMEOUT_S = 60.0
"""Seconds after which a receiver that does not answer is given up."""

RECEIVER = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
left, held = int(sys.argv[2]), bytearray(1 << 20)
for _ in range(int(sys.argv[3])):
    got = 0
    while got < left:
        n = link.recv_into(held)
        if not n:
            raise SystemExit(1)
        got += n
    link.sendall(b"!")
"""


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """What was measured.

    Parameters
    ----------
    disk, host_memory, network : float
        Bytes per second, medians.
    rounds : mapping of str to tuple of float
        The same of every round.
    cached : float or None
        Largest share of the file that the page cache still held when it was read: where it is not 0, `disk` is that of
        memory in part. None if the system does not tell.
    n_bytes : int
        Bytes of each round.
    where : str
        Folder of the file, as it was given.
    machine, taken : str
        What it was taken on, and when (UTC).
    """

    disk: float
    host_memory: float
    network: float
    rounds: Mapping[str, tuple[float, ...]]
    cached: float | None
    n_bytes: int
    where: str
    machine: str
    taken: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What the figures are not."""
        found = ["network: TCP over loopback between two processes; no adapter and no wire"]
        if self.cached is None:
            found.append("disk: the system does not tell whether the page cache was dropped; it may be memory's speed")
        elif self.cached:
            found.append(f"disk: the page cache could not be dropped ({self.cached:.0%} of the file was in it)")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it. `loading` has what a case's section of that name takes: no network, which is loopback."""
        loading = {"disk": round(self.disk), "host_memory": round(self.host_memory)}
        return {"kind": KIND, "loading": loading, **asdict(self), "notes": list(self.notes)}


def measure_bandwidths(
    folder: str | Path | None = None,
    n_bytes: int = 1 << 28,
    rounds: int = 5,
    progress: Callable[[str], None] | None = None,
) -> Bandwidths:
    """Measure all three.

    Parameters
    ----------
    folder : path, optional
        On the disk that is measured; the system's folder for temporary files if left out.
    n_bytes : int
        Bytes of each round, at least 64 KiB.
    rounds : int
        Rounds, at least 1; the first copy and the first message are not counted, they allocate and connect.
    progress : callable, optional
        Told what is being measured.

    Raises
    ------
    InputError
        If the folder is none, or cannot be written; on a number out of its range.
    RunError
        If the receiving process fails.
    """
    where = Path(tempfile.gettempdir() if folder is None else folder)
    for name, value, least in (("n_bytes", n_bytes, LEAST_BYTES), ("rounds", rounds, 1)):
        if type(value) is not int or value < least:
            raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
    if not where.is_dir() or not os.access(where, os.W_OK):
        raise InputError(f"bandwidths: expected a folder that can be written (got {where}); name one on the disk")
    say = progress or (lambda what: None)
    say("disk")
    disk, cached = _disk(where, n_bytes, rounds)
    say("host memory")
    copies = _copies(n_bytes, rounds)
    say("network")
    sent = _sent(n_bytes, rounds)
    each = {"disk": disk, "host_memory": copies, "network": sent}
    return Bandwidths(
        median(disk), median(copies), median(sent), each, cached, n_bytes, str(where),
        f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    )  # fmt: skip


def read_bandwidths(path: str | Path) -> dict[str, float]:
    """What a case's section `loading` takes of a file that `Bandwidths.to_dict` was written to: bytes per second.

    Raises
    ------
    InputError
        If it cannot be read, is something else, lacks the disk's, or holds one that is no number >= 1.
    """
    try:
        found: Any = json.loads(readable(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give the file of measured bandwidths") from None
    except (ValueError, RecursionError):
        found = None
    said: Any = found.get("loading") if isinstance(found, dict) and found.get("kind") == KIND else None  # pyright: ignore
    if not (isinstance(said, dict) and "disk" in said and set(said) <= {"disk", "host_memory", "network"}):
        raise InputError(
            f"{path}: is no file of measured bandwidths; write one with meshwright measure serving --bandwidths FOLDER "
            f"--out FILE"
        )
    for name, value in said.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < float("inf"):
            raise InputError(f"{path}: loading.{name}: expected bytes per second >= 1 (got {value!r}); measure again")
    return {str(name): float(value) for name, value in said.items()}


def _disk(where: Path, n_bytes: int, rounds: int) -> tuple[tuple[float, ...], float | None]:
    """Bytes per second of reading a file, and the largest share of it that was in the page cache."""
    found: list[float] = []
    shares: list[float | None] = []
    buffer = bytearray(min(BLOCK, n_bytes))
    random = np.random.default_rng(0)
    try:
        with tempfile.NamedTemporaryFile(dir=where) as file:
            for begun in range(0, n_bytes, BLOCK):
                file.write(random.bytes(min(BLOCK, n_bytes - begun)))
            file.flush()
            os.fsync(file.fileno())
            with open(file.name, "rb", buffering=0) as read:
                for _ in range(rounds):
                    _drop(read.fileno())
                    shares.append(_cached(read.fileno(), n_bytes))
                    _drop(read.fileno())  # asking may have begun to read ahead
                    read.seek(0)
                    begun_s = time.perf_counter()
                    while read.readinto(buffer):
                        pass
                    found.append(n_bytes / (time.perf_counter() - begun_s))
    except OSError as error:
        raise InputError(f"bandwidths: {where}: {error.strerror}; name a folder with {n_bytes:,} bytes free") from None
    known = [share for share in shares if share is not None]
    return tuple(found), max(known) if len(known) == len(shares) else None


def _drop(file: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _cached(file: int, n_bytes: int) -> float | None:
    """Share of a file's sampled places that can be read without waiting; None if the system does not tell."""
    if not (hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")):
        return None
    held = 0
    for place in range(PLACES):
        try:
            held += os.preadv(file, [bytearray(1)], place * (n_bytes // PLACES), os.RWF_NOWAIT) > 0
        except OSError as error:
            if error.errno != errno.EAGAIN:
                return None
    return held / PLACES


def _copies(n_bytes: int, rounds: int) -> tuple[float, ...]:
    source, target = np.ones(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
    found: list[float] = []
    for _ in range(rounds + 1):
        begun_s = time.perf_counter()
        np.copyto(target, source)
        found.append(n_bytes / (time.perf_counter() - begun_s))
    return tuple(found[1:])


def _sent(n_bytes: int, rounds: int) -> tuple[float, ...]:
    """Bytes per second to another process; a round ends with its answer that all is there."""
    block = bytes(min(BLOCK, n_bytes))
    found: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        command = [sys.executable, "-I", "-c", RECEIVER, str(server.getsockname()[1]), str(n_bytes), str(rounds + 1)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as receiver:
            try:
                link, _ = server.accept()
                with link:
                    link.settimeout(TIMEOUT_S)
                    for _ in range(rounds + 1):
                        begun_s = time.perf_counter()
                        for begun in range(0, n_bytes, len(block)):
                            link.sendall(memoryview(block)[: min(len(block), n_bytes - begun)])
                        if link.recv(1) != b"!":
                            raise RunError("bandwidths: network: the receiving process ended early")
                        found.append(n_bytes / (time.perf_counter() - begun_s))
            except OSError as error:
                raise RunError(
                    f"bandwidths: network: {error.strerror or 'no answer from the receiving process'}"
                ) from None
            finally:
                receiver.kill()
    return tuple(found[1:])
