"""`measure_slices`: seconds of token slices of parts of a model on this machine's cores, by length and context.

`planners.terapipe.fit_latency` fits TeraPipe's latency model (Eq. 2.9) to these measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.graph import Graph
from ....profiles.graph.token_flow import token_flow
from ....reprs import Shown
from ..session import TrainingSession

__all__ = ["SliceGrid", "SliceMeasurements", "SliceTimes", "measure_slices", "undisturbed"]

OWN = 0.98
"""Share of a measurement in which its thread must have had its core for it to count; a guess, as in `calibrate`."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class SliceGrid(Shown):
    """Slices to measure: every length after every context, where both fit the sequence, with every number of samples.

    Parameters
    ----------
    lengths, contexts : sequence of int
        Tokens of a slice, and tokens before it in the sequence.
    samples : sequence of int
        Numbers of sequences in a microbatch.

    Raises
    ------
    InputError
        On no number of samples, or one below 1.
    """

    lengths: Sequence[int]
    contexts: Sequence[int]
    samples: Sequence[int] = (1,)

    def __post_init__(self) -> None:
        if not self.samples or min(self.samples) < 1:
            raise InputError(f"measure: samples: expected integers >= 1 (got {list(self.samples)})")

    def slices(self, tokens: int) -> list[tuple[int, int, int]]:
        """Samples, length and context of each slice of the grid that fits a sequence of so many tokens.

        Raises
        ------
        InputError
            On a length below 1, a context below 0, or more than the sequence has.
        """
        for name, values, least in (("lengths", self.lengths, 1), ("contexts", self.contexts, 0)):
            bad = next((n for n in values if isinstance(n, bool) or n < least or n > tokens), None)
            if bad is not None or not values:
                raise InputError(f"measure: {name}: expected integers from {least} to the {tokens} tokens of a "
                                 f"sequence (got {'none' if bad is None else bad})")  # fmt: skip
        pairs = sorted({(i, j) for i in self.lengths for j in self.contexts if i + j <= tokens})
        return [(b, i, j) for b in self.samples for i, j in pairs]


@dataclass(frozen=True, eq=False, repr=False)
class SliceTimes(Shown):
    """Times of m slices of one part of a model on one device.

    Parameters
    ----------
    samples, lengths, contexts : ndarray of int64, shape (m,)
        Sequences in the microbatch, tokens of the slice in each, and tokens before it.
    forward_s, backward_s : ndarray of float64, shape (m,)
        Median seconds; the backward pass gives gradients of inputs and of weights.
    """

    samples: Integers
    lengths: Integers
    contexts: Integers
    forward_s: Floats
    backward_s: Floats


@dataclass(frozen=True, eq=False, repr=False)
class SliceMeasurements(Shown):
    """Times of slices, for each part of a model.

    Parameters
    ----------
    parts : mapping
        Name of each part -> times of its slices.
    own : float
        Share of the measuring time in which processes had their cores.
    processes, repeats : int
        Number of processes that measured at once, and how often each measured a slice.
    dtype : str
        Number format.
    """

    parts: Mapping[str, SliceTimes]
    own: float
    processes: int
    repeats: int
    dtype: str


def measure_slices(
    graph: Graph,
    parts: Mapping[str, tuple[int, int]],
    grid: SliceGrid,
    *,
    repeats: int = 5,
    seed: int = 0,
    dtype: str = "float32",
    session: TrainingSession | None = None,
    together: bool = False,
    progress: Callable[[str], None] | None = None,
) -> SliceMeasurements:
    """Time the forward and backward passes of token slices, as a stage of a pipeline runs them.

    All processes measure at the same time, as the stages of a pipeline compute at the same time: cores share caches and
    memory. Keys and values of the context are in memory, as earlier slices would have left them.

    Parameters
    ----------
    graph : Graph
        A causal language model.
    parts : mapping
        Name of a part -> its first operator and one past its last, as a stage has them.
    grid : SliceGrid
        The slices.
    repeats : int
        How often each slice is timed; the result is the median of the undisturbed repeats.
    seed, dtype
        As in `run_training`.
    session : TrainingSession, optional
        Processes, which all measure at once; without it, one process is started for this call.
    together : bool
        True: each process measures a part of its own, all parts at once. False: all processes measure the same part,
        one part after another.
    progress : callable, optional
        Called with a line that says what is being done.

    Raises
    ------
    InputError
        If the graph cannot be sliced, a part has no operators, or nothing is to be measured.
    RunError
        If a process fails.
    """
    tokens = token_flow(graph)
    cases = grid.slices(tokens.length)
    for name, (first, last) in parts.items():
        if not 0 <= first < last <= len(graph.operators):
            raise InputError(f"measure: part {name!r}: expected operators of 0 to {len(graph.operators)} "
                             f"(got {first} to {last})")  # fmt: skip
    if not parts or repeats < 1:
        raise InputError("measure: expected parts and repeats >= 1")
    count = session.processes if session is not None else 1
    if together and count < len(parts):
        raise InputError(f"measure: {len(parts)} parts at once need as many processes (got {count})")
    found: dict[str, SliceTimes] = {}
    shares: list[float] = []

    turns = [list(parts)] if together else [[name] for name in parts]

    def measured(session: TrainingSession) -> None:
        for names in turns:
            if progress is not None:
                progress(f"{', '.join(names)}: {len(cases)} slices")
            job = {
                "kind": "measure_slices", "graph": graph.to_json(), "parts": [parts[name] for name in names],
                "cases": cases, "repeats": repeats, "seed": seed, "dtype": dtype,
            }  # fmt: skip
            answers = session.run(job)
            b, i, j = np.array(cases, dtype=np.int64).T
            for number, name in enumerate(names):
                mine = answers[number :: len(names)]
                times = np.array([answer["times"] for answer in mine])  # rank, repeat, case, direction, (wall, CPU, …)
                shares.append(float(min(1.0, times[..., 1].sum() / times[..., 0].sum())))
                forward, backward = (
                    np.array([undisturbed(times[:, :, k, way]) for k in range(len(cases))]) for way in (0, 1)
                )
                found[name] = SliceTimes(b, i, j, forward, backward)

    if session is not None:
        measured(session)
    else:
        with TrainingSession(1) as mine:
            measured(mine)
    return SliceMeasurements(found, min(shares), count, repeats, dtype)


def undisturbed(times: Floats) -> float:
    """Median seconds of the undisturbed measurements; if these are fewer than three, median CPU seconds of all.

    Parameters
    ----------
    times : ndarray, shape (ranks, repeats, 2 or more)
        Wall and CPU seconds of the same work. The work must not wait for others: waiting would look like disturbance.
    """
    wall, cpu = times[..., 0].ravel(), times[..., 1].ravel()
    own = (cpu >= OWN * wall) | (wall < 1e-3)  # below a millisecond the CPU clock is too coarse to tell
    return float(np.median(wall[own]) if own.sum() >= min(3, wall.size) else np.median(cpu))
