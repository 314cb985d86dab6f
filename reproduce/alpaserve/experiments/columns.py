"""The six columns of Figure 12: model sets on traffic, with their defaults and what is varied."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLUMNS", "Column"]


@dataclass(frozen=True)
class Column:
    """One column of the figure.

    The paper prints neither the default devices, rates and CVs nor the grids; devices, CVs, SLOs and the multiples of
    the rate are those of the authors' public artifact (alpa-projects/mms, osdi23_artifact), continued on MAF1 to where
    AlpaServe falls below 99 %, for else their end would decide what it gains. Its rates are multiples of the downloaded
    traces'; 20/s for MAF1 and 26 and 52/s for MAF2 are what these come to by our estimate.

    Parameters
    ----------
    models, character : str
        Model set of Table 1, traffic.
    devices : int
        Default number of devices.
    rate : float
        Default requests per second of all models.
    cv : float
        Default CV (MAF1) or multiple of the fitted CVs (MAF2).
    by_devices, by_rate, by_cv, by_slo : tuple of float
        What is varied; `by_rate` in multiples of the default.
    """

    models: str
    character: str
    devices: int
    rate: float
    cv: float
    by_devices: tuple[float, ...]
    by_rate: tuple[float, ...]
    by_cv: tuple[float, ...]
    by_slo: tuple[float, ...]

    @property
    def name(self) -> str:
        """As the paper names it."""
        return f"{self.models}@{self.character}"


_MAF1_RATES, _MAF1_CVS = (0.25, 0.5, 1, 2, 2.5, 3, 3.5, 4, 6, 8), (1, 2, 3, 4, 5, 6, 8, 12)
_SLOS = (0.75, 1, 2, 3, 4, 5, 7.5, 10)
_MAF2_RATES, _MAF2_CVS = (0.5, 1, 2, 3, 4.5, 6), (1, 2, 3, 4, 5, 7.5, 10)
_MAF2_SLOS = (0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4)

COLUMNS = (
    Column("S1", "MAF1", 16, 20.0, 4.0, (4, 8, 16, 24, 32, 40, 48), _MAF1_RATES, _MAF1_CVS, _SLOS),
    Column("S2", "MAF1", 64, 20.0, 4.0, (32, 40, 48, 56, 64, 72, 80, 96, 128), _MAF1_RATES, _MAF1_CVS, _SLOS),
    Column("S3", "MAF1", 48, 20.0, 4.0, (32, 40, 48, 56, 64, 72, 96), _MAF1_RATES, _MAF1_CVS, _SLOS),
    Column("S1", "MAF2", 16, 26.0, 1.0, (2, 4, 6, 8, 12, 16), _MAF2_RATES, _MAF2_CVS, _MAF2_SLOS),
    Column("S2", "MAF2", 64, 26.0, 1.0, (16, 32, 40, 48, 56, 64), _MAF2_RATES, _MAF2_CVS, _MAF2_SLOS),
    Column(
        "S3", "MAF2", 48, 52.0, 1.0, (16, 24, 32, 40, 48, 56, 64), (0.03, 0.125, 0.25, 0.5, 1, 2), (1, 2, 3, 4, 6, 8),
        (0.75, 1, 1.25, 1.5, 2, 2.5, 5),
    ),
)  # fmt: skip
