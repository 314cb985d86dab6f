"""Scheduler time slices: a thread that asks for a short one is let in at once, even on a core that computes.

The controller shares its cores with workers that compute all the time, and so do the communication threads of a worker.
Linux lets a running thread use up its slice (3 to 4 ms) before one that wakes gets its turn, unless that one has asked
for a shorter slice (EEVDF, Linux 6.12). No privilege is needed. Elsewhere nothing is asked and they wait.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

__all__ = ["DEFAULT", "PROMPT_S", "request_slice"]

PROMPT_S = 100e-6
"""The shortest slice that Linux grants, seconds."""

DEFAULT = 0.0
"""Asks for the system's own slice again."""

_CALL = {"x86_64": 314, "aarch64": 274}
"""Number of the system call ``sched_setattr`` by machine."""


class _Attributes(ctypes.Structure):
    """``struct sched_attr`` of ``sched_setattr(2)``, first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def request_slice(seconds: float) -> bool:
    """Ask for a time slice for the calling thread and the threads that it will start.

    Parameters
    ----------
    seconds : float
        Length; `DEFAULT` for the system's own.

    Returns
    -------
    bool
        Whether the system took the request.
    """
    number = _CALL.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    asked = _Attributes(ctypes.sizeof(_Attributes), os.SCHED_OTHER, 0, nice, 0, int(seconds * 1e9), 0, 0)
    return ctypes.CDLL(None, use_errno=True).syscall(number, 0, ctypes.byref(asked), 0) == 0
