"""What a comparison with measured rows assumes, and what it finds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from .....profiles.llm import Overheads
from .....profiles.llm.tables.outliers import SetAside
from .....reprs import Shown
from .....simulator.llm.workload.clients import FRONT_ENDS
from .rows import SiliconRow, Skipped

__all__ = ["Benchmark", "Predicted", "SiliconComparison"]

MEDIANS = ("tpot_median_ape", "ttft_median_ape", "e2e_median_ape")


@dataclass(frozen=True, slots=True, repr=False)
class Benchmark(Shown):
    """Assumptions about the benchmark tool and about the path of a request outside the engine; the same for all rows.

    Parameters
    ----------
    rounds : int
        Requests per client that the tool counts. Its warm-up is a separate run before, so that the counted run begins
        with one request of every client at once; their waiting counts.
    simulated_rounds : int
        Rounds that are simulated: the first, the last, and some that stand for all between them.
    spread : float
        Standard deviation of output lengths over their mean, since real clients do not stay in step. Predictions hardly
        depend on it from 0.03 to 0.2.
    front_s : float
        Seconds of one request outside the engine, both ways: HTTP, chat template, tokenising, handing over.
    stream_s : float
        Front-end seconds to detokenise and send one token of one sequence. A first token waits for those of the other
        sequences of its step.
    utilization : float
        ``gpu_memory_utilization``.
    """

    # Assumed, not measured, and the same for every row; each report prints them. 0.9 was vLLM's default for long (0.33
    # has 0.92); the times of the front end are round figures of a Python server.
    rounds: int = 10
    simulated_rounds: int = 4
    spread: float = 0.1
    front_s: float = FRONT_ENDS["separate"].request_s
    stream_s: float = FRONT_ENDS["separate"].sequence_s
    utilization: float = 0.9

    def clients(self) -> str:
        """How requests are taken to be sent, in words."""
        return (
            f"assumed clients: a closed loop, all beginning at once, {self.rounds} requests each, outputs spread by "
            f"{self.spread:.0%}; front end in a process of its own: {1e3 * self.front_s:g} ms a request and "
            f"{1e3 * self.stream_s:g} ms a running sequence, guesses"
        )

    def explain(self) -> str:
        """Every field with its value, in one line."""
        return "benchmark: " + ", ".join(f"{f.name}={getattr(self, f.name):g}" for f in fields(self))


@dataclass(frozen=True, slots=True, repr=False)
class Predicted(Shown):
    """A measured row and its prediction; times are means over requests, milliseconds.

    Parameters
    ----------
    row : SiliconRow
        The measurements.
    ttft_ms, tpot_ms : float
        Predicted TTFT and TPOT.
    first_ttft_ms, later_ttft_ms : float
        Predicted TTFT of the requests that came at once at the beginning, and of the later ones.
    blocks : int
        KV blocks.
    max_num_batched_tokens, max_num_seqs : int
        Assumed engine arguments.
    asynchronous : bool
        Whether steps are decided ahead.
    preemptions : int
        Preemptions in the simulation.
    """

    row: SiliconRow
    ttft_ms: float
    tpot_ms: float
    first_ttft_ms: float
    later_ttft_ms: float
    blocks: int
    max_num_batched_tokens: int
    max_num_seqs: int
    asynchronous: bool
    preemptions: int

    @property
    def ttft_error(self) -> float:
        """Signed fraction."""
        return self.ttft_ms / self.row.ttft_ms - 1

    @property
    def tpot_error(self) -> float:
        """Signed fraction."""
        return self.tpot_ms / self.row.tpot_ms - 1

    @property
    def e2e_error(self) -> float:
        """Signed fraction of TTFT and the further tokens' TPOT together."""
        further = self.row.osl - 1
        both = (self.ttft_ms, self.tpot_ms), (self.row.ttft_ms, self.row.tpot_ms)
        found, real = (ttft + (further * tpot if further else 0.0) for ttft, tpot in both)
        return found / real - 1

    def to_dict(self) -> dict[str, Any]:
        """All inputs, predictions and errors."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "row"}
        said = asdict(self.row)
        measured = {"silicon_ttft_ms": said.pop("ttft_ms"), "silicon_tpot_ms": said.pop("tpot_ms")}
        errors = {name: getattr(self, name) for name in ("ttft_error", "tpot_error", "e2e_error")}
        return {**said, **measured, **own, **errors, "kept": self.row.kept}


@dataclass(frozen=True, slots=True, repr=False)
class SiliconComparison(Shown):
    """Measured rows with their predictions.

    Parameters
    ----------
    rows : tuple of Predicted
        The rows, in the order of the file.
    benchmark : Benchmark
        Assumptions about the benchmark tool.
    overheads : Overheads
        Host times of a step.
    notes : tuple of str
        Further assumptions.
    seconds : float
        Seconds that the comparison took.
    skipped : tuple of Skipped
        Rows that could not be predicted, and why; medians leave them out.
    set_aside : tuple of SetAside
        Points of the kernel tables that contradict others; no prediction uses them.
    """

    rows: tuple[Predicted, ...]
    benchmark: Benchmark
    overheads: Overheads
    notes: tuple[str, ...]
    seconds: float
    skipped: tuple[Skipped, ...] = ()
    set_aside: tuple[SetAside, ...] = ()

    @property
    def ttft_ways(self) -> tuple[float, float]:
        """The least and the most that the TTFT of a row may be over the predicted one, in the median row, as fractions:
        if clients were out of step from the beginning, if nothing stood before the engine, or both.
        """
        ratios: list[tuple[float, float]] = []
        for p in self.rows:
            front = 1e3 * (self.benchmark.front_s + self.benchmark.stream_s * min(p.row.concurrency, p.max_num_seqs))
            ways = (p.ttft_ms, p.ttft_ms - front, p.later_ttft_ms, p.later_ttft_ms - front)
            ratios.append((min(ways) / p.ttft_ms - 1, max(ways) / p.ttft_ms - 1))
        low, high = zip(*ratios, strict=True)
        return _median(list(low)), _median(list(high))

    @property
    def clients(self) -> str:
        """How requests are taken to be sent, which no row says, and what that does to TTFT."""
        low, high = self.ttft_ways
        return (
            f"{self.benchmark.clients()}; rows do not say. If clients were out of step, or nothing stood before the "
            f"engine, TTFT of the median row is {low:+.0%} to {high:+.0%}"
        )

    @property
    def ttft_median_ape(self) -> float:
        """Median over rows of the absolute error of TTFT, as a fraction."""
        return _median([abs(p.ttft_error) for p in self.rows])

    @property
    def tpot_median_ape(self) -> float:
        """Median over rows of the absolute error of TPOT, as a fraction; rows of one output token have none."""
        return _median([abs(p.tpot_error) for p in self.rows])

    @property
    def e2e_median_ape(self) -> float:
        """Median over rows of the absolute error of TTFT and TPOT together, as a fraction."""
        return _median([abs(p.e2e_error) for p in self.rows])

    def kept(self) -> SiliconComparison | None:
        """The rows that nothing here is chosen by (`SiliconRow.kept`); None if there is none, or no other."""
        rows = tuple(p for p in self.rows if p.row.kept)
        return replace(self, rows=rows) if 0 < len(rows) < len(self.rows) else None

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        kept = self.kept()
        apart = {} if kept is None else {f"kept_{name}": getattr(kept, name) for name in MEDIANS}
        return {
            **{name: getattr(self, name) for name in MEDIANS},
            **apart,
            "tpot_median_error": _median([p.tpot_error for p in self.rows]),
            "ttft_median_error": _median([p.ttft_error for p in self.rows]),
            "rows": [p.to_dict() for p in self.rows],
            "skipped": [asdict(row) for row in self.skipped],
            "benchmark": asdict(self.benchmark),
            "overheads": self.overheads.to_dict(),
            "set_aside": [table.to_dict() for table in self.set_aside],
            "notes": list(self.notes),
            "clients": self.clients,
            "ttft_ways": list(self.ttft_ways),
            "seconds": self.seconds,
        }

    def _medians(self) -> str:
        said = zip(("TPOT", "TTFT", "both together"), MEDIANS, strict=True)
        return ", ".join(f"{word} {getattr(self, name):.1%}" for word, name in said)

    def __str__(self) -> str:
        kept = self.kept()
        names = [p.row.model.rpartition("/")[2] for p in self.rows]
        wide = max(5, *(len(name) for name in names))
        deep = max(6, *(len(p.row.system) for p in self.rows))
        lines = [
            self.clients,
            f"{'model':<{wide}} {'system':<{deep}} prec      tp pp   isl   osl conc |    TPOT measured predicted  error"
            " |    TTFT measured predicted  error",
        ]
        for p, name in zip(self.rows, names, strict=True):
            r = p.row
            lines.append(
                f"{name:<{wide}} {r.system:<{deep}} {r.precision:<9} {r.tp:>2} {r.pp:>2} {r.isl:>5} {r.osl:>5} "
                f"{r.concurrency:>4} | {r.tpot_ms:>13.2f} ms {p.tpot_ms:>6.2f} ms {p.tpot_error:>+6.1%} | "
                f"{r.ttft_ms:>13.1f} ms {p.ttft_ms:>6.0f} ms {p.ttft_error:>+6.1%}"
            )
        lines += [
            "",
            f"{len(self.rows)} rows in {self.seconds:.1f} s: median absolute error {self._medians()}",
            *([] if kept is None else [f"of the {len(kept.rows)} that nothing is chosen by: {kept._medians()}"]),
            *(f"not predicted: {row.reason}" for row in self.skipped),
            "TTFT and TPOT are means over requests, as benchmark tools report them; no parameter is fitted to a row.",
            self.benchmark.explain(),
            self.overheads.explain(),
            *self.notes,
        ]
        return "\n".join(lines)


def _median(values: list[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return float(np.median(there)) if there else math.nan
