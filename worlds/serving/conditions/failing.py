"""What a serving case says of machines that fail and of weights that load, and what becomes of it in a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ....errors import InputError
from ....reprs import Shown
from ...file.units import parse_bandwidth, parse_bytes, parse_seconds
from ...limits import MAX_BYTES, MAX_BYTES_PER_S, MAX_SECONDS

if TYPE_CHECKING:  # a case is read without the simulator, whose kernels take long to load
    from ....simulator.failures import ScriptedFailure
    from ....simulator.serving.breakdowns import Breakdowns
    from ....simulator.serving.loading import Loading
    from ..case import ServingCase

__all__ = ["FailuresCase", "LoadingCase", "breakdowns_of", "with_files"]

Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0, le=MAX_SECONDS)]
Bandwidth = Annotated[float, BeforeValidator(parse_bandwidth), Field(ge=1, le=MAX_BYTES_PER_S)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0, le=MAX_BYTES)]
Entry = Mapping[str, Any]


class _Part(Shown, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FailuresCase(_Part):
    """When devices and nodes fail and come back: see docs/failures.md."""

    mtbf: Seconds | None = Field(default=None, description="mean seconds between failures of a device, exponential")
    mttr: Seconds | None = Field(default=None, description="mean seconds until a device is repaired, exponential")
    node_mtbf: Seconds | None = Field(
        default=None, description="mean seconds between failures of a node, which takes all of its devices"
    )
    node_mttr: Seconds | None = Field(default=None, description="mean seconds until a node is repaired, exponential")
    script: str | tuple[Entry, ...] | None = Field(
        default=None,
        description="failures at known times, a list of {at: 12, device: 3, for: 20} (or node, or group), or the file "
        "of one",
    )
    in_flight: Literal["retried", "lost"] = Field(
        default="retried", description="what becomes of the requests that a group held: retried elsewhere, or lost"
    )

    @model_validator(mode="after")
    def _means(self) -> FailuresCase:
        for mean, repair in (("mtbf", "mttr"), ("node_mtbf", "node_mttr")):
            if (getattr(self, mean) is None) != (getattr(self, repair) is None):
                raise ValueError(f"{mean} and {repair} go together; give both or none")
        if not isinstance(self.script, str) and self.script is not None:
            from ....simulator.failures import events_of

            try:
                events_of(self.script)
            except InputError as error:
                raise ValueError(str(error)) from None
        return self

    @property
    def said(self) -> bool:
        """Whether anything fails."""
        return self.random or self.script is not None

    @property
    def random(self) -> bool:
        """Whether failures are drawn."""
        return self.mtbf is not None or self.node_mtbf is not None


class LoadingCase(_Part):
    """What loading weights costs: bytes over the slowest bandwidth on their way."""

    measured: str | None = Field(
        default=None,
        description="file that `measure --bandwidths` wrote: its bandwidths, where disk, host_memory and network are "
        "left out",
    )
    disk: Bandwidth | None = Field(
        default=None,
        description="bytes per second of a node's disk, such as 2 GB/s, which devices that load at once share; loading "
        "costs nothing if left out",
    )
    host_memory: Bandwidth | None = Field(
        default=None, description="bytes per second from a host's memory to a device; no limit if left out"
    )
    network: Bandwidth | None = Field(
        default=None, description="bytes per second of a node's network adapter, if weights come over it"
    )
    cache: Bytes = Field(default=0, description="bytes of each host's memory that keep weights once loaded")
    start: Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)] = Field(
        default=0.0, description="seconds that a group takes before it loads"
    )
    cold: bool = Field(default=False, description="whether groups begin without weights, and load them first")

    @model_validator(mode="after")
    def _whole(self) -> LoadingCase:
        for name in ("host_memory", "network", "cache", "start", "cold"):
            if (
                self.disk is None
                and self.measured is None
                and getattr(self, name) != type(self).model_fields[name].default
            ):
                raise ValueError(f"{name}: needs disk, where weights are kept; give its bytes per second, or measured")
        return self

    def filled(self, measured: Mapping[str, Mapping[str, float]]) -> LoadingCase:
        """With the bandwidths of its file, where it says no others; `measured` has those of each file."""
        if self.measured is None:
            return self
        unsaid = {name: v for name, v in measured[self.measured].items() if getattr(self, name) is None}
        return self.model_copy(update={**unsaid, "measured": None})

    @property
    def loading(self) -> Loading | None:
        """As the simulator takes it; a case that names a file is filled before."""
        from ....simulator.serving.loading import Loading

        assert self.measured is None
        if self.disk is None:
            return None
        host = float("inf") if self.host_memory is None else self.host_memory
        return Loading(self.disk, host, self.network, self.cache, self.start, source="the case")


def with_files(case: ServingCase, folder: Path) -> tuple[ServingCase, dict[str, tuple[ScriptedFailure, ...]]]:
    """A case at a door: with the bandwidths of its file, and the failure script that it names, by name.

    Raises
    ------
    InputError
        If a file cannot be read.
    """
    from ....profiles.measure.bandwidths import read_bandwidths
    from ....simulator.failures import read_script

    script, measured = case.failures.script, case.loading.measured
    scripts = {script: read_script(folder / script)} if isinstance(script, str) else {}
    if measured is None:
        return case, scripts
    try:
        found = {measured: read_bandwidths(folder / measured)}
    except InputError as error:
        raise InputError(f"loading.measured: {error}") from None
    return case.model_copy(update={"loading": case.loading.filled(found)}), scripts


def breakdowns_of(
    failures: FailuresCase, loading: LoadingCase, scripts: Mapping[str, tuple[ScriptedFailure, ...]]
) -> Breakdowns | None:
    """What a case says, as the simulator takes it; None if nothing fails, and nothing begins cold.

    Parameters
    ----------
    failures, loading : FailuresCase, LoadingCase
        The case's sections.
    scripts : mapping
        Script files that were read, by name.
    """
    from ....simulator.failures import Failures, events_of
    from ....simulator.serving.breakdowns import Breakdowns

    found = None
    if failures.said:
        script = failures.script
        events = () if script is None else scripts[script] if isinstance(script, str) else events_of(script)
        found = Failures(failures.mtbf, failures.mttr, failures.node_mtbf, failures.node_mttr, events)
    if found is None and not loading.cold:
        return None
    return Breakdowns(found, loading.loading, failures.in_flight, loading.cold)
