"""Runs found later (split.py, and `fresh`): what the model was chosen by and fitted to, and what it is reported on.
Bounds are what was seen, with room for rounding: no claim that other runs are met as well."""

from pathlib import Path

import numpy as np
import pytest
from meshwright.reproduce.accuracy.published.fresh import split
from meshwright.reproduce.accuracy.published.parallel import runs
from split import chosen, reported

PAGE = (Path(__file__).parents[4] / "docs" / "training-estimate.md").read_text("utf-8")
MOST = {  # part and source, as the page has them: median and largest error of time
    ("chosen by", "LiBai, Megatron-LM on V100s"): (0.03, 0.15),
    ("chosen by", "NeMo 24.07, FP8"): (0.03, 0.09),
    ("chosen by", "LLM Foundry, one node of A100-80GB"): (0.04, 0.28),
    ("reported, errors known", "LiBai, Megatron-LM on V100s"): (0.06, 0.21),
    ("reported, errors known", "Megatron-LM 1.0, DGX-2H"): (0.03, 0.03),
    ("reported, errors known", "NeMo 24.07, FP8"): (0.05, 0.07),
    ("reported, errors known", "LLM Foundry, H100"): (0.02, 0.04),
    ("reported, errors known", "LLM Foundry, 128 and 512 H100"): (0.03, 0.07),
    ("reported, errors known", "LLM Foundry, A100-40GB"): (0.08, 0.34),
    ("reported, errors known", "Llama 3, Table 4"): (0.09, 0.10),
}
FRESH = {  # of the runs that were split on 28 November 2026
    ("chosen by", "DGX Cloud recipes"): (0.02, 0.03),
    ("chosen by", "LLM Foundry, H100, further rows"): (0.03, 0.24),
    ("chosen by", "LLM Foundry, H100, FP8"): (0.02, 0.02),
    ("chosen by", "LLM Foundry, A100-40GB, further rows"): (0.18, 0.23),
    ("chosen by", "InternEvo, A100-80GB"): (0.17, 0.17),
    ("chosen by", "torchtitan, A100-80GB"): (0.08, 0.08),
    ("**reported**", "DGX Cloud recipes"): (0.05, 0.07),
    ("**reported**", "NeMo 25.02, FP8"): (0.13, 0.13),
    ("**reported**", "Megatron Bridge, FP8"): (0.08, 0.08),
    ("**reported**", "LLM Foundry, H100, further rows"): (0.02, 0.10),
    ("**reported**", "LLM Foundry, H100, FP8"): (0.03, 0.06),
    ("**reported**", "LLM Foundry, A100-80GB, 70B"): (0.12, 0.12),
    ("**reported**", "LLM Foundry, A100-40GB, further rows"): (0.08, 0.12),
    ("**reported**", "InternEvo, A100-80GB"): (0.23, 0.38),
    ("**reported**", "torchtitan, A100-80GB"): (0.05, 0.07),
    ("**reported**", "TinyLlama, A100-40GB"): (0.09, 0.09),
}


def errors(part: str, source: str) -> list[float]:
    """Errors of a source's runs in one part."""
    points = (chosen if part == "chosen by" else reported)()
    return [point.errors()[0] for point in points if point.source == source]


@pytest.mark.parametrize(("part", "source"), MOST)
def test_runs_found_later(part, source):
    times = errors(part, source)
    median, largest = MOST[part, source]
    assert np.median(np.abs(times)) < median
    assert np.max(np.abs(times)) < largest
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {part} | {source} |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2] == str(len(times))
    assert cells[6] == words(times)


PARALLEL = {  # source: median and largest error
    "DGX Cloud recipes, cp 2": (0.04, 0.16),
    "NeMo 24.07, FP8, cp 2": (0.08, 0.12),
    "Megatron Bridge, FP8, cp 2": (0.04, 0.06),
    "fms-fsdp, A100-80GB": (0.06, 0.17),
}


def words(times: list[float]) -> str:
    """As the page writes them."""
    ends = " to ".join(f"{100 * e:+.1f}".replace("-", "−") for e in (min(times), max(times)))
    return f"{100 * np.median(np.abs(times)):.1f} % ({ends})"


@pytest.fixture(scope="module")
def fresh_errors():
    """Part and source -> errors of the runs that a seed split."""
    found: dict[tuple[str, str], list[float]] = {}
    for part, points in zip(("chosen by", "**reported**"), split(), strict=True):
        for point in points:
            found.setdefault((part, point.source), []).append(point.errors()[0])
    return found


def test_fresh_runs(fresh_errors):
    assert list(fresh_errors) == list(FRESH)
    for key, times in fresh_errors.items():
        median, largest = FRESH[key]
        assert np.median(np.abs(times)) < median, key
        assert np.max(np.abs(times)) < largest, key
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| {key[0]} | {key[1]} |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[2] == str(len(times)), key
        assert cells[4] == words(times), key
    for part, row in (("chosen by", "| chosen by | all | 37 |"), ("**reported**", "| **reported** | all | 57 |")):
        every = [e for key, times in fresh_errors.items() if key[0] == part for e in times]
        line = next(line for line in PAGE.splitlines() if line.startswith(row))
        assert [cell.strip() for cell in line.strip("|").split("|")][4] == words(every)


def test_runs_with_context_parallelism_or_hybrid_sharding():
    found: dict[str, list[float]] = {}
    for point in runs():
        found.setdefault(point.source, []).append(point.errors()[0])
    assert list(found) == list(PARALLEL)
    found["all"] = [e for times in found.values() for e in times]
    for source, times in found.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| **reported** | {source} | {len(times)} |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[3] == words(times), source
        if source != "all":
            median, largest = PARALLEL[source]
            assert np.median(np.abs(times)) < median, source
            assert np.max(np.abs(times)) < largest, source


def test_no_fresh_run_is_in_both_parts():
    chosen_by, reported_on = ({(p.source, p.name) for p in part} for part in split())
    assert not chosen_by & reported_on
    assert (len(chosen_by), len(reported_on)) == (37, 57)
    earlier = {(p.cluster.spec.name, p.name) for part in (chosen, reported) for p in part()}
    assert not earlier & {(p.cluster.spec.name, p.name) for part in split() for p in part}


def test_no_run_is_in_both_parts():
    names = [{(point.source, point.name) for point in part()} for part in (chosen, reported)]
    assert not names[0] & names[1]
    assert [len(part) for part in names] == [32, 56]
