"""`TrainingProfile`: measured operators and collectives of one type of device, as a file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from .....errors import InputError
from .....files import readable, write_text
from .....reprs import Shown
from ....hardware import DeviceSpec, LinkSpec
from ...document import operator_row, read_operator
from ..model import OperatorTimes
from .local_operator import LocalOperator

__all__ = ["CollectiveCurve", "MeasuredOperator", "TrainingProfile", "is_training_profile"]

KIND = "meshwright/training-profile"
VERSION = 1
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
OWN = 0.95
"""Share of the time in which processes must have had their cores for figures to be trusted, as `meshwright measure`
has it."""
SECONDS = ("forward_s", "backward_input_s", "backward_weight_s")


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredOperator(Shown):
    """One device's part of an operator, and what it takes.

    Parameters
    ----------
    local : LocalOperator
        What was computed.
    times : OperatorTimes
        Medians of its laps.
    """

    local: LocalOperator
    times: OperatorTimes


@dataclass(frozen=True, slots=True, repr=False)
class CollectiveCurve(Shown):
    """A collective among neighbours of a node, all groups of that size at once.

    Parameters
    ----------
    collective : str
        all_reduce, all_gather, reduce_scatter or all_to_all.
    devices : int
        Of a group.
    n_bytes : tuple of int
        Sizes, rising: of a device's input or output, whichever is larger.
    seconds : tuple of float
        Median of each size, that of the slowest device.

    Raises
    ------
    InputError
        On an unknown collective, or sizes and seconds that do not go together.
    """

    collective: str
    devices: int
    n_bytes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.collective not in COLLECTIVES:
            raise InputError(f"collective: expected one of {', '.join(COLLECTIVES)} (got {self.collective!r})")
        if self.devices < 2:
            raise InputError(f"devices: a group has two at least (got {self.devices})")
        rising = list(self.n_bytes) == sorted(set(self.n_bytes)) and all(map(_time, self.n_bytes))
        timed = len(self.seconds) == len(self.n_bytes) and all(map(_time, self.seconds))
        if not (self.n_bytes and rising and timed):
            raise InputError(f"{self.collective} of {self.devices}: expected rising bytes and positive seconds of each")


@dataclass(frozen=True, repr=False)
class TrainingProfile(Shown):
    """Measured operators and collectives of one type of device.

    Parameters
    ----------
    device : DeviceSpec
        The device by the name that clusters call it, with the rates measured on it.
    machine : str
        What it calls itself: the model of the processor or GPU.
    date : str
        Day of the measurement.
    versions : mapping of str to str
        Of Python, torch and, on a GPU, CUDA.
    devices : int
        How many computed and communicated at once.
    rounds : int
        Laps of each operator.
    dtype : str, optional
        Type that floating-point operators were computed in; None: each in its own.
    operators : tuple of MeasuredOperator
        What was measured.
    collectives : tuple of CollectiveCurve
        What was measured.
    own : float
        Share of the time in which the processes had their cores.
    in_place : (float, float)
        What stages at work take over what the sum of their operators says, forward and backward; 1 where that was not
        measured.
    update_bytes_per_s : float, optional
        What Adam's step moves in stages at work: gradients and states read, states and weights read and written; None
        where that was not measured.

    Raises
    ------
    InputError
        If these are not positive.
    """

    device: DeviceSpec
    machine: str
    date: str
    versions: Mapping[str, str]
    devices: int
    rounds: int
    dtype: str | None = None
    operators: tuple[MeasuredOperator, ...] = field(default=(), repr=False)
    collectives: tuple[CollectiveCurve, ...] = ()
    own: float = 1.0
    in_place: tuple[float, float] = (1.0, 1.0)
    update_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if len(self.in_place) != 2 or not all(map(_time, self.in_place)):
            raise InputError(f"in_place: expected two ratios above 0 (got {self.in_place})")
        if self.update_bytes_per_s is not None and not _time(self.update_bytes_per_s):
            raise InputError(f"update_bytes_per_s: expected bytes per second above 0 (got {self.update_bytes_per_s!r})")

    @cached_property
    def by_key(self) -> dict[str, MeasuredOperator]:
        """Key of a local operator -> what it takes."""
        return {one.local.key: one for one in self.operators}

    @property
    def about(self) -> str:
        """What was measured, where and when."""
        return f"measured on {self.machine}, {self.date}"

    def lines(self) -> Iterator[str]:
        """What was measured, for people."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        yield f"{self.device.name}: {self.about}; {versions}; {self.devices} at once, {self.rounds} laps each"
        kinds: dict[str, list[OperatorTimes]] = {}
        for one in self.operators:
            kinds.setdefault(one.local.op.kind, []).append(one.times)
        for kind, every in kinds.items():
            seconds = [sum(getattr(times, name) for times in every) / len(every) for name in SECONDS]
            told = ", ".join(f"{s * 1e6:.4g} us" for s in seconds)
            yield f"{kind}: {len(every)} shapes; on average forward, to inputs, to weights: {told}"
        for one in self.collectives:
            ends = [f"{one.n_bytes[k]} bytes {one.seconds[k] * 1e6:.4g} us" for k in (0, -1)]
            yield f"{one.collective} of {one.devices}: {', '.join(ends)}"
        if self.in_place != (1.0, 1.0):
            told = ", ".join(f"{ratio:.3g}" for ratio in self.in_place)
            yield f"stages at work over the sums of their operators, forward and backward: {told}"
        if self.update_bytes_per_s is not None:
            yield f"optimizer steps: {self.update_bytes_per_s / 1e9:.3g} GB/s"
        if self.own < OWN:
            yield f"the processes had their cores in {self.own:.0%} of the time: measure again on a quiet machine"

    def save(self, path: str | Path) -> Path:
        """Write it, whole or not at all."""
        head = {
            "kind": KIND, "version": VERSION, "device": asdict(self.device), "machine": self.machine,
            "date": self.date, "versions": dict(self.versions), "devices": self.devices, "rounds": self.rounds,
            "dtype": self.dtype, "own": self.own, "in_place": self.in_place,
            "update_bytes_per_s": self.update_bytes_per_s,
        }  # fmt: skip
        body = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        for name, rows in (
            ("collectives", [asdict(one) for one in self.collectives]),
            ("operators", [_row(one) for one in self.operators]),
        ):
            lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            body.append(f' "{name}": [\n{lines}\n ]' if rows else f' "{name}": []')
        return write_text(path, "{\n" + ",\n".join(body) + "\n}\n")

    @classmethod
    def load(cls, path: str | Path) -> TrainingProfile:
        """Read a profile.

        Raises
        ------
        InputError
            If it cannot be read, or is no such profile; one line.
        """
        try:
            found: Any = json.loads(readable(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: cannot read the profile: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a training profile: no JSON: {' '.join(str(error).split())}") from None
        if not isinstance(found, dict) or cast("dict[str, Any]", found).get("kind") != KIND:
            raise InputError(f"{path}: not a training profile; expected what meshwright profile measure writes")
        said = cast("dict[str, Any]", found)
        if said.get("version") != VERSION:
            raise InputError(f"{path}: version: expected {VERSION} (got {said.get('version')!r}); measure again")
        try:
            return cls(
                device=_device(said["device"]), machine=str(said["machine"]), date=str(said["date"]),
                versions={str(k): str(v) for k, v in said["versions"].items()}, devices=int(said["devices"]),
                rounds=int(said["rounds"]), dtype=None if said["dtype"] is None else str(said["dtype"]),
                operators=_read(said, "operators", _read_operator), own=float(said["own"]),
                collectives=_read(said, "collectives", _read_curve),
                in_place=cast("tuple[float, float]", tuple(_list(said.get("in_place", [1.0, 1.0]), "in_place"))),
                update_bytes_per_s=said.get("update_bytes_per_s"),
            )  # fmt: skip
        except KeyError as error:
            raise InputError(f"{path}: {error.args[0]}: missing; measure again") from None
        except (TypeError, ValueError, AttributeError) as error:
            why = " ".join(str(error).split())
            raise InputError(f"{path}: {why}; measure again") from None


def is_training_profile(path: str | Path) -> bool:
    """Whether a file says that it is one; its begin is looked at."""
    target = readable(path)
    if not target.is_file():
        return False
    with target.open(encoding="utf-8", errors="replace") as file:
        return f'"kind": "{KIND}"' in file.read(200)


def _row(one: MeasuredOperator) -> dict[str, Any]:
    seconds = {name: getattr(one.times, name) for name in SECONDS}
    return operator_row(one.local.op) | {"cut": list(one.local.cut)} | seconds


def _read(said: dict[str, Any], name: str, row: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for number, one in enumerate(_list(said[name], name)):
        try:
            found.append(row(one))
        except KeyError as error:
            raise InputError(f"{name}[{number}]: {error.args[0]}: missing") from None
        except (InputError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{name}[{number}]: {error}") from None
    return tuple(found)


def _read_operator(row: dict[str, Any]) -> MeasuredOperator:
    seconds = [row[name] for name in SECONDS]
    if not all(_time(x, zero=True) for x in seconds):
        raise InputError(f"{', '.join(SECONDS)}: expected seconds >= 0 (got {seconds})")
    cut = tuple(map(str, _list(row["cut"], "cut")))
    return MeasuredOperator(LocalOperator(read_operator(row), cut), OperatorTimes(*map(float, seconds)))


def _read_curve(row: dict[str, Any]) -> CollectiveCurve:
    n_bytes, seconds = (tuple(_list(row[name], name)) for name in ("n_bytes", "seconds"))
    return CollectiveCurve(str(row["collective"]), int(row["devices"]), n_bytes, seconds)


def _device(said: dict[str, Any]) -> DeviceSpec:
    links = {name: LinkSpec(**said[name]) for name in ("intra_node", "inter_node")}
    return DeviceSpec(**{**said, **links})


def _list(value: Any, name: str) -> Iterable[Any]:
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list (got {value!r:.60})")
    return cast("list[Any]", value)


def _time(value: object, *, zero: bool = False) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return number and (cast("float", value) > 0 or (zero and value == 0))
