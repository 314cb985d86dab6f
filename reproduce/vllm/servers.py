"""The GPUs of the vLLM thesis' Table 1, and what an iteration takes on them: modelled, or the line of somebody's fits.

Modelled, it is what `iteration_cost` says of an A100 of which nothing was measured, its roofline, at 70 % of the data
sheet in matrices and 80 % elsewhere, all-reduces over NVLink; and host time, of the iteration and of each sequence in
it. These two constants are fitted to two published batches (`host_time`); everything else is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ...errors import InputError
from ...profiles import device
from ...profiles.llm import NO_OVERHEADS, IterationCost, decoder, iteration_cost, load_fits
from ...profiles.llm.cost.fitted import fits_in

__all__ = ["HOST", "LLAMA", "MODELLED", "SERVERS", "Costs", "HostTime", "Server"]

GIB = 2**30
LIKE = {"llama-13b": "opt-13b"}
"""Model -> the one of its size whose fit it gets."""


@dataclass(frozen=True, slots=True)
class HostTime:
    """What the host adds to the kernels.

    Parameters
    ----------
    iteration_s, sequence_s : float
        Seconds of an iteration, and of each sequence in it; >= 0.
    """

    iteration_s: float
    sequence_s: float


HOST = HostTime(3.79e-3, 0.302e-3)
"""What `host_time.calibrated` finds (seeds 0 to 2); vllm/fig13 finds it anew."""


@dataclass(frozen=True, slots=True)
class Server:
    """A row of Table 1.

    Parameters
    ----------
    model : str
        The model's name.
    device : str
        Name of its GPUs' type.
    gpus : int
        Number of GPUs, which is the degree of tensor parallelism.
    kv_gib : int
        Memory for keys and values on all of them, GiB.
    """

    model: str
    device: str
    gpus: int
    kv_gib: int

    @property
    def slots(self) -> int:
        """Tokens whose keys and values fit."""
        return self.kv_gib * GIB // decoder(self.model).kv_bytes_per_token()

    def cost(self, host: HostTime = HOST, *, computing: float = 1.0) -> IterationCost:
        """Seconds of an iteration on devices that compute `computing` times as fast as their roofline says.

        Raises
        ------
        InputError
            If `computing` is not positive.
        """
        if not computing > 0:
            raise InputError(f"computing: expected a positive factor (got {computing})")
        sheet = device(self.device)
        reached = replace(sheet, peak_flops=computing * sheet.peak_flops)
        overheads = replace(NO_OVERHEADS, scheduler_s=host.iteration_s, per_sequence_s=host.sequence_s)
        return iteration_cost(decoder(self.model), reached, tp=self.gpus, overheads=overheads)


SERVERS: Mapping[str, Server] = MappingProxyType(
    {
        "OPT-13B": Server("opt-13b", "a100-40gb", 1, 12),
        "OPT-66B": Server("opt-66b", "a100-40gb", 4, 21),
        "OPT-175B": Server("opt-175b", "a100-80gb", 8, 264),
    }
)
"""Table 1."""

LLAMA = Server("llama-13b", SERVERS["OPT-13B"].device, SERVERS["OPT-13B"].gpus, SERVERS["OPT-13B"].kv_gib)
"""LLaMA-13B (§5.6.4) has the size of OPT-13B; Table 1 does not list it, so it gets OPT-13B's memory."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What an iteration costs on any of the servers.

    Parameters
    ----------
    fits : Path, optional
        Fitted iteration times of OPT models on A100s (`profiles.llm.load_fits`): where they have a server's model, they
        are its cost, and host time is in them. Others stay modelled.

    Raises
    ------
    InputError
        If the file has none of the servers' models.
    """

    fits: Path | None = None

    def __post_init__(self) -> None:
        if self.fits is not None and not any(self._has(server) for server in SERVERS.values()):
            wanted = ", ".join(f"{s.model} at tp {s.gpus}" for s in SERVERS.values())
            raise InputError(f"{self.fits}: expected a fit of {wanted}; there is none of them")

    def of(self, server: Server) -> IterationCost:
        """Seconds of an iteration on a server."""
        if self.fits is None or not self._has(server):
            return server.cost()
        return load_fits(self.fits, LIKE.get(server.model, server.model), server.gpus)

    def told(self) -> str:
        """Which cost it is, in words."""
        if self.fits is None:
            return (
                f"two constants: {1e3 * HOST.iteration_s:.2f} ms of host time an iteration and "
                f"{1e3 * HOST.sequence_s:.3f} ms a sequence, fitted to vLLM's batches of 30.42 and 132.44 (vllm/fig13) "
                "and to nothing else; all systems have them, and the A100's roofline (70 % of the sheet in matrices, "
                "80 % elsewhere)"
            )
        fitted = [name for name, server in SERVERS.items() if self._has(server)]
        others = [name for name in SERVERS if name not in fitted]
        more = f"; {', '.join(others)}, of which it has none, on roofline and host time" if others else ""
        return f"iterations of {', '.join(fitted)} take what the fits in {self.fits.name} say{more}"

    def _has(self, server: Server) -> bool:
        assert self.fits is not None
        return server.gpus in fits_in(self.fits).get(LIKE.get(server.model, server.model), ())


MODELLED = Costs()
