"""`Measurement`: what `meshwright measure serving` found, besides the profiles themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..comm import CommModel
from ..config import ParallelConfig
from ..hardware import DeviceSpec
from ..layers import LayerTable
from ..profile import ModelProfile
from ..profile_set import ProfileSet
from .comm import LinkSamples
from .device import DeviceFacts

__all__ = ["Interference", "MeasuredModel", "Measurement", "StageCheck"]


@dataclass(frozen=True, slots=True)
class StageCheck:
    """One stage, composed of its layers and run whole.

    Parameters
    ----------
    model : str
        The model.
    config : ParallelConfig
        Configuration that it is a stage of.
    batch, stage : int
        Batch size, and the stage's index.
    layers : tuple[int, int]
        First layer, and the one after the last.
    composed_s, measured_s : float
        Sum of the layers with their collectives, and the median of the stage run whole, seconds.
    hop_s : float
        Measured seconds from the end of this stage to the moment the next one has its output; 0.0 for the
        last.
    n : int
        Requests that ran through the stage.
    """

    model: str
    config: ParallelConfig
    batch: int
    stage: int
    layers: tuple[int, int]
    composed_s: float
    measured_s: float
    hop_s: float
    n: int

    @property
    def error(self) -> float:
        """Relative error of the composition; positive if composed is longer."""
        return self.composed_s / self.measured_s - 1.0


@dataclass(frozen=True, slots=True)
class Interference:
    """How much busy neighbours slow a device down.

    Parameters
    ----------
    model : str
        The model.
    batch : int
        Batch size.
    idle_s, busy_s : float
        Its layers at op degree 1, summed, with idle and with busy neighbours, seconds.
    """

    model: str
    batch: int
    idle_s: float
    busy_s: float

    @property
    def slowdown(self) -> float:
        """Busy over idle."""
        return self.busy_s / self.idle_s


@dataclass(frozen=True)
class MeasuredModel:
    """What was measured for one model.

    Parameters
    ----------
    table : LayerTable
        The costs of the model's layers, one by one.
    comm : CommModel
        The links, measured in the same rounds.
    links : dict of str to LinkSamples
        The messages that `comm` was fitted to.
    profile : ModelProfile
        What planners and simulators use: stages composed of layers and links, and the stages run whole.
    checks : tuple[StageCheck, ...]
        The stages run whole, one by one.
    interference : tuple[Interference, ...]
        Idle against busy neighbours, per batch size.
    contention : float
        Share of the cores that other processes took while it was measured. Figures come from rounds in which
        they took next to nothing, if there were enough.
    """

    table: LayerTable
    comm: CommModel
    links: dict[str, LinkSamples]
    profile: ModelProfile
    checks: tuple[StageCheck, ...]
    interference: tuple[Interference, ...]
    contention: float

    def named(self, name: str) -> MeasuredModel:
        """The same measurements under the name of another model of the same shape."""
        return replace(
            self,
            table=replace(self.table, model=name),
            profile=self.profile.renamed(name),
            checks=tuple(replace(check, model=name) for check in self.checks),
            interference=tuple(replace(item, model=name) for item in self.interference),
        )


@dataclass(frozen=True)
class Measurement:
    """Everything that one measurement found.

    Parameters
    ----------
    profiles : ProfileSet
        The profiles that planners and simulators use.
    device : DeviceSpec
        The device, with the rates measured on it.
    facts : DeviceFacts
        Its name, clock, memory and the software versions.
    models : dict of str to MeasuredModel
        Model -> its layers, links and checks.
    seconds : float
        How long it took.
    """

    profiles: ProfileSet
    device: DeviceSpec
    facts: DeviceFacts
    models: dict[str, MeasuredModel]
    seconds: float

    @property
    def checks(self) -> tuple[StageCheck, ...]:
        """All stages run whole, model by model."""
        return tuple(check for model in self.models.values() for check in model.checks)

    @property
    def contention(self) -> float:
        """The largest share of the cores that other processes took while a model was measured."""
        return max(model.contention for model in self.models.values())

    @property
    def interference(self) -> tuple[Interference, ...]:
        """Idle against busy neighbours, model by model."""
        return tuple(item for model in self.models.values() for item in model.interference)
