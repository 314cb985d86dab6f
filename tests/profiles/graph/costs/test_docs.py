"""docs/training-costs.md: the errors that it states are what the tables say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from meshwright.profiles import device
from meshwright.profiles.graph.costs.model import roofline
from meshwright.profiles.graph.costs.shapes import Product
from meshwright.profiles.llm import KernelTables
from sample_data import SAMPLES, measured

PAGE = (Path(__file__).parents[4] / "docs" / "training-costs.md").read_text("utf-8")


@measured
def test_errors_against_the_public_tables(data: Path):
    """Nothing was fitted for this: rates are those of the training estimates, which saw shapes with m >= 1024."""
    found = []
    for system, name in (("a100_sxm", "a100-80gb"), ("h100_sxm", "h100-80gb")):
        tables, cost = KernelTables.load(data / "kernels" / system), roofline(device(name))
        assert tables.operators is not None
        grid = tables.operators.gemm["bfloat16"]
        at = np.nonzero(grid.measured)
        m, n, k = (axis[i] for axis, i in zip(grid.axes, at, strict=True))
        ours = [
            cost.product_s(Product(1, a, b, c, 2 * (a * b + b * c + a * c)), "bfloat16")
            for a, b, c in zip(m.tolist(), n.tolist(), k.tolist(), strict=True)
        ]
        error = np.abs(np.array(ours) * cost.rates.sustained / grid.seconds[at] - 1)
        assert np.median(np.abs(error[m >= 1024])) < 0.2
        found.append(f"{np.median(error):.0%} ({np.median(error[m >= 1024]):.0%})")
    a100, h100 = (x.replace("%", " %") for x in found)
    if data != SAMPLES:  # whose shapes are others
        assert f"the median error is {a100} on A100 and {h100} on H100" in " ".join(PAGE.split())
