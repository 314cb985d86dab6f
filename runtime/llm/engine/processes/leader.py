"""`Leader`: rank 0 of a parallel engine: starts the other processes, sends every batch, and sees that they live."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import contextlib
import select
import subprocess
import time
from dataclasses import asdict, dataclass

from torch import Tensor

from .....errors import RunError
from .....profiles.llm.decoder import DecoderSpec
from ....children import Child, Children
from ....serving.protocol import receive_exactly, send_json
from ..batch import PackedBatch
from ..options import EngineConfig
from ..runner import Memory, Runner, check_shape
from .worker import HELLO, READY, STOP, Task

__all__ = ["Leader"]

END_S = 5.0
"""How long followers may take to end by themselves, seconds; then they are killed. A guess."""


@dataclass(eq=False)
class _Follower(Child):
    rank: int


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
        self._children = Children("engine")
        self._groups = None
        self._dead = False
        try:
            store = str(self._children.folder / "store")
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
            self._children.ready()
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
                if not self._dead and follower.popen.poll() is None:
                    follower.pipe.sendall(STOP.tobytes())
        if self._groups is not None:
            with contextlib.suppress(RuntimeError):
                self._groups.close()
            self._groups = None
        for follower in self._followers:
            with contextlib.suppress(subprocess.TimeoutExpired):  # those are ended below
                follower.popen.wait(0.0 if self._dead else END_S)
        self._followers = []
        self._children.close()

    def _start(self, task: Task) -> None:
        threads = {} if self.options.threads is None else {"OMP_NUM_THREADS": str(self.options.threads)}
        child = self._children.start(f"{__package__}.worker", f"rank-{task.rank}", threads)
        self._followers.append(_Follower(**vars(child), rank=task.rank))
        with contextlib.suppress(OSError):  # its end is noticed when it is awaited, with its last words
            send_json(child.pipe, task.to_json())

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
                if follower.popen.poll() is not None:
                    return RunError(f"engine: rank {follower.rank} died: {follower.obituary()}")
            time.sleep(0.01)
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "imed out" in first:
            return RunError(f"engine: another process did not answer within {self.options.timeout_s:g} s ({first})")
        return RunError(f"engine: a step over {self.options.world} processes failed: {first}")
