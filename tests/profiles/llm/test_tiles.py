"""Steps of the GEMM kernels in 8 bits, where a coarse table does not show them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from meshwright.profiles.llm.tables.grid import INTERPOLATED, MEASURED, Grid
from meshwright.profiles.llm.tables.tiles import Tiles, tiles_of

H200 = Path(__file__).parents[4] / "shared" / "data" / "kernels" / "h200_sxm" / "gemm.parquet"
COARSE = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 512, 768, 1024, 2048, 4096, 8192)
"""The rows of the public H100 table that H200s' has, too."""
CUTLASS = Tiles((16, 64, 128), 256)


def test_rows_are_read_where_their_tile_was_measured() -> None:
    known = np.array(COARSE, dtype=float)
    asked = np.array([1, 9, 16, 17, 33, 64, 65, 128, 129, 200, 257, 1024, 1025, 1280, 1281, 8192, 9000], dtype=float)
    found = CUTLASS.padded(asked, known)
    assert found.tolist() == [1, 9, 16, 32, 33, 64, 80, 128, 160, 200, 512, 1024, 1280, 1280, 1536, 8192, 9000]


def test_a_table_with_points_behind_the_steps_is_read_as_it_is() -> None:
    asked = np.arange(1.0, 3000.0)
    known = np.arange(1.0, 4000.0)
    assert np.array_equal(CUTLASS.padded(asked, known), asked)


def test_only_kernels_whose_steps_are_known_have_them() -> None:
    assert tiles_of("NVIDIA H100 80GB HBM3", "VLLM", "fp8") == CUTLASS
    assert tiles_of("NVIDIA H200", "VLLM", "fp8_block") == Tiles((), 128)
    for other in (("NVIDIA A100-SXM4-80GB", "VLLM", "fp8"), ("NVIDIA H100 80GB HBM3", "TRTLLM", "fp8"),
                  ("NVIDIA H100 80GB HBM3", "VLLM", "bfloat16"), ("NVIDIA B200", "VLLM", "fp8")):  # fmt: skip
        assert tiles_of(*other) is None


def test_a_grid_says_that_rows_in_a_tile_are_interpolated() -> None:
    rows = np.array(COARSE, dtype=float)
    grid = Grid(("m",), (rows,), rows * 1e-6, np.ones(len(rows), dtype=bool), lambda m: m, tiles=CUTLASS)
    seconds, kind = grid.at(np.array([1024.0, 1040.0, 1280.0]))
    assert kind.tolist() == [MEASURED, INTERPOLATED, INTERPOLATED]
    assert seconds == pytest.approx([1024e-6, 1280e-6, 1280e-6])


@pytest.mark.skipif(not H200.is_file(), reason="needs the public tables of H200s beside the checkout")
def test_steps_foretell_what_the_public_table_of_h200s_measured_between_the_points_of_the_coarse_one() -> None:
    """Its points right behind a step are left out, and read by lines between the others, with steps and without."""
    frame = pd.read_parquet(H200)
    table = frame[frame.gemm_dtype == "fp8"].pivot_table(index=["n", "k"], columns="m", values="latency").dropna()
    large = table[[n * k >= 2**21 for n, k in table.index]]
    rows = np.array(COARSE, dtype=float)
    behind = np.array([17, 65, 129, 257, 513, 769, 1025, 1281, 1537, 1793, 2049, 2305, 3073], dtype=float)
    errors: dict[bool, list[float]] = {True: [], False: []}
    for _, line in large.iterrows():
        seconds, real = line[rows].to_numpy(dtype=float), line[behind].to_numpy(dtype=float)
        for steps in errors:
            at = CUTLASS.padded(behind, rows) if steps else behind
            errors[steps] += (np.interp(at, rows, seconds) / real - 1).tolist()
    plain, stepped = (float(np.median(np.abs(errors[steps]))) for steps in (False, True))
    assert len(large) > 300
    assert plain > 0.15
    assert stepped < 0.09
