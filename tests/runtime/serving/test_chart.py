"""The picture of a comparison: what a mark is judged by is drawn at the mark."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
from matplotlib.figure import Figure
from meshwright.runtime.serving.compare.chart import draw


def test_each_mark_stands_on_its_own_interval_in_percent() -> None:
    """The band is of any moment, 0 … 1; a cell's interval is of its own, in percent, and may lie beside the band."""
    curves = pd.DataFrame(
        {"plan": ["a", "a"], "slo_scale": [1.0, 4.0], "simulated": [0.2, 0.8], "low": [0.1, 0.7], "high": [0.3, 0.9]}
    )
    cells = pd.DataFrame({"plan": ["a"], "slo_scale": [2.0], "low": [55.0], "high": [66.0], "real": [60.0]})
    ax = Figure().subplots()
    draw(SimpleNamespace(curves=curves, to_frame=lambda: cells), ax)  # type: ignore[arg-type]
    band, interval = ax.collections
    assert band.get_paths()[0].get_extents().y1 == 90.0
    assert interval.get_segments()[0].tolist() == [[2.0, 55.0], [2.0, 66.0]]
    assert ax.lines[-1].get_xydata().tolist() == [[2.0, 60.0]]
