"""`Leader`: rank 0 of a parallel engine: starts the other processes, sends every batch, and sees that they live."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from ....errors import RunError
from ....profiles.llm.decoder import DecoderSpec
from ...protocol import receive_exactly, send_json
from .batch import PackedBatch
from .options import EngineConfig
from .runner import Memory, Runner, check_shape
from .worker import HELLO, READY, STOP, Task

__all__ = ["Leader"]

END_S = 5.0


@dataclass(eq=False, slots=True)
class _Follower:
    rank: int
    process: subprocess.Popen[bytes]
    pipe: socket.socket
    log: Path

    def obituary(self) -> str:
        """How it ended, and the last line that it printed."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe but did not exit"
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = self.log.read_text(errors="replace").strip().splitlines()
        return f"{how}{': ' + said[-1] if said else ''}"


class Leader:
    """Runs batches on all processes of a parallel engine; the same calls as a `Runner`.

    Parameters
    ----------
    spec, memory, options
        As of `Runner`.

    Raises
    ------
    InputError
        If the model cannot be split so.
    RunError
        If a process does not start.
    """

    def __init__(self, spec: DecoderSpec, memory: Memory, options: EngineConfig) -> None:
        check_shape(spec, memory, options)
        self.options = options
        self._followers: list[_Follower] = []
        self._folder = tempfile.TemporaryDirectory(prefix="meshwright-engine-")
        self._lifeline = list(os.pipe())
        self._groups = None
        self._dead = False
        try:
            store = str(Path(self._folder.name) / "store")
            for rank in range(1, options.world):
                self._start(Task(spec, asdict(memory), options, rank, store))
            self._await(HELLO, "start")
            from .groups import Groups

            try:
                self._groups = Groups(options, 0, store)
                self._runner = Runner(spec, memory, options, 0, self._groups)
            except RuntimeError as error:
                raise self._failure(error) from None
            self._await(READY, "build the model")
        except BaseException:
            self.close()
            raise

    def run(self, packed: PackedBatch) -> Tensor | None:
        """Run a batch everywhere; rank 0's logits.

        Raises
        ------
        RunError
            If another process died, or does not answer in time.
        """
        if self._dead:
            raise RunError("engine: another process of it died; make a new engine")
        message = packed.layout.header().tobytes() + packed.numbers.tobytes()
        try:
            for follower in self._followers:
                follower.pipe.sendall(message)
            return self._runner.run(packed)
        except (OSError, RuntimeError) as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """End the other processes and leave the process group."""
        for follower in self._followers:
            with contextlib.suppress(OSError):
                if not self._dead and follower.process.poll() is None:
                    follower.pipe.sendall(STOP.tobytes())
        if self._groups is not None:
            with contextlib.suppress(RuntimeError):
                self._groups.close()
            self._groups = None
        for follower in self._followers:
            try:
                follower.process.wait(0.0 if self._dead else END_S)
            except subprocess.TimeoutExpired:
                follower.process.kill()
                follower.process.wait()
            follower.pipe.close()
        self._followers = []
        for descriptor in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._lifeline = []
        self._folder.cleanup()

    def _start(self, task: Task) -> None:
        ours, theirs = socket.socketpair()
        log = Path(self._folder.name) / f"rank-{task.rank}.log"
        threads = {} if self.options.threads is None else {"OMP_NUM_THREADS": str(self.options.threads)}
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", f"{__package__}.worker", str(theirs.fileno()), str(self._lifeline[0]),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env=os.environ | threads,
                pass_fds=(theirs.fileno(), self._lifeline[0]),
                start_new_session=True,  # Ctrl-C in a terminal is this process's to handle
            )  # fmt: skip
        theirs.close()
        self._followers.append(_Follower(task.rank, process, ours, log))
        send_json(ours, task.to_json())

    def _await(self, word: bytes, what: str) -> None:
        """Wait for one byte from every follower."""
        deadline = time.monotonic() + self.options.timeout_s
        waiting = {follower.pipe: follower for follower in self._followers}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                ranks = ", ".join(str(follower.rank) for follower in waiting.values())
                raise RunError(
                    f"engine: rank {ranks} did not {what} within {self.options.timeout_s:g} s; give more timeout_s"
                )
            for pipe in ready:
                follower = waiting.pop(pipe)
                try:
                    said = receive_exactly(pipe, 1)
                except (RunError, OSError):
                    self._dead = True
                    raise RunError(f"engine: rank {follower.rank} died: {follower.obituary()}") from None
                if said != word:
                    raise RunError(f"engine: rank {follower.rank} said {said!r} where {word!r} was due")

    def _failure(self, error: Exception) -> RunError:
        """One line about what went wrong; the engine cannot go on."""
        self._dead = True
        deadline = time.monotonic() + 1.0  # a process that dies breaks its connections a little before it is gone
        while time.monotonic() < deadline:
            for follower in self._followers:
                if follower.process.poll() is not None:
                    return RunError(f"engine: rank {follower.rank} died: {follower.obituary()}")
            time.sleep(0.01)
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "imed out" in first:
            return RunError(f"engine: another process did not answer within {self.options.timeout_s:g} s ({first})")
        return RunError(f"engine: a step over {self.options.world} processes failed: {first}")
