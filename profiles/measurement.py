"""`Measurement`: what `meshwright profile measure` found, besides the profiles themselves."""

from __future__ import annotations

from dataclasses import dataclass

from .comm import CommModel
from .config import ParallelConfig
from .hardware import DeviceSpec
from .layers import LayerTable
from .measure_comm import LinkSamples
from .measure_device import DeviceFacts
from .profile_set import ProfileSet

__all__ = ["Interference", "Measurement", "StageCheck"]


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
class Measurement:
    """Everything that one measurement found.

    Parameters
    ----------
    profiles : ProfileSet
        What planners and simulators use.
    tables : dict of str to LayerTable
        Model -> its layers, one by one.
    comm : CommModel
        Links between devices.
    links : dict of str to LinkSamples
        The messages that `comm` was fitted to.
    device : DeviceSpec
        What the device was measured to be.
    facts : DeviceFacts
        Its name, clock, memory and the software versions.
    checks : tuple[StageCheck, ...]
        Stages run whole.
    interference : tuple[Interference, ...]
        Idle against busy neighbours, per model and batch size.
    seconds : float
        How long it took.
    """

    profiles: ProfileSet
    tables: dict[str, LayerTable]
    comm: CommModel
    links: dict[str, LinkSamples]
    device: DeviceSpec
    facts: DeviceFacts
    checks: tuple[StageCheck, ...]
    interference: tuple[Interference, ...]
    seconds: float
