"""docs/training-costs.md: its example runs, and the errors that it states are what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from meshwright.profiles import device
from meshwright.profiles.graph.costs import roofline
from meshwright.profiles.graph.costs_shapes import Product
from meshwright.profiles.llm import KernelTables

PAGE = (Path(__file__).parents[2] / "docs" / "training-costs.md").read_text("utf-8")


def test_the_example_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "training-costs.md", "exec"), {})
    assert re.fullmatch(r"\d\.\d\d ms on one device, 0\.\d\d ms on one of 2 x 4\n", capsys.readouterr().out)


def test_errors_against_the_public_tables(kernels: Path):
    """Nothing was fitted for this: rates are those of the training estimates, which saw shapes with m >= 1024."""
    found = []
    for system, name in (("a100_sxm", "a100-80gb"), ("h100_sxm", "h100-80gb")):
        tables, cost = KernelTables.load(kernels / system), roofline(device(name))
        assert tables.operators is not None
        grid = tables.operators.gemm["bfloat16"]
        at = np.nonzero(grid.measured)
        m, n, k = (axis[i] for axis, i in zip(grid.axes, at, strict=True))
        ours = [
            cost.product_s(Product(1, a, b, c, 2 * (a * b + b * c + a * c)), "bfloat16")
            for a, b, c in zip(m.tolist(), n.tolist(), k.tolist(), strict=True)
        ]
        error = np.abs(np.array(ours) * cost.rates.sustained / grid.seconds[at] - 1)
        found.append(f"{np.median(error):.0%} ({np.median(error[m >= 1024]):.0%})")
    a100, h100 = (x.replace("%", " %") for x in found)
    assert f"the median error is {a100} on A100 and {h100} on H100" in " ".join(PAGE.split())
