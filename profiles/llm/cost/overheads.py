"""`Overheads`: the host time of an engine's step beside its kernels; the same for every model, device and setting."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown

__all__ = ["COMPILED_LAUNCH_S", "EAGER_LAUNCH_S", "NO_OVERHEADS", "Overheads"]

COMPILED_LAUNCH_S = 5e-6
"""Launching one kernel from compiled code: the driver's call and its arguments. Declared, not measured here."""
EAGER_LAUNCH_S = 25e-6
"""Launching one kernel from an eager engine: Python, the framework's dispatch, the driver's call. A declared guess, of
the size that one operator of an eager model takes on a server's CPU; measure yours and give it as `launch_s`."""


@dataclass(frozen=True, slots=True, repr=False)
class Overheads(Shown):
    """Host times around the kernels of one step. Each is a time that can be measured; `explain` prints them.

    Parameters
    ----------
    scheduler_s : float
        Host time of a step during which the device waits: schedule, build inputs, take the sampled tokens, stop checks.
    per_sequence_s : float
        The same per scheduled sequence: block tables, sampling metadata, detokenisation.
    per_request_s : float
        The same to take a request in: its tokens and records. It counts with the request's first chunk.
    launch_s : float, optional
        Host time to launch one kernel outside a CUDA graph: `COMPILED_LAUNCH_S` if left out, `EAGER_LAUNCH_S` without
        graphs, since engines without them run eagerly (vLLM's ``enforce_eager`` turns both off). The device waits only
        if launching all kernels of a step is slower than running them.
    graph_launch_s : float
        Host time to launch one captured graph.
    cuda_graphs : bool
        Whether steps of up to `graph_tokens` tokens run as graphs: decodes as one, steps with a prefill in pieces
        around attention. Tokens are padded to the captured sizes. Without: every kernel of every step is launched.
    graph_tokens : int
        Largest captured size.
    overlapped : bool
        Whether the host prepares the next step while the device works (asynchronous scheduling): the step then takes
        the longer of the two.
    fused : bool
        Whether the engine compiles norms, activations and the quantisation of activations into single kernels.
    """

    scheduler_s: float = 0.6e-3
    per_sequence_s: float = 5e-6
    launch_s: float | None = None
    graph_launch_s: float = 20e-6
    cuda_graphs: bool = True
    graph_tokens: int = 512
    overlapped: bool = False
    fused: bool = True
    per_request_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("scheduler_s", "per_sequence_s", "per_request_s", "launch_s", "graph_launch_s"):
            value = getattr(self, name)
            if name == "launch_s" and value is None:
                continue
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"overheads: {name}: expected seconds >= 0 (got {value})")
        if self.graph_tokens < 0:
            raise InputError(f"overheads: graph_tokens: expected >= 0 (got {self.graph_tokens})")

    @property
    def kernel_launch_s(self) -> float:
        """`launch_s`, or the default for engines with or without graphs."""
        if self.launch_s is not None:
            return self.launch_s
        return COMPILED_LAUNCH_S if self.cuda_graphs else EAGER_LAUNCH_S

    def to_dict(self) -> dict[str, Any]:
        """Every field with the value that is used, defaults filled in."""
        return asdict(self) | {"launch_s": self.kernel_launch_s}

    def explain(self) -> str:
        """Every field with its value, in one line."""
        return "overheads: " + ", ".join(f"{name}={value:g}" for name, value in self.to_dict().items())

    def padded(self, tokens: int) -> int:
        """Tokens that run for `tokens` scheduled ones: the next captured size (1, 2, 4, then by 8, above 256 by 16)."""
        if not self.cuda_graphs or tokens > self.graph_tokens or tokens < 1:
            return tokens
        # The default list of vLLM's captured sizes: 1, 2, 4, multiples of 8 to 256, of 16 above.
        step = 1 if tokens <= 2 else 4 if tokens <= 4 else 8 if tokens <= 256 else 16
        return min(-(-tokens // step) * step, max(self.graph_tokens, tokens))

    def padded_each(self, tokens: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """`padded` of each of many; only the few that graphs are captured for differ."""
        run = tokens.astype(np.float64)
        captured = np.flatnonzero((tokens <= self.graph_tokens) & self.cuda_graphs)
        run[captured] = [self.padded(int(one)) for one in tokens[captured]]
        return run


NO_OVERHEADS = Overheads(0.0, 0.0, 0.0, 0.0, cuda_graphs=False)
"""Kernels only."""
