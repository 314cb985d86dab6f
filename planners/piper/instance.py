"""`PiperInstance`: reads and checks the JSON inputs of Piper's own planner.

``{"maxMemoryPerDevice", "maxDevices", "bandwidth", "mbsInBatch", "nodes": [{"id", "TMPCs": {"<t>": [{"id",
"timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB", "syncTimeFw", "syncTimeBw"}]}}], "edges":
[{"sourceId", "destId", "communicationCost"}]}``, as github.com/msr-fiddle/piper (MIT) has it; its README calls
``mbsInBatch`` ``maxBatchSize``. Sizes are bytes, times seconds of one microbatch on t devices.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...errors import InputError
from ...files import readable
from ...reprs import Shown

__all__ = ["PiperInstance", "PiperNode", "PiperOption"]


NUMBERS = ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")


@dataclass(frozen=True, slots=True, repr=False)
class PiperOption(Shown):
    """One way to run a node on t tensor-parallel devices ("TMPC" in the paper).

    Parameters
    ----------
    name : str
        Name, such as "vanilla" or "activation recomp".
    seconds : float
        Seconds of the forward and the backward pass of one microbatch.
    parameter_bytes : float
        Bytes of weights on one device, which data parallelism all-reduces.
    memory_a, memory_b : float
        A device needs a · y + b bytes with y microbatches in flight.
    sync_forward, sync_backward : mapping
        Further bytes that its devices exchange, for each node that it reads, and for each node that reads it.
    """

    name: str
    seconds: float
    parameter_bytes: float
    memory_a: float
    memory_b: float
    sync_forward: Mapping[int, float]
    sync_backward: Mapping[int, float]


@dataclass(frozen=True, slots=True, repr=False)
class PiperNode(Shown):
    """A layer: its id, name, and options for each number of tensor-parallel devices."""

    number: int
    name: str
    options: Mapping[int, tuple[PiperOption, ...]]


@dataclass(frozen=True, repr=False)
class PiperInstance(Shown):
    """A planning problem of Piper: layers, edges and devices.

    Parameters
    ----------
    memory_bytes : float
        Memory of a device.
    devices, microbatches : int
        Number of devices, and of microbatches in a batch.
    bandwidth : float
        Bytes per second that a device can send.
    nodes : tuple of PiperNode
        The layers.
    edges : tuple of (int, int, float)
        Triples (from, to, bytes of one microbatch) with the ids of nodes.
    """

    memory_bytes: float
    devices: int
    microbatches: int
    bandwidth: float
    nodes: tuple[PiperNode, ...]
    edges: tuple[tuple[int, int, float], ...]

    @classmethod
    def load(cls, path: str | Path) -> PiperInstance:
        """Read an instance from a file.

        Raises
        ------
        InputError
            If the file cannot be read or is not an instance; the message says what is wrong.
        """
        try:
            return cls.parse(readable(path).read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise InputError(f"{path}: cannot read the instance: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a Piper instance: not UTF-8 text (byte {error.start})") from None

    @classmethod
    def parse(cls, text: str, where: str = "instance") -> PiperInstance:
        """Read an instance from text; `where` names it in messages.

        Raises
        ------
        InputError
            If the text is not JSON, a field is missing, a number is out of range, an edge names no node or is given
            twice, the sync times do not match the edges, or the edges form a cycle.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}: not JSON: {error.msg} (line {error.lineno})") from None
        top = _object(data, where)
        edges = tuple(_edge(item, f"{where}: edges[{k}]") for k, item in enumerate(_list(top, "edges", where)))
        nodes = tuple(_node(item, f"{where}: nodes[{k}]") for k, item in enumerate(_list(top, "nodes", where)))
        batch = "mbsInBatch" if "mbsInBatch" in top else "maxBatchSize"
        found = cls(
            _number(top, "maxMemoryPerDevice", where, positive=True), _whole(top, "maxDevices", where),
            _whole(top, batch, where), _number(top, "bandwidth", where, positive=True), nodes, edges,
        )  # fmt: skip
        _check(found, where)
        found.order(where)
        return found

    def order(self, where: str = "instance") -> tuple[int, ...]:
        """Positions of the nodes in a topological order.

        Raises
        ------
        InputError
            If there is a cycle.
        """
        place = {node.number: k for k, node in enumerate(self.nodes)}
        waits = [0] * len(self.nodes)
        for _, b, _ in self.edges:
            waits[place[b]] += 1
        ready = [k for k in reversed(range(len(waits))) if not waits[k]]
        found: list[int] = []
        while ready:
            at = ready.pop()
            found.append(at)
            for a, b, _ in self.edges:
                if a == self.nodes[at].number:
                    waits[place[b]] -= 1
                    if not waits[place[b]]:
                        ready.append(place[b])
        if len(found) < len(waits):
            circle = ", ".join(str(self.nodes[k].number) for k, n in enumerate(waits) if n)
            raise InputError(f"{where}: edges: nodes {circle} wait for each other in a circle")
        return tuple(found)


