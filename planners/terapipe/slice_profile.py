"""`SliceProfile`: a file of measured seconds of slices of a model's parts, from which stages are priced (Eq. 2.9).

The parts are everything before the repeated blocks, one block, and everything after them. So one profile serves
pipelines of any depth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from ...errors import InputError
from ...files import readable, write_text
from ...profiles.graph import Graph
from ...profiles.graph.token_loops import sequence_length
from ...simulator.plan.entries import Entry, Name
from ...simulator.plan.reader import problem_line
from ..alpa.inter.pricing.pricer import Recompute
from .latency import SliceLatency, fit_latency
from .layouts import Layout
from .profile_clock import ClockPart, ProfileClock

__all__ = ["PARTS", "PartTimes", "SliceProfile", "part_bounds"]

KIND = "meshwright/slice-profile"
Part = Literal["before", "block", "after"]
PARTS: tuple[Part, ...] = ("before", "block", "after")
"""Everything before the repeated blocks, one block, and everything after them. Only the block is required."""

PAPER_ERROR = 0.02
"""§2.3.3: "the linear model can achieve a < 2% relative prediction error compared to the actual overhead"."""


class PartTimes(Entry):
    """Measured slices of one part; all lists have the same length."""

    samples: tuple[int, ...]
    lengths: tuple[int, ...]
    contexts: tuple[int, ...]
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]

    @model_validator(mode="after")
    def _alike(self) -> PartTimes:
        sizes = {name: len(getattr(self, name)) for name in type(self).model_fields}
        if len(set(sizes.values())) > 1 or not self.lengths:
            raise ValueError(f"expected lists of one length, at least 1 (got {sizes})")
        return self

    def fit(self, attends: bool = True) -> tuple[SliceLatency, SliceLatency]:
        """Fit Eq. 2.9, forward and backward.

        If nothing in the part attends to earlier tokens, measurements with context count as repetitions.
        """
        contexts = self.contexts if attends else 0
        return (
            fit_latency(self.lengths, contexts, self.forward_s, self.samples),
            fit_latency(self.lengths, contexts, self.backward_s, self.samples),
        )


class SliceProfile(Entry):
    """Measured seconds of slices. Read one with `SliceProfile.load`."""

    kind: Literal["meshwright/slice-profile"] = KIND
    version: Literal[1] = 1
    model: Name
    digest: str = Field(default="", description="SHA-256 of the graph that was measured")
    tokens: int = Field(gt=0, description="tokens of a sequence")
    op: int = Field(default=1, gt=0, description="devices that shared each operator")
    device: str = Field(default="", description="what it was measured on")
    source: str = Field(default="", description="where, when and how often")
    parts: dict[Part, PartTimes]

    @model_validator(mode="after")
    def _whole(self) -> SliceProfile:
        if "block" not in self.parts:
            raise ValueError("parts: expected a block (there is none)")
        return self

    @classmethod
    def of(cls, value: Any) -> SliceProfile:
        """A profile as it is, or read from a file."""
        return value if isinstance(value, SliceProfile) else cls.load(value)

    @classmethod
    def load(cls, path: str | Path) -> SliceProfile:
        """Read a profile.

        Raises
        ------
        InputError
            If the file is missing or is not a slice profile.
        """
        try:
            data = json.loads(readable(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: cannot read the slice profile: {error.strerror or error}") from None
        except (ValueError, RecursionError):
            raise InputError(f"{path}: not a slice profile: no JSON") from None
        if not isinstance(data, Mapping) or data.get("kind") != KIND:  # pyright: ignore[reportUnknownMemberType]
            raise InputError(
                f'{path}: not a slice profile: no "kind": "{KIND}" in it; see meshwright measure training --model MODEL'
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InputError("\n".join(f"{path}: {problem_line(e)}" for e in error.errors())) from None

    def save(self, path: str | Path) -> Path:
        """Write the profile as JSON."""
        return write_text(path, json.dumps(self.model_dump(mode="json"), indent=1) + "\n")

    def check(self, graph: Graph) -> None:
        """Refuse a profile of another model.

        Raises
        ------
        InputError
            If its sequences have another length, or it was measured on another graph.
        """
        length = sequence_length(graph)
        if self.tokens != length:
            raise InputError(
                f"slice profile: of sequences of {self.tokens} tokens; {graph.name!r} has {length}: measure anew"
            )
        if self.digest and self.digest != graph.digest:
            raise InputError(f"slice profile: of another model ({self.model!r}) than {graph.name!r}: measure anew")

    def clocks(self, layout: Layout, blocks: int, recompute: Recompute) -> tuple[ProfileClock, ...]:
        """The clock of every stage of a layout, for a model with so many blocks in all.

        Raises
        ------
        InputError
            If the layout's op degree is not the measured one, or it recomputes parts of blocks.
        """
        if layout.op != self.op:
            raise InputError(
                f"slice profile: measured with op degree {self.op}; give -o op={self.op} (got {layout.op})"
            )
        if recompute == "selective":
            raise InputError("slice profile: says nothing of parts of blocks; use recompute none or full")
        fitted = self.fits()
        each = blocks // layout.pipe
        known: dict[tuple[bool, bool], ProfileClock] = {}
        found: list[ProfileClock] = []
        for s in range(layout.pipe):
            ends = s == 0, s == layout.pipe - 1
            if ends not in known:
                mine = [ClockPart(each, *fitted["block"], recompute == "full")]
                for name, here in zip(("before", "after"), ends, strict=True):
                    if here and name in fitted:
                        mine.append(ClockPart(1, *fitted[name]))
                known[ends] = ProfileClock(tuple(mine), self.tokens)
            found.append(known[ends])
        return tuple(found)

    def fits(self) -> dict[str, tuple[SliceLatency, SliceLatency]]:
        """Eq. 2.9 fitted to each part, forward and backward. Only blocks attend to earlier tokens."""
        return {name: self.parts[name].fit(name == "block") for name in _ordered(self.parts)}

    def report(self) -> list[str]:
        """The fits in words, one line for each part and direction."""
        lines: list[str] = []
        for name, both in self.fits().items():
            for direction, fit in zip(("forward", "backward"), both, strict=True):
                base = fit.base_s[fit.samples[0]]
                said = (
                    f"{name:<7} {direction:<9} {base[0]:.4g} s for {fit.lengths[0]} tokens, {base[-1]:.4g} s for "
                    f"{fit.lengths[-1]}"
                )
                if any(fit.context):
                    said += f"; context a0 … a3 = {', '.join(f'{a:.3g}' for a in fit.context)}"
                if fit.held_out:
                    said += (
                        f"; on {fit.held_out} held-out pairs the linear model is {fit.overhead_error:.1%} off the "
                        f"overhead of context (the paper: < {PAPER_ERROR:.0%}), {fit.error:.1%} off the whole time"
                    )
                lines.append(said)
        return lines


def _ordered(parts: Mapping[Part, PartTimes]) -> list[Part]:
    return [name for name in PARTS if name in parts]


def part_bounds(graph: Graph) -> dict[str, tuple[int, int]]:
    """Ranges of operators (half-open) of each part: before the blocks, the first block, after the last one.

    Raises
    ------
    InputError
        If the graph has no repeated blocks.
    """
    layers = [op.layer for op in graph.operators]
    inside = [k for k, layer in enumerate(layers) if layer >= 0]
    if not inside:
        raise InputError(f"terapipe: {graph.name!r} has no repeated blocks, which equal cells are made of")
    first, last = inside[0], inside[-1] + 1
    block = next((k for k in range(first, last) if layers[k] != layers[first]), last)
    found = {"before": (0, first), "block": (first, block), "after": (last, len(layers))}
    return {name: bounds for name, bounds in found.items() if bounds[0] < bounds[1]}
