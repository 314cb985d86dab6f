"""Traces: request logs, and job logs of shared GPU clusters.

Begin with `Trace` (an immutable log of requests), `read` (CSV, Parquet, the Azure Functions traces) and `gamma`
(generated arrivals). `fit_gamma` fits a trace, so that it can be scaled and resampled; `report` describes one. The
rooms: `azure` for the Azure Functions traces, `clusters` for job logs of GPU clusters, `files` for file formats.
"""

from typing import TYPE_CHECKING

from ..later import later

if TYPE_CHECKING:
    from .azure.fetch import fetch
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
    from .merging import merge
    from .overview import draw_rates, rates, report
    from .reading import read, write
    from .trace import Trace
    from .windows import GammaWindows

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

_ORIGINS = {
    "fetch": "azure.fetch",
    **dict.fromkeys(("Bursts", "Drift"), "azure.laws"),
    **dict.fromkeys(("Azure2019Options", "read_azure2019"), "azure.maf1"),
    "read_azure2021": "azure.maf2",
    "alpaserve_gamma": "azure.published",
    **dict.fromkeys(("maf1_like", "maf2_like"), "azure.synthetic"),
    "read_alibaba": "clusters.alibaba",
    "read_helios": "clusters.helios",
    **dict.fromkeys(("ClusterJob", "ClusterLog"), "clusters.jobs"),
    "read_philly": "clusters.philly",
    "TraceWarning": "files.text",
    "fit_gamma": "fit",
    **dict.fromkeys(("gamma", "poisson"), "generate"),
    **dict.fromkeys(("LENGTHS", "LengthProfile", "Lengths", "length_profile"), "lengths"),
    "merge": "merging",
    **dict.fromkeys(("draw_rates", "rates", "report"), "overview"),
    **dict.fromkeys(("read", "write"), "reading"),
    "Trace": "trace",
    "GammaWindows": "windows",
}
"""Few need job logs, readers of files and generators together; `fetch` loads what speaks HTTP and reads archives."""
_ROOMS = ("azure", "clusters", "files", "llm")
__getattr__, __dir__ = later(__name__, _ORIGINS, _ROOMS)
