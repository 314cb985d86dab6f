"""What a configuration search says: the best configurations, the front of time against memory, and why not the rest."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files import whole_file
from ...reprs import Shown
from ...simulator import Cluster
from ...simulator.training import Breakdown, Estimate, TransformerShape
from ...simulator.training.configuration.columns import WORDS
from .means import NAMES

__all__ = ["Configuration", "SearchResult"]

GIB = 2**30


@dataclass(frozen=True, slots=True, repr=False)
class Configuration(Shown):
    """One training configuration and what it costs.

    Parameters
    ----------
    tp, pp, dp, microbatch, interleave, recompute, sequence_parallel, zero
        As in `estimate`.
    cp, context, ep, etp, overlap_experts, shard, reshard, schedule, offload_optimizer, offload_activations,
    first_layers, last_layers
        As in `estimate`.
    stack : str
        Name of the training software.
    estimate : Estimate
        Seconds, peak bytes, MFU, every part.
    """

    tp: int
    pp: int
    dp: int
    microbatch: int
    interleave: int
    recompute: str
    sequence_parallel: bool
    zero: int
    stack: str
    estimate: Estimate
    cp: int = 1
    context: str = "ring"
    ep: int = 1
    etp: int = 0
    overlap_experts: bool = False
    shard: int = 0
    reshard: bool = True
    schedule: str = "1f1b"
    offload_optimizer: bool = False
    offload_activations: bool = False
    first_layers: int = 0
    last_layers: int = 0

    @property
    def seconds(self) -> float:
        """One iteration."""
        return self.estimate.seconds

    @property
    def peak_bytes(self) -> int:
        """Allocator's peak on the fullest device."""
        return self.estimate.peak_bytes

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation."""
        return self.estimate.mfu

    @property
    def breakdown(self) -> Breakdown:
        """Every part of time and memory."""
        return self.estimate.breakdown

    @property
    def devices(self) -> int:
        """Devices that it runs on."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def settings(self) -> dict[str, Any]:
        """What `estimate` takes, by name."""
        return {name: getattr(self, name) for name in NAMES}

    def __str__(self) -> str:
        parts = [f"tp {self.tp} pp {self.pp} dp {self.dp} microbatch {self.microbatch}"]
        if self.interleave > 1:
            parts.append(f"interleave {self.interleave}")
        parts += [f"{n} layers {end}" for end, n in (("first", self.first_layers), ("last", self.last_layers)) if n]
        if self.recompute != "none":
            parts.append(f"{self.recompute} recomputation")
        if self.sequence_parallel:
            parts.append("sequence parallel")
        if self.zero:
            parts.append(f"ZeRO {self.zero}" + (f" over {self.shard}" if self.shard else ""))
        if not self.reshard:
            parts.append("not resharded")
        if self.cp > 1:
            parts.append(f"cp {self.cp}" + (" all-to-all" if self.context != "ring" else ""))
        if self.ep > 1:
            parts.append(f"ep {self.ep}" + (" overlapped" if self.overlap_experts else ""))
        if self.etp > 1:
            parts.append(f"etp {self.etp}")
        if self.schedule != "1f1b":
            parts.append(self.schedule)
        if self.offload_optimizer:
            parts.append("optimizer on the host")
        if self.offload_activations:
            parts.append("activations on the host")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SearchResult(Shown):
    """A whole space, searched.

    Parameters
    ----------
    model, cluster, global_batch
        What was asked.
    memory_bytes : int
        What a configuration may take of each device, context and fragmentation included.
    best : tuple of Configuration
        The fastest that fit, fastest first; of equally fast ones that with the smaller peak, then the first of the
        space.
    front : tuple of Configuration
        Those that no other one beats in both seconds and peak bytes, fastest first.
    combinations : int
        Size of the space.
    repeats : int
        Combinations with something switched on that does nothing there: sequence parallelism at tp 1, ZeRO at dp 1,
        selective recomputation under fused attention. Each costs what it costs without; none was evaluated.
    impossible : dict
        Rule -> combinations that break it first; none was evaluated.
    evaluated, fit : int
        Combinations that were evaluated, and that fit.
    smallest : Configuration or None
        The one with the smallest peak, whether it fits or not.
    seconds : float
        CPU seconds of the search.
    table : dict
        Column -> array over all that were evaluated, in the order of the space: the means, ``stack`` (index into
        `stacks`), ``seconds``, ``peak_bytes``, ``device_bytes``, ``mfu``, ``fits``.
    stacks : tuple of str
        Names of the training software that was tried.
    """

    model: TransformerShape
    cluster: Cluster
    global_batch: int
    memory_bytes: int
    best: tuple[Configuration, ...]
    front: tuple[Configuration, ...]
    combinations: int
    repeats: int
    impossible: Mapping[str, int]
    evaluated: int
    fit: int
    smallest: Configuration | None
    seconds: float
    table: Mapping[str, NDArray[Any]]
    stacks: tuple[str, ...]

    @property
    def out_of_memory(self) -> int:
        """Combinations that were evaluated and do not fit."""
        return self.evaluated - self.fit

    @property
    def pruned(self) -> int:
        """Combinations that were not evaluated, since they are impossible or repeat another."""
        return self.repeats + sum(self.impossible.values())

    def explain(self) -> str:
        """Best configurations, the front and the counts, as text."""
        lines = [
            f"{self.combinations:,} combinations in {self.seconds:.2f} CPU s: {sum(self.impossible.values()):,} "
            f"impossible, {self.repeats:,} repeat another, {self.evaluated:,} evaluated, of which "
            f"{self.out_of_memory:,} do not fit into {self.memory_bytes / GIB:.1f} GiB and {self.fit:,} do"
        ]
        lines += [f"  {count:>9,}  {rule}" for rule, count in sorted(self.impossible.items(), key=lambda x: -x[1])]
        lines += ["", "fastest:"]
        lines += [_line(one) for one in self.best]
        lines += ["", "time against memory:"]
        lines += [_line(one) for one in self.front]
        if self.best:
            lines += ["", str(self.best[0]), self.best[0].breakdown.explain()]
        return "\n".join(lines)

    def rows(self) -> list[dict[str, Any]]:
        """Everything that was evaluated, one mapping per configuration, in the order of the space."""
        names = list(self.table)
        plain = [column.tolist() for column in self.table.values()]
        found = [dict(zip(names, row, strict=True)) for row in zip(*plain, strict=True)]
        for row in found:
            row |= {name: known[row[name]] for name, known in WORDS.items()}
            row["stack"] = self.stacks[row["stack"]]
        return found

    def to_csv(self, path: str | Path) -> Path:
        """Write everything that was evaluated, one line each."""
        with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.table)
            words = {name: np.array(known) for name, known in (*WORDS.items(), ("stack", self.stacks))}
            columns = [words[name][c] if name in words else c for name, c in self.table.items()]
            writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
        return Path(path)


def _line(one: Configuration) -> str:
    return f"  {one.seconds:>9.4g} s  {one.peak_bytes / GIB:>6.1f} GiB  MFU {one.mfu:>5.1%}  {one}"
