"""What agents and the arbiter say to each other: JSON over HTTP, checked at both ends."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Answer", "Command", "Gone", "Hello", "JobState", "Kind", "Pause", "PodGone", "Profiled", "Report", "State",
    "ViewAsked",
]  # fmt: skip

Kind = Literal["wait", "begin", "report", "release", "divide", "resume"]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Hello(_Message):
    """An agent is ready.

    Parameters
    ----------
    app : str
        Name of its app, which must be what the arbiter calls the app of this number.
    step_s : float
        CPU seconds that one of its training steps takes.
    """

    app: str
    step_s: float = Field(gt=0)


class Gone(_Message):
    """An agent's process has ended.

    Parameters
    ----------
    why : str
        How.
    """

    why: str = Field(min_length=1, max_length=1000)


class Command(_Message):
    """What the arbiter tells an agent; each command but ``wait``, ``begin`` and ``resume`` is answered by a `State`.

    Parameters
    ----------
    seq : int
        Its number.
    kind : {"wait", "begin", "report", "release", "divide", "resume"}
        ``begin``: the world's time 0 is at `epoch` of the machine's monotonic clock. ``report``: say how your jobs
        stand at `at_s`, and divide nothing until told. ``release``: jobs on `gpus` stop and are on disk. ``divide``:
        `gpus` are yours; divide them. ``resume``: nothing changed. ``wait``: ask again.
    at_s : float
        The instant that the arbiter speaks of, in the world's seconds.
    gpus : tuple of int
        Which GPUs.
    epoch : float
        See ``begin``.
    hold : bool
        After ``divide``: still divide nothing by yourself.
    """

    seq: int
    kind: Kind
    at_s: float = 0.0
    gpus: tuple[int, ...] = ()
    epoch: float = 0.0
    hold: bool = False


class JobState(_Message):
    """A job that is not done: GPU seconds of the world that are left, and its GPUs."""

    job: int = Field(ge=0)
    left_s: float = Field(ge=0)
    gpus: tuple[int, ...] = ()


class Left(_Message):
    """GPU seconds that are left of a job."""

    job: int = Field(ge=0)
    left_s: float = Field(ge=0)


class Report(_Message):
    """What an agent tells the extender of its app.

    Parameters
    ----------
    phase : int
        The phase that it is in.
    jobs : tuple of Left
        Its jobs that are not done.
    """

    phase: int = Field(default=0, ge=0)
    jobs: tuple[Left, ...]


class ViewAsked(_Message):
    """What the exported plugin asks of an app: its number there, and the GPUs that it keeps and that are on offer."""

    number: int = Field(ge=0)
    held: tuple[int, ...] = ()
    lapsed: tuple[int, ...] = ()


class PodGone(_Message):
    """A pod, by namespace/name and by its uid (empty if it had none when it was placed), has ended."""

    pod: str = Field(min_length=1, max_length=400)
    uid: str = Field(default="", max_length=128)


class Pause(_Message):
    """A job stood still for `pause_s` of real time from the decision to its first second of work.

    `resumed` says whether it ran before; `save_s` and `load_s` are what checkpoint and its reading (or building the
    job) took of it.
    """

    resumed: bool
    pause_s: float
    save_s: float
    load_s: float


class Profiled(_Message):
    """What an agent measured of its jobs' iterations on GPUs that are as far apart as `level` says.

    `iterations` were timed; their mean slowdown is `mean`, to within `half_width` (95 %); bids reckon with `believed`.
    """

    level: int = Field(ge=0, le=3)
    iterations: int = Field(ge=1)
    mean: float = Field(gt=0)
    half_width: float = Field(ge=0)
    believed: float = Field(gt=0)


class State(_Message):
    """How an app stands.

    Parameters
    ----------
    at_s : float
        When, in the world's seconds.
    phase : int
        The phase that it is in.
    jobs : tuple of JobState
        Its jobs that are not done; what GPUs none of them has go back.
    over : bool
        Whether its work is done.
    pauses : tuple of Pause
        When it is over: all of its pauses.
    behind_s : float
        When it is over: by how much its latest step was late, seconds of real time.
    steps : int
        When it is over: training steps that were run.
    slowdown : tuple of float, optional
        What the agent believes that distance costs, by level; by default what it started from.
    profiled : tuple of Profiled
        What it measured, of each level that it had GPUs of.
    """

    at_s: float = Field(ge=0)
    phase: int = Field(ge=0)
    jobs: tuple[JobState, ...] = ()
    over: bool = False
    pauses: tuple[Pause, ...] = ()
    behind_s: float = 0.0
    steps: int = 0
    slowdown: tuple[float, float, float, float] | None = None
    profiled: tuple[Profiled, ...] = ()


class Answer(_Message):
    """The answer to command `seq`."""

    seq: int
    state: State
