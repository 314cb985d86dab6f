"""Host times by version and mode of the engine: what the device waits for between steps, and where that is known from.

None of the figures was measured here. `meshwright measure` fits those of a real engine, which then count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown
from .overheads import Overheads

__all__ = ["ASYNC_SINCE", "HOSTS", "HostTimes", "host_times", "version_in"]

ASYNC_SINCE = (0, 14)
"""First version of vLLM that schedules asynchronously unless told not to."""


@dataclass(frozen=True, slots=True, repr=False)
class HostTimes(Shown):
    """Host times of some versions in one mode.

    Parameters
    ----------
    name : str
        The versions and the mode.
    since : tuple of int
        First version.
    asynchronous : bool
        Whether the next step is prepared while the device works.
    scheduler_s, per_sequence_s : float
        What a step waits, and per sequence in it, seconds.
    source : str
        Where the figures come from.
    graphs : bool
        Whether versions of that time had CUDA graphs at all.
    """

    name: str
    since: tuple[int, int]
    asynchronous: bool
    scheduler_s: float
    per_sequence_s: float
    source: str
    graphs: bool = True

    def overheads(self, eager: bool = False) -> Overheads:
        """As the cost of an iteration takes them; `eager` launches every kernel from Python (``enforce_eager``)."""
        return Overheads(self.scheduler_s, self.per_sequence_s, cuda_graphs=self.graphs and not eager)

    def explain(self, eager: bool = False) -> str:
        """One line."""
        mode = "" if self.graphs and not eager else ", eager: every kernel is launched from Python"
        return (
            f"host times: {self.name}{mode}: {1e3 * self.scheduler_s:g} ms a step and {1e6 * self.per_sequence_s:g} us "
            f"a sequence; {self.source}"
        )


HOSTS = (
    HostTimes(
        "vLLM before 0.3", (0, 0), False, 11e-3, 60e-6,
        "what is left of DistServe's published fits of vLLM (OPT-13B at tp 4, OPT-66B at tp 8, A100) without 25 us a "
        "kernel; no CUDA graphs then (vLLM pull request 1926)", graphs=False,
    ),
    HostTimes(
        "vLLM 0.3 to 0.5", (0, 3), False, 5e-3, 100e-6,
        "vLLM issues 6854 (the GPU waits 5 to 13 ms a step) and 6913 (outputs of 32 sequences take 3.4 ms, of one 0.2)",
    ),
    HostTimes(
        "vLLM 0.6 and 0.7", (0, 6), False, 1.25e-3, 17e-6,
        "vLLM issue 10634 (5 to 6 ms between steps of 256 sequences); how that divides into step and sequence: a guess",
    ),
    HostTimes(
        "synchronous vLLM from 0.8 on", (0, 8), False, 1.25e-3, 37e-6,
        "the middle of 1 to 1.5 ms and 30 to 45 us a sequence that recorded synchronous runs on H100 show",
    ),
    HostTimes(
        "asynchronous vLLM", (0, 8), True, 0.6e-3, 5e-6,
        "a guess of what stays between steps (copies, metadata, sampled tokens); a recorded run of vLLM 0.19 on an RTX "
        "PRO 6000 and rows of 0.14 on H100 bear it out",
    ),
)  # fmt: skip
"""By version and mode, rising."""


def version_in(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version somewhere in a text."""
    found = re.search(r"\b(\d+)\.(\d+)(?:\.\d+)?", text)
    return None if found is None else (int(found[1]), int(found[2]))


def host_times(version: str = "", asynchronous: bool | None = None) -> HostTimes:
    """Host times of a version of vLLM.

    Parameters
    ----------
    version : str
        The version, anywhere in a text; one of today where there is none.
    asynchronous : bool, optional
        Whether it schedules asynchronously; the version's default if left out.

    Raises
    ------
    InputError
        If a version is said to schedule asynchronously that cannot.
    """
    found = version_in(version)
    ahead = asynchronous if asynchronous is not None else found is None or found >= ASYNC_SINCE
    fit = [h for h in HOSTS if h.asynchronous == ahead and (found is None or h.since <= found)]
    if not fit:
        raise InputError(f"version: vLLM {version} does not schedule asynchronously; that began with 0.8's engine")
    return fit[-1]
