"""Traces: request logs, and job logs of shared GPU clusters. Readers, generators, fitting and resampling."""

from .azure2019 import read_azure2019
from .azure2021 import read_azure2021
from .cluster_alibaba import read_alibaba
from .cluster_helios import read_helios
from .cluster_jobs import ClusterJob, ClusterLog
from .cluster_philly import read_philly
from .fetch import fetch
from .fit import fit_gamma
from .generate import gamma, poisson
from .lengths import LENGTHS, LengthProfile, Lengths, length_profile
from .merge import merge
from .published import alpaserve_gamma
from .read import read, write
from .report import draw_rates, rates, report
from .synthetic import maf1_like, maf2_like
from .textfile import TraceWarning
from .trace import Trace
from .windows import GammaWindows

__all__ = [
    "LENGTHS",
    "ClusterJob",
    "ClusterLog",
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
