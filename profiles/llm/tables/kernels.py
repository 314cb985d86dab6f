"""`KernelTables`: kernels measured on one type of device, read from two public formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....reprs import Shown
from ...hardware import DeviceSpec, LinkSpec
from .grid import Grid
from .outliers import SetAside, outlier_lines, set_aside

__all__ = ["KernelTables", "Layers", "Operators", "Peaks"]


@dataclass(frozen=True, slots=True, repr=False)
class Peaks(Shown):
    """What a device could do at best: the roofline, and the figures that its tables leave open.

    Parameters
    ----------
    name : str
        The device.
    flops : float
        Dense bf16 peak, FLOP per second.
    fp8_flops : float
        Dense fp8 peak; equal to `flops` where the device has none.
    bandwidth_bytes_per_s : float
        Memory bandwidth.
    memory_bytes : int
        Memory; 0 for unknown.
    link_bytes_per_s, link_latency_s : float
        Link between two devices of one node, one direction.
    far_bytes_per_s : float
        Link between two nodes.
    devices_per_node : int
        Devices of one node.
    efficiency : float
        Share of the bandwidth that elementwise kernels reach.
    kernel_s : float
        Fixed time of one small elementwise kernel.
    source : str
        Where the figures come from.
    """

    name: str
    flops: float
    fp8_flops: float
    bandwidth_bytes_per_s: float
    memory_bytes: int = 0
    link_bytes_per_s: float = 64e9
    link_latency_s: float = 10e-6
    far_bytes_per_s: float = 12.5e9
    devices_per_node: int = 8
    efficiency: float = 0.8
    kernel_s: float = 3e-6
    source: str = ""

    @classmethod
    def of(cls, spec: DeviceSpec) -> Peaks:
        """The peaks of a device; in 8 bits those in 16 where it has no such units."""
        return cls(
            spec.name,
            spec.peak_flops,
            spec.fp8_flops or spec.peak_flops,
            spec.memory_bandwidth_bytes_per_s,
            spec.memory_bytes,
            spec.intra_node.bandwidth_bytes_per_s,
            spec.intra_node.latency_s,
            spec.inter_node.bandwidth_bytes_per_s,
            source=spec.source,
        )


@dataclass(frozen=True, slots=True, repr=False)
class Operators(Shown):
    """Kernels by their own sizes, of any model. Empty: everything by the roofline.

    Parameters
    ----------
    gemm : mapping
        Precision -> grid over (m, n, k). Quantising the activations is in it.
    prefill : mapping
        (precision of the KV cache, KV heads, head size) -> grid over (heads, batch, length): causal, no context before.
    decode : mapping
        Same key -> grid over (heads, batch, context).
    all_reduce : mapping
        (way, devices) -> grid over bytes; the ways are ``graph`` and ``eager`` (the engine's own) and ``nccl``.
    quantise : mapping
        Precision -> (seconds, seconds per element) of quantising the activations, as it is contained in those GEMMs.
    moe : mapping
        (precision, width of the model, of an expert, experts, experts per token, degree that widths are split by,
        degree that experts are split by) -> grid over the tokens of all ranks: routing and experts of one rank.
    """

    gemm: Mapping[str, Grid] = field(default_factory=dict[str, Grid])
    prefill: Mapping[tuple[str, int, int], Grid] = field(default_factory=dict[tuple[str, int, int], Grid])
    decode: Mapping[tuple[str, int, int], Grid] = field(default_factory=dict[tuple[str, int, int], Grid])
    all_reduce: Mapping[tuple[str, int], Grid] = field(default_factory=dict[tuple[str, int], Grid])
    quantise: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    moe: Mapping[tuple[str, int, int, int, int, int, int], Grid] = field(
        default_factory=dict[tuple[str, int, int, int, int, int, int], Grid]
    )


@dataclass(frozen=True, slots=True, repr=False)
class Layers(Shown):
    """Layers of one model at one tensor-parallel degree, by name.

    Parameters
    ----------
    model : str
        The model.
    tp : int
        Tensor-parallel degree of the shapes.
    dense : mapping
        Layer -> grid over tokens.
    per_sequence : mapping
        Layer -> grid over sequences (``lm_head``, ``sampler``).
    decode : Grid
        Attention of decodes alone over (sequences, context).
    mixed : Grid
        Attention over (prefill chunk, its context before, decodes, their context); decodes may be 0.
    further_chunk_s : float
        What each prompt chunk after the first adds to a layer's attention whatever its size, seconds; public tables
        do not say.
    own : bool
        Whether `meshwright measure llm` wrote them, whose unit needs no guess.
    moe : mapping
        Degree that experts are split by -> grid over (tokens, distinct experts on the rank): routing and experts.
    link : LinkSpec, optional
        All-reduces of two devices as measured on that machine; public tables of layers hold no communication.
    """

    model: str
    tp: int
    dense: Mapping[str, Grid]
    per_sequence: Mapping[str, Grid]
    decode: Grid
    mixed: Grid
    further_chunk_s: float = 0.0
    own: bool = False
    moe: Mapping[int, Grid] = field(default_factory=dict[int, Grid])
    link: LinkSpec | None = None


@dataclass(frozen=True, slots=True, repr=False)
class KernelTables(Shown):
    """Measured kernels of one type of device.

    Parameters
    ----------
    name : str
        The device or system.
    peaks : Peaks
        The device's roofline.
    operators : Operators, optional
        Kernels by size (aiconfigurator's format).
    layers : Layers, optional
        Layers of one model by name (LLMServingSim's format).
    source : str
        Provenance: device, framework and version that were measured.
    """

    name: str
    peaks: Peaks
    operators: Operators | None = None
    layers: Layers | None = None
    source: str = ""

    def _headline(self) -> str:
        grids = self._grids()
        parts = [name for name in ("operators", "layers") if getattr(self, name) is not None]
        return f"{self.name}: {len(grids)} measured tables ({' and '.join(parts) or 'roofline only'}); {self.source}"

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """Measured points that contradict others, table by table; nothing rests on them."""
        return set_aside(self._grids())

    def explain(self) -> str:
        """What was measured, and one line for each table of which points were set aside."""
        return "\n".join((f"kernels: {self.source}", *outlier_lines(self.set_aside)))

    def _grids(self) -> dict[str, Grid]:
        found: dict[str, Grid] = {}
        if self.operators is not None:
            for kind in ("gemm", "prefill", "decode", "all_reduce", "moe"):
                for key, grid in getattr(self.operators, kind).items():
                    found[f"{kind} {key if isinstance(key, str) else '/'.join(map(str, key))}"] = grid
        if self.layers is not None:
            found |= {**self.layers.dense, **self.layers.per_sequence}
            found |= {"attention of decodes": self.layers.decode, "attention with prefill": self.layers.mixed}
            found |= {f"experts of ep {degree}": grid for degree, grid in self.layers.moe.items()}
        return found

    @classmethod
    def load(cls, folder: str | Path, *, tp: int | None = None) -> KernelTables:
        """Read a folder of measurements, whichever of the two formats it holds.

        Parameters
        ----------
        folder : path
            ``kernels/<system>`` with ``gemm.parquet`` … and ``<system>.yaml`` beside or in it (milliseconds), or a
            folder with ``dense.csv, attention.csv, per_sequence.csv, meta.yaml`` (microseconds).
        tp : int, optional
            Tensor-parallel degree of the layers, for the second format where the folder does not say it.

        Raises
        ------
        InputError
            If there is nothing to read, or what is there is wrong.
        """
        from .layers import load_layers
        from .operators import load_operators

        given: Any = folder
        if not isinstance(given, str | Path):
            raise InputError(f"kernel tables: expected a folder (got {given!r})")
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"{folder}: expected a folder of kernel tables; there is none")
        if any(folder.glob("*.parquet")):
            return load_operators(folder)
        if (folder / "dense.csv").is_file() or any(folder.glob("tp*/dense.csv")):
            return load_layers(folder, tp)
        raise InputError(
            f"{folder}: no kernel tables there; expected gemm.parquet and its like, or dense.csv, attention.csv, "
            "per_sequence.csv with meta.yaml"
        )
