"""Lines of files that a user gives: measured engines, and a recorded run."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.reproduce.accuracy.files import lines
from meshwright.reproduce.accuracy.options import Given
from meshwright.runtime.llm import compare_silicon, compare_vllm_run

SAMPLES = Path(__file__).parents[2] / "samples"
RUN = sorted((SAMPLES / "vllm_runs").iterdir())[0]
ROWS, KERNELS = SAMPLES / "silicon_rows.csv", SAMPLES / "kernels"


def silent(line: str) -> None:
    """Nobody listens."""


def test_measured_engines_are_two_lines_with_the_comparison_s_own_errors() -> None:
    found = compare_silicon(ROWS, KERNELS)
    tpot, ttft = lines(Given(silicon=ROWS, kernels=KERNELS), silent)
    assert tpot.errors is not None
    assert ttft.errors is not None
    assert tpot.errors.median == pytest.approx(100 * found.tpot_median_ape)
    assert ttft.errors.median == pytest.approx(100 * found.ttft_median_ape)
    assert (tpot.kind, tpot.world, tpot.sample) == ("files", "llm", "out")


def test_a_recorded_run_is_a_line() -> None:
    found = compare_vllm_run(RUN, None)
    [line] = lines(Given(vllm_run=RUN), silent)
    assert line.errors is not None
    errors = [100 * found.error(metric, of) for metric in ("ttft", "tpot", "e2e") for of in ("mean", "median")]
    assert line.errors.worst == pytest.approx(max(errors, key=abs))


def test_without_files_there_is_no_line() -> None:
    assert lines(Given(), silent) == ()


@pytest.mark.parametrize("wrong", [{"silicon": ROWS}, {"kernels": KERNELS}, {"vllm_run": Path("nowhere")}])
def test_files_that_do_not_go_together(wrong: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="accuracy"):
        Given(**wrong)
