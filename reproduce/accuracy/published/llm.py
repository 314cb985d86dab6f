"""LLM: what vLLM's paper measured on A100s: batches, memory that is shared, rates that are sustained."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...claims import Claim
from ...figures import reproduce
from ...vllm.fig13 import batches
from ...vllm.fig15 import savings
from ..line import Errors, Line
from . import Tell

__all__ = ["lines", "printed"]

MADE: dict[str, Any] = {
    "kind": "published", "world": "llm", "measured_by": "Kwon et al., on their testbed", "date": "2023",
}  # fmt: skip
COST = "the roofline of an A100 times one share of its speed"


def lines(seed: int, tell: Tell) -> tuple[Line, ...]:
    """Short versions of the figures: traces of minutes, one seed."""
    return tuple(line for part in (_batches, _savings, _prefixes) for line in part(seed, tell))


def _batches(seed: int, tell: Tell) -> Iterator[Line]:
    frame, _ = batches(True, seed, _progress(tell, "vllm/fig13"))
    told = frame[frame.role == "predicted"]
    yield Line(
        what="requests that Orca (three ways) and vLLM batch, OPT-13B on ShareGPT and Alpaca", model=COST,
        on="1 A100-40GB", sample="partly",
        why="the share is calibrated on vLLM's batch on ShareGPT, which does not count here; the others are predicted "
        "with it; lengths of requests are drawn from published means",
        source="vLLM (SOSP '23), Fig. 13; `meshwright reproduce vllm/fig13 --fast`",
        errors=Errors.relative(told.batch.tolist(), told.batch_paper.tolist()), **MADE,
    )  # fmt: skip


def _savings(seed: int, tell: Tell) -> Iterator[Line]:
    frame, _ = savings(True, seed, _progress(tell, "vllm/fig15"))
    told = frame[frame.role == "predicted"]
    yield Line(
        what="memory that samples and beams save by sharing blocks (share of it), OPT-13B", model=COST,
        on="1 A100-40GB", sample="partly",
        why="the chance that a beam goes on in its own place is calibrated on two beams on Alpaca, which does not "
        "count here; the spread of prompts is assumed",
        source="vLLM (SOSP '23), Fig. 15; `meshwright reproduce vllm/fig15 --fast`",
        errors=Errors.of((100 * (told.saving - told.saving_paper)).tolist(), "points"), **MADE,
    )  # fmt: skip


def _prefixes(seed: int, tell: Tell) -> Iterator[Line]:
    with TemporaryDirectory() as folder:
        report = reproduce("vllm/fig16", fast=True, out=Path(folder), seed=seed, progress=_progress(tell, "vllm/fig16"))
    found = [(claim.value, paper) for claim in report.claims if (paper := printed(claim)) is not None]
    yield Line(
        what="rate that vLLM sustains over Orca (Oracle)'s, prompts with a common prefix, LLaMA-13B", model=COST,
        on="1 A100-40GB", sample="out",
        why="the share is calibrated on another figure (Fig. 13a); lengths of translations are assumed",
        source="vLLM (SOSP '23), Fig. 16; `meshwright reproduce vllm/fig16 --fast`",
        errors=Errors.relative(*zip(*found, strict=True)), **MADE,
    )  # fmt: skip


def printed(claim: Claim) -> float | None:
    """The figure that a paper prints for a claim, such as 1.67× or 32.9 %; None where it prints words or a bound."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?: ?[×%s])?", claim.paper.strip())
    return None if found is None or claim.text.startswith("calibrated") else float(found[1])


def _progress(tell: Tell, name: str) -> Callable[[int, int, str], None]:
    return lambda done, total, what: tell(f"{name}: {what}")
