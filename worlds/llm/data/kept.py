"""`LLMData`: what was loaded for LLM cases, each by the name that they give it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....planners.vllm.demand import LengthSource
from ....profiles import DeviceSpec
from ....profiles.llm import DecoderSpec, KernelTables
from ....simulator.failures import ScriptedFailure
from ....simulator.llm import LLMTrace
from ..case import LLMCase
from ..fleet import names_of

__all__ = ["LLMData"]


@dataclass(frozen=True, slots=True)
class LLMData:
    """What was loaded; each by the name that cases give it.

    Parameters
    ----------
    models : mapping of str to DecoderSpec
    tables : mapping of str to KernelTables
    lengths : mapping of str to LengthSource
    traces : mapping of str to mapping of str to LLMTrace
        By the model that the file names; of a file that names none, under the empty name.
    devices : mapping of str to DeviceSpec
    scripts : mapping of str to tuple of ScriptedFailure
    digests : mapping of str to str
        Name of a file or folder -> SHA-256 of its content.
    """

    models: dict[str, DecoderSpec] = field(default_factory=dict[str, DecoderSpec])
    tables: dict[str, KernelTables] = field(default_factory=dict[str, KernelTables])
    lengths: dict[str, LengthSource] = field(default_factory=dict[str, LengthSource])
    traces: dict[str, dict[str, LLMTrace]] = field(default_factory=dict[str, dict[str, LLMTrace]])
    devices: dict[str, DeviceSpec] = field(default_factory=dict[str, DeviceSpec])
    scripts: dict[str, tuple[ScriptedFailure, ...]] = field(default_factory=dict[str, tuple[ScriptedFailure, ...]])
    digests: dict[str, str] = field(default_factory=dict[str, str])

    def digests_of(self, case: LLMCase) -> dict[str, str]:
        """Of the files that a case reads."""
        devices = [name for _, name in names_of(case)]
        script = case.failures.script if isinstance(case.failures.script, str) else None
        named = (*case.models, *devices, *case.tables.values(), case.workload.lengths, case.workload.trace, script)
        return {name: self.digests[name] for name in named if name is not None and name in self.digests}
