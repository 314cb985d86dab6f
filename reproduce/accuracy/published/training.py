"""Training: TeraPipe's latencies on V100s, and published runs of Megatron-LM beside the estimate of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...terapipe.points import latencies
from ...terapipe.tables import SETTINGS
from ..line import Errors, Line, Sample
from . import Tell
from .experts import split as split_experts
from .fresh import split
from .later import chosen, reported
from .megatron import points
from .mixtures import split as split_mixtures
from .parallel import runs as parallel_runs
from .shipped import CASES

__all__ = [
    "EXPERT_SOURCES", "FRESH_SOURCES", "LATER_SOURCES", "MIXTURE_SOURCES", "PARALLEL_SOURCES", "SOURCES", "lines",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """What is said of a source of `megatron.points`.

    Parameters
    ----------
    by, on, date : str
        Who measured, on what, and when.
    sample : {"out", "in", "partly"}
        Whether the model had it in view.
    why : str
        Why.
    """

    by: str
    on: str
    date: str
    sample: Sample
    why: str


KNOWN = "known while the model was written; no rate is fitted to it, but four things were changed after looking at it"
LATER = (
    "looked up when the model stood, and then things were added that software and hardware do, for reasons of their "
    "own; no rate was moved"
)
SOURCES = {
    "Korthikanti 2022, Table 5": Published("Korthikanti et al.", "8 to 512 A100-80GB", "2022", "partly", KNOWN),
    "Megatron-LM functional tests": Published("NVIDIA", "8 to 256 H100, A100", "2024", "partly", LATER),
    "Nemotron-4 340B, Table 2": Published("NVIDIA", "1,536 to 6,144 H100", "2024", "partly", LATER),
    "Yeung 2024, Table 5": Published("Yeung et al.", "8 to 32 A100-80GB", "2024", "partly", LATER),
    "Qi 2024, Table 4": Published("Qi et al.", "8 to 32 A100-80GB", "2024", "partly", LATER),
    "Jiang 2024, Tables 2 and 3": Published(
        "Jiang et al.", "256 to 12,288 A100", "2024", "out",
        "came last, when the model stood, and nothing was changed for it; recomputation is not printed, and taken as "
        "Megatron-LM's recipes had it",
    ),
}  # fmt: skip
"""Source -> what is said of it (docs/training-estimate.md tells it at length)."""

PARTS: dict[str, dict[str, Any]] = {
    "chosen": {
        "sample": "in",
        "why": "looked up in November 2026 and split before any error was looked at: by this part physics was chosen, "
        "and two levels (H100, V100) and one kernel's rates (FlashAttention-1 on an H100) are fitted to it",
    },
    "reported": {
        "sample": "out",
        "why": "of runs looked up on 28 November 2026 and split by a seed the part to report on: computed once, when "
        "the levels were fitted to the other part, and nothing was changed after",
    },
    "parallel": {
        "sample": "out",
        "why": "runs with context parallelism or hybrid sharding, looked up on 28 November 2026 when the estimate had "
        "learned these and the levels stood; all reported, computed once, nothing changed after",
    },
    "searched": {
        "sample": "partly",
        "why": "runs with experts: causes of their errors were looked for with all of them in view; what was added has "
        "sources of its own, and nothing is fitted (docs/training-estimate.md, Published runs with experts)",
    },
    "unmoved": {
        "sample": "partly",
        "why": "of further runs with experts, split by a seed, the part that the model might have been chosen by; by "
        "these nothing was changed",
    },
    "mixtures": {
        "sample": "out",
        "why": "of further runs with experts, split by a seed before any error of theirs was computed, the part to "
        "report on: computed once, nothing changed after",
    },
    "seen": {
        "sample": "partly",
        "why": "of runs looked up in November 2026 the part to report on, whose errors were known when what FSDP, "
        "older attention kernels and V100s do, and later the levels, were added by other runs and measurements; "
        "nothing was chosen by these; what is quoted from memory stands in docs/training-estimate.md",
    },
}
LATER_SOURCES = {
    "LiBai, Megatron-LM on V100s": Published("Oneflow", "1 to 32 V100", "2022", "out", LATER),
    "NeMo 24.07, FP8": Published("NVIDIA", "8 to 512 H100", "2024", "out", LATER),
    "Megatron-LM 1.0, DGX-2H": Published("NVIDIA", "1 to 8 V100", "2020", "out", LATER),
    "LLM Foundry, one node of A100-80GB": Published("MosaicML, PyTorch FSDP", "8 A100-80GB", "2023", "out", LATER),
    "LLM Foundry, H100": Published("MosaicML, PyTorch FSDP", "16 to 64 H100", "2023", "out", LATER),
    "LLM Foundry, 128 and 512 H100": Published("MosaicML, PyTorch FSDP", "128 and 512 H100", "2023", "out", LATER),
    "LLM Foundry, A100-40GB": Published("MosaicML, PyTorch FSDP", "16 to 128 A100-40GB", "2023", "out", LATER),
    "Llama 3, Table 4": Published("Meta", "8,192 and 16,384 H100", "2024", "out", LATER),
}
"""Sources of `later`; sample and reason are those of the part (`PARTS`)."""
FRESH_SOURCES = {
    "DGX Cloud recipes": Published("NVIDIA", "16 to 2,048 H100", "2025", "out", LATER),
    "NeMo 25.02, FP8": Published("NVIDIA", "512 H100", "2025", "out", LATER),
    "Megatron Bridge, FP8": Published("NVIDIA", "64 H100", "2025", "out", LATER),
    "LLM Foundry, H100, further rows": Published("MosaicML, PyTorch FSDP", "8 to 64 H100", "2023", "out", LATER),
    "LLM Foundry, H100, FP8": Published("MosaicML, PyTorch FSDP", "8 H100", "2023", "out", LATER),
    "LLM Foundry, A100-80GB, 70B": Published("MosaicML, PyTorch FSDP", "32 and 64 A100-80GB", "2023", "out", LATER),
    "LLM Foundry, A100-40GB, further rows": Published(
        "MosaicML, PyTorch FSDP", "8 to 64 A100-40GB", "2023", "out", LATER
    ),
    "InternEvo, A100-80GB": Published("InternLM", "8 to 512 A100-80GB", "2023", "out", LATER),
    "torchtitan, A100-80GB": Published("PyTorch", "64 A100-80GB", "2024", "out", LATER),
    "TinyLlama, A100-40GB": Published("Zhang et al.", "16 A100-40GB", "2023", "out", LATER),
}
"""The same of `fresh`."""
PARALLEL_SOURCES = {
    "DGX Cloud recipes, cp 2": Published("NVIDIA", "8 to 2,304 H100", "2025", "out", LATER),
    "NeMo 24.07, FP8, cp 2": Published("NVIDIA", "8 and 64 H100", "2024", "out", LATER),
    "Megatron Bridge, FP8, cp 2": Published("NVIDIA", "1,024 H100", "2025", "out", LATER),
    "fms-fsdp, A100-80GB": Published("IBM, PyTorch FSDP", "128 A100-80GB", "2024", "out", LATER),
}
"""The same of `parallel`."""
MIXTURE_SOURCES = {
    "MoE model zoo, Qwen3-235B": Published("NVIDIA", "256 H100", "2025", "out", LATER),
    "AutoModel": Published("NVIDIA, PyTorch FSDP2", "8 and 64 H100", "2025", "out", LATER),
    "Megatron Bridge, FP8, experts": Published("NVIDIA", "16 H100", "2025", "out", LATER),
    "DeepSeek-V3, report": Published("DeepSeek", "2,048 H800", "2024", "out", LATER),
}
"""The same of `mixtures`."""
EXPERT_SOURCES = {
    "DGX Cloud recipes, experts": Published("NVIDIA", "512 and 1,024 H100", "2025", "out", LATER),
    "DGX Cloud recipes, Qwen3": Published("NVIDIA", "256 H100", "2025", "out", LATER),
    "Megatron Bridge, FP8, Qwen3": Published("NVIDIA", "16 and 256 H100", "2025, 2026", "out", LATER),
    "Megatron Core, Mixtral": Published("NVIDIA", "64 H100", "2024", "out", LATER),
}
"""The same of `experts`."""


def lines(seed: int, tell: Tell) -> tuple[Line, ...]:
    """Both; nothing in them is random."""
    return (*_terapipe(tell), *_estimates(tell), *_shipped(tell))


def _terapipe(tell: Tell) -> Iterator[Line]:
    tell("terapipe: latencies of Tables 2 to 4")
    frame = latencies()
    fitted, fresh = frame[frame.calibrated_on], frame[~frame.calibrated_on]
    gpus = [setting.gpus for setting in SETTINGS.values()]
    said: dict[str, Any] = {
        "kind": "published", "world": "training", "measured_by": "Li et al., on their testbed",
        "on": f"{min(gpus)} to {max(gpus)} V100", "date": "2021",
        "source": "TeraPipe (ICML '21), Tables 2 to 4; `meshwright reproduce terapipe/table2`",
    }  # fmt: skip
    what = "seconds of an iteration, GPT-3 of 1B to 175B"
    yield Line(
        what=f"{what}: those that rates of V100s were fitted to", model="planners.terapipe.v100, five fitted rates",
        sample="in", why="five rates are fitted to these latencies",
        errors=Errors.of((100 * fitted.error).tolist(), "%"), **said,
    )  # fmt: skip
    yield Line(
        what=f"{what}: all others", model="planners.terapipe.v100, five fitted rates", sample="partly",
        why="the rates are fitted to other latencies, but these were picked among eight sets, and the form of the "
        "model among some seventy, with errors in view",
        errors=Errors.of((100 * fresh.error).tolist(), "%"), **said,
    )  # fmt: skip
    yield Line(
        what=f"{what}: each setting by rates fitted to all others", model="planners.terapipe.v100, fitted anew",
        sample="partly",
        why="the setting is left out of the fit; the form of the model was chosen with such errors in view",
        errors=Errors.of((100 * frame.left_out_error).tolist(), "%"), **said,
    )  # fmt: skip


def _estimates(tell: Tell) -> Iterator[Line]:
    tell("published runs of Megatron-LM")
    fitted, unseen = split()
    (mixed, known), (apart, unknown) = split_mixtures(), split_experts()
    parts = (
        (points(), SOURCES, "", ""),
        (chosen(), LATER_SOURCES, "chosen", "chosen"),
        (reported(), LATER_SOURCES, "reported", "seen"),
        (fitted, FRESH_SOURCES, "chosen", "chosen"),
        (unseen, FRESH_SOURCES, "reported", "reported"),
        (parallel_runs(), PARALLEL_SOURCES, "reported", "parallel"),
        (mixed, MIXTURE_SOURCES, "chosen", "searched"),
        (known, MIXTURE_SOURCES, "reported", "searched"),
        (apart, EXPERT_SOURCES, "chosen", "unmoved"),
        (unknown, EXPERT_SOURCES, "reported", "mixtures"),
    )
    for runs, sources, part, how in parts:
        by_source: dict[str, list[tuple[float | None, float | None]]] = {}
        for point in runs:
            by_source.setdefault(point.source, []).append(point.errors())
        for source, errors in by_source.items():
            about = replace(sources[source], **PARTS[how]) if part else sources[source]
            for k, what in enumerate(("seconds of an iteration", "peak memory of the fullest device")):
                found = [100 * error for row in errors if (error := row[k]) is not None]
                if found:
                    yield Line(
                        "published", "training", f"{what}: {source}{f', the part {part}' if part else ''}",
                        "simulator.training.estimate", about.by, about.on, about.date, about.sample, about.why,
                        f"{source}; docs/training-estimate.md", Errors.of(found, "%"),
                    )  # fmt: skip


def _shipped(tell: Tell) -> Iterator[Line]:
    tell("the shipped cases of large models")
    for case in CASES:
        yield Line(
            "published", "training", f"seconds of an iteration: {case.file}", "planners.megatron.search",
            case.source.split("/")[0], f"{case.cluster.n_devices:,} H100", "2024, 2025", "partly",
            "the shipped cases, whose layouts are pinned to their sources; runs of other lines, estimated by what a "
            "case can say, and errors were known when they were written",
            f"{case.source}; docs/configuration-search.md",
            Errors.of([100 * (case.fastest("published").seconds / case.seconds - 1)], "%"),
        )  # fmt: skip
