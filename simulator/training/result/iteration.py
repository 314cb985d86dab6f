"""`TrainingResult`: what one simulated iteration of a training plan took, and where the time and memory went."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ....reprs import Shown
from ...summary import Summary
from ...timeline import Timeline
from ..closed_form import closed_form
from ..plan.file import StageEntry, TrainingPlan
from ..plan.links import PlanLinks
from ..plan.program import slice_share
from ..program.actions import Program
from ..program.columns import RECV_B, RECV_F, REDUCE, SEND_B, SEND_F, UPDATE, B, F, W
from ..timing import ActionTimes, Prepared
from ..varying.drawn import Drawn
from .memory_timeline import MemoryTimeline, in_flight, memory_timeline
from .words import explain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["TrainingResult"]

Floats = npt.NDArray[np.float64]
COMPUTING = (F, B, W, REDUCE, UPDATE)
_NAMES = {F: "F", B: "B", W: "W", REDUCE: "reduce", UPDATE: "update", SEND_F: "send F", SEND_B: "send B"}
_GATHER = "gather"


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult(Shown):
    """One simulated iteration. Arrays have one element for each mesh, unless stated otherwise.

    Parameters
    ----------
    plan : TrainingPlan
        The simulated plan.
    engine : {"compiled", "simpy"}
        The simulation engine that computed it.
    program : Program
        The actions of the meshes.
    links : PlanLinks
        How tensors get from mesh to mesh.
    costs : Prepared
        Seconds of each action.
    times : ActionTimes
        When each action began and ended.
    drawn : Drawn, optional
        Factors by which times varied.
    """

    plan: TrainingPlan
    engine: Literal["compiled", "simpy"]
    program: Program
    links: PlanLinks
    costs: Prepared
    times: ActionTimes
    drawn: Drawn | None = None

    @cached_property
    def seconds(self) -> float:
        """Seconds of the iteration: until the last mesh is done and the last message has arrived."""
        arrived = self.times.arrived[~np.isnan(self.times.arrived)]
        return float(max(self.times.finish.max(initial=0.0), arrived.max(initial=0.0)))

    @cached_property
    def busy_s(self) -> Floats:
        """Seconds that each mesh computes, with what its collectives wait for links that are shared."""
        steady = self.drawn is None and self.plan.links == "apart"
        took = self.costs.duration if steady else self.times.finish - self.times.start
        return self._per_mesh(np.where(np.isin(self.program.columns.op, COMPUTING), took, 0.0))

    @cached_property
    def communication_s(self) -> Floats:
        """Seconds that each mesh is kept by sending and gathering; 0 where that goes on beside computation."""
        return self._per_mesh(self._communication)

    @cached_property
    def waiting_s(self) -> Floats:
        """Seconds that each mesh waits: for messages, and once it is done for the others."""
        return self.seconds - self.busy_s - self.communication_s

    @property
    def devices(self) -> npt.NDArray[np.int64]:
        """Devices of each mesh."""
        return np.array([m.hosts * m.devices for m in self.plan.meshes], dtype=np.int64)

    @property
    def busy(self) -> Floats:
        """Share of the iteration in which each mesh computes."""
        return self.busy_s / self.seconds if self.seconds > 0 else np.zeros(len(self.busy_s))

    @property
    def bubble(self) -> float:
        """Share of all device time in which nothing is computed."""
        return 1.0 - float(self.busy @ self.devices) / int(self.devices.sum())

    @property
    def model_flops(self) -> float:
        """FLOPs of one iteration, without recomputation: those of the forward passes, and twice as many backward."""
        forward = self._forward_flops(self.plan.stages)
        return forward * (3.0 if self._trained else 1.0)

    @property
    def hardware_flops(self) -> float:
        """`model_flops` plus the forward passes that stages with full recomputation repeat."""
        again = self._forward_flops([s if s.recompute == "full" else None for s in self.plan.stages])
        return self.model_flops + (again if self._trained else 0.0)

    @property
    def pflops(self) -> float:
        """Model PFLOP/s of all devices together."""
        return self.model_flops / self.seconds / 1e15 if self.seconds > 0 else 0.0

    @property
    def mfu(self) -> float:
        """Model FLOPs per second over the peak of the plan's devices."""
        peaks = [c.spec.peak_flops for c in self.plan.clusters]
        peak = sum(peaks[m.cluster] * n for m, n in zip(self.plan.meshes, self.devices.tolist(), strict=True))
        return self.pflops * 1e15 / peak

    @property
    def samples_per_s(self) -> float:
        """Samples of the global batch per second."""
        return self.plan.global_batch / self.seconds if self.seconds > 0 else float("inf")

    @cached_property
    def peak_bytes(self) -> Floats:
        """Most memory of one device of each mesh."""
        return self.memory().peak

    @cached_property
    def limit_bytes(self) -> npt.NDArray[np.int64]:
        """Memory of a device of each mesh."""
        each = [c.spec.memory_bytes for c in self.plan.clusters]
        return np.array([each[m.cluster] for m in self.plan.meshes], dtype=np.int64)

    @property
    def memory_bytes(self) -> int:
        """Memory of a device; of several clusters, of the fullest mesh's."""
        return int(self.limit_bytes[self.fullest])

    @property
    def fits(self) -> bool:
        """Whether every mesh stays within its devices' memory."""
        return bool(np.all(self.peak_bytes <= self.limit_bytes))

    @property
    def fullest(self) -> int:
        """The mesh that takes the largest share of its devices' memory."""
        return int(np.argmax(self.peak_bytes / self.limit_bytes))

    @cached_property
    def in_flight(self) -> npt.NDArray[np.int64]:
        """For each stage, most of its own microbatches (or token slices) whose activations are kept at once."""
        return in_flight(self.program)

    @cached_property
    def pipeline_s(self) -> float:
        """A planner's closed form for this pipeline, without communication; see `closed_form`."""
        return closed_form(self.plan)

    def memory(self) -> MemoryTimeline:
        """Memory over time."""
        stages = self.plan.stages
        return memory_timeline(
            self.program,
            self.times.start,
            self.times.finish,
            [s.state_bytes for s in stages],
            [s.activation_bytes for s in stages],
            [s.work_bytes for s in stages],
            self.limit_bytes,
            slice_share(self.plan),
        )

    def timeline(self) -> Timeline:
        """What each mesh did and what it had under way; `Timeline.to_chrome` writes it for Perfetto.

        Spans are numbered by their microbatch; where microbatches are cut into token slices, by slice as they are fed.
        """
        c, times, messages = self.program.columns, self.times, self.costs.messages
        kinds = list(_NAMES)
        names = [*_NAMES.values(), _GATHER]
        number = np.zeros(9, dtype=np.int32)
        number[kinds] = np.arange(len(kinds))
        begin = times.finish - np.where(np.isin(c.op, (RECV_F, RECV_B)), self._communication, np.inf)
        begin = np.where(np.isfinite(begin), begin, times.start)
        shown = np.flatnonzero(times.finish > begin)
        lane, name = c.mesh[shown], number[c.op[shown]]
        name[np.isin(c.op[shown], (RECV_F, RECV_B))] = len(kinds)
        sends = np.flatnonzero(np.isin(c.op, (SEND_F, SEND_B)))
        sends = sends[self.costs.sending_s(messages.message[sends]) > 0] if len(sends) else sends
        sent = messages.message[sends]
        n = self.program.n_meshes
        return Timeline(
            np.concatenate((lane, c.mesh[sends] + n)).astype(np.int32),
            np.concatenate((begin[shown], times.sent[sent])),
            np.concatenate((times.finish[shown], times.arrived[sent])),
            np.concatenate((name, number[c.op[sends]])).astype(np.int32),
            self._fed[np.concatenate((shown, sends))],
            [*(f"mesh {m}" for m in range(n)), *(f"mesh {m} sends" for m in range(n))],
            names,
            [self._devices_text(m % n) for m in range(2 * n)],
        )

    @property
    def goodput(self) -> float:
        """Samples of the global batch per second: all that is trained is good.

        An iteration has no SLO, so that there is no `attainment`.
        """
        return self.samples_per_s

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        from .views import summary

        return summary(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per action, mesh after mesh: what it was, when it began and ended (seconds)."""
        from .views import to_frame

        return to_frame(self)

    def plot(self) -> Figure:
        """What each mesh did when, and the memory of its devices, as a matplotlib figure."""
        from .views import plot

        return plot(self)

    def _headline(self) -> str:
        what = f"{self.plan.model.name}, {len(self.plan.stages)} stages on {int(self.devices.sum())} devices"
        return f"{what}: {self.seconds:.4g} s per iteration, {self.samples_per_s:.4g} samples/s, MFU {self.mfu:.2%}"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()

    def explain(self) -> str:
        """The result in words."""
        return explain(self)

    def __str__(self) -> str:
        return self.explain()

    def _forward_flops(self, stages: Sequence[StageEntry | None]) -> float:
        counts = self.plan.microbatches_of
        return sum(s.flops * n for s, n in zip(stages, counts, strict=True) if s is not None)

    @property
    def _trained(self) -> bool:
        return bool(np.any(self.program.columns.op == B))

    @cached_property
    def _communication(self) -> Floats:
        """Seconds of each action that its mesh spends on sending, or on gathering what it received."""
        c, costs = self.program.columns, self.costs
        spent = np.where(np.isin(c.op, (SEND_F, SEND_B)), self.times.finish - self.times.start, 0.0)
        receives = np.isin(c.op, (RECV_F, RECV_B))
        message = costs.messages.message[receives]
        if self.drawn is not None and not costs.overlap:
            spent[receives] = self.times.finish[receives] - np.maximum(
                self.times.start[receives], self.times.arrived[message]
            )
        elif not costs.overlap and len(costs.gather_s):
            spent[receives] = costs.gathering_s(message) + costs.duration[receives]
        elif costs.overlap:
            spent[receives] = costs.duration[receives]  # the host's work; the gather goes on beside
        return spent

    @cached_property
    def _fed(self) -> npt.NDArray[np.int64]:
        """For each action its microbatch, or the number of its slice among all as they are fed; −1 for none."""
        c = self.program.columns
        before = np.cumsum([0, *(len(e.tokens) for e in self.plan.slices for _ in range(e.count))])
        first = before[c.microbatch] if self.plan.slices else c.microbatch
        return np.where(c.microbatch < 0, -1, first + c.slice).astype(np.int64)

    def _per_mesh(self, seconds: Floats) -> Floats:
        sums = np.bincount(self.program.columns.mesh, weights=seconds, minlength=self.program.n_meshes)
        return sums.astype(np.float64)

    def _devices_text(self, mesh: int) -> str:
        stages = [s for s, home in enumerate(self.program.mesh_of) if home == mesh]
        ids = self.plan.mesh(stages[0]).device_ids
        return f"devices {min(ids)}-{max(ids)}" if len(ids) > 1 else f"device {min(ids)}"
