"""Figures 3 and 4 (Themis): GPU time, and how much of it is far from the median."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...claims import Claim, Expectation, Kind, at_least, between
from ...report import Frame, Report, Session
from ...style import BLUE, canvas
from .workloads import NOTES, cdf_frame, draw_cdfs

__all__ = ["Spread"]

FACTOR = 1.7
"""Two standard errors of the median of 85 draws that spread as these do."""


@dataclass(frozen=True)
class Spread:
    """What the paper says of such a figure.

    Parameters
    ----------
    things : str
        Plural name of what has GPU time, such as apps.
    unit : str
        Unit of the GPU time.
    figure : str
        In the paper.
    median : float
        Printed, in the unit.
    shown : str
        How ours is written.
    errors : str
        Why the median may be off by `FACTOR`.
    median_kind, spread_kind : str
        What the claims about the median, and about how far things are from it, are: see `claims.KINDS`.
    """

    things: str
    unit: str
    figure: str
    median: float
    shown: str
    errors: str
    median_kind: Kind = "given"
    spread_kind: Kind = "given"

    @property
    def expected(self) -> Mapping[str, Expectation]:
        """The median, and shares of what is more than ten times longer and shorter."""
        where, off = f"§2.2, {self.figure}", at_least(0.05, partly=0.02)
        one = self.things.removesuffix("s")
        article = "an" if one[0] in "aeiou" else "a"
        return {
            "median": Expectation(
                f"median {self.unit} of {article} {one} (given: so they are drawn; {self.errors})", where,
                f"{self.median:g}", between(self.median / FACTOR, self.median * FACTOR), self.shown,
                kind=self.median_kind,
            ),
            "longer": Expectation(
                f"many {self.things} are more than ten times longer: their share (no number printed; 5 % is asked)",
                where, "many", off, "{:.1%}", kind=self.spread_kind,
            ),
            "shorter": Expectation(
                "a significant fraction is more than ten times shorter (no number printed; 5 % is asked)", where,
                "significant", off, "{:.1%}", kind=self.spread_kind,
            ),
        }  # fmt: skip

    def judged(self, frame: Frame) -> list[Claim]:
        """Judge our numbers against every claim of the paper."""
        expected, time = self.expected, frame.value.to_numpy()
        return [
            expected["median"].judge(float(np.median(time))),
            expected["longer"].judge(float((time > 10 * self.median).mean()), why="a draw of 85 apps"),
            expected["shorter"].judge(float((time < self.median / 10).mean()), why="a draw of 85 apps"),
        ]

    def report(self, session: Session, named: str, time: npt.NDArray[np.float64], xlabel: str) -> Report:
        """The figure: the distribution of `time`, in the unit, beside the printed median."""
        frame = session.table(cdf_frame({named: time}))
        with canvas(1, 1) as (figure, axes):
            draw_cdfs(axes[0, 0], frame, (BLUE,), self.median)
            axes[0, 0].set(xlabel=xlabel, xscale="log")
            figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
            session.figure(figure)
        return session.finish(self.judged(frame), notes=NOTES)