def _check(instance: PiperInstance, where: str) -> None:
    numbers = [node.number for node in instance.nodes]
    twice = next((n for n in numbers if numbers.count(n) > 1), None)
    if twice is not None:
        raise InputError(f"{where}: nodes: id {twice} is there twice")
    into: dict[int, set[int]] = {n: set() for n in numbers}
    outof: dict[int, set[int]] = {n: set() for n in numbers}
    for k, (a, b, _) in enumerate(instance.edges):
        unknown = next((n for n in (a, b) if n not in into), None)
        if unknown is not None:
            raise InputError(f"{where}: edges[{k}]: there is no node {unknown}")
        if b in outof[a]:
            raise InputError(f"{where}: edges[{k}]: the edge {a} -> {b} is there twice")
        outof[a].add(b)
        into[b].add(a)
    for node in instance.nodes:
        for t, options in node.options.items():
            at = f"{where}: node {node.number}, TMPCs {t}"
            # Two options at most, with equal weights: the authors' rule swaps a node to its other option
            # (`stage_steps`).
            if len(options) > 2:
                raise InputError(
                    f"{at}: expected at most 2 options, with and without recomputation (got {len(options)})"
                )
            if len({option.parameter_bytes for option in options}) > 1:
                raise InputError(f"{at}: parameterSize: expected the same in both options")
            if len({option.name for option in options}) < len(options):
                raise InputError(f"{at}: id: expected two different ones (got {[o.name for o in options]})")
            for option in options:
                for name, given, wanted in (
                    ("syncTimeFw", option.sync_forward, into[node.number]),
                    ("syncTimeBw", option.sync_backward, outof[node.number]),
                ):
                    if set(given) != wanted:
                        raise InputError(
                            f"{at}, {option.name!r}: {name}: expected the nodes {sorted(wanted)} (got {sorted(given)})"
                        )


def _node(item: Any, at: str) -> PiperNode:
    data = _object(item, at)
    options: dict[int, tuple[PiperOption, ...]] = {}
    for key, values in _object(_field(data, "TMPCs", at), f"{at}: TMPCs").items():
        if not key.isdigit() or int(key) < 1:
            raise InputError(f"{at}: TMPCs: expected numbers of devices (got {key!r})")
        made: list[PiperOption] = []
        for k, each in enumerate(cast("list[Any]", values) if isinstance(values, list) else []):
            place = f"{at}: TMPCs {key}[{k}]"
            row = _object(each, place)
            seconds, weights, a, b = (_number(row, name, place) for name in NUMBERS)
            forward, backward = _sync(row, "syncTimeFw", place), _sync(row, "syncTimeBw", place)
            made.append(PiperOption(str(_field(row, "id", place)), seconds, weights, a, b, forward, backward))
        if made:
            options[int(key)] = tuple(made)
    if not options:
        raise InputError(f"{at}: TMPCs: expected at least one option")
    number = _field(data, "id", at)
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"{at}: id: expected an integer (got {number!r})")
    return PiperNode(number, str(data.get("name", "")), options)


def _edge(item: Any, at: str) -> tuple[int, int, float]:
    data = _object(item, at)
    ends = [_field(data, name, at) for name in ("sourceId", "destId")]
    if any(isinstance(n, bool) or not isinstance(n, int) for n in ends):
        raise InputError(f"{at}: expected integers sourceId and destId (got {ends})")
    return ends[0], ends[1], _number(data, "communicationCost", at)


def _sync(row: Mapping[str, Any], name: str, at: str) -> dict[int, float]:
    given = _object(_field(row, name, at), f"{at}: {name}")
    wrong = next((key for key in given if not key.lstrip("-").isdigit()), None)
    if wrong is not None:
        raise InputError(f"{at}: {name}: expected ids of nodes (got {wrong!r})")
    return {int(key): _number(given, key, f"{at}: {name}") for key in given}


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{at}: expected an object (got {type(value).__name__})")
    return cast("dict[str, Any]", value)


def _field(data: Mapping[str, Any], name: str, at: str) -> Any:
    if name not in data:
        raise InputError(f"{at}: {name} is missing")
    return data[name]


def _list(data: Mapping[str, Any], name: str, at: str) -> list[Any]:
    value = _field(data, name, at)
    if not isinstance(value, list) or not value:
        raise InputError(f"{at}: {name}: expected a list that is not empty")
    return cast("list[Any]", value)


def _number(data: Mapping[str, Any], name: str, at: str, *, positive: bool = False) -> float:
    value = _field(data, name, at)
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not right or value < 0 or (positive and value == 0):
        least = "above 0" if positive else "at least 0"
        raise InputError(f"{at}: {name}: expected a number {least} (got {value!r})")
    return float(value)


def _whole(data: Mapping[str, Any], name: str, at: str) -> int:
    value = _number(data, name, at, positive=True)
    if value != int(value):
        raise InputError(f"{at}: {name}: expected a whole number (got {value!r})")
    return int(value)
