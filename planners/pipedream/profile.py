"""`PipeDreamProfile`: reads and writes the text format of PipeDream's profiler.

A line for each layer, then a line for each edge, indented by a tab::

    node4 -- Conv2d(64, 64) -- forward_compute_time=46.2, backward_compute_time=113.3, activation_size=1.6e9, parameter_size=147712.0
    \tnode4 -- node5

Times are milliseconds of one minibatch, sizes are bytes. The activation is the layer's result, written ``[a; b]`` if
there are several. Partitioned graphs have a fourth column, ``stage_id=0``. The format is that of
github.com/msr-fiddle/pipedream (MIT).
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import InputError
from ...files import readable
from ...reprs import Shown

__all__ = ["PipeDreamProfile", "ProfiledLayer"]

COLUMNS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")


@dataclass(frozen=True, slots=True, repr=False)
class ProfiledLayer(Shown):
    """One layer of a profile.

    Parameters
    ----------
    name, description : str
        Its id, and the kind of layer with its parameters.
    forward_ms, backward_ms : float
        Milliseconds of one minibatch.
    activation_bytes, parameter_bytes : float
        Bytes of its result and of its weights.
    stage : int
        The stage that it is assigned to; −1: none.
    """

    name: str
    description: str
    forward_ms: float
    backward_ms: float
    activation_bytes: float
    parameter_bytes: float
    stage: int = -1


@dataclass(frozen=True, repr=False)
class PipeDreamProfile(Shown):
    """Layers and edges of a profile, in the order of the file.

    Parameters
    ----------
    layers : tuple of ProfiledLayer
        The layers.
    edges : tuple of (int, int)
        Pairs (from, to) of positions in `layers`.
    """

    layers: tuple[ProfiledLayer, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def load(cls, path: str | Path) -> PipeDreamProfile:
        """Read a profile from a file.

        Raises
        ------
        InputError
            If the file cannot be read or is not a profile; the message names the line.
        """
        try:
            return cls.parse(readable(path).read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise InputError(f"{path}: cannot read the profile: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a PipeDream profile: not UTF-8 text (byte {error.start})") from None

    @classmethod
    def parse(cls, text: str, where: str = "profile") -> PipeDreamProfile:
        """Read a profile from text; `where` names it in messages.

        Raises
        ------
        InputError
            If a line is neither a layer nor an edge, a layer appears twice or an edge names an unknown one, a number is
            negative, or the edges form a cycle.
        """
        layers: list[ProfiledLayer] = []
        place: dict[str, int] = {}
        edges: list[tuple[int, int]] = []
        for number, line in enumerate(text.splitlines(), 1):
            at = f"{where}, line {number}"
            if not line.strip():
                continue
            if line.startswith("\t"):
                ends = line.strip().split(" -- ")
                unknown = next((name for name in ends if name not in place), None)
                if len(ends) != 2 or unknown is not None:
                    said = f"no layer {unknown!r} above it" if len(ends) == 2 else "expected '<layer> -- <layer>'"
                    raise InputError(f"{at}: edge: {said} (got {line.strip()!r})")
                edges.append((place[ends[0]], place[ends[1]]))
                continue
            layer = _layer(line.strip(), at)
            if layer.name in place:
                raise InputError(f"{at}: layer {layer.name!r} is there twice")
            place[layer.name] = len(layers)
            layers.append(layer)
        if not layers:
            raise InputError(f"{where}: not a PipeDream profile: it has no layer")
        found = cls(tuple(layers), tuple(edges))
        found.order(where)
        return found

    def to_text(self) -> str:
        """The profile in the file's format."""
        lines = [
            f"{x.name} -- {x.description} -- forward_compute_time={x.forward_ms:.3f}, "
            f"backward_compute_time={x.backward_ms:.3f}, activation_size={x.activation_bytes:.3f}, "
            f"parameter_size={x.parameter_bytes:.3f}" + (f" -- stage_id={x.stage}" if x.stage >= 0 else "")
            for x in self.layers
        ]
        lines += [f"\t{self.layers[a].name} -- {self.layers[b].name}" for a, b in self.edges]
        return "\n".join(lines) + "\n"

    def with_stages(self, stages: Sequence[Sequence[str]]) -> PipeDreamProfile:
        """A copy with the stage of each layer set from `stages`; layers that no stage names get −1."""
        stage = {name: s for s, names in enumerate(stages) for name in names}
        return replace(self, layers=tuple(replace(x, stage=stage.get(x.name, -1)) for x in self.layers))

    def for_planning(self) -> PipeDreamProfile:
        """The profile that PipeDream's optimiser works on.

        Inputs are left out, because they are loaded wherever they are read, and so are items of tuples that nothing
        reads.
        """
        read, made = {a for a, _ in self.edges}, {b for _, b in self.edges}
        inputs = {k for k, x in enumerate(self.layers) if x.description.startswith("Input") and k not in made}
        items = {
            k for k, x in enumerate(self.layers) if x.description.startswith("__getitem__") and k not in read
        }  # fmt: skip
        kept = [k for k in range(len(self.layers)) if k not in inputs | items]
        place = {k: n for n, k in enumerate(kept)}
        edges = tuple((place[a], place[b]) for a, b in self.edges if a in place and b in place)
        return PipeDreamProfile(tuple(self.layers[k] for k in kept), edges)

    def order(self, where: str = "profile") -> tuple[int, ...]:
        """A topological order of the layers, as positions.

        Raises
        ------
        InputError
            If there is a cycle.
        """
        waits = [0] * len(self.layers)
        after: list[list[int]] = [[] for _ in self.layers]
        for a, b in self.edges:
            waits[b] += 1
            after[a].append(b)
        # A stack, so that a chain is followed to its end before the next begins; reversed, so that the first of the
        # file is on top.
        ready = [k for k in reversed(range(len(self.layers))) if not waits[k]]
        found: list[int] = []
        while ready:
            at = ready.pop()
            found.append(at)
            for b in after[at]:
                waits[b] -= 1
                if not waits[b]:
                    ready.append(b)
        if len(found) < len(self.layers):
            circle = ", ".join(self.layers[k].name for k, n in enumerate(waits) if n)
            raise InputError(f"{where}: the edges go round in a circle: {circle}")
        return tuple(found)


