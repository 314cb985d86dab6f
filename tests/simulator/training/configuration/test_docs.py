"""docs/training-estimate.md states the errors that published.py prints."""

from pathlib import Path

import numpy as np
import pytest
from published import points

PAGE = (Path(__file__).parents[4] / "docs" / "training-estimate.md").read_text("utf-8")
ROWS = {  # source: how its row begins, whether the row is about memory alone
    "Korthikanti 2022, Table 5": "| Korthikanti 2022, Table 5",
    "Megatron-LM functional tests": "| Megatron-LM's functional tests",
    "Nemotron-4 340B, Table 2": "| Nemotron-4 340B report, Table 2",
    "Yeung 2024, Table 5": "| Yeung et al. 2024, Table 5",
    "Qi 2024, Table 4": "| Qi et al. 2024, Table 4",
    "Jiang 2024, Tables 2 and 3": "| Jiang et al. 2024 (MegaScale)",
}


def words(errors: list[float]) -> str:
    """As the page writes them."""
    low, high = min(errors), max(errors)
    signed = " to ".join(f"{100 * e:+.1f}".replace("-", "−") for e in (low, high))
    return f"{100 * np.median(np.abs(errors)):.1f} % ({signed})"


@pytest.mark.parametrize("source", ROWS)
def test_the_page_says_what_is_measured(source):
    errors = [point.errors() for point in points() if point.source == source]
    times = [time for time, _ in errors if time is not None]
    held = [part for _, part in errors if part is not None]
    row = next(line for line in PAGE.splitlines() if line.startswith(ROWS[source]))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == str(len(times))
    assert cells[3] == words(times)
    if held and cells[5]:
        assert cells[5] == words(held)


def test_memory_of_the_functional_tests():
    held = [e[1] for e in (p.errors() for p in points() if p.source.startswith("Megatron-LM")) if e[1] is not None]
    row = next(line for line in PAGE.splitlines() if line.startswith("| the same, `mem-max-allocated-bytes`"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == str(len(held))
    assert cells[5] == words(held)
