"""Traces: request logs, and job logs of shared GPU clusters.

Begin with `Trace` (an immutable log of requests), `read` (CSV, Parquet, the Azure Functions traces) and `gamma`
(generated arrivals). `fit_gamma` fits a trace, so that it can be scaled and resampled; `report` describes one. The
rooms: `azure` for the Azure Functions traces, `clusters` for job logs of GPU clusters, `files` for file formats.
"""

from typing import TYPE_CHECKING, Any

from .azure.laws import Bursts, Drift
from .azure.maf1 import Azure2019Options, read_azure2019
from .azure.maf2 import read_azure2021
from .azure.published import alpaserve_gamma
from .azure.synthetic import maf1_like, maf2_like
from .clusters.alibaba import read_alibaba
from .clusters.helios import read_helios
from .clusters.jobs import ClusterJob, ClusterLog
from .clusters.philly import read_philly
from .files.text import TraceWarning
from .fit import fit_gamma
from .generate import gamma, poisson
from .lengths import LENGTHS, LengthProfile, Lengths, length_profile
from .merge import merge
from .read import read, write
from .report import draw_rates, rates, report
from .trace import Trace
from .windows import GammaWindows

if TYPE_CHECKING:
    from .azure.fetch import fetch

__all__ = [
    "LENGTHS",
    "Azure2019Options",
    "Bursts",
    "ClusterJob",
    "ClusterLog",
    "Drift",
    "GammaWindows",
    "LengthProfile",
    "Lengths",
    "Trace",
    "TraceWarning",
    "alpaserve_gamma",
    "draw_rates",
    "fetch",
    "fit_gamma",
    "gamma",
    "length_profile",
    "maf1_like",
    "maf2_like",
    "merge",
    "poisson",
    "rates",
    "read",
    "read_alibaba",
    "read_azure2019",
    "read_azure2021",
    "read_helios",
    "read_philly",
    "report",
    "write",
]


def __getattr__(name: str) -> Any:
    """`fetch` when it is asked for: few use it, and it loads what speaks HTTP and reads archives."""
    if name == "fetch":
        from .azure.fetch import fetch

        return fetch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
