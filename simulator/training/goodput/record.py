"""`Record`: what an engine says of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CHECKPOINTING", "COLUMNS", "COMPUTING", "GROWS", "PHASES", "RESTARTING", "WAITING", "Record"]

COMPUTING, CHECKPOINTING, RESTARTING, WAITING, GROWS = 0, 1, 2, 3, 4
PHASES = ("computing", "checkpoint", "restart", "waiting", "grows")
"""What the run did when a node failed; *grows*: none did, the run stopped to go on with more replicas."""

COLUMNS = ("at_s", "node", "phase", "lost_s", "saved_s", "replicas")
"""Of `Record.rows`: when; which node, −1 if none; index into `PHASES`; seconds that are lost with it; work that is
saved by then, seconds; replicas that ran until then, 0 while it waited."""


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One run.

    Parameters
    ----------
    wall_s : float
        When it ended.
    finished : bool
        Whether all work was done; else it was given up.
    work_s, slower_s, checkpoint_s, lost_s, waiting_s, restart_s : float
        Where the time went, which add up to `wall_s`: computing that was kept, at the speed of all replicas; what it
        took longer for want of replicas; writing checkpoints that counted; what failures undid; waiting for nodes;
        restarting.
    rows : array
        A row for each failure, with the columns `COLUMNS`.
    """

    wall_s: float
    finished: bool
    work_s: float
    slower_s: float
    checkpoint_s: float
    lost_s: float
    waiting_s: float
    restart_s: float
    rows: np.ndarray[Any, np.dtype[np.float64]]
