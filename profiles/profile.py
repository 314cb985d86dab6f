"""`ModelProfile`: what one model costs on one device type, per parallel configuration and batch size."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType

from ..errors import InputError, OutOfProfileError
from ..reprs import Shown
from .config import ParallelConfig

__all__ = ["ModelProfile", "Provenance", "StageProfile"]


@dataclass(frozen=True, slots=True, repr=False)
class Provenance(Shown):
    """Where the numbers of a profile come from. Mandatory: a profile without a source is an opinion.

    Parameters
    ----------
    source : str
        The paper and table, or how it was measured.
    device : str
        Device type that the figures hold for.
    date : str
        ISO date of the measurement or publication; empty if unknown.
    versions : Mapping[str, str]
        Software versions that took part in a measurement.
    notes : str
        Anything that a reader must know: what was fitted, how sure it is.
    """

    source: str
    device: str = ""
    date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class StageProfile(Shown):
    """One parallel configuration of a model.

    Parameters
    ----------
    latency : Mapping[int, tuple[float, ...]]
        Batch size -> latency of each pipeline stage, seconds, length ``config.pp``.
    weight_bytes : tuple[float, ...]
        Weight bytes on each device of a stage, per stage, length ``config.pp``; 0.0 where unknown.
    activation_bytes : Mapping[int, float]
        Batch size -> peak activation bytes on the fullest device; empty where unknown.
    hop_s : float
        Seconds between the end of a stage and the moment its output is at the next one (occupies no stage).
    partition : tuple[int, ...]
        First layer of each stage in the model's layer table; empty where unknown.
    source : str
        Where these figures come from if not all of the model's do: "measured", "recovered", "modelled", ….
    measured : Mapping[int, tuple[float, ...]]
        Batch size -> latency of each stage run whole on the device, seconds, where that was done: what `latency`,
        a sum of layers, is checked against. Empty where it was not.
    """

    latency: Mapping[int, tuple[float, ...]]
    weight_bytes: tuple[float, ...]
    activation_bytes: Mapping[int, float] = field(default_factory=dict[int, float])
    hop_s: float = 0.0
    partition: tuple[int, ...] = ()
    source: str = ""
    measured: Mapping[int, tuple[float, ...]] = field(default_factory=dict[int, tuple[float, ...]])

    def composition_error(self, batch: int = 1) -> tuple[float, ...]:
        """Relative error of each composed stage latency against the stage run whole; positive if composed is longer.

        Raises
        ------
        OutOfProfileError
            If the stages were not run whole at this batch size.
        """
        if batch not in self.measured:
            have = ", ".join(map(str, sorted(self.measured))) or "none"
            raise OutOfProfileError(f"composition error: stages not run whole at batch {batch}; run: {have}")
        return tuple(a / b - 1.0 for a, b in zip(self.latency[batch], self.measured[batch], strict=True))


def _check(name: str, config: ParallelConfig, stage: StageProfile) -> None:
    where = f"profile {name!r}, {config}"
    if not stage.latency:
        raise InputError(f"{where}: no batch size given; expected at least batch 1")
    for batch, stages in stage.latency.items():
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise InputError(f"{where}: batch size must be a positive integer (got {batch!r})")
        if len(stages) != config.pp:
            raise InputError(f"{where}, batch {batch}: expected {config.pp} stage latencies (got {len(stages)})")
        for k, value in enumerate(stages):
            if not (math.isfinite(value) and value > 0):
                raise InputError(
                    f"{where}, batch {batch}, stage {k}: latency must be positive and finite seconds (got {value})"
                )
    if len(stage.weight_bytes) != config.pp:
        raise InputError(f"{where}: expected {config.pp} stage weights (got {len(stage.weight_bytes)})")
    if any(not (math.isfinite(w) and w >= 0) for w in stage.weight_bytes):
        raise InputError(f"{where}: weight bytes must be finite and >= 0 (got {stage.weight_bytes})")
    if not (math.isfinite(stage.hop_s) and stage.hop_s >= 0):
        raise InputError(f"{where}: hop_s must be finite and >= 0 seconds (got {stage.hop_s})")
    if any(not (math.isfinite(a) and a >= 0) for a in stage.activation_bytes.values()):
        raise InputError(f"{where}: activation bytes must be finite and >= 0 (got {dict(stage.activation_bytes)})")
    for batch, stages in stage.measured.items():
        if batch not in stage.latency or len(stages) != config.pp or not all(0 < s < math.inf for s in stages):
            raise InputError(
                f"{where}, batch {batch}: measured stages: expected {config.pp} positive finite seconds at a batch "
                f"that has a latency (got {stages})"
            )
    starts = stage.partition
    if starts and (len(starts) != config.pp or starts[0] != 0 or any(a >= b for a, b in pairwise(starts))):
        raise InputError(f"{where}: expected {config.pp} rising first layers that begin at 0 (got {starts})")


@dataclass(frozen=True, repr=False)
class ModelProfile(Shown):
    """Latency and memory of one model on one device type.

    `ModelProfile.from_stages` writes one by hand, `meshwright.profiles.load` reads a shipped or saved set.

    Parameters
    ----------
    name : str
        The model's name.
    stages : Mapping[ParallelConfig, StageProfile]
        One entry per parallel configuration that was measured or modelled.
    provenance : Provenance
        Where the numbers come from.
    architecture : str
        The specification that the model is an instance of (`meshwright.kernels.specs`); kept when renamed.
    """

    name: str
    stages: Mapping[ParallelConfig, StageProfile]
    provenance: Provenance
    architecture: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("profile: name must not be empty")
        if not self.stages:
            raise InputError(f"profile {self.name!r}: no parallel configuration given")
        for config, stage in self.stages.items():
            _check(self.name, config, stage)
        object.__setattr__(self, "stages", MappingProxyType(dict(self.stages)))

    def __reduce__(self) -> tuple[type[ModelProfile], tuple[object, ...]]:
        """Make instances picklable for our own processes: a read-only view cannot be pickled as it is."""
        return ModelProfile, (self.name, dict(self.stages), self.provenance, self.architecture)

    @classmethod
    def from_stages(
        cls,
        name: str,
        latency: Mapping[ParallelConfig, Mapping[int, Iterable[float]]],
        weight_bytes: Mapping[ParallelConfig, Iterable[float]] | None = None,
        *,
        hop_s: Mapping[ParallelConfig, float] | float = 0.0,
        provenance: Provenance | None = None,
    ) -> ModelProfile:
        """Write a profile by hand.

        Parameters
        ----------
        name : str
            The model's name.
        latency : mapping
            Parallel configuration -> batch size -> latency of each stage, seconds.
        weight_bytes : mapping, optional
            Parallel configuration -> weight bytes on each device of each stage. Configurations left out
            (or all, if not given) weigh nothing.
        hop_s : float or mapping, optional
            Seconds between two stages, one figure or one per configuration.
        provenance : Provenance, optional
            Where the numbers come from; "given by hand" if left out.

        Raises
        ------
        InputError
            On a non-positive or non-finite latency, or a length that is not the configuration's ``pp``.
        """
        weights = weight_bytes or {}
        unknown = [str(c) for c in weights if c not in latency]
        if unknown:
            raise InputError(f"profile {name!r}: weight_bytes for {', '.join(unknown)}, which have no latency")
        stages: dict[ParallelConfig, StageProfile] = {}
        for config, by_batch in latency.items():
            hop = hop_s if isinstance(hop_s, int | float) else hop_s.get(config, 0.0)
            stages[config] = StageProfile(
                latency={b: tuple(float(x) for x in row) for b, row in by_batch.items()},
                weight_bytes=tuple(float(w) for w in weights.get(config, (0.0,) * config.pp)),
                hop_s=float(hop),
            )
        return cls(name, stages, provenance or Provenance("given by hand"))

    def _headline(self) -> str:
        device = f" on {self.provenance.device}" if self.provenance.device else ""
        batches = sorted({b for stage in self.stages.values() for b in stage.latency})
        span = f"{batches[0]} … {batches[-1]}" if len(batches) > 1 else str(batches[0])
        return f"{self.name}{device}: {len(self.stages)} configurations, batch {span}"

    @property
    def configs(self) -> tuple[ParallelConfig, ...]:
        """The parallel configurations that this profile holds, sorted."""
        return tuple(sorted(self.stages))

    def stage(self, config: ParallelConfig) -> StageProfile:
        """The entry of one parallel configuration.

        Raises
        ------
        OutOfProfileError
            If the profile does not hold it; the message names the nearest ones.
        """
        try:
            return self.stages[config]
        except KeyError:
            # Degrees are powers of two: doubling one is one step, whichever of the two it is.
            near = sorted(
                self.stages,
                key=lambda c: abs(math.log2(c.op / config.op)) + abs(math.log2(c.pp / config.pp)),
            )[:3]
            raise OutOfProfileError(
                f"profile {self.name!r}: no entry for {config}; nearest profiled: {', '.join(map(str, near))}"
            ) from None

    def latency(self, config: ParallelConfig, batch: int = 1) -> tuple[float, ...]:
        """Latency of each stage, seconds, shape ``(config.pp,)``.

        Raises
        ------
        OutOfProfileError
            If the configuration or the batch size was not profiled.
        """
        by_batch = self.stage(config).latency
        try:
            return by_batch[batch]
        except KeyError:
            have = ", ".join(str(b) for b in sorted(by_batch))
            raise OutOfProfileError(
                f"profile {self.name!r}, {config}: no entry for batch {batch}; profiled batches: {have}"
            ) from None

    def batches(self, config: ParallelConfig) -> tuple[int, ...]:
        """Batch sizes profiled for `config`, ascending."""
        return tuple(sorted(self.stage(config).latency))

    def weight_bytes(self, config: ParallelConfig) -> tuple[float, ...]:
        """Weight bytes on each device of each stage, shape ``(config.pp,)``."""
        return self.stage(config).weight_bytes

    def hop_s(self, config: ParallelConfig) -> float:
        """Seconds between two stages."""
        return self.stage(config).hop_s

    def single_device_latency(self) -> float:
        """Latency that SLO scales multiply, seconds: op1pp1 at batch 1, or the least-split entry it has.

        The paper reports BERT-104B, which fits on no single device, "using a minimal degree of inter-op
        parallelism" (AlpaServe, Table 1).
        """
        config = min(self.stages, key=lambda c: (c.op, c.pp))
        by_batch = self.stages[config].latency
        return sum(by_batch[min(by_batch)])

    def renamed(self, name: str) -> ModelProfile:
        """The same figures under another name (an instance fine-tuned from the same architecture)."""
        return replace(self, name=name)

    def scaled(self, factor: float) -> ModelProfile:
        """The same profile with every latency multiplied by `factor`."""
        if not (math.isfinite(factor) and factor > 0):
            raise InputError(f"profile {self.name!r}: scale factor must be positive and finite (got {factor})")
        stages = {
            c: replace(s, latency={b: tuple(x * factor for x in row) for b, row in s.latency.items()}, measured={})
            for c, s in self.stages.items()
        }
        return replace(self, stages=stages)