def _layer(line: str, at: str) -> ProfiledLayer:
    parts = line.split(" -- ")
    values = next((k for k, part in enumerate(parts) if part.startswith(f"{COLUMNS[0]}=")), -1)
    if values < 2:
        raise InputError(f"{at}: expected '<layer> -- <description> -- {COLUMNS[0]}=…' (got {line[:60]!r})")
    stage = -1
    if len(parts) > values + 1:
        stage_text = parts[values + 1].removeprefix("stage_id=")
        if not stage_text.isdigit():
            raise InputError(f"{at}: expected stage_id=<number> (got {parts[values + 1]!r})")
        stage = int(stage_text)
    given: dict[str, str] = {}
    for part in parts[values].split(", "):
        name, _, value = part.partition("=")
        given[name] = value
    missing = next((name for name in COLUMNS if name not in given), None)
    if missing is not None:
        raise InputError(f"{at}: {missing} is missing; a layer has {', '.join(COLUMNS)}")
    forward, backward, activation, parameter = (_number(given[name], f"{at}: {name}") for name in COLUMNS)
    description = " -- ".join(parts[1:values])
    return ProfiledLayer(parts[0], description, forward, backward, activation, parameter, stage)


def _number(text: str, at: str) -> float:
    """A number, or the sum of a list of them."""
    try:
        value = math.fsum(float(x) for x in text.strip("[]").split(";"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{at}: expected a number that is not negative, or [a; b] (got {text!r})")
    return value
