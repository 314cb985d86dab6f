"""`run`: serve a trace with a placement for real."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Mapping

from ...errors import InputError
from ...profiles.profile import ModelProfile
from ...simulator.placement import Placement
from ...simulator.serving.plan.file import Plan
from ...simulator.serving.policy.batching import Batching
from ...traces.trace import Trace
from .controller import Progress
from .options import RunOptions
from .result import RunResult
from .session import Session

__all__ = ["run"]


def run(
    plan: Plan | Placement,
    trace: Trace,
    *,
    profiles: Mapping[str, ModelProfile] | None = None,
    device: str = "auto",
    dispatch: str | None = None,
    batching: Batching | int | None = None,
    admission: bool | None = None,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Serve a trace with a placement, for real: a process per device, requests at their arrival times.

    Parameters
    ----------
    plan : Plan or Placement
        Who holds what. A plan also says how to serve; the arguments below override it.
    trace : Trace
        The requests; the run takes as long as the trace does.
    profiles : Mapping[str, ModelProfile], optional
        What dispatch and admission predict with; the costs that the plan carries if left out.
    device : {"auto", "cpu", "cuda"}
        What a device is: a core of this machine, or a GPU. ``auto``: by the plan's device type, else cores.
    dispatch, batching, admission
        As in `simulator.simulate`.
    options : RunOptions, optional
        How long workers may take to start, to give a sign of life, and to answer; how the controller predicts.
    progress : callable, optional
        Called about once a second with: seconds into the run, requests decided, requests in all.

    Returns
    -------
    RunResult
        Columns and metrics as simulated, measured. If a worker died, its group's requests failed and `failures` says
        why; the others were served.

    Raises
    ------
    InputError
        If torch is missing, a model cannot be built, or an argument is wrong.
    OutOfProfileError
        If a configuration or batch size was not profiled.
    RunError
        If the workers do not start, or a group hangs.
    SystemExit
        With code 143, if the process is told to terminate (SIGTERM); every worker was stopped.
    """
    if not isinstance(trace, Trace):
        raise InputError(f"run: trace: expected a Trace (got {type(trace).__name__})")
    session = Session(plan, trace.models, profiles, device=device, batching=batching, options=options)
    dispatcher = session.prepare(trace, dispatch=dispatch, admission=admission)
    with session:
        return session.execute(dispatcher, progress)
